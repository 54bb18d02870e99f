// Counts that Node shares with the program `tollgate`, on one store.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { before, test } from "node:test";
import { Limiter } from "tollgate";
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
    assert.deepEqual([denied.allowed, denied.limit], [false, "7/d burst 7 via gcra"]);
    assert.ok(await limiter.reset(subject));
    assert.equal(byProgram("check").allowed, true);
    assert.equal((await limiter.peek(subject)).remaining, 6);
    limiter.close();
  });
}
