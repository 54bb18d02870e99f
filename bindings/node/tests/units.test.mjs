// Costs of several units.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ArgumentError, Limiter } from "tollgate-limiter";

const LIMITS = "60/h via gcra, 100000/h of tokens via gcra";
const BOTH = { requests: 1, tokens: 1 };

/** The remaining amount of each limit. */
async function left(limiter) {
  const peek = await limiter.peek("bob", BOTH);
  return peek.limits.map(({ remaining }) => remaining);
}

test("each limit counts its unit", async () => {
  const limiter = new Limiter(LIMITS);
  const decision = await limiter.check("bob", { requests: 1, tokens: 800 });
  const seen = decision.limits.map(({ unit, remaining }) => [unit, remaining]);
  assert.deepEqual(seen, [
    ["requests", 59],
    ["tokens", 99_200],
  ]);
  // The requests admit 59 more of them, and the tokens 124.
  assert.deepEqual([decision.unit, decision.remaining, decision.limit], ["requests", 59, 60]);
  const denied = await limiter.check("bob", { requests: 1, tokens: 99_201 });
  assert.deepEqual([denied.allowed, denied.unit], [false, "tokens"]);
  assert.deepEqual((await limiter.refund(decision)).given, [1, 800]);
  assert.deepEqual(await left(limiter), [60, 100_000]);
});

test("a commit names some of the units", async () => {
  const limiter = new Limiter(LIMITS);
  const estimate = { requests: 1, tokens: 4_000 };
  const reserve = (given) => limiter.reserve("bob", estimate, 60, given);
  const held = await reserve({ chargeAtEnd: true });
  held.use({ tokens: 800 });
  held.use({ tokens: 512 });
  await held.end();
  assert.deepEqual(await left(limiter), [59, 98_688]);
  const free = await reserve();
  const settled = await free.commit({ tokens: 688 });
  assert.deepEqual([settled.already, settled.actual], [false, { tokens: 688 }]);
  assert.deepEqual((await free.commit({ tokens: 1 })).actual, { tokens: 688 });
  assert.equal((await (await reserve({ chargeAtEnd: true })).cancel()).actual, 0);
  assert.equal((await limiter.charge("bob", { tokens: 1_000 }))[1].remaining, 97_000);
  assert.deepEqual(await left(limiter), [59, 97_000]);
});

test("bad costs are refused", async () => {
  const limiter = new Limiter(LIMITS);
  const wrong = [
    [{ requests: 1, token: 5 }, "no limit counts `token`"],
    [{ Tokens: 5 }, "not the name of a unit"],
    [{ tokens: 0 }, "without any amount above 0"],
    [{ tokens: -1 }, "cost.tokens is -1"],
    [{ tokens: 2 ** 41 }, "cost.tokens is 2199023255552"],
    [{}, "without any amount above 0"],
  ];
  for (const [cost, says] of wrong) {
    await assert.rejects(limiter.check("bob", cost), (error) => {
      assert.ok(error instanceof ArgumentError && error.message.includes(says), error.message);
      return true;
    });
  }
  await assert.rejects(limiter.check("bob", { tokens: "5" }), TypeError);
  await assert.rejects(limiter.check("bob", { valueOf: () => 1 }), TypeError);
  await assert.rejects(limiter.acquire("bob", { slots: 1 }), TypeError);
  assert.throws(() => limiter.checkSync("bob", BOTH), TypeError);
});
