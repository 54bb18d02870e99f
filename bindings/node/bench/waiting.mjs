// Whose turn it is: 50 tasks under 20/s for 20 s, beside a loop, bottleneck, limiter, and the queue
// of rate-limiter-flexible. Of each it prints the least and the most turns of a task, the longest
// wait, all turns, and how often the limiter was asked. It needs these packages and any build:
//
//     node bench/waiting.mjs [SECONDS]

import Bottleneck from "bottleneck";
import { RateLimiter } from "limiter";
import { RateLimiterMemory, RateLimiterQueue } from "rate-limiter-flexible";
import { Limiter } from "tollgate-limiter";

const TASKS = 50;
const RATE = 20;
const seconds = Number(process.argv[2] ?? 20);

/** A limiter that counts its questions. */
function asked(limits) {
  const limiter = new Limiter(limits);
  const { checkAll } = limiter;
  const side = { limiter, count: 0 };
  limiter.checkAll = (...words) => {
    side.count += 1;
    return checkAll.apply(limiter, words);
  };
  return side;
}

const inLine = (side) => ({ wait: () => side.limiter.untilReady("api", Infinity), side });

function byLoop(side) {
  const wait = async () => {
    for (;;) {
      const { allowed, retryAfter } = await side.limiter.checkAll(["api"]);
      if (allowed) return;
      await new Promise((resolve) => setTimeout(resolve, retryAfter * 1000));
    }
  };
  return { wait, side };
}

/** The turns of each task, and the longest wait. */
async function run(wait) {
  // The first units are free to take before others have come.
  for (let unit = 0; unit < RATE; unit += 1) await wait();
  const end = performance.now() + seconds * 1000;
  let longest = 0;
  const task = async () => {
    for (let turns = 0; ; turns += 1) {
      const start = performance.now();
      await wait();
      const now = performance.now();
      longest = Math.max(longest, now - start);
      if (now > end) return turns;
    }
  };
  const turns = await Promise.all(Array.from({ length: TASKS }, task));
  return { turns, longest: longest / 1000 };
}

const bottleneck = new Bottleneck({
  reservoir: RATE,
  reservoirRefreshAmount: RATE,
  reservoirRefreshInterval: 1000,
});
const bucket = new RateLimiter({ tokensPerInterval: RATE, interval: "second" });
const queue = new RateLimiterQueue(new RateLimiterMemory({ points: RATE, duration: 1 }));
const sides = {
  "untilReady, via gcra": inLine(asked("20/s via gcra")),
  "untilReady, via sliding_log": inLine(asked("20/s")),
  "check and setTimeout": byLoop(asked("20/s")),
  bottleneck: { wait: () => bottleneck.schedule(async () => {}) },
  limiter: { wait: () => bucket.removeTokens(1) },
  "rate-limiter-flexible, queue": { wait: () => queue.removeTokens(1) },
};

console.log(`${"".padEnd(30)} least  most  longest  turns  asked`);
for (const [name, { wait, side }] of Object.entries(sides)) {
  const { turns, longest } = await run(wait);
  const figures = [Math.min(...turns), Math.max(...turns), `${longest.toFixed(2)} s`];
  const all = [...figures, turns.reduce((sum, it) => sum + it, 0), side?.count ?? ""];
  const [least, most, wait_, sum, count] = all.map(String);
  const cells = [least.padStart(5), most.padStart(5), wait_.padStart(8), sum.padStart(6)];
  console.log(`${name.padEnd(30)} ${cells.join(" ")} ${count.padStart(6)}`);
}
await bottleneck.disconnect();
process.exit(0);
