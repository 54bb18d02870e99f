// The time lines of `vectors/` through Node, in memory and on a Redis.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { Limiter, Limits, ManualClock } from "tollgate-limiter";
import { NO_REDIS, ROOT, microseconds, redis, timelines, us, whole } from "./support.mjs";

const STRATEGIES = "fixed_window gcra sliding_log sliding_window token_bucket uniform".split(" ");
const FILES = STRATEGIES.flatMap((name) => {
  const folder = join(ROOT, "vectors", name);
  const files = readdirSync(folder).filter((file) => file.endsWith(".txt"));
  return files.sort().map((file) => ({ name: `${name}/${file}`, path: join(folder, file) }));
});

/** What the columns `allow`, `remaining`, `retry` and `reset` say. */
async function asked(limiter, subject, limits, cost) {
  const [number, word] = cost.split(" ").reverse();
  const units = whole(number);
  if (word === "charge") {
    const [charged] = await limiter.charge(subject, units);
    const allow = charged.fits ? "yes" : charged.cut ? `cuts ${charged.cut}` : "owes";
    return [allow, charged.remaining, us(charged.retryAfter), us(charged.resetAfter)];
  }
  const ask = {
    peek: () => limiter.peek(subject, units),
    partial: () => limiter.checkAll([subject], units, { partial: true }),
  };
  const usual = () =>
    // Both ways to check are asked, in turns.
    number % 2 ? limiter.check(subject, units) : limiter.checkAll([[subject, limits]], units);
  const decision = await (ask[word] ?? usual)();
  let allow = decision.allowed ? "yes" : decision.outcome === "never" ? "never" : "no";
  if (word === "partial") allow = `${decision.granted}`;
  const wait = decision.allowed ? 0 : us(decision.retryAfter);
  return [allow, decision.remaining, wait, us(decision.resetAfter)];
}

let url;
before(async () => {
  url = await redis();
});

for (const kind of ["memory", "redis"]) {
  for (const { name, path } of FILES) {
    test(`${name} in ${kind}`, { skip: kind === "redis" && NO_REDIS }, async () => {
      let count = 0;
      for (const [index, { limits, lines }] of timelines(path, "limit:").entries()) {
        const clock = new ManualClock();
        const store = kind === "memory" ? "memory://" : url;
        const limiter = new Limiter(limits, { store, clock });
        const parsed = new Limits(limits);
        for (const { number, columns } of lines) {
          const [at, cost, allow, remaining, retry, reset] = columns;
          clock.set(microseconds(at));
          const wait = retry === "-" ? null : microseconds(retry);
          const expected = [allow.replaceAll("_", ""), whole(remaining), wait, microseconds(reset)];
          const answer = await asked(limiter, `line:${index}`, parsed, cost);
          assert.deepEqual(answer, expected, `${name}:${number}`);
          count += 1;
        }
      }
      assert.ok(count >= 3, `${name} asks next to nothing`);
    });
  }
}

test("all strategies are there", () => assert.ok(FILES.length >= 20));
