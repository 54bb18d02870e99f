// An aborted acquire or reserve holds nothing.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Limiter } from "tollgate-limiter";
import { NO_REDIS, folder, redis, unique, waitUntil } from "./support.mjs";

/** How often each is tried. */
const TRIES = 300;

let url;
before(async () => {
  url = await redis();
});

/** The URL of a fresh store of each kind; on Redis, of one that others use too. */
const STORES = {
  memory: () => "memory://",
  sqlite: () => `sqlite://${folder()}/holds.db`,
  redis: () => url,
};

for (const kind of Object.keys(STORES)) {
  const skip = kind === "redis" && NO_REDIS;
  for (const [what, limits, hold, give] of [
    [
      "an acquire",
      "1000 at once hold 2m",
      (limiter, given) => limiter.acquire("a", 1, given),
      (slot) => slot.release(),
    ],
    [
      "a reserve",
      "1000/d via fixed_window",
      (limiter, given) => limiter.reserve("a", 1, 120, given),
      async (reservation) => !(await reservation.cancel()).already,
    ],
  ]) {
    test(`${what} that was aborted holds nothing in ${kind}`, { skip }, async () => {
      const limiter = new Limiter(limits, { store: STORES[kind](), policy: unique() });
      const left = async () => (await limiter.peek("a")).remaining;
      await left();
      const kept = [];
      let aborted = 0;
      async function once(number) {
        const controller = new AbortController();
        const told = hold(limiter, { signal: controller.signal }).then(
          (hold) => {
            assert.ok(hold.allowed);
            kept.push(hold);
          },
          (error) => {
            assert.equal(error, "gone");
            aborted += 1;
          },
        );
        for (let turns = 0; turns < number % 7; turns += 1) await turn();
        controller.abort("gone");
        await told;
      }
      for (let first = 0; first < TRIES; first += 10) {
        await Promise.all(Array.from({ length: 10 }, (_, place) => once(first + place)));
      }
      assert.equal(kept.length + aborted, TRIES);
      // Memory has answered before anybody can abort.
      assert.ok(kind === "memory" ? aborted === 0 : aborted > 20, `${aborted} were aborted`);
      await waitUntil(async () => (await left()) === 1_000 - kept.length, "what was held");
      for (const hold of kept) assert.ok(await give(hold));
      await waitUntil(async () => (await left()) === 1_000, "what was kept");
      limiter.close();
    });
  }
}

for (const kind of ["sqlite", "redis"]) {
  const skip = kind === "redis" && NO_REDIS;
  test(`who aborts may ask again under the same id in ${kind}`, { skip }, async () => {
    const store = STORES[kind]();
    const limiter = new Limiter("1000 at once hold 2m", { store, policy: unique() });
    await limiter.peek("a");
    async function twice(number) {
      const id = `${unique()}-${number}`.padEnd(16, "0");
      const controller = new AbortController();
      const told = limiter
        .acquire("a", 1, { id, signal: controller.signal })
        .catch((error) => assert.equal(error, "gone"));
      for (let turns = 0; turns < number % 7; turns += 1) await turn();
      controller.abort("gone");
      await told;
      const slot = await limiter.acquire("a", 1, { id });
      // Giving back the first answer leaves the hold of the second.
      for (let turns = 0; turns < 3; turns += 1) await limiter.peek("b");
      assert.ok(slot.allowed && (await slot.release()), `${number}`);
    }
    for (let first = 0; first < TRIES; first += 10) {
      await Promise.all(Array.from({ length: 10 }, (_, place) => twice(first + place)));
    }
    const left = async () => (await limiter.peek("a")).remaining;
    await waitUntil(async () => (await left()) === 1_000, "what was held");
    limiter.close();
  });
}

test("a signal that has aborted asks nothing", async () => {
  const limiter = new Limiter("2 at once");
  const signal = AbortSignal.abort("gone");
  await assert.rejects(limiter.acquire("a", 1, { signal }), (error) => error === "gone");
  assert.equal((await limiter.peek("a")).remaining, 2);
  const controller = new AbortController();
  const slot = await limiter.acquire("a", 1, { signal: controller.signal });
  controller.abort();
  assert.ok(await slot.release(), "an abort after the answer changes nothing");
  const wrong = { name: "TypeError", message: "signal must be an AbortSignal, not number" };
  await assert.rejects(limiter.acquire("a", 1, { signal: 7 }), wrong);
  const unknown = { name: "ArgumentError", message: /`sginal`: it takes id, waiting, signal/ };
  await assert.rejects(limiter.acquire("a", 1, { sginal: 7 }), unknown);
});
