"use strict";
// Waiting until a check is admitted, in the order of arrival.

const { abortSignal, options, seconds, text, wrongType } = require("./arguments.js");
const { madeOf } = require("./decision.js");
const { ArgumentError, call } = require("./errors.js");
const { native } = require("./native.js");

/** The longest time of a timer, in seconds. After a pause of this length the store is asked again. */
const LONGEST_PAUSE = (2 ** 31 - 1) / 1000;

/**
 * Waits so many seconds: false when they are over, and true where `turn.begin` is called before.
 * It fails where `signal` aborts.
 */
function wait(time, signal, turn = {}) {
  return new Promise((resolve, reject) => {
    const end = (settle, value) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      settle(value);
    };
    const abort = () => end(reject, signal.reason);
    turn.begin = () => end(resolve, true);
    // A timer may end a part of a millisecond early.
    const ms = Math.ceil(time * 1000);
    const timer = time > LONGEST_PAUSE ? undefined : setTimeout(() => end(resolve, false), ms);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}

/** The time in seconds, by a clock that does not go back, or a test's. */
const nowBy = (clock) => (clock === undefined ? performance.now() / 1000 : clock.atUs / 1e6);

/** The waiters for one subject. Only the first asks the store. */
class Line {
  /** For each waiter the function that gives it its turn. */
  waiters = [];
  #pace = native.pace();
  /** No check of this cost is admitted before this time. Two objects are two costs. */
  #next = { cost: undefined, at: 0 };
  #clock;

  constructor(clock) {
    this.#clock = clock;
  }

  now() {
    return nowBy(this.#clock);
  }

  /** Waits for its turn; false where that does not come within so many seconds. */
  enter(turn, time, signal) {
    this.waiters.push(turn);
    if (this.waiters.length === 1) return true;
    return wait(time, signal, turn);
  }

  /** Leaves, and gives the turn to the next where it was the first. */
  leave(turn) {
    const at = this.waiters.indexOf(turn);
    this.waiters.splice(at, 1);
    if (at === 0) this.waiters[0]?.begin();
  }

  /** Pauses, or moves a test's clock in place of that. */
  async pause(time, signal) {
    // A time that follows `Date` comes with timers that do.
    if (this.#clock?.advance === undefined) return wait(Math.min(time, LONGEST_PAUSE), signal);
    return this.#clock.advance(time);
  }

  /**
   * The part of the first: asks until it is admitted, or has to wait beyond the end. `until` is the
   * time before which no turn begins; null where that is beyond the end.
   */
  async ask(question, cost, { end, until, signal }) {
    const known = this.#next.cost === cost ? this.#next.at - this.now() : 0;
    // Where that is too long, the denial has the wait.
    if (known > 0 && known <= end - this.now()) await this.pause(known, signal);
    for (;;) {
      // A response may have asked for a wait while this one slept.
      for (let at; (at = until()) > this.now(); ) {
        if (at > end) return null;
        await this.pause(at - this.now(), signal);
      }
      const decision = await question();
      if (decision.allowed) {
        const wait = call(native.admitted, this.#pace, madeOf(decision));
        this.#next = { cost, at: this.now() + wait };
        return decision;
      }
      const { retryAfter } = decision;
      if (retryAfter === null || retryAfter > end - this.now()) return decision;
      await this.pause(retryAfter, signal);
    }
  }

  /** Nobody is in it any more. */
  end() {
    native.forgetPace(this.#pace);
  }
}

/** The lines of a limiter, by subject. */
class Lines {
  #lines = new Map();
  /** For subjects the time before which no turn begins. */
  #until = new Map();
  #clock;

  constructor(clock) {
    this.#clock = clock;
  }

  /** `Limiter.backOff`. */
  backOff(subject, time) {
    text(subject, "subject");
    seconds(time, "seconds");
    const now = nowBy(this.#clock);
    for (const [other, at] of this.#until) if (at <= now) this.#until.delete(other);
    this.#until.set(subject, Math.max(this.#until.get(subject) ?? 0, now + time));
  }

  /** `Limiter.untilReady`. */
  async untilReady(limiter, subject, timeout, given) {
    const { cost = 1, signal } = options(given, ["cost", "signal"]);
    text(subject, "subject");
    if (typeof timeout !== "number") wrongType(timeout, "timeout", "a number of seconds");
    if (!(timeout >= 0)) {
      throw new ArgumentError(`timeout is ${timeout}: give seconds of 0 or more, or Infinity`);
    }
    if (signal !== undefined) abortSignal(signal, "signal").throwIfAborted();
    const line = this.#lines.get(subject) ?? new Line(this.#clock);
    this.#lines.set(subject, line);
    const end = line.now() + timeout;
    const turn = { begin: () => {} };
    try {
      if (!(await line.enter(turn, timeout, signal))) return null;
      const question = () => limiter.checkAll([subject], cost, { waiting: "again" });
      const until = () => this.#until.get(subject) ?? 0;
      return await line.ask(question, cost, { end, until, signal });
    } finally {
      line.leave(turn);
      if (line.waiters.length === 0) {
        this.#lines.delete(subject);
        line.end();
      }
    }
  }
}

module.exports = { Lines };
