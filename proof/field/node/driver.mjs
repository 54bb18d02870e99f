// Asks the rate limiters of some npm packages, for `tollgate judge --command`.
//
//   node driver.mjs NAME COUNT PERIOD_S (costs|single)
//
// The clock is `now_us` of each question: Node's own mocked timers stand for `Date` and `setTimeout`.
// No package says that a cost is never admitted; where it denies one above COUNT, the reply does.

import { createInterface } from "node:readline";
import { mock } from "node:test";

const [name, count, period] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const costs = process.argv[5] === "costs";

async function flexible() {
  const { RateLimiterMemory } = (await import("rate-limiter-flexible")).default;
  const limiter = new RateLimiterMemory({ points: count, duration: period });
  return async (subject, cost) => {
    let allowed = true;
    const seen = await limiter.consume(subject, cost).catch((refused) => {
      allowed = false;
      return refused;
    });
    const reply = { allowed, remaining: seen.remainingPoints };
    return allowed ? reply : { ...reply, retry_after_us: seen.msBeforeNext * 1_000 };
  };
}

async function express() {
  const { rateLimit } = await import("express-rate-limit");
  const limiter = rateLimit({
    windowMs: period * 1_000,
    limit: count,
    keyGenerator: (request) => request.subject,
    standardHeaders: "draft-6",
    legacyHeaders: false,
    validate: false,
  });
  return (subject) =>
    new Promise((resolve, reject) => {
      const headers = {};
      const done = (allowed) => {
        const reply = { allowed, remaining: Number(headers["ratelimit-remaining"]) };
        const wait = Number(headers["retry-after"] ?? headers["ratelimit-reset"]);
        resolve(allowed ? reply : { ...reply, retry_after_us: wait * 1_000_000 });
      };
      const response = {
        headersSent: false,
        writableEnded: false,
        setHeader: (header, value) => (headers[header.toLowerCase()] = value),
        append: (header, value) => (headers[header.toLowerCase()] = value),
        status: () => response,
        send: () => done(false),
        on: () => response,
      };
      const next = (error) => (error ? reject(error) : done(true));
      Promise.resolve(limiter({ subject, headers: {}, app: { get: () => 0 } }, response, next)).catch(reject);
    });
}

async function bottleneck() {
  const { default: Bottleneck } = await import("bottleneck");
  const limiters = new Map();
  const made = () =>
    new Bottleneck({
      reservoir: count,
      reservoirRefreshAmount: count,
      reservoirRefreshInterval: period * 1_000,
      highWater: 0,
      strategy: Bottleneck.strategy.OVERFLOW,
    });
  // Jobs, and its answers, wait for timers of 0 ms.
  const settled = async (promise) => {
    for (let turn = 0; turn < 4; turn += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      mock.timers.tick(0);
    }
    return promise;
  };
  return async (subject, cost) => {
    const limiter = limiters.get(subject) ?? made();
    limiters.set(subject, limiter);
    const asked = limiter.schedule({ weight: cost }, async () => true).catch(() => false);
    const allowed = await settled(asked);
    return { allowed, remaining: await settled(limiter.currentReservoir()) };
  };
}

const packages = {
  "rate-limiter-flexible": flexible,
  "express-rate-limit": express,
  bottleneck,
};
const open = packages[name];
console.log(JSON.stringify({ judge: 1, clock: true, costs }));

let ask;
let now;
for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  const then = Math.floor(question.now_us / 1_000);
  if (ask === undefined) {
    mock.timers.enable({ apis: ["Date", "setTimeout", "setInterval"], now: then });
    ask = await open();
  } else if (then > now) {
    mock.timers.tick(then - now);
  }
  now = then;
  let reply;
  try {
    reply = await ask(question.subject, question.cost);
  } catch (error) {
    reply = { error: String(error) };
  }
  if (reply.allowed === false && question.cost > count) {
    reply = { allowed: false, never: true };
  }
  // They count in milliseconds.
  console.log(JSON.stringify({ ask: question.ask, now_us: then * 1_000, ...reply }));
}
process.exit(0);
