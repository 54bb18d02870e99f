// Who aborts an acquire or a reserve holds nothing.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Limiter } from "tollgate";
import { NO_REDIS, folder, redis, unique, waitUntil } from "./support.mjs";

/** How often each is tried. */
const TRIES = 300;

let url;
before(async () => {
  url = await redis();
});

for (const kind of ["sqlite", "redis"]) {
  const skip = kind === "redis" && NO_REDIS;
  test(`what was aborted holds nothing in ${kind}`, { skip }, async () => {
    const store = kind === "redis" ? url : `sqlite://${folder()}/holds.db`;
    const slots = new Limiter("1000 at once hold 2m", { store, policy: unique() });
    const tokens = new Limiter("1000/d via fixed_window", { store, policy: unique() });
    await slots.peek("a");
    let [kept, aborted] = [0, 0];
    async function once(number) {
      const controller = new AbortController();
      const { signal } = controller;
      const asked =
        number % 2 ? slots.acquire("a", 1, { signal }) : tokens.reserve("a", 1, 120, { signal });
      const told = asked.then(
        (hold) => {
          assert.ok(hold.allowed);
          kept += 1;
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
    assert.ok(aborted > 20, `${aborted} were aborted`);
    const left = async () =>
      (await slots.peek("a")).remaining + (await tokens.peek("a")).remaining;
    await waitUntil(async () => (await left()) === 2_000 - kept, "what was held");
    slots.close();
    tokens.close();
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
  const unknown = { name: "ArgumentError", message: /`sginal`: it takes signal/ };
  await assert.rejects(limiter.acquire("a", 1, { sginal: 7 }), unknown);
});
