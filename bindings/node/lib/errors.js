"use strict";
// The errors. A denial of a check is not an error: it is a `Decision`.

/** The base of all errors of this package, but for `TypeError` on wrong types. */
class TollgateError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** A text that is not a limit. The message says where, and what would be right. */
class LimitError extends TollgateError {}

/** An argument with a value that is out of range. The message names it. */
class ArgumentError extends TollgateError {}

/** A hold that is not open: it has ended by itself, was reset, or never was. */
class HoldError extends TollgateError {}

/**
 * The store could not answer. `transient` is true when the same call may succeed later. `ambiguous`
 * is true when the check may have been charged nevertheless, as after a lost connection.
 */
class StoreError extends TollgateError {
  constructor(message, { transient = false, ambiguous = false } = {}) {
    super(message);
    this.transient = transient;
    this.ambiguous = ambiguous;
  }
}

/**
 * What `Limiter.limit` throws instead of calling the function. `decision` says why; it is null where
 * the store could not answer.
 */
class Denied extends TollgateError {
  #limiter;

  constructor(decision, limiter, cause) {
    super(decision === null ? "the store could not answer" : String(decision), { cause });
    this.decision = decision;
    this.#limiter = limiter;
  }

  /** Without its limiter, as a log or another thread can have it. */
  toJSON() {
    return { name: this.name, message: this.message, decision: this.decision };
  }

  /** The status, headers and body of a response: 429, 422 or 503. */
  refusal(headers = "draft") {
    if (this.decision === null) return this.#limiter.unavailable();
    return this.#limiter.refusal(this.decision, headers);
  }
}

const CLASSES = { LimitError, ArgumentError, HoldError, StoreError, TollgateError };

/** Words of Rust in messages, and those of this package. */
const WORDS = [
  ["`Ask::reserve`", "`reserve`"],
  ["with `ClientAddress::behind`", "with `proxies`"],
  ["`requests=1,tokens=800`", "`{ requests: 1, tokens: 800 }`"],
];

/** The error of this package for one of the native module, whose code says which it is. */
function raised(error) {
  const [name, ...marks] = String(error?.code).split(" ");
  const Class = CLASSES[name];
  if (Class === undefined) return error;
  const message = WORDS.reduce((text, words) => text.replace(...words), error.message);
  return new Class(message, {
    transient: marks.includes("transient"),
    ambiguous: marks.includes("ambiguous"),
  });
}

/** Calls the native module, and throws the errors of this package. */
function call(native, ...words) {
  try {
    return native(...words);
  } catch (error) {
    throw raised(error);
  }
}

module.exports = {
  ArgumentError,
  Denied,
  HoldError,
  LimitError,
  StoreError,
  TollgateError,
  call,
  raised,
};
