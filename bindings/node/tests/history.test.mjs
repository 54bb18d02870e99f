// Random histories, from a seed: memory, a file and a Redis give equal answers.
//
// Each decision is refunded once, and each hold settled once: how long a store remembers that it
// has done so, and that a count is fresh, is its own affair.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { HoldError, Limiter, ManualClock } from "tollgate-limiter";
import { NO_REDIS, folder, redis, unique } from "./support.mjs";

const SEED = Number(process.env.TOLLGATE_SEED ?? 1);
const QUESTIONS = 400;

const LIMITS = [
  "5/s via sliding_log, 20/10s via gcra",
  "10/s burst 15 via token_bucket",
  "8/2s via fixed_window, 3 at once hold 5s",
  "7/s via sliding_window, 100/h via uniform",
  "12/s via gcra, 4 at once",
];

/** Numbers from 0 to below 1, the same for the same seed (mulberry32). */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function numbersOf(decision) {
  const { allowed, outcome, granted, remaining, retryAfter, untilHold, resetAfter, limit } = decision;
  return {
    allowed,
    outcome,
    granted,
    remaining,
    retryAfter,
    untilHold,
    resetAfter,
    limit,
    text: `${decision}`,
    atUs: decision.atUs,
    limits: decision.limits,
  };
}

/** One limiter, with the decisions and holds that it gave. */
class Side {
  constructor(limits, store, policy) {
    this.clock = new ManualClock(1_000_000_000_000);
    this.limiter = new Limiter(limits, { store, policy, clock: this.clock });
    this.decisions = [];
    this.holds = [];
  }

  async ask({ word, subject, cost, pick, slots }) {
    const { limiter, decisions, holds } = this;
    try {
      if (word === "check" || word === "all" || word === "partial") {
        const several = () => limiter.checkAll([subject, "all"], cost);
        const part = () => limiter.checkAll([subject], cost, { partial: true });
        const decision = await (word === "check"
          ? limiter.check(subject, cost)
          : word === "all"
            ? several()
            : part());
        if (decision.allowed) decisions.push(decision);
        return numbersOf(decision);
      }
      if (word === "peek") return numbersOf(await limiter.peek(subject, cost));
      if (word === "charge") return await limiter.charge(subject, cost);
      if (word === "reset") return typeof (await limiter.reset(subject));
      if (word === "refund") {
        if (decisions.length === 0) return null;
        const [decision] = decisions.splice(pick % decisions.length, 1);
        return (await limiter.refund(decision)).given;
      }
      if (word === "reserve" || word === "acquire") {
        const hold =
          word === "reserve"
            ? await limiter.reserve(subject, cost, 3)
            : await limiter.acquire(subject, slots);
        if (hold.allowed) holds.push({ word, hold });
        return { ...numbersOf(hold.decision), endUs: hold.endUs };
      }
      if (holds.length === 0) return null;
      const at = pick % holds.length;
      if (word === "renew") return await holds[at].hold.renew();
      const [{ word: kind, hold }] = holds.splice(at, 1);
      return kind === "reserve" ? await hold.commit(cost - 1) : await hold.release();
    } catch (error) {
      if (error instanceof TypeError) throw error;
      return error instanceof HoldError ? "not open" : `${error.name} ${error.message}`;
    }
  }
}

const WORDS = [
  ..."check check check check all partial peek charge reset refund".split(" "),
  ..."reserve acquire settle settle renew".split(" "),
];

let url;
before(async () => {
  url = await redis();
});

for (const [index, limits] of LIMITS.entries()) {
  for (const kind of ["sqlite", "redis"]) {
    const name = `${limits}: memory and ${kind}, seed ${SEED}`;
    test(name, { skip: kind === "redis" && NO_REDIS }, async () => {
      const store = kind === "sqlite" ? `sqlite://${folder()}/counts.db` : url;
      const policy = unique();
      const [ours, other] = [
        new Side(limits, "memory://", policy),
        new Side(limits, store, policy),
      ];
      const next = random(SEED * 1000 + index);
      const below = (most) => Math.floor(next() * most);
      let admitted = 0;
      for (let at = 0; at < QUESTIONS; at += 1) {
        const question = {
          word: WORDS[below(WORDS.length)],
          subject: `user:${below(3)}`,
          cost: 1 + below(6),
          pick: below(1000),
          slots: 1 + below(2),
        };
        const step = (1 + below(400_000)) / 1e6;
        ours.clock.advance(step);
        other.clock.advance(step);
        const [one, two] = [await ours.ask(question), await other.ask(question)];
        assert.deepEqual(two, one, `question ${at}: ${JSON.stringify(question)}`);
        admitted += one?.allowed ? 1 : 0;
      }
      assert.ok(admitted > QUESTIONS / 20, `only ${admitted} were admitted`);
      other.limiter.close();
    });
  }
}
