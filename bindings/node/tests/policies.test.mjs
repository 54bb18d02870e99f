// Policies of a file, without the service, by themselves and before each framework.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { ArgumentError, ClientAddress, Policies, StoreError } from "tollgate-limiter";
import { FRAMEWORKS, asked } from "./frameworks.mjs";
import { NO_REDIS, folder, freePort, redis, unique } from "./support.mjs";

const text = (name, limit = "2/h") => `
version = 1
nodes = 2

[[policies]]
name = "${name}"
on_failure = { local = "50 %" }
shard = "never"

[[policies.limits]]
subject = "ip"
limit = "${limit} via fixed_window"

[[policies.limits.overrides]]
when = { user = "mallory" }
limit = "banned"

[[policies.limits]]
subject = "field.tenant"
absent = "skip"
limit = "3/h via fixed_window"
`;

function file(limit) {
  const path = `${folder()}/policies.toml`;
  writeFileSync(path, text(unique(), limit));
  return path;
}

const status = ({ refusal }) => refusal?.status ?? 200;

test("a file decides", { skip: NO_REDIS }, async (t) => {
  const url = await redis();
  const stores = { memory: "memory://", sqlite: `sqlite://${folder()}/counts.db`, redis: url };
  for (const [kind, store] of Object.entries(stores)) {
    await t.test(`in ${kind}`, async () => {
      const client = new ClientAddress({ proxies: "10.0.0.0/8" });
      const policies = new Policies(file(), { store, client });
      const get = async (peer, given) => {
        return status(await policies.judge({ method: "GET", target: "/a?b=1", peer, ...given }));
      };
      const first = await policies.judge({ method: "GET", target: "/", peer: "192.0.2.7:4711" });
      assert.equal(first.refusal, null);
      assert.ok(first.headers.some(([name]) => name === "ratelimit"));
      assert.deepEqual([await get("192.0.2.7"), await get("192.0.2.7")], [200, 429]);
      assert.equal(await get("10.0.0.1", { headers: [["X-Forwarded-For", "192.0.2.7"]] }), 429);
      assert.equal(await get("192.0.2.8", { user: "mallory" }), 403);
      const tenants = [0, 1, 2, 3].map((at) => get(`192.0.2.1${at}`, { fields: { tenant: "a" } }));
      assert.deepEqual((await Promise.all(tenants)).sort(), [200, 200, 200, 429]);
      for (const peer of [undefined, null, "", "testclient", "192.0.2.300", "x".repeat(70_000)]) {
        assert.ok([200, 400, 403, 503].includes(await get(peer)), String(peer));
      }
      assert.equal(await get("192.0.2.9", { target: "no target" }), 400);
    });
  }
});

test("a file is read again", async () => {
  const path = file();
  const policies = new Policies(path, { store: "memory://" });
  const get = async (peer) => status(await policies.judge({ method: "GET", target: "/", peer }));
  writeFileSync(path, text("again", "1/h"));
  policies.reload();
  assert.deepEqual([await get("192.0.2.7"), await get("192.0.2.7")], [200, 429]);
  writeFileSync(path, "version = 2");
  assert.throws(() => policies.reload(), /policies\.toml:1/);
  assert.equal(await get("192.0.2.8"), 200);
});

test("local shares decide while the store is away, and the log has it once", async () => {
  const store = `redis://127.0.0.1:${await freePort()}?deadline=100ms`;
  const [policies, warned] = [new Policies(file(), { store }), []];
  const head = { method: "GET", target: "/", peer: "192.0.2.7" };
  const got = [];
  for (let each = 0; each < 3; each += 1) {
    got.push(status(await policies.judge(head, (what) => warned.push(what))));
  }
  assert.deepEqual(got, [200, 429, 429]);
  assert.equal(warned.filter((what) => what.includes("the store does not answer")).length, 1);
});

test("what is wrong is named", async () => {
  const path = file();
  assert.throws(() => new Policies("/none.toml", { store: "memory://" }), ArgumentError);
  assert.throws(() => new Policies(path, { store: "ftp://host" }), StoreError);
  assert.throws(() => new Policies(path), /store must be a string/);
  const short = { store: "memory://", apiKey: ["x-key", "short"] };
  assert.throws(() => new Policies(path, short), /the secret of API keys/);
  const policies = new Policies(path, { store: "memory://" });
  await assert.rejects(policies.judge({ method: "GET" }), /target must be a string/);
  const fields = { tenant: 7 };
  await assert.rejects(policies.judge({ method: "GET", target: "/", fields }), /fields\.tenant/);
});

for (const [name, { start, header }] of Object.entries(FRAMEWORKS)) {
  test(`policies stand before ${name}`, async () => {
    const limiter = new Policies(file("3/h"), { store: "memory://" });
    const key = (request) => header(request, "x-user");
    const skip = (request) => header(request, "x-skip") !== undefined;
    const fields = (request) => ({ tenant: header(request, "x-tenant") });
    const app = await start([{ limiter, key, skip, fields }]);
    try {
      const first = await asked(app, { "x-tenant": "a" });
      assert.equal(first.status, 200);
      assert.match(first.headers.get("ratelimit"), /;r=2;/);
      assert.equal((await asked(app, { "x-user": "mallory" })).status, 403);
      assert.equal((await asked(app)).status, 200);
      assert.equal((await asked(app)).status, 200);
      const denied = await asked(app);
      assert.equal(denied.status, 429);
      assert.ok(Number(denied.headers.get("retry-after")) > 0);
      assert.match(denied.headers.get("ratelimit"), /;r=0;/);
      assert.equal((await asked(app, { "x-skip": "1" })).status, 200);
    } finally {
      await app.close();
    }
    await assert.rejects(async () => start([{ limiter }]), /fields is missing.*field\.tenant/);
    const wrong = await start([{ limiter, fields: () => ({ tenat: "a" }) }]);
    assert.equal((await asked(wrong)).status, 400);
    await wrong.close();
    const options = { limiter, limits: () => "1/s" };
    await assert.rejects(async () => start([options]), /limits/);
  });
}
