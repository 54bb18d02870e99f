// The answers of a limiter: the same on every store.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { inspect } from "node:util";
import {
  ArgumentError,
  Decision,
  Denied,
  HoldError,
  LimitError,
  Limiter,
  Limits,
  ManualClock,
  StoreError,
} from "tollgate-limiter";
import { NO_REDIS, folder, freePort, redis, unique } from "./support.mjs";

let url;
before(async () => {
  url = await redis();
});

/** A test on each kind of store. */
function onEach(name, work) {
  for (const kind of ["memory", "sqlite", "redis"]) {
    test(`${name} in ${kind}`, { skip: kind === "redis" && NO_REDIS }, async () => {
      const stores = { memory: "memory://", sqlite: `sqlite://${folder()}/counts.db`, redis: url };
      await work(stores[kind], unique());
    });
  }
}

onEach("a check has its numbers", async (store, policy) => {
  const limiter = new Limiter("3/h", { store, policy });
  const first = await limiter.check("user:42");
  assert.ok(first instanceof Decision);
  assert.deepEqual(
    [first.allowed, first.granted, first.remaining, first.limit],
    [true, 1, 2, 3],
  );
  assert.deepEqual([first.retryAfter, first.outcome, first.binding], [null, "allowed", 0]);
  const [report] = first.limits;
  assert.deepEqual([report.subject, report.limit], ["user:42", "3/h via sliding_log"]);
  assert.deepEqual([report.policy, report.capacity, first.authority], [policy, 3, "store"]);
  assert.ok(first.atUs > 1_700_000_000_000_000);
  assert.match(`${first}`, /^allow user:42: 2 of 3 left/);
  assert.equal((await limiter.check("user:42", 2)).remaining, 0);
  const denied = await limiter.check("user:42");
  assert.deepEqual([denied.allowed, denied.granted, denied.remaining], [false, 0, 0]);
  assert.ok(3500 < denied.retryAfter && denied.retryAfter <= 3600);
  assert.ok(3500 < denied.resetAfter && denied.resetAfter <= 3600);
  assert.match(inspect(denied), /^<Decision deny user:42: retry in/);
  const never = await limiter.check("user:42", 4);
  assert.deepEqual([never.outcome, never.retryAfter], ["never", null]);
  assert.equal((await limiter.check("user:43")).remaining, 2);
  assert.equal(JSON.parse(JSON.stringify(denied)).limits[0].limit, "3/h via sliding_log");
});

onEach("a check that waits counts for no ban", async (store, policy) => {
  const limiter = new Limiter("1/h, ban 10m after 2 denials in 1m", { store, policy });
  assert.ok((await limiter.check("a")).allowed);
  for (let i = 0; i < 4; i += 1) {
    assert.ok(!(await limiter.checkAll(["a"], 1, { waiting: "again" })).allowed);
  }
  assert.ok((await limiter.peek("a")).limits[1].admits);
  await limiter.check("a");
  await limiter.check("a");
  assert.ok(!(await limiter.peek("a")).limits[1].admits);
  const refused = { name: "ArgumentError", message: /no slot to wait in line for/ };
  await assert.rejects(limiter.checkAll(["b"], 1, { waiting: "in_line" }), refused);
});

onEach("several limits are all or nothing", async (store, policy) => {
  const limiter = new Limiter("2/s, 3/h", { store, policy });
  const decision = await limiter.check("a", 2);
  assert.deepEqual(
    decision.limits.map(({ limit, admits, remaining }) => [limit, admits, remaining]),
    [
      ["2/s via sliding_log", true, 0],
      ["3/h via sliding_log", true, 1],
    ],
  );
  assert.equal(decision.remaining, 0);
  assert.deepEqual([decision.limits[0].subject, decision.limits[0].retryAfter], ["a", 0]);
  assert.deepEqual([decision.limits[0].unit, decision.unit], ["requests", "requests"]);
  assert.ok(0 < decision.limits[0].resetAfter && decision.limits[0].resetAfter <= 1);
  assert.ok(decision.limits[1].resetAfter > 1);
  const denied = await limiter.check("a", 3);
  assert.deepEqual([denied.allowed, denied.outcome], [false, "never"]);
  assert.equal((await limiter.peek("a")).limits[1].remaining, 1);
});

onEach("several subjects are all or nothing", async (store, policy) => {
  const limiter = new Limiter("5/h", { store, policy });
  const own = new Limits("1/h", policy);
  assert.ok((await limiter.checkAll(["resource:12", ["consumer:1", own]])).allowed);
  const denied = await limiter.checkAll(["resource:12", ["consumer:1", own]]);
  assert.deepEqual([denied.allowed, denied.limits[denied.binding].subject], [false, "consumer:1"]);
  assert.equal((await limiter.peek("resource:12")).remaining, 4);
  const partial = await limiter.checkAll(["resource:12"], 9, { partial: true });
  assert.equal(partial.granted, 4);
});

onEach("a peek looks ahead to a hold", async (store, policy) => {
  const limiter = new Limiter("20 at once, 100000/m via gcra", { store, policy });
  const ahead = await limiter.peek("a", 800, { kind: "reserve" });
  assert.deepEqual([ahead.allowed, ahead.unit, ahead.limit], [true, "slots", 20]);
  assert.equal((await limiter.peek("a", 800, { kind: "acquire" })).outcome, "never");
  assert.equal((await limiter.peek("a", 800)).outcome, "never");
  await assert.rejects(limiter.peek("a", 1, { kind: "hold" }), /kind: /);
});

onEach("peek, charge, refund and reset", async (store, policy) => {
  const limiter = new Limiter("3/h", { store, policy });
  assert.equal((await limiter.peek("a")).remaining, 3);
  assert.equal((await limiter.peek("a", 2)).remaining, 3);
  const decision = await limiter.check("a", 2);
  assert.deepEqual(await limiter.refund(decision), { given: [2], already: false, left: 0 });
  assert.ok((await limiter.refund(decision)).already);
  const [charged] = await limiter.charge("a", 4);
  assert.deepEqual([charged.fits, charged.cut, charged.remaining], [false, 0, 0]);
  assert.deepEqual([charged.subject, charged.limit], ["a", limiter.limits]);
  assert.ok(charged.identity.length > 0);
  assert.ok(charged.retryAfter === null && charged.resetAfter > 0);
  assert.deepEqual([await limiter.reset("a"), await limiter.reset("a")], [true, false]);
  assert.ok((await limiter.check("a", 3)).allowed);
  const denied = await limiter.check("a");
  await assert.rejects(limiter.refund(denied), [ArgumentError, /decision charged nothing/][0]);
  await assert.rejects(limiter.refund(denied), /decision charged nothing/);
  await assert.rejects(new Limiter("3/h").refund(decision), /another store/);
});

onEach("a refund of several subjects", async (store, policy) => {
  const limiter = new Limiter("9/h, 20/d", { store, policy });
  const decision = await limiter.checkAll(["a", ["b", new Limits("4/h", policy)]], 3);
  assert.deepEqual((await limiter.refund(decision)).given, [3, 3, 3]);
  assert.equal((await limiter.peek("a")).remaining, 9);
});

onEach("a reservation charges what was used", async (store, policy) => {
  const limiter = new Limiter("1000/m via token_bucket", { store, policy });
  const used = await limiter.reserve("a", 800, 60);
  assert.ok(used.allowed && used.fence && used.endUs);
  assert.ok((await limiter.peek("a")).remaining <= 201);
  const denied = await limiter.reserve("a", 800, 60);
  assert.deepEqual([denied.allowed, denied.fence, denied.decision.allowed], [false, null, false]);
  await denied.end();
  used.use(200);
  used.use(100);
  await used[Symbol.asyncDispose]();
  const { remaining } = await limiter.peek("a");
  assert.ok(700 <= remaining && remaining <= 710, `${remaining}`);
  const other = await limiter.reserve("a", 10, 60);
  assert.ok(await other.renew(90));
  assert.equal((await other.commit(3)).actual, 3);
  assert.ok((await other.commit(3)).already);
  const cancelled = await limiter.reserve("c", 500, 60);
  assert.equal((await cancelled.cancel()).actual, 0);
  assert.equal((await limiter.peek("c")).remaining, 1000);
  const gone = await limiter.reserve("d", 5, 60);
  await limiter.reset("d");
  await assert.rejects(gone.commit(5), HoldError);
});

onEach("slots are given back", async (store, policy) => {
  const limiter = new Limiter("2 at once hold 30s", { store, policy });
  const [one, two] = [await limiter.acquire("backend"), await limiter.acquire("backend")];
  assert.ok(one.allowed && two.allowed && two.fence > one.fence);
  const three = await limiter.acquire("backend");
  assert.deepEqual([three.allowed, three.decision.untilHold], [false, true]);
  assert.ok(await one.renew());
  assert.deepEqual([await one.release(), await one.release()], [true, false]);
  await two[Symbol.asyncDispose]();
  assert.ok(await (await limiter.acquire("backend", 2)).release());
  await assert.rejects((await limiter.acquire("backend", 3)).renew(), /denied/);
  // A released handle asks nothing more.
  limiter.close();
  assert.equal(await one.release(), false);
});

onEach("policies count by themselves", async (store, policy) => {
  const [one, two] = ["a", "b"].map(
    (name) => new Limiter("1/h", { store, policy: `${policy}.${name}` }),
  );
  assert.ok((await one.check("a")).allowed && (await two.check("a")).allowed);
  assert.ok(!(await one.check("a")).allowed);
  assert.deepEqual([one.policy, new Limiter("1/h").policy], [`${policy}.a`, null]);
});

onEach("many at once are admitted exactly", async (store, policy) => {
  const limiter = new Limiter("100/h", { store, policy });
  const asked = Array.from({ length: 250 }, () => limiter.check("a"));
  const admitted = (await Promise.all(asked)).filter(({ allowed }) => allowed);
  assert.equal(admitted.length, 100);
  assert.deepEqual(new Set(admitted.map(({ remaining }) => remaining)).size, 100);
});

onEach("a closed limiter reports that", async (store, policy) => {
  const limiter = new Limiter("10/h", { store, policy });
  const decision = await limiter.check("a");
  const open = limiter.check("a");
  limiter.close();
  limiter.close();
  // A question in flight has its answer.
  assert.equal((await open).remaining, 8);
  await assert.rejects(limiter.check("a"), /the limiter is closed/);
  await assert.rejects(limiter.peek("a"), /the limiter is closed/);
  await assert.rejects(limiter.refund(decision), /the limiter is closed/);
  if (limiter.inMemory) assert.throws(() => limiter.checkSync("a"), /the limiter is closed/);
  // A decision that was made can be read.
  assert.equal(decision.limits[0].limit, "10/h via sliding_log");
  assert.equal(limiter.headers(decision).length, 2);
});

test("memory answers at once", () => {
  const limiter = new Limiter("2/h");
  assert.deepEqual([limiter.inMemory, limiter.checkSync("a", 2).remaining], [true, 0]);
  assert.equal(limiter.checkSync("a").allowed, false);
  assert.equal(new Limiter("2/s, 3/h").checkSync("a").limits.length, 2);
  const file = new Limiter("2/h", { store: `sqlite://${folder()}/counts.db` });
  assert.throws(() => file.checkSync("a"), /store: sqlite does not answer at once/);
  assert.equal(inspect(limiter), "<Limiter 2/h via sliding_log in memory>");
});

test("a clock that a test moves", async () => {
  const clock = new ManualClock();
  const limiter = new Limiter("1/10s", { clock });
  assert.ok((await limiter.check("a")).allowed);
  assert.equal((await limiter.check("a")).retryAfter, 10);
  clock.advance(9.5);
  assert.equal((await limiter.check("a")).retryAfter, 0.5);
  clock.set(10_000_000);
  assert.ok((await limiter.check("a")).allowed);
  assert.equal(clock.atUs, 10_000_000);
});

test("limits that mean the same are equal", () => {
  assert.ok(new Limits("10 per minute").equals(new Limits("10/m")));
  assert.ok(!new Limits("10/m").equals(new Limits("11/m")));
  assert.ok(!new Limits("10/m").equals("10/m"));
  assert.equal(`${new Limits("10/s")}`, "10/s via sliding_log");
  assert.throws(() => new Limits("10 per 2 months"), LimitError);
  assert.equal(new Limits("10/m", "api").policy, "api");
});

test("headers and refusals are those of every front", () => {
  const limiter = new Limiter("2/m via gcra", { policy: "api", clock: new ManualClock(1_000_000) });
  const admitted = limiter.checkSync("a");
  assert.deepEqual(limiter.headers(admitted), [
    ["ratelimit-policy", '"api";q=2;w=60'],
    ["ratelimit", '"api";r=1;t=30'],
  ]);
  assert.equal(limiter.refusal(admitted), null);
  limiter.checkSync("a");
  const { status, headers, body } = limiter.refusal(limiter.checkSync("a"), "both");
  assert.equal(status, 429);
  assert.deepEqual(JSON.parse(body)["violated-policies"], ["api"]);
  const named = Object.fromEntries(headers);
  assert.deepEqual([named["retry-after"], named["x-ratelimit-remaining"]], ["30", "0"]);
  assert.equal(named["content-type"], "application/problem+json");
  assert.equal(limiter.refusal(limiter.checkSync("a", 9)).status, 422);
  assert.deepEqual(limiter.headers(admitted, "none"), []);
  const unavailable = limiter.unavailable(2.5);
  assert.equal(unavailable.status, 503);
  assert.equal(Object.fromEntries(unavailable.headers)["retry-after"], "3");
  const plain = new Limiter("1/h");
  assert.equal(plain.headers(plain.checkSync("a"))[0][1], '"client";q=1;w=3600');
});

test("a function that is limited", async () => {
  const limiter = new Limiter("2/h");
  const sum = limiter.limit(
    (a) => `user:${a}`,
    (a, b) => a + b,
  );
  assert.deepEqual([await sum(1, 2), await sum(1, 3)], [3, 4]);
  await assert.rejects(sum(1, 4), (error) => {
    assert.ok(error instanceof Denied && !error.decision.allowed);
    return error.message.startsWith("deny user:1");
  });
  const onDenied = ({ retryAfter }) => retryAfter > 3000;
  const costly = limiter.limit("b", async () => "ran", { cost: () => 2, onDenied });
  assert.deepEqual([await costly(), await costly()], ["ran", true]);
  const self = {
    limited: limiter.limit("c", function () {
      return this;
    }),
  };
  assert.equal(await self.limited(), self);
});

test("a store that is not there is an error", async () => {
  const store = `redis://127.0.0.1:${await freePort()}`;
  const limiter = new Limiter("1/h", { store });
  await assert.rejects(limiter.check("a"), (error) => {
    assert.ok(error instanceof StoreError, error);
    return error.transient && !error.ambiguous;
  });
  await assert.rejects(limiter.acquire("a"), StoreError);
});

test("a decorated function has a rule for the store", async (context) => {
  const warned = context.mock.method(console, "warn", () => {});
  const away = new Limiter("2/h", { store: "redis://127.0.0.1:1" });
  const passes = away.limit("job", () => "done", { onFailure: "allow" });
  const denies = away.limit("job", () => "done", { onFailure: "deny" });
  for (let times = 0; times < 2; times += 1) {
    assert.equal(await passes(), "done");
    await assert.rejects(denies(), (error) => {
      const { status, headers } = error.refusal();
      assert.ok(error instanceof Denied && error.decision === null);
      return status === 503 && Object.fromEntries(headers)["retry-after"] === "5";
    });
  }
  await assert.rejects(away.limit("job", () => "done")(), StoreError);
  const wrong = () => away.limit("job", () => "done", { onFailure: "open" });
  assert.throws(wrong, /onFailure is "open": give "allow" or "deny"/);
  const said = warned.mock.calls.map((call) => call.arguments[0]);
  assert.equal(said.length, 2);
  assert.match(said[0], /Requests pass until/);
  assert.match(said[1], /Requests are refused until/);
});

test("a denial has the answer of its limiter", async () => {
  const limited = new Limiter("1/h", { policy: "mail" }).limit("job", () => "done");
  await limited();
  await assert.rejects(limited(), (error) => {
    const { status, headers, body } = error.refusal("legacy");
    const names = Object.fromEntries(headers);
    return status === 429 && body.includes("mail") && names["x-ratelimit-remaining"] === "0";
  });
});
