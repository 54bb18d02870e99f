"use strict";
// Limits that were parsed, and a clock that tests move.

const { micros, seconds, text, wrongType } = require("./arguments.js");
const { call } = require("./errors.js");
const { native, owned } = require("./native.js");

/** The number of limits that were parsed; undefined for anything else. */
let numberOfLimits;

/** The number of a clock; undefined for anything else. */
let numberOfClock;

/** Limits, parsed once: for checks over several subjects. */
class Limits {
  #number;

  constructor(limits, policy) {
    text(limits, "limits");
    if (policy !== undefined) text(policy, "policy");
    this.#number = owned(this, native.forgetLimits, call(native.limits, limits, policy));
  }

  static {
    numberOfLimits = (value) => (#number in value ? value.#number : undefined);
  }

  /** Whether both count the same. */
  equals(other) {
    const number = numbered(other, numberOfLimits);
    if (number === undefined) return false;
    const identity = (it) => call(native.describeLimits, it).identity;
    return identity(this.#number) === identity(number);
  }

  /** The name of the policy, within which they count; null without one. */
  get policy() {
    return call(native.describeLimits, this.#number).policy ?? null;
  }

  toString() {
    return call(native.describeLimits, this.#number).text;
  }

  toJSON() {
    return this.toString();
  }
}

/** A clock that only moves when a test moves it. */
class ManualClock {
  #number;

  constructor(atUs = 0) {
    this.#number = owned(this, native.forgetClock, native.clock(micros(atUs, "atUs")));
  }

  static {
    numberOfClock = (value) => (#number in value ? value.#number : undefined);
  }

  /** Sets the time, in microseconds since 1970. It may go back. */
  set(atUs) {
    native.setClock(this.#number, micros(atUs, "atUs"));
  }

  /** Moves the time forward by so many seconds. */
  advance(by) {
    native.advanceClock(this.#number, seconds(by, "seconds"));
  }

  /** The time, in microseconds since 1970. */
  get atUs() {
    return native.clockTime(this.#number);
  }
}

/** The most texts that are kept parsed. */
const MAX_PARSED = 1000;

/** Limits that come as text again and again, within a policy. */
class ParsedLimits {
  #policy;
  #known = new Map();

  constructor(policy) {
    this.#policy = policy;
  }

  /** The limits of a text, or those that were parsed. */
  of(value) {
    if (isLimits(value)) return value;
    const known = this.#known.get(value);
    if (known !== undefined) return known;
    const limits = new Limits(value, this.#policy);
    if (this.#known.size >= MAX_PARSED) this.#known.clear();
    this.#known.set(value, limits);
    return limits;
  }
}

/** Whether a value is limits that were parsed. */
function isLimits(value) {
  return numbered(value, numberOfLimits) !== undefined;
}

function numbered(value, numberOf) {
  return typeof value === "object" && value !== null ? numberOf(value) : undefined;
}

/** Limits as they are passed: text, or limits that were parsed. */
function anyLimits(value) {
  if (isLimits(value)) return value;
  if (typeof value !== "string") wrongType(value, "limits", "a string or Limits");
  return new Limits(value);
}

/** The number of a clock that is passed; 0 for none. */
function anyClock(value) {
  if (value === undefined) return 0;
  const number = numbered(value, numberOfClock);
  return number ?? wrongType(value, "clock", "a ManualClock");
}

module.exports = {
  Limits,
  ManualClock,
  ParsedLimits,
  anyClock,
  anyLimits,
  isLimits,
  numberOfLimits: (it) => numberOfLimits(it),
};
