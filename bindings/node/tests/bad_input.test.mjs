// Wrong input is an error that names the argument; nothing is charged for it.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import * as tollgate from "tollgate-limiter";
import { ArgumentError, ClientAddress, LimitError, Limiter, Limits } from "tollgate-limiter";
import { ManualClock, StoreError } from "tollgate-limiter";
import { tollgate as express } from "tollgate-limiter/express";
import { tollgate as hono } from "tollgate-limiter/hono";
import { NO_REDIS, redis, unique } from "./support.mjs";

const ID = "b1946ac92492d2347c6235b4d2611184";
const SLOTS = new Limiter("5/h, 3 at once");

let url;
before(async () => {
  url = await redis();
});

/** A limiter in memory, and where there is a Redis, one on it. */
function limiters() {
  const policy = unique();
  const all = [new Limiter("5/h", { policy })];
  if (!NO_REDIS) all.push(new Limiter("5/h", { policy, store: url }));
  return all;
}

/** What a call throws, now or later. */
async function thrown(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return undefined;
}

async function refuses(call, Class, words) {
  const error = await thrown(call);
  assert.ok(error instanceof Class, `${call}: ${error}`);
  for (const word of [words].flat()) {
    assert.ok(
      word instanceof RegExp ? word.test(error.message) : error.message.includes(word),
      error,
    );
  }
}

test("a number of a wrong type", async () => {
  const { check, ...of } = { check: undefined };
  assert.deepEqual(of, {});
  for (const limiter of limiters()) {
    for (const [cost, type] of [
      [null, "null"],
      [true, "boolean"],
      ["1", "string"],
      [1n, "bigint"],
      [2n ** 80n, "bigint"],
      [[1], "array"],
      [Symbol("1"), "symbol"],
      [() => 1, "function"],
    ]) {
      const what = `cost must be a number or an object, not ${type}`;
      await refuses(() => limiter.check("a", cost), TypeError, what);
      await refuses(() => limiter.peek("a", cost), TypeError, what);
      await refuses(() => limiter.charge("a", cost), TypeError, what);
      await refuses(() => limiter.checkAll(["a"], cost), TypeError, what);
      await refuses(() => limiter.reserve("a", cost, 60), TypeError, what);
      await refuses(
        () => SLOTS.acquire("a", cost),
        TypeError,
        `slots must be a number, not ${type}`,
      );
    }
    const what = "cost must be a number or an object, not undefined";
    await refuses(() => limiter.charge("a"), TypeError, what);
    assert.equal((await limiter.peek("a")).remaining, 5);
  }
});

test("a number out of range", async () => {
  for (const limiter of limiters()) {
    for (const [number, given] of [
      [NaN, "NaN"],
      [1.5, "1.5"],
      [5e-324, "5e-324"],
      [Infinity, "Infinity"],
      [-Infinity, "-Infinity"],
      [-1, "-1"],
      [0, "0"],
      [-0, "0"],
      [2 ** 40 + 1, "1099511627777"],
      [Number.MAX_SAFE_INTEGER, "9007199254740991"],
      [Number.MAX_VALUE, "1.7976931348623157e+308"],
    ]) {
      const most = "2^40 = 1099511627776";
      const right = (least) => `is ${given}: give a whole number from ${least} to ${most}`;
      const cost = `cost ${right(1)}`;
      await refuses(() => limiter.check("a", number), ArgumentError, cost);
      await refuses(() => limiter.peek("a", number), ArgumentError, cost);
      await refuses(() => limiter.charge("a", number), ArgumentError, cost);
      await refuses(() => limiter.checkAll(["a"], number), ArgumentError, cost);
      await refuses(() => limiter.reserve("a", number, 60), ArgumentError, cost);
      await refuses(() => limiter.limit("a", () => 3, { cost: number }), ArgumentError, cost);
      await refuses(() => SLOTS.acquire("a", number), ArgumentError, `slots ${right(1)}`);
      if (number !== 0) {
        await refuses(() => limiter.commit("a", ID, number), ArgumentError, `actual ${right(0)}`);
      }
    }
    const never = await limiter.check("a", 2 ** 40);
    assert.deepEqual([never.outcome, (await limiter.peek("a")).remaining], ["never", 5]);
  }
});

test("a subject of a wrong type", async () => {
  for (const limiter of limiters()) {
    for (const subject of [
      undefined,
      null,
      42,
      1n,
      true,
      ["a"],
      {},
      Symbol("a"),
      new String("a"),
    ]) {
      for (const call of [
        () => limiter.check(subject),
        () => limiter.peek(subject),
        () => limiter.reset(subject),
        () => limiter.charge(subject, 1),
        () => limiter.reserve(subject, 1, 60),
      ]) {
        await refuses(call, TypeError, "subject must be a string, not ");
      }
    }
  }
});

test("an invalid subject", async () => {
  for (const limiter of limiters()) {
    for (const subject of ["", "user:", "a".repeat(100_000), "us er:1"]) {
      await refuses(() => limiter.check(subject), ArgumentError, "subject");
    }
    const lone = "subject has a lone surrogate at index 5";
    await refuses(() => limiter.check("user:\udc80"), ArgumentError, lone);
    await refuses(() => limiter.checkAll(["a", "user:\ud800"]), ArgumentError, lone);
    await refuses(() => limiter.reset("\udfff"), ArgumentError, "index 0");
    assert.equal((await limiter.peek("a")).remaining, 5);
  }
  await refuses(
    () => new Limiter("\ud800"),
    ArgumentError,
    "limits has a lone surrogate at index 0",
  );
  // An odd text is counted as a separate subject.
  const odd = ["user:\0", "user:ü,%41\n", "\u{1F600}", "a b", "__proto__", "constructor"];
  for (const subject of odd) {
    const limiter = new Limiter("1/h");
    assert.ok((await limiter.check(subject)).allowed, subject);
    assert.ok(!(await limiter.check(subject)).allowed, subject);
  }
});

test("subjects that are alike are counted apart", async () => {
  for (const limiter of limiters()) {
    // Bytes of one are a part of the other's; one is as long as what is passed by another way.
    for (const subject of ["A", "\u0141", "\u00c1", "a".repeat(64), "a".repeat(65), "\u0100"]) {
      assert.equal((await limiter.check(subject)).remaining, 4, subject);
    }
  }
});

test("invalid subjects", async () => {
  for (const limiter of limiters()) {
    for (const [subjects, Class, what] of [
      [[], ArgumentError, "subjects: a check is over 1 to 16 subjects, not 0"],
      ["user:42", TypeError, "subjects must be a list"],
      [null, TypeError, "subjects must be a list"],
      [new Set(["a"]), TypeError, "subjects must be a list"],
      [[["a"]], ArgumentError, "subjects has a list of 1"],
      [[["a", 3]], TypeError, "limits must be a string or Limits, not number"],
      [[["a", "3/parsec"]], LimitError, "limits: "],
      [[3], TypeError, "subjects must be a list of strings or [subject, limits], not number"],
      [["a", "a"], ArgumentError, "asked twice"],
      [Array(17).fill("a"), ArgumentError, "1 to 16 subjects, not 17"],
      [Array(2 ** 31), ArgumentError, "1 to 16 subjects"],
    ]) {
      await refuses(() => limiter.checkAll(subjects), Class, what);
    }
    assert.equal((await limiter.peek("a")).remaining, 5);
  }
});

test("invalid limits", async () => {
  for (const limits of [undefined, null, 10, 1n, [], {}, Symbol("10/s")]) {
    await refuses(() => new Limiter(limits), TypeError, "limits must be a string or Limits, not ");
  }
  for (const limits of ["", "10", "10/s via gcr", "0/s", "10/s".repeat(100_000)]) {
    await refuses(() => new Limiter(limits), LimitError, "limits: ");
    await refuses(() => new Limits(limits), LimitError, "limits: ");
  }
  await refuses(() => new Limiter("10/s via gcr"), LimitError, [
    "did you mean `gcra`?",
    "\n           ^^^",
  ]);
});

test("invalid stores", async () => {
  for (const [store, Class, what] of [
    [null, TypeError, "store must be a string, not null"],
    [3, TypeError, "store must be a string, not number"],
    ["postgres://ann:secret@x", StoreError, "unknown kind of store `postgres://`"],
    ["redis://", StoreError, "host is missing"],
    ["redis://h:0", StoreError, "port"],
    ["", StoreError, "PATH"],
  ]) {
    const error = await thrown(() => new Limiter("1/s", { store }));
    assert.ok(error instanceof Class && error.message.includes(what), `${error}`);
    assert.ok(!error.message.includes("secret"));
  }
});

test("options that are unknown are named", async () => {
  const plain = new Limiter("5/h");
  const named = "options has no `stroe`: it takes store, policy, clock";
  await refuses(() => new Limiter("1/s", { stroe: "redis://x" }), ArgumentError, named);
  await refuses(() => new Limiter("1/s", "redis://x"), TypeError, "options must be an object");
  await refuses(() => new Limiter("1/s", null), TypeError, "options must be an object, not null");
  await refuses(() => plain.checkAll(["a"], 1, { part: true }), ArgumentError, "`part`: it takes");
  await refuses(() => plain.peek("a", 1, { partial: 1 }), TypeError, "partial must be a boolean");
  await refuses(() => plain.reserve("a", 1, 9, { ttl: 1 }), ArgumentError, "`ttl`: it takes");
  await refuses(() => express(plain, { keys: 1 }), ArgumentError, "`keys`: it takes key, cost, headers");
});

test("other arguments", async () => {
  const plain = new Limiter("5/h");
  const decision = plain.checkSync("d");
  await refuses(() => new Limiter("1/s", { policy: 3 }), TypeError, "policy must be a string");
  await refuses(() => new Limiter("1/s", { policy: "a b" }), ArgumentError, "not the name of a policy");
  await refuses(() => new Limiter("1/s", { clock: 3 }), TypeError, "clock must be a ManualClock");
  await refuses(() => new Limiter("1/s", { clock: {} }), TypeError, "clock must be a ManualClock");
  await refuses(() => plain.headers(decision, "x"), ArgumentError, "headers is");
  await refuses(() => plain.headers({}), TypeError, "decision must be a Decision, not object");
  const charged = "decision must be a Decision, or its receipt, not null";
  await refuses(() => plain.refund(null), TypeError, charged);
  const client = (options) => new tollgate.ClientAddress(options);
  await refuses(() => client({ proxies: "10.0.0.1/8" }), ArgumentError, "proxies: ");
  await refuses(() => client({ proxies: 4 }), TypeError, "proxies must be a string");
  await refuses(() => client({ hops: 0 }), ArgumentError, "hops is 0: give a whole number from 1");
  await refuses(() => client({ header: "forwarded" }), ArgumentError, "header needs `proxies`");
  await refuses(() => client({ ipv6Prefix: 16 }), ArgumentError, "ipv6Prefix is 16: give");
  await refuses(() => new ManualClock().advance("1"), TypeError, "seconds must be a number");
  await refuses(() => new ManualClock(-1), ArgumentError, "atUs is -1: give a whole number");
  const times = "give a whole number from 0 to 2^53 - 1";
  await refuses(() => new ManualClock(NaN), ArgumentError, `atUs is NaN: ${times}`);
  await refuses(() => new ManualClock(2 ** 60), ArgumentError, "atUs is 1152921504606847000");
  await refuses(() => Limiter("1/s"), TypeError, "new");
});

test("an invalid ttl", async () => {
  const plain = new Limiter("5/h");
  for (const ttl of [0, -1, NaN, Infinity, Number.MAX_VALUE, -0]) {
    const right = `is ${ttl}: give seconds above 0, up to 366 days`;
    await refuses(() => plain.reserve("a", 1, ttl), ArgumentError, `ttl ${right}`);
    await refuses(() => plain.renew("a", ID, ttl), ArgumentError, `ttl ${right}`);
    await refuses(() => plain.unavailable(ttl), ArgumentError, `retryAfter ${right}`);
    await refuses(() => new ManualClock().advance(ttl), ArgumentError, `seconds ${right}`);
  }
  for (const ttl of [undefined, null, "1", true, 60n]) {
    await refuses(() => plain.reserve("a", 1, ttl), TypeError, "ttl must be a number of seconds");
  }
});

test("units that were used", async () => {
  const reservation = await new Limiter("5/h").reserve("used", 2, 60);
  await refuses(() => reservation.use(true), TypeError, "units must be a number");
  await refuses(() => reservation.use(1.5), ArgumentError, "units is 1.5: give");
  await refuses(() => reservation.use(-1), ArgumentError, "units is -1: give");
  await refuses(() => reservation.commit("1"), TypeError, "actual must be a number");
  await refuses(() => reservation.commit(NaN), ArgumentError, "actual is NaN: give");
  await refuses(() => reservation.renew("1"), TypeError, "ttl must be a number of seconds");
  assert.equal((await reservation.commit(0)).actual, 0);
});

test("a function without a key", async () => {
  const plain = new Limiter("5/h");
  for (const key of [null, 3, undefined]) {
    await refuses(() => plain.limit(key, () => 1), TypeError, "key must be a string or a function");
  }
  await refuses(() => plain.limit("a", 1), TypeError, "limited must be a function, not number");
  await refuses(() => plain.limit("a", () => 1, { cost: 1.5 }), ArgumentError, "cost is 1.5: give");
  const keyless = plain.limit(
    () => null,
    () => 3,
  );
  await refuses(() => keyless(), TypeError, "subject must be a string, not null");
});

test("options of middleware", async () => {
  const plain = new Limiter("5/h");
  const remote = new Limiter("1/s", { store: "redis://127.0.0.1:1" });
  for (const middleware of [express, hono]) {
    for (const [limiter, options, Class, what] of [
      ["10/s", {}, TypeError, "limiter must be a Limiter, not string"],
      [plain, { headers: "x" }, ArgumentError, 'headers is "x"'],
      [plain, { onFailure: "x" }, ArgumentError, 'onFailure is "x"'],
      [plain, { key: "ip" }, TypeError, "key must be a function"],
      [remote, {}, ArgumentError, "onFailure is missing"],
    ]) {
      await refuses(() => middleware(limiter, options), Class, what);
    }
    middleware(remote, { onFailure: "deny" });
  }
});

test("what is stolen from an object does nothing", async () => {
  const { check, checkSync } = new Limiter("1/h");
  await refuses(() => checkSync("a"), TypeError, "");
  await refuses(() => check("a"), TypeError, "");
  const fake = Object.create(Limiter.prototype);
  await refuses(() => fake.check("a"), TypeError, "");
  await refuses(
    () => new Limiter("1/h").headers(Object.create(tollgate.Decision.prototype)),
    TypeError,
    "",
  );
});

test("messages are in the words of JavaScript", async () => {
  const limiter = new Limiter("5/h");
  await refuses(() => limiter.acquire("a"), ArgumentError, "or reserve units (`reserve`)");
  await refuses(
    () => limiter.check("a", { requests: 0 }),
    ArgumentError,
    "as in `{ requests: 1, tokens: 800 }`",
  );
  const wrong = { proxies: "10.0.0.0/8", hops: 2, header: "x-real-ip" };
  await refuses(() => new ClientAddress(wrong), ArgumentError, "their networks, with `proxies`");
});
