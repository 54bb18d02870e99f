// Tests of programs: time that a test moves, fake timers, and several copies of the package.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { afterEach, mock, test } from "node:test";
import { join } from "node:path";
import { Limiter, ManualClock } from "tollgate-limiter";
import { followDate, freeze, unfreeze } from "tollgate-limiter/testing";
import * as testing from "tollgate-limiter/testing";
import { HERE, NO_REDIS, redis, unique } from "./support.mjs";

afterEach(() => {
  unfreeze();
  mock.timers.reset();
});

test("time that is stopped is that of all limiters without a clock", async () => {
  const own = new ManualClock();
  const [before, owning] = [new Limiter("1/m"), new Limiter("1/m", { clock: own })];
  assert.ok(before.checkSync("a").allowed && owning.checkSync("a").allowed);
  const clock = freeze(5_000_000);
  const after = new Limiter("1/m");
  for (const limiter of [before, after]) {
    const decision = limiter.checkSync("a");
    assert.deepEqual([decision.allowed, decision.atUs], [true, 5_000_000]);
    assert.equal((await limiter.check("a")).retryAfter, 60);
  }
  clock.advance(60);
  assert.ok(before.checkSync("a").allowed && (await after.check("a")).allowed);
  // Its own clock is its own, with its counts.
  assert.equal(owning.checkSync("a").allowed, false);
  assert.ok(testing.ManualClock === ManualClock && clock instanceof ManualClock);

  const closed = new Limiter("1/m");
  closed.close();
  unfreeze();
  assert.ok(Math.abs(before.checkSync("a").atUs / 1000 - Date.now()) < 60_000);
  assert.throws(() => closed.checkSync("a"), /closed/);
  assert.throws(() => freeze(-1), /atUs is -1/);
});

test("limiters tell the time of fake timers", async () => {
  const limiter = new Limiter("2/m");
  mock.timers.enable({ apis: ["Date", "setTimeout", "setInterval"], now: 1_000_000 });
  followDate();
  assert.equal(limiter.checkSync("a").atUs, 1_000_000_000);
  assert.ok((await limiter.checkAll(["a", "b"])).allowed);
  assert.equal(limiter.checkSync("a").retryAfter, 60);
  const waiting = limiter.untilReady("a", 60);
  // Until it has its timer.
  await new Promise(setImmediate);
  mock.timers.tick(60_000);
  assert.ok((await waiting).allowed);
});

test("time that is stopped is that of Redis too", { skip: NO_REDIS }, async () => {
  const limiter = new Limiter("1/m", { store: await redis(), policy: unique() });
  const clock = freeze();
  assert.ok((await limiter.check("a")).allowed);
  assert.equal((await limiter.check("a")).retryAfter, 60);
  clock.advance(60);
  assert.ok((await limiter.check("a")).allowed);
  limiter.close();
});

test("fake timers do not stop Redis", { skip: NO_REDIS }, async () => {
  const limiter = new Limiter("9/m", { store: await redis(), policy: unique() });
  const fake = mock.method(process, "nextTick", () => {});
  const all = await Promise.all([1, 2, 3].map(() => limiter.check("a")));
  fake.mock.restore();
  assert.deepEqual(all.map((it) => it.remaining), [8, 7, 6]);
  limiter.close();
});

test("copies of the package in one thread work beside each other", async () => {
  const require = createRequire(join(HERE, "x.js"));
  const first = require("tollgate-limiter");
  const loaded = Object.keys(require.cache).filter((it) => /tollgate-limiter.lib/.test(it));
  assert.ok(loaded.length > 8, `${loaded.length}`);
  // As `jest.resetModules()` does: the native module stays.
  for (const path of loaded) delete require.cache[path];
  const second = require("tollgate-limiter");
  assert.notEqual(first.Limiter, second.Limiter);
  const url = NO_REDIS ? "memory://" : await redis();
  const each = [first, second].map(({ Limiter }) => new Limiter("9/h"));
  const remote = [first, second].map((it) => new it.Limiter("9/h", { store: url, policy: unique() }));
  for (let left = 8; left > 5; left -= 1) {
    for (const limiter of [...each, ...remote]) {
      assert.equal((await limiter.check("a")).remaining, left);
    }
  }
  for (const [at, { ArgumentError, LimitError, Limiter }] of [first, second].entries()) {
    await assert.rejects(each[at].check("a", 0), ArgumentError);
    await assert.rejects(remote[at].check("a".repeat(70_000)), ArgumentError);
    assert.throws(() => new Limiter("x"), LimitError);
  }
  for (const limiter of remote) limiter.close();
});
