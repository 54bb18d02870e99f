// A service before a model: each tenant spends no more than its budgets, also where answers stream.
//
//   npm install express
//   tollgate serve --config examples/llm/policies.toml
//   MODEL=http://127.0.0.1:3000 node examples/llm/app.mjs
//
// docs/llm.md says what is promised.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import express from "express";

const TOLLGATE = process.env.TOLLGATE ?? "http://127.0.0.1:8700";
const MODEL = process.env.MODEL ?? "http://127.0.0.1:3000";
const PATH = "/v1/chat/completions";

// Millionths of a dollar for a token of the prompt, and of the answer.
const PRICES = { in: 3, out: 15 };

const app = express();
app.use(express.json({ limit: "1mb" }));

const post = (url, body, options = {}) =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...options,
  });

app.post(PATH, async (request, response) => {
  // Four bytes a token, as long as nobody has counted them.
  const bytes = request.body.messages.reduce((sum, message) => sum + message.content.length, 0);
  const prompt = Math.floor(bytes / 4) + 1;
  const answer = await post(`${TOLLGATE}/v1/reserve?deny_status=429`, {
    fields: {
      path: PATH,
      "field.tenant": request.get("x-tenant") ?? "",
      "field.prompt_tokens": String(prompt),
      "field.max_tokens": String(request.body.max_tokens ?? 1000),
    },
    // With an id, a question that is asked again after a lost answer holds once.
    id: randomUUID(),
  });
  const said = await answer.text();
  const hold = answer.ok ? JSON.parse(said).hold : null;
  if (hold === null) {
    for (const name of ["content-type", "retry-after", "ratelimit", "ratelimit-policy"]) {
      if (answer.headers.has(name)) response.set(name, answer.headers.get(name));
    }
    response.status(answer.ok ? 503 : answer.status).send(said);
    return;
  }

  let used = { in: 0, out: 0 };
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  try {
    const model = await post(`${MODEL}${PATH}`, request.body, { signal: gone.signal });
    response.type("text/event-stream");
    let rest = "";
    const text = new TextDecoder();
    for await (const bytes of model.body) {
      const lines = (rest + text.decode(bytes, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data: {")) {
          const chunk = JSON.parse(line.slice("data: ".length));
          used = { in: prompt, out: used.out + (chunk.choices?.length ?? 0) };
          if (chunk.usage) {
            used = { in: chunk.usage.prompt_tokens, out: chunk.usage.completion_tokens };
          }
        }
        response.write(`${line}\n`);
      }
    }
  } catch (error) {
    if (!gone.signal.aborted) response.destroy(error);
  } finally {
    // Also if the client has hung up: it pays for its part.
    response.end();
    await commit(hold, used);
  }
});

async function commit(hold, used) {
  const actual = {
    tokens: used.in + used.out,
    microdollars: used.in * PRICES.in + used.out * PRICES.out,
  };
  for (const wait of [0, 100, 1_000, 10_000]) {
    await sleep(wait);
    try {
      // To commit twice is as to commit once.
      await post(`${TOLLGATE}/v1/commit`, { hold, actual });
      return;
    } catch {
      // Ask again. In the end the hold ends by itself, and the estimate is charged.
    }
  }
}

const port = Number(process.env.PORT ?? 8000);
const server = app.listen(port, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
