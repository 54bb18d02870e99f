// Counts that Node shares with the program `tollgate`, on one store.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { before, test } from "node:test";
import { Limiter } from "tollgate-limiter";
import { NO_REDIS, PROGRAM, folder, redis, unique } from "./support.mjs";

let url;
before(async () => {
  url = await redis();
});

for (const kind of ["sqlite", "redis"]) {
  const skip = PROGRAM === undefined ? "TOLLGATE_BIN is not there" : kind === "redis" && NO_REDIS;
  test(`a count is one for both in ${kind}`, { skip }, async () => {
    const store = kind === "redis" ? url : `sqlite://${folder()}/counts.db`;
    const [subject, limit] = [`user:${unique()}`, "10/h, 7/d burst 7 via gcra"];
    const limiter = new Limiter(limit, { store });

    function byProgram(word, ...more) {
      const words = [word, subject, "--limit", limit, "--store", store, "--json", ...more];
      const done = spawnSync(PROGRAM, words, { encoding: "utf8" });
      assert.ok(done.status === 0 || done.status === 1, done.stderr);
      return JSON.parse(done.stdout);
    }

    assert.equal((await limiter.check(subject, 2)).remaining, 5);
    assert.equal(byProgram("check", "--cost", "3").allowed, true);
    assert.equal((await limiter.peek(subject)).remaining, 2);
    assert.equal((await limiter.check(subject, 2)).remaining, 0);
    assert.equal(byProgram("check").allowed, false);
    const denied = await limiter.check(subject);
    assert.deepEqual([denied.allowed, denied.limits[denied.binding].limit],
      [false, "7/d burst 7 via gcra"],
    );
    assert.ok(await limiter.reset(subject));
    assert.equal(byProgram("check").allowed, true);
    assert.equal((await limiter.peek(subject)).remaining, 6);
    limiter.close();
  });
}

const skip = PROGRAM === undefined ? "TOLLGATE_BIN is not there" : NO_REDIS;
test("a prefix keeps environments apart", { skip }, async () => {
  const name = unique();
  const [subject, limit] = [`user:${name}`, "2/h, 1 at once"];
  const urls = [url, ...["staging", "prod"].map((of) => `${url}&prefix=${name}-${of}`)];
  const limiters = urls.map((store) => new Limiter(limit, { store }));
  let slot;
  for (const [turn, limiter] of limiters.entries()) {
    // Whatever the environments before did, this one is fresh, and so is its hold.
    slot = await limiter.acquire(subject);
    assert.ok(slot.allowed, urls[turn]);
    assert.equal((await limiter.acquire(subject)).allowed, false);
    const allowed = urls.map((store) => {
      const words = ["peek", subject, "--limit", limit, "--json", "--store", store];
      return JSON.parse(spawnSync(PROGRAM, words, { encoding: "utf8" }).stdout).allowed;
    });
    assert.deepEqual(allowed, [turn < 0, turn < 1, turn < 2]);
  }
  // A limiter that ends in one environment ends in no other.
  assert.ok(await slot.release());
  const [plain, staging, prod] = limiters;
  assert.equal((await plain.peek(subject)).remaining, 0);
  assert.ok(await prod.reset(subject));
  assert.equal((await staging.peek(subject)).remaining, 0);
  for (const limiter of limiters) limiter.close();
});
