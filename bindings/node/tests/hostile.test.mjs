// Clients that send whatever breaks a server: each is counted, or gets a 400.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { ClientAddress, Limiter, Limits } from "tollgate-limiter";
import { FRAMEWORKS, asked } from "./frameworks.mjs";
import { ROOT } from "./support.mjs";

/** Values that no client should have sent, and whose they are as `X-Forwarded-For` of 127.0.0.1. */
const HOSTILE = readFileSync(join(ROOT, "vectors/hostile.txt"), "utf8")
  .split("\n")
  .filter((line) => line && !line.startsWith("#"))
  .map((line) => {
    const [, times, text, subject] = /^(\d+) (".*") -> (.*)$/.exec(line);
    return [JSON.parse(text).repeat(Number(times)), subject];
  });

/** Those that a client can send to a server of Node. */
const SENT = HOSTILE.filter(([it]) => it.length < 8000 && /^[\t\x20-\x7e\x80-\xff]*$/.test(it));

const PROXIES = { proxies: "127.0.0.0/8" };

/** Keys that a function returns, and the subject: "400", or null for what is not limited. */
const KEYS = [
  ["user:42", "user:42"],
  ["42", "42"],
  ["", "400"],
  ["user:", "400"],
  [":x", "400"],
  [" ", "%20"],
  ["\0", "%00"],
  ["a\r\nb", "a%0D%0Ab"],
  ["user:a,b", "user:a%2Cb"],
  ["user:42,route:x", "user:42%2Croute:x"],
  ["user:%41", "user:%2541"],
  ["user:é😀", "user:%C3%A9%F0%9F%98%80"],
  ["user:__proto__", "user:__proto__"],
  ["user:tgr1\n1 1 1 1", "user:tgr1%0A1%201%201%201"],
  ["user:\ud800", "400"],
  ["a".repeat(70_000), "400"],
  ["é".repeat(40_000), "400"],
  [undefined, null],
  [null, null],
  [[], null],
  [[null, undefined], null],
  [["a", "b"], "a b"],
  [["a", null], "a"],
  [["a", "a"], "400"],
  [[["a", new Limits("9/s")]], "a"],
  // As JSON of a client could have them: limits are not the client's to choose.
  [[["a", "1000000/s"]], "400"],
  [[["a"]], "400"],
  [[[]], "400"],
  [["a", 1], "400"],
  [["a", ["b", {}]], "400"],
  [Array.from({ length: 17 }, (_, at) => `a${at}`), "400"],
  [42, "400"],
  [Number.NaN, "400"],
  [true, "400"],
  [false, "400"],
  [{}, "400"],
  [{ key: "a" }, "400"],
  [{ toString: () => "a" }, "400"],
  [Symbol("a"), "400"],
  [10n, "400"],
  [() => "a", "400"],
];

/** The answer to a request with a header that `fetch` would not send. */
async function raw(url, headers) {
  const sent = request(url, { headers, setHost: true });
  sent.end();
  const [response] = await once(sent, "response");
  response.resume();
  await once(response, "end");
  return response.statusCode;
}

test("there are enough of them", () => {
  const counts = [SENT.length, HOSTILE.length, KEYS.length];
  assert.ok(counts.every((count) => count >= 40), `${counts}`);
});

test("whatever a header has, its client is one of the vectors", () => {
  const clients = new ClientAddress(PROXIES);
  for (const [value, subject] of HOSTILE) {
    const found = clients.subject("127.0.0.1", { "x-forwarded-for": value }, () => {});
    assert.equal(found, subject, value.slice(0, 60));
  }
});

for (const [name, { start, header }] of Object.entries(FRAMEWORKS)) {
  test(`a client is whom the proxy names, or the proxy: ${name}`, async (t) => {
    const warned = t.mock.method(console, "warn", () => {});
    const subjects = [];
    const limiter = new Limiter("1000/h");
    const onDecision = (_, { limits }) => subjects.push(limits[0].subject);
    const key = new ClientAddress(PROXIES);
    const app = await start([{ limiter, key, onDecision }]);
    for (const [value, subject] of SENT) {
      const status = await raw(app.url, { "x-forwarded-for": value });
      assert.deepEqual([status, subjects.pop()], [200, subject], value.slice(0, 60));
    }
    await app.close();
    // Each kind of mistake once.
    if (name !== "fastify") assert.ok(warned.mock.callCount() <= 4, `${warned.mock.callCount()}`);
  });

  test(`a key is a subject, or a 400: ${name}`, async (t) => {
    const warned = t.mock.method(console, "warn", () => {});
    const subjects = [];
    const onDecision = (_, { limits }) => subjects.push(limits.map((it) => it.subject).join(" "));
    const all = [...KEYS, ...HOSTILE.map(([value]) => [value])];
    const key = (it) => all[Number(header(it, "x-user"))][0];
    const app = await start([{ limiter: new Limiter("1000/h"), key, onDecision }]);
    for (const [at, [, subject]] of all.entries()) {
      const { status, headers, body } = await asked(app, { "x-user": `${at}` });
      const was = status === 400 ? "400" : (subjects.pop() ?? null);
      assert.ok(status === 200 || status === 400, `${status} for key ${at}`);
      if (at < KEYS.length) assert.equal(was, subject, `key ${at}`);
      if (status !== 400) continue;
      assert.match(headers.get("content-type"), /^application\/problem\+json/);
      assert.equal(JSON.parse(body).title, "Bad Request");
    }
    await app.close();
    if (name === "fastify") return;
    assert.equal(warned.mock.callCount(), 1);
    assert.match(warned.mock.calls[0].arguments[0], /gets a 400, for its key or cost is invalid: /);
  });
}
