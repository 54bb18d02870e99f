"use strict";
// The arguments from JavaScript: checked, with errors that name the argument.

const { ArgumentError } = require("./errors.js");

/** The largest cost: 2^40 units. */
const MAX_COST = 2 ** 40;

/** The longest time that an argument may say, in seconds: 366 days, as a period of a limit. */
const MAX_SECONDS = 366 * 86_400;

/** The type of a value, as errors name it. */
function typeOf(value) {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** Throws an error for a value of a wrong type. */
function wrongType(value, name, wanted) {
  throw new TypeError(`${name} must be ${wanted}, not ${typeOf(value)}`);
}

/** A text without lone surrogates. */
function text(value, name) {
  if (typeof value !== "string") wrongType(value, name, "a string");
  if (!value.isWellFormed()) {
    const index = value.search(/\p{Surrogate}/u);
    throw new ArgumentError(
      `${name} has a lone surrogate at index ${index}, which is not a character: ` +
        "use toWellFormed()",
    );
  }
  return value;
}

/** A whole number of units, from `least` to 2^40. */
function units(value, name, least = 1) {
  if (typeof value !== "number") wrongType(value, name, "a number");
  if (value >= least && value <= MAX_COST && Number.isInteger(value)) return value;
  const range = `from ${least} to 2^40 = ${MAX_COST}`;
  throw new ArgumentError(`${name} is ${value}: give a whole number ${range}`);
}

/** A cost: a number of requests, or an object with an amount of each unit, as a question has it. */
function costOf(value, name, least = 1) {
  if (typeof value === "number") return { units: units(value, name, least) };
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    wrongType(value, name, "a number or an object");
  }
  const amounts = Object.entries(value).map(([unit, amount]) => ({
    unit: text(unit, `a unit of ${name}`),
    amount: units(amount, `${name}.${unit.slice(0, 40)}`, 0),
  }));
  return { units: 0, amounts };
}

/** A time in seconds, above 0. */
function seconds(value, name) {
  if (typeof value !== "number") wrongType(value, name, "a number of seconds");
  if (value > 0 && value <= MAX_SECONDS) return value;
  throw new ArgumentError(`${name} is ${value}: give seconds above 0, up to 366 days`);
}

/** A time in microseconds since 1970. */
function micros(value, name) {
  if (typeof value !== "number") wrongType(value, name, "a number of microseconds");
  if (value >= 0 && Number.isSafeInteger(value)) return value;
  throw new ArgumentError(`${name} is ${value}: give a whole number from 0 to 2^53 - 1`);
}

/** Whether an option is set. */
function flag(value, name) {
  if (typeof value !== "boolean") wrongType(value, name, "a boolean");
  return value;
}

/** An option that is a function, or nothing. */
function callable(value, name) {
  if (value !== undefined && typeof value !== "function") wrongType(value, name, "a function");
}

/** What aborts a call. */
function abortSignal(value, name) {
  if (!(value instanceof AbortSignal)) wrongType(value, name, "an AbortSignal");
  return value;
}

/** Options by name, none of which is unknown. */
function options(value, known) {
  if (value === undefined) return {};
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    wrongType(value, "options", "an object");
  }
  for (const name of Object.keys(value)) {
    if (!known.includes(name)) {
      throw new ArgumentError(
        `options has no \`${name.slice(0, 40)}\`: it takes ${known.join(", ")}`,
      );
    }
  }
  return value;
}

module.exports = {
  MAX_COST,
  abortSignal,
  callable,
  flag,
  micros,
  options,
  seconds,
  text,
  typeOf,
  costOf,
  units,
  wrongType,
};
