// A service before a model: each tenant spends no more than its budgets, also where answers stream.
//
//   npm install express
//   tollgate serve --config examples/llm/policies.toml
//   MODEL=http://127.0.0.1:3000 node examples/llm/app.mjs
//
// docs/llm.md says what is promised. In your own, authentication sets the tenant.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import express from "express";

const TOLLGATE = process.env.TOLLGATE ?? "http://127.0.0.1:8700";
const MODEL = process.env.MODEL ?? "http://127.0.0.1:3000";
const PATH = "/v1/chat/completions";
// Millionths of a dollar for a token of the prompt, and of the answer: `times` of the policy.
const PRICES = { in: 3, out: 15 };
const FREE = { requests: 1, tokens: 0, microdollars: 0 };
// What a commit does not name is charged as it was estimated.
const ESTIMATE = { requests: 1 };

const app = express();
app.use(express.raw({ type: () => true, limit: "1mb" }));

const post = (url, body, headers = {}, signal = AbortSignal.timeout(5_000)) =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    signal,
  });

const refuse = (response, status, message, type, code) =>
  response.status(status).json({ error: { message, type, code } });

app.post(PATH, async (request, response) => {
  let body, most;
  try {
    body = JSON.parse(request.body);
    if ((body.max_tokens ?? body.max_completion_tokens ?? null) === null) body.max_tokens = 1000;
    most = Math.max(body.max_tokens ?? 0, body.max_completion_tokens ?? 0) * (body.n ?? 1);
    if (body.stream) body.stream_options = { ...body.stream_options, include_usage: true };
  } catch {
    return refuse(response, 400, "The body is not valid.", "invalid_request_error", "invalid_body");
  }
  // A token for four bytes of the question, as long as nobody has counted them.
  const prompt = Math.floor(request.body.length / 4) + 1;
  const fields = { path: PATH, "field.tenant": request.get("x-tenant") ?? "" };
  Object.assign(fields, { "field.prompt_tokens": `${prompt}`, "field.max_tokens": `${most}` });
  let answer, said;
  try {
    const question = { fields, id: randomUUID() };
    answer = await post(`${TOLLGATE}/v1/reserve?deny_status=429`, question);
    said = await answer.json();
  } catch (error) {
    said = { title: `${error}` };
  }
  if ([401, 403, 429].includes(answer?.status)) return deny(response, answer, said);
  // A tenant without limits is served without a hold, and nobody else.
  if (!said.hold && said.outcome !== "unlimited") {
    console.error("no budget can be read:", said);
    return refuse(response, 503, "No budget can be read.", "server_error", "unavailable");
  }

  let actual = charge(prompt, 0);
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  // Nothing renews the hold here, so the whole answer ends at four fifths of its time.
  const end = AbortSignal.timeout(said.hold ? said.ends_after.seconds * 800 : 240_000);
  const signal = AbortSignal.any([gone.signal, end]);
  try {
    const authorization = request.get("authorization");
    const headers = { "accept-encoding": "identity", ...(authorization && { authorization }) };
    const model = await post(MODEL + PATH, body, headers, signal);
    actual = model.status >= 400 ? FREE : ESTIMATE;
    response.status(model.status);
    for (const name of ["content-type", "retry-after"]) {
      if (model.headers.has(name)) response.setHeader(name, model.headers.get(name));
    }
    const streams = /event-stream/.test(model.headers.get("content-type"));
    const text = new TextDecoder();
    let [pieces, rest] = [0, ""];
    // Reads a line of a stream, or the whole of an answer in JSON.
    const read = (line) => {
      try {
        const { choices, usage } = JSON.parse(line.replace(/^data:/, ""));
        pieces += choices.filter((choice) => choice.delta).length;
        if (usage) actual = charge(usage.prompt_tokens, usage.completion_tokens);
        else if (pieces > 0) actual = charge(prompt, pieces);
      } catch {
        // `[DONE]`, or an empty line.
      }
    };
    for await (const bytes of model.body) {
      rest += text.decode(bytes, { stream: true });
      const lines = streams ? rest.split("\n") : [rest];
      rest = lines.pop();
      lines.forEach(read);
      if (!response.write(bytes)) await once(response, "drain", { signal });
    }
    read(rest);
    response.end();
  } catch (error) {
    if (error.cause?.code === "ECONNREFUSED") actual = FREE;
    if (!gone.signal.aborted) console.error("an answer was cut:", error.message);
    if (response.headersSent) response.destroy();
    else refuse(response, 502, "The model did not answer.", "server_error", "bad_gateway");
  } finally {
    // Also if the client has hung up: it pays for its part.
    if (said.hold) await commit({ hold: said.hold, actual });
  }
});

function deny(response, answer, { outcome, limits, binding }) {
  // No limit binds a call that is banned, or asks for more than `max`.
  const unit = outcome === "denied" ? limits[binding].unit : null;
  const message = unit ? `Too few ${unit} are left.` : "This call is never admitted.";
  const type = unit && unit !== "microdollars" ? "rate_limit_error" : "insufficient_quota";
  const wait = answer.headers.get("retry-after");
  if (wait) response.set("retry-after", wait);
  // Clients try a 429 again, which helps neither a call above `max` nor one without a tenant.
  const status = { never: 400, missing: 401 }[outcome];
  if (status) refuse(response, status, message, "invalid_request_error", outcome);
  else refuse(response, answer.status, message, type, unit ?? outcome);
}

const charge = (tokensIn, tokensOut) => ({
  tokens: tokensIn + tokensOut,
  microdollars: tokensIn * PRICES.in + tokensOut * PRICES.out,
});

async function commit(body) {
  for (const wait of [0, 100, 1_000, 10_000]) {
    await sleep(wait);
    try {
      // A commit is idempotent: it is sent again if its answer was lost.
      const answer = await post(`${TOLLGATE}/v1/commit`, body);
      const said = await answer.text();
      // 409: the hold had ended, and its estimate was charged.
      if (answer.status >= 400 && answer.status < 500) console.error("a commit was refused:", said);
      if (answer.status < 500) return;
    } catch {}
  }
  console.error("a commit is lost: the hold ends, and its estimate is charged");
}

const port = Number(process.env.PORT ?? 8000);
const server = app.listen(port, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
