// Express, Fastify and Hono under real requests.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { before, test } from "node:test";
import { join } from "node:path";
import { AB, HERE, NO_REDIS, freePort, redis, serve, unique } from "./support.mjs";

const REQUESTS = 1200;
const ADMITTED = 1000;
const FRAMEWORKS = ["express", "fastify", "hono"];

let url;
before(async () => {
  url = await redis();
});

async function start(name, environment = {}) {
  const port = await freePort();
  const env = { ...process.env, PORT: `${port}`, ...environment };
  await serve(process.execPath, [join(HERE, "tests/apps", `${name}.mjs`)], port, {
    env,
    cwd: HERE,
  });
  return `http://127.0.0.1:${port}/`;
}

/** How many of 1,200 requests by 20 clients at once got a 200: by ab, if it is there. */
async function admittedOf(address) {
  if (AB !== undefined) {
    const words = ["-q", "-l", "-n", `${REQUESTS}`, "-c", "20", address];
    const said = spawnSync(AB, words, { encoding: "utf8" });
    assert.equal(said.status, 0, said.stderr);
    const number = (name) =>
      Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(said.stdout)?.[1] ?? 0);
    assert.equal(number("Complete requests"), REQUESTS, said.stdout);
    return REQUESTS - number("Non-2xx responses");
  }
  const ask = async () => {
    let admitted = 0;
    for (let index = 0; index < REQUESTS / 20; index += 1) {
      const response = await fetch(address);
      await response.arrayBuffer();
      admitted += response.ok;
    }
    return admitted;
  };
  const all = await Promise.all(Array.from({ length: 20 }, ask));
  return all.reduce((sum, one) => sum + one);
}

for (const name of FRAMEWORKS) {
  test(`exactly a thousand of twelve hundred: ${name}`, async () => {
    const address = await start(name);
    assert.equal(await admittedOf(address), ADMITTED);
    const denied = await fetch(address);
    assert.equal(denied.status, 429);
    assert.equal(denied.headers.get("content-type"), "application/problem+json");
    assert.equal(denied.headers.get("ratelimit-policy"), '"api";q=1000;w=3600');
    const wait = Number(denied.headers.get("retry-after"));
    assert.ok(0 < wait && wait <= 3600, `${wait}`);
    assert.deepEqual((await denied.json())["violated-policies"], ["api"]);
  });

  test(`two processes count together on Redis: ${name}`, { skip: NO_REDIS }, async () => {
    const environment = { STORE: url, POLICY: unique() };
    const [one, two] = [await start(name, environment), await start(name, environment)];
    let admitted = 0;
    for (const address of [one, two, one]) admitted += await admittedOf(address);
    assert.equal(admitted, ADMITTED);
  });

  test(`the application sees the decision: ${name}`, async () => {
    const address = await start(name, { LIMITS: "5/h" });
    const response = await fetch(address);
    assert.deepEqual([response.status, await response.json()], [200, { remaining: 4 }]);
    assert.match(response.headers.get("ratelimit"), /^"api";r=4;t=3[56]\d\d$/);
  });

  for (const [rule, status] of [
    ["deny", 503],
    ["allow", 200],
  ]) {
    test(`without its store: ${name}, ${rule}`, async () => {
      const address = await start(name, { STORE: "redis://127.0.0.1:1", ON_FAILURE: rule });
      const response = await fetch(address);
      assert.equal(response.status, status);
      const body = await response.text();
      if (rule === "deny") assert.equal(response.headers.get("retry-after"), "5");
      else assert.equal(body, '{"remaining":null}');
    });
  }
}

test("Fastify with a key and both profiles", async () => {
  const address = await start("fastify", { LIMITS: "1/h" });
  const first = await fetch(address);
  assert.deepEqual([first.status, first.headers.get("x-ratelimit-remaining")], [200, "0"]);
  assert.equal((await fetch(address)).status, 429);
  const free = await fetch(address, { headers: { "x-free": "1" } });
  assert.deepEqual([free.status, free.headers.get("ratelimit")], [200, null]);
});

test("a request without an address is not let through", async (t) => {
  const { Limiter } = await import("tollgate-limiter");
  const { tollgate } = await import("tollgate-limiter/express");
  const warned = t.mock.method(console, "warn", () => {});
  const limiter = new Limiter("5/h");
  const asked = (middleware) =>
    new Promise((resolve, reject) => {
      const response = { getHeader() {}, setHeader() {}, end: () => resolve(response.statusCode) };
      middleware({ socket: {} }, response, (error) => (error ? reject(error) : resolve("passed")));
    });
  const usual = tollgate(limiter);
  assert.deepEqual([await asked(usual), await asked(usual)], [503, 503]);
  assert.equal(warned.mock.callCount(), 1);
  assert.match(warned.mock.calls[0].arguments[0], /no address/);
  assert.equal(await asked(tollgate(limiter, { key: () => undefined })), "passed");
});
