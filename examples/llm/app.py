"""A service before a model: each tenant spends no more than its budgets, also where answers stream.

    pip install fastapi httpx uvicorn
    tollgate serve --config examples/llm/policies.toml
    MODEL=http://127.0.0.1:3000 uvicorn --app-dir examples/llm app:app

docs/llm.md says what is promised. In your own, authentication sets the tenant.
"""

import asyncio
import json
import logging
import os
import uuid
from contextlib import suppress

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

TOLLGATE = os.environ.get("TOLLGATE", "http://127.0.0.1:8700")
MODEL = os.environ.get("MODEL", "http://127.0.0.1:3000")
PATH = "/v1/chat/completions"
# Millionths of a dollar for a token of the prompt, and of the answer: `times` of the policy.
PRICES = (3, 15)
FREE = {"requests": 1, "tokens": 0, "microdollars": 0}
# What a commit does not name is charged as it was estimated.
ESTIMATE = {"requests": 1}

app = FastAPI()
tollgate = httpx.AsyncClient(timeout=5)
# The policy bounds how many calls there are at once, and `Call` their time.
models = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))


def kept(headers, *names: str) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


async def ask(path: str, body: dict) -> tuple[int, dict, dict[str, str]]:
    try:
        answer = await tollgate.post(TOLLGATE + path, json=body)
        return answer.status_code, answer.json(), kept(answer.headers, "retry-after")
    except (httpx.HTTPError, ValueError) as error:
        return 503, {"title": repr(error)}, {}


def refusal(status: int, message: str, code: str, kind="server_error", headers=None) -> Response:
    error = {"error": {"message": message, "type": kind, "code": code}}
    return JSONResponse(error, status, headers)


@app.post(PATH)
async def chat(request: Request) -> Response:
    raw = await request.body()
    try:
        body = json.loads(raw)
        lengths = [body.get("max_tokens"), body.get("max_completion_tokens")]
        if lengths == [None, None]:
            lengths[0] = body["max_tokens"] = 1000
        most = max(int(length or 0) for length in lengths) * int(body.get("n") or 1)
        if body.get("stream"):
            body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    except (ValueError, TypeError, AttributeError, OverflowError):
        return refusal(400, "The body is not valid.", "invalid_body", "invalid_request_error")
    # A token for four bytes of the question, as long as nobody has counted them.
    prompt = len(raw) // 4 + 1
    fields = {"path": PATH, "field.tenant": request.headers.get("x-tenant", "")}
    fields |= {"field.prompt_tokens": str(prompt), "field.max_tokens": str(most)}
    question = {"fields": fields, "id": uuid.uuid4().hex}
    status, said, wait = await ask("/v1/reserve?deny_status=429", question)
    if status in (401, 403, 429):
        # No limit binds a call that is banned, or asks for more than `max`.
        unit = said["outcome"] == "denied" and said["limits"][said["binding"]]["unit"]
        message = f"Too few {unit} are left." if unit else "This call is never admitted."
        kind = "rate_limit_error" if unit and unit != "microdollars" else "insufficient_quota"
        # Clients try a 429 again, which helps neither a call above `max` nor one without a tenant.
        if final := {"never": 400, "missing": 401}.get(said["outcome"]):
            return refusal(final, message, said["outcome"], "invalid_request_error")
        return refusal(status, message, unit or said["outcome"], kind, wait)
    # A tenant without limits is served without a hold, and nobody else.
    hold = said.get("hold")
    if hold is None and said.get("outcome") != "unlimited":
        logging.error("no budget can be read: %s", said)
        return refusal(503, "No budget can be read.", "unavailable")
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    headers |= kept(request.headers, "authorization")
    asked = {"url": MODEL + PATH, "content": json.dumps(body), "headers": headers}
    # Nothing renews the hold here, so the whole answer ends at four fifths of its time.
    return Call(hold, prompt, asked, said["ends_after"]["seconds"] * 0.8 if hold else 240)


class Call(Response):
    """Passes the answer on, and charges what was used of it: also if the client hangs up."""

    def __init__(self, hold: str | None, prompt: int, asked: dict, seconds: float) -> None:
        super().__init__()
        self.hold, self.prompt, self.asked, self.seconds = hold, prompt, asked, seconds
        self.pieces = 0
        self.use(prompt, 0)

    async def __call__(self, scope, receive, send) -> None:
        begun = False
        try:
            async with asyncio.timeout(self.seconds), models.stream("POST", **self.asked) as answer:
                self.actual = FREE if answer.is_error else ESTIMATE
                begun = True
                headers = kept(answer.headers, "content-type", "retry-after")
                passed = StreamingResponse(self.passed_on(answer), answer.status_code, headers)
                await passed(scope, receive, send)
        except (httpx.HTTPError, TimeoutError) as error:
            logging.error("an answer was cut: %r", error)
            self.actual = FREE if isinstance(error, httpx.ConnectError) else self.actual
            if not begun:
                await refusal(502, "The model did not answer.", "bad_gateway")(scope, receive, send)
        finally:
            if self.hold:
                await commit(self.hold, self.actual)

    async def passed_on(self, answer: httpx.Response):
        streams = "event-stream" in answer.headers.get("content-type", "")
        rest = b""
        async for piece in answer.aiter_bytes():
            *lines, rest = (rest + piece).split(b"\n") if streams else [rest + piece]
            for line in lines:
                self.read(line)
            yield piece
        self.read(rest)

    def read(self, said: bytes) -> None:  # A line of a stream, or the whole of an answer in JSON.
        with suppress(ValueError, TypeError, KeyError):  # `[DONE]`, or an empty line.
            chunk = json.loads(said.removeprefix(b"data:"))
            self.pieces += sum("delta" in choice for choice in chunk["choices"])
            if usage := chunk.get("usage"):
                self.use(usage["prompt_tokens"], usage["completion_tokens"])
            elif self.pieces > 0:
                self.use(self.prompt, self.pieces)

    def use(self, tokens_in: int, tokens_out: int) -> None:
        money = tokens_in * PRICES[0] + tokens_out * PRICES[1]
        self.actual = {"tokens": tokens_in + tokens_out, "microdollars": money}


async def commit(hold: str, actual: dict[str, int]) -> None:
    for wait in (0, 0.1, 1, 10):
        await asyncio.sleep(wait)
        # A commit is idempotent: it is sent again if its answer was lost.
        status, said, _ = await ask("/v1/commit", {"hold": hold, "actual": actual})
        if status < 500:
            break
    if status != 200:  # 409: the hold had ended, and its estimate was charged.
        logging.error("a commit was not taken: %s", said)
