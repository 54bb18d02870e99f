"use strict";
// Holds: units that are set aside, and slots that are taken.

const { costOf, seconds } = require("./arguments.js");
const { ArgumentError, call } = require("./errors.js");
const { native, owned } = require("./native.js");

/** What a commit did. */
const settledOf = ({ already, actual, amounts, limits }) => {
  const byUnit = amounts?.map(({ unit, amount }) => [unit, amount]);
  return { already, actual: byUnit ? Object.fromEntries(byUnit) : actual, limits };
};

/** A hold, or the decision that denied it. */
class Hold {
  #decision;
  #fence;
  #endUs;
  #number = 0;

  /** `ask` asks the limiter about this hold. */
  constructor(ask, decision, { hold, fence, endUs }) {
    this.ask = (question, words, read) => {
      if (this.#number === 0) {
        throw new ArgumentError("the hold was denied: it is not open");
      }
      return ask({ ask: question, hold: this.#number, ...words }, read);
    };
    Object.defineProperty(this, "ask", { enumerable: false });
    this.#decision = decision;
    if (hold === undefined) return;
    this.#number = owned(this, native.forgetHold, hold);
    this.#fence = fence;
    this.#endUs = endUs;
  }

  /** Whether it was admitted. Otherwise nothing is held. */
  get allowed() {
    return this.#number !== 0;
  }

  /** The decision, with its numbers. */
  get decision() {
    return this.#decision;
  }

  /** The hold as text, for `Limiter.restore` in any process on the same store; null on a denial. */
  get text() {
    return this.allowed ? call(native.holdText, this.#number) : null;
  }

  toJSON() {
    const { allowed, fence, endUs, text } = this;
    return { allowed, fence, endUs, text };
  }

  /** A number that rises with each hold of a count, to fence writes; null on a denial. */
  get fence() {
    return this.#fence ?? null;
  }

  /** When it was first to end by itself, in microseconds since 1970 by the store's clock. */
  get endUs() {
    return this.#endUs ?? null;
  }

  /** Lets it last `ttl` seconds from now. False when it is not open any more. */
  async renew(ttl) {
    const words = ttl === undefined ? {} : { ttl: seconds(ttl, "ttl") };
    return this.ask("renew", words, ({ flag }) => flag);
  }
}

/** Slots that `Limiter.acquire` took, or its denial. */
class Slot extends Hold {
  #isReleased = false;

  /** Gives the slots back. True when they were held until now. */
  async release() {
    if (!this.allowed || this.#isReleased) return false;
    const released = await this.ask("release", {}, ({ flag }) => flag);
    this.#isReleased = true;
    return released;
  }

  async [Symbol.asyncDispose]() {
    await this.release();
  }
}

/** Units that `Limiter.reserve` set aside, or its denial. */
class Reservation extends Hold {
  #used = {};
  #isSettled = false;

  /** Adds what was used: requests, or an amount of each unit. The end charges the sums. */
  use(used) {
    const { units, amounts = [{ unit: "requests", amount: units }] } = costOf(used, "units", 0);
    for (const { unit, amount } of amounts) {
      this.#used[unit] = (this.#used[unit] ?? 0) + amount;
    }
  }

  /** Charges what was used, and gives the rest back. A second commit charges nothing. */
  async commit(actual) {
    const settled = await this.ask("commit", costOf(actual, "actual", 0), settledOf);
    this.#isSettled = true;
    return settled;
  }

  /** Gives all of it back. */
  async cancel() {
    return this.commit(0);
  }

  /** Charges the sums of `use`, unless it was settled before. */
  async end() {
    const used = Object.keys(this.#used).length > 0 ? this.#used : 0;
    if (this.allowed && !this.#isSettled) await this.commit(used);
  }

  async [Symbol.asyncDispose]() {
    await this.end();
  }
}

module.exports = { Reservation, Slot, settledOf };
