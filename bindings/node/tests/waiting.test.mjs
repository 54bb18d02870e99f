// Waiting until a check is admitted: the order, how often the store is asked, and who leaves.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Limiter, ManualClock, StoreError } from "tollgate-limiter";
import { NO_REDIS, folder, redis, unique } from "./support.mjs";

/** Counts the questions of a limiter. */
function counting(limiter) {
  const { checkAll } = limiter;
  limiter.asked = 0;
  limiter.checkAll = function (...words) {
    limiter.asked += 1;
    return checkAll.apply(limiter, words);
  };
  return limiter;
}

test("tasks take turns, and a turn is one question", { skip: NO_REDIS }, async (t) => {
  const url = await redis();
  const stores = { memory: "memory://", sqlite: `sqlite://${folder()}/counts.db`, redis: url };
  for (const [kind, store] of Object.entries(stores)) {
    for (const limits of ["1/3ms via gcra", "4/12ms via sliding_log"]) {
      await t.test(`${limits} in ${kind}`, async () => {
        const limiter = counting(new Limiter(limits, { store, policy: unique() }));
        const order = [];
        const task = async (name) => {
          for (let turn = 0; turn < 8; turn += 1) {
            assert.ok((await limiter.untilReady("api", 60)).allowed);
            order.push(name);
          }
        };
        await Promise.all([0, 1, 2, 3, 4].map(task));
        for (let at = 0; at < 40; at += 5) {
          assert.equal(new Set(order.slice(at, at + 5)).size, 5, String(order));
        }
        assert.ok(limiter.asked >= 40 && limiter.asked <= 46, `${limiter.asked} questions`);
      });
    }
  }
});

test("one that is late has asked nothing", async () => {
  const limiter = counting(new Limiter("1/h via gcra"));
  assert.ok((await limiter.untilReady("api", 1)).allowed);
  assert.equal((await limiter.untilReady("api", 1)).outcome, "denied");
  const asked = limiter.asked;
  const away = new AbortController();
  const long = limiter.untilReady("api", Infinity, { signal: away.signal });
  assert.equal(await limiter.untilReady("api", 0.01), null);
  assert.equal(limiter.asked, asked + 1);
  const behind = limiter.untilReady("api", 60);
  away.abort(new Error("away"));
  await assert.rejects(long, /away/);
  // The line is free again, and nothing was charged.
  assert.equal((await behind).outcome, "denied");
  assert.equal((await limiter.untilReady("api", 1, { cost: 2 })).outcome, "never");
  await assert.rejects(limiter.untilReady("api", 1, { signal: away.signal }), /away/);
});

test("one that leaves in line holds up nobody", async () => {
  const limiter = new Limiter("1/30ms via uniform");
  assert.ok(limiter.checkSync("api").allowed);
  const aborts = [0, 1, 2, 3].map(() => new AbortController());
  const all = aborts.map(({ signal }) => limiter.untilReady("api", 60, { signal }));
  aborts[0].abort();
  aborts[2].abort();
  const done = await Promise.allSettled(all);
  assert.deepEqual(
    done.map(({ status }) => status),
    ["rejected", "fulfilled", "rejected", "fulfilled"],
  );
});

test("a manual clock is moved by the wait", async () => {
  const clock = new ManualClock();
  const limiter = new Limiter("10/s via gcra", { clock });
  await Promise.all([10, 4, 7, 1].map((cost) => limiter.untilReady("api", Infinity, { cost })));
  assert.equal(clock.atUs, 1_200_000);
});

test("bad words are refused, and leave the line free", async () => {
  const limiter = new Limiter("1/s");
  for (const timeout of [-1, NaN, "5", undefined]) {
    await assert.rejects(limiter.untilReady("api", timeout), /timeout/);
  }
  await assert.rejects(limiter.untilReady("", 1), /subject/);
  await assert.rejects(limiter.untilReady("api", 1, { costs: 2 }), /costs/);
  assert.ok((await limiter.untilReady("api", 1)).allowed);
});

test("a store that is away is an error", async () => {
  const limiter = new Limiter("1/s", { store: "redis://127.0.0.1:1?deadline=100ms" });
  await assert.rejects(limiter.untilReady("api", 10), StoreError);
});
