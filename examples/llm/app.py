"""A service before a model: each tenant spends no more than its budgets, also where answers stream.

    pip install fastapi httpx uvicorn
    tollgate serve --config examples/llm/policies.toml
    MODEL=http://127.0.0.1:3000 uvicorn --app-dir examples/llm app:app

docs/llm.md says what is promised.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

TOLLGATE = os.environ.get("TOLLGATE", "http://127.0.0.1:8700")
MODEL = os.environ.get("MODEL", "http://127.0.0.1:3000")
PATH = "/v1/chat/completions"

# Millionths of a dollar for a token of the prompt, and of the answer.
PRICES = (3, 15)

app = FastAPI()
client = httpx.AsyncClient(timeout=httpx.Timeout(10, read=120))
commits: set[asyncio.Task[None]] = set()


@app.post(PATH)
async def chat(request: Request) -> Response:
    body = await request.json()
    # Four bytes a token, as long as nobody has counted them.
    prompt = sum(len(message["content"]) for message in body["messages"]) // 4 + 1
    question = {
        "fields": {
            "path": PATH,
            "field.tenant": request.headers.get("x-tenant", ""),
            "field.prompt_tokens": str(prompt),
            "field.max_tokens": str(body.get("max_tokens", 1000)),
        },
        # With an id, a question that is asked again after a lost answer holds once.
        "id": uuid.uuid4().hex,
    }
    answer = await client.post(f"{TOLLGATE}/v1/reserve?deny_status=429", json=question)
    if answer.status_code != 200 or answer.json()["hold"] is None:
        kept = ("content-type", "retry-after", "ratelimit", "ratelimit-policy")
        headers = {name: answer.headers[name] for name in kept if name in answer.headers}
        status = answer.status_code if answer.status_code != 200 else 503
        return Response(answer.content, status, headers)
    hold = answer.json()["hold"]
    return StreamingResponse(stream(hold, prompt, body), media_type="text/event-stream")


async def stream(hold: str, prompt: int, body: dict[str, object]) -> AsyncIterator[bytes]:
    """Passes the answer on, and charges what was used of it: also if the client hangs up."""
    used = [0, 0]
    try:
        async with client.stream("POST", f"{MODEL}{PATH}", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    chunk = json.loads(line.removeprefix("data: "))
                    used = [prompt, used[1] + len(chunk.get("choices", []))]
                    if usage := chunk.get("usage"):
                        used = [usage["prompt_tokens"], usage["completion_tokens"]]
                yield f"{line}\n".encode()
    finally:
        # Its own task: that of the request is cancelled where the client has gone.
        task = asyncio.create_task(commit(hold, *used))
        commits.add(task)
        task.add_done_callback(commits.discard)


async def commit(hold: str, tokens_in: int, tokens_out: int) -> None:
    actual = {
        "tokens": tokens_in + tokens_out,
        "microdollars": tokens_in * PRICES[0] + tokens_out * PRICES[1],
    }
    for wait in (0, 0.1, 1, 10):
        await asyncio.sleep(wait)
        try:
            # To commit twice is as to commit once.
            await client.post(f"{TOLLGATE}/v1/commit", json={"hold": hold, "actual": actual})
            return
        except httpx.HTTPError:
            continue
    # The hold ends by itself, and the estimate is charged.
