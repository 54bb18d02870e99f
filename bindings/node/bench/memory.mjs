// `check` in memory beside the memory limiter of rate-limiter-flexible.
//
// Each is asked for one subject, and for a thousand in turns, under a limit that admits all of it,
// and of each the median of the rounds counts. It needs the package of release and
// rate-limiter-flexible:
//
//     node bench/memory.mjs [ROUNDS]

import { RateLimiterMemory } from "rate-limiter-flexible";
import { Limiter } from "tollgate-limiter";

const CALLS = 50_000;
const UNITS = 1_000_000;

// The required ratio of the awaited checks.
const BAR = 1;

const subjects = Array.from({ length: 1000 }, (_, index) => `user:${index}`);

const peer = new RateLimiterMemory({ points: 1e9, duration: 60 });
const of = (limits) => new Limiter(limits);
const fixed = of(`${UNITS}/s via fixed_window`);
const gcra = of(`${UNITS}/s via gcra`);
const two = of("1000000/s via gcra, 90000000/m via gcra");

/** By name, each with its own loop: a shared one would not be compiled for any of them. */
const ROUNDS = {
  "rate-limiter-flexible": async (next) => {
    for (let call = 0; call < CALLS; call += 1) await peer.consume(next(call));
  },
  "tollgate fixed_window": async (next) => {
    for (let call = 0; call < CALLS; call += 1) await fixed.check(next(call));
  },
  "tollgate gcra": async (next) => {
    for (let call = 0; call < CALLS; call += 1) await gcra.check(next(call));
  },
  "tollgate two limits": async (next) => {
    for (let call = 0; call < CALLS; call += 1) await two.check(next(call));
  },
  "tollgate fixed_window, checkSync": async (next) => {
    for (let call = 0; call < CALLS; call += 1) fixed.checkSync(next(call));
  },
  "tollgate gcra, checkSync": async (next) => {
    for (let call = 0; call < CALLS; call += 1) gcra.checkSync(next(call));
  },
};
const PEER = "rate-limiter-flexible";

function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

const rounds = Number(process.argv[2] ?? 21);
const WAYS = {
  "one subject": () => subjects[42],
  "a thousand subjects": (call) => subjects[call % subjects.length],
};
for (const [way, next] of Object.entries(WAYS)) {
  const times = Object.fromEntries(Object.keys(ROUNDS).map((name) => [name, []]));
  for (let round = -3; round < rounds; round += 1) {
    for (const [name, run] of Object.entries(ROUNDS)) {
      const start = process.hrtime.bigint();
      await run(next);
      const nanoseconds = Number(process.hrtime.bigint() - start) / CALLS;
      // The first rounds are for the compiler.
      if (round >= 0) times[name].push(nanoseconds);
    }
  }
  console.log(
    `Node ${process.version}, ${way}, ${rounds} rounds of ${CALLS} calls, ns a call, medians`,
  );
  const theirs = median(times[PEER]);
  for (const [name, of] of Object.entries(times)) {
    const ratio = theirs / median(of);
    const verdict = name === PEER ? "" : ratio >= BAR ? "holds" : "is missed";
    const line = `${name.padEnd(34)} ${median(of).toFixed(0).padStart(6)}`;
    console.log(`${line}  ${ratio.toFixed(2)} times ${PEER} ${verdict}`);
  }
}
