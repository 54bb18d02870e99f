"use strict";
// Decisions: numbers; the native module makes the rare details from them.

const { inspect } = require("node:util");
const { call } = require("./errors.js");
const { native, numbers } = require("./native.js");

// Places of numbers, as `src/numbers.rs` writes them.
const GRANTED = 0;
const REMAINING = 1;
const RETRY = 2;
const RESET = 3;
const NOW = 4;
const FLAGS = 5;
const LIMITS = 8;
const HEAD = 9;
const EACH = 5;

const AUTHORITIES = ["store", "lease", "deny_cache", "store"];

/** What the native module needs to make a decision anew. */
let madeOf;

/** Whether a value is a decision. */
let isDecision;

/** What is seldom asked of a decision. */
let detailsOf;

/** The first numbers of the shared array. */
function copy(count) {
  const copied = [];
  for (let at = 0; at < count; at += 1) copied.push(numbers[at]);
  return copied;
}

/** The result of a check. */
class Decision {
  // Few fields, and no private method, which would be one more: a decision is made for each check.
  #limiter;
  #asked;
  #numbers;
  #details;

  /**
   * Of the numbers that the native module has written. `asked` is a subject, or `subjects` with the
   * numbers of their `limits`; these limits must outlive their numbers, so `asked` keeps them.
   */
  constructor(limiter, asked) {
    this.#limiter = limiter;
    this.#asked = asked;
    const n = numbers;
    // Written out: an array of this kind is made in a few nanoseconds, a copy of a typed one is
    // not.
    this.#numbers =
      n[LIMITS] === 1
        ? [n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12], n[13]]
        : copy(HEAD + EACH * n[LIMITS]);
  }

  static {
    isDecision = (value) => typeof value === "object" && value !== null && #numbers in value;
    madeOf = (decision) => {
      const [limiter, asked] = [decision.#limiter.number, decision.#asked];
      const { subjects, limits, amounts } =
        typeof asked === "string" ? { subjects: [asked], limits: [] } : asked;
      return { limiter, subjects, limits, amounts, numbers: decision.#numbers };
    };
    detailsOf = (decision) => {
      decision.#details ??= call(native.details, madeOf(decision));
      return decision.#details;
    };
  }

  /** Whether the cost was admitted. */
  get allowed() {
    return this.#numbers[GRANTED] > 0;
  }

  /** The units that were admitted; 0 on a denial. */
  get granted() {
    return this.#numbers[GRANTED];
  }

  /** The largest cost that would be admitted now. */
  get remaining() {
    return this.#numbers[REMAINING];
  }

  /** What came of it: "allowed", "denied", or "never" where waiting does not help. */
  get outcome() {
    if (this.allowed) return "allowed";
    return this.#numbers[RETRY] < 0 ? "never" : "denied";
  }

  /** The wait in seconds after a denial: null where it was admitted, and where it never will be. */
  get retryAfter() {
    return this.outcome === "denied" ? this.#numbers[RETRY] / 1e6 : null;
  }

  /** Whether `retryAfter` is an upper bound: settling open holds would shorten it. */
  get untilHold() {
    return (this.#numbers[FLAGS] & 1) !== 0;
  }

  /** The seconds until the binding limit is fresh. */
  get resetAfter() {
    return this.#numbers[RESET] / 1e6;
  }

  /** The store's time of the decision, in microseconds since 1970. */
  get atUs() {
    return this.#numbers[NOW];
  }

  /** What decided: "store", "lease" or "deny_cache". */
  get authority() {
    return AUTHORITIES[(this.#numbers[FLAGS] >> 1) & 3];
  }

  /** The capacity of the binding limit, in units. */
  get limit() {
    return detailsOf(this).limit;
  }

  /** What `limit` and `remaining` count: "requests" or "slots". */
  get unit() {
    return detailsOf(this).unit;
  }

  /** The place in `limits` of the binding limit: on a denial, the one that denies for longest. */
  get binding() {
    return detailsOf(this).binding;
  }

  /** The report of each limit, in the order of the subjects and their limits. */
  get limits() {
    return detailsOf(this).limits;
  }

  /**
   * The receipt of the charge as text, for `Limiter.refund` in any process on the same store; null
   * where nothing was charged.
   */
  get receipt() {
    return detailsOf(this).receipt ?? null;
  }

  toString() {
    return detailsOf(this).text;
  }

  toJSON() {
    return JSON.parse(detailsOf(this).json);
  }

  [inspect.custom]() {
    return `<Decision ${this}>`;
  }
}

module.exports = { Decision, isDecision, madeOf };
