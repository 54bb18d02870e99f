// Calling a service that limits: turns, the waits that it asks for, and tries.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { Limiter, ManualClock, StoreError } from "tollgate-limiter";
import { limitedFetch } from "tollgate-limiter/fetch";

let answers = [];
let times = [];
let clock;
const server = createServer((request, response) => {
  times.push(clock.atUs / 1e6);
  request.resume();
  request.on("end", () => {
    const [status, headers] = answers.shift() ?? [200, {}];
    response.writeHead(status, headers).end("answer");
  });
});
let url;
before(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${server.address().port}/`;
});
after(() => server.close().closeAllConnections());

/** A `fetch` over a limiter of a manual clock, for a server with these answers. */
function calling(given, limits = "100/s", options = {}) {
  [answers, times, clock] = [given, [], new ManualClock()];
  return limitedFetch(new Limiter(limits, { clock }), options);
}

async function statuses(get, count) {
  const all = [];
  for (let each = 0; each < count; each += 1) all.push((await get(url)).status);
  return all;
}

test("requests keep to the limits", async () => {
  const get = calling([], "1/10s via gcra");
  assert.deepEqual(await statuses(get, 4), [200, 200, 200, 200]);
  assert.deepEqual(times, [0, 10, 20, 30]);
});

test("a server that asks for a wait gets it", async () => {
  const get = calling([
    [429, { "retry-after": "7" }],
    [200, { ratelimit: '"a";r=0;t=20' }],
    [200, {}],
    [503, { "retry-after": "5" }],
  ]);
  assert.deepEqual(await statuses(get, 3), [200, 200, 200]);
  assert.deepEqual(times, [0, 7, 27, 27, 32]);
});

test("tries come to an end", async () => {
  // Without a wait in the answers, each is twice the one before.
  let get = calling([429, 429, 429, 429].map((status) => [status, {}]));
  assert.deepEqual([await statuses(get, 1), times], [[429], [0, 1, 3]]);
  // There is no time for the wait that the server asks for.
  get = calling([[429, { "retry-after": "61" }]]);
  assert.deepEqual([await statuses(get, 1), times], [[429], [0]]);
  const late = { name: "TimeoutError", message: "no turn for 127.0.0.1 within 60 s" };
  await assert.rejects(get(url), late);
  // A server may have done what a 503 is the answer to.
  get = calling([[503, { "retry-after": "1" }]]);
  assert.equal((await get(url, { method: "POST", body: "{}" })).status, 503);
  get = calling([[429, { "retry-after": "1" }]]);
  const again = await get(url, { method: "POST", body: "{}" });
  assert.deepEqual([again.status, await again.text(), times], [200, "answer", [0, 1]]);
  get = calling([[429, { "retry-after": "1" }]], "100/s", { retries: 0 });
  assert.deepEqual([await statuses(get, 1), times], [[429], [0]]);
});

test("a stream is sent once", async () => {
  const body = new ReadableStream({ start: (to) => (to.enqueue(new Uint8Array(3)), to.close()) });
  const get = calling([[429, { "retry-after": "1" }]]);
  assert.equal((await get(url, { method: "POST", body, duplex: "half" })).status, 429);
  const other = calling([[429, { "retry-after": "1" }]]);
  assert.equal((await other(new Request(url, { method: "POST", body: "{}" }))).status, 429);
});

test("a request without a turn is not sent", async () => {
  const get = calling([], "1/h via gcra", { timeout: 5, key: () => "api" });
  assert.equal((await get(url)).status, 200);
  await assert.rejects(get(url), { message: /^no turn for api within 5 s: deny api/ });
  assert.deepEqual(times, [0]);
  const signal = AbortSignal.abort(new Error("away"));
  await assert.rejects(get(url, { signal }), /away/);
});

test("the store of the limiter may be away", async () => {
  calling([]);
  const away = new Limiter("1/s", { store: "redis://127.0.0.1:1?deadline=100ms" });
  assert.throws(() => limitedFetch(away), /onFailure is missing/);
  await assert.rejects(limitedFetch(away, { onFailure: "deny" })(url), StoreError);
  assert.equal((await limitedFetch(away, { onFailure: "allow" })(url)).status, 200);
});

test("bad options are refused", () => {
  const limiter = new Limiter("1/s");
  for (const [options, error] of [
    [{ key: "api" }, /key must be a function/],
    [{ timeout: -1 }, /timeout is -1/],
    [{ retries: 1.5 }, /retries is 1.5/],
    [{ tries: 2 }, /no `tries`/],
    [{ fetch: 7 }, /fetch must be a function/],
  ]) {
    assert.throws(() => limitedFetch(limiter, options), error);
  }
  assert.throws(() => limiter.backOff("api", -1), /seconds is -1/);
  assert.throws(() => limiter.backOff(7, 1), /subject must be a string/);
});

test("no turn begins while a subject backs off", async () => {
  const time = new ManualClock();
  const limiter = new Limiter("100/s", { clock: time });
  limiter.backOff("api", 5);
  limiter.backOff("api", 2);
  assert.equal(await limiter.untilReady("api", 4), null);
  assert.ok((await limiter.untilReady("other", 0)).allowed);
  assert.ok((await limiter.untilReady("api", 60)).allowed);
  assert.equal(time.atUs, 5_000_000);
});

test("one that sleeps for its turn is delayed too", async () => {
  const limiter = new Limiter("1/50ms via uniform");
  assert.ok(limiter.checkSync("api").allowed);
  const head = limiter.untilReady("api", 60);
  // It sleeps after its first question.
  await new Promise((resolve) => setImmediate(resolve));
  const start = performance.now();
  limiter.backOff("api", 0.3);
  assert.ok((await head).allowed);
  assert.ok(performance.now() - start >= 299);
});
