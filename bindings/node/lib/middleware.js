"use strict";
// The common parts of the middleware for Express, Fastify and Hono.

const { options, wrongType } = require("./arguments.js");
const { ArgumentError, StoreError } = require("./errors.js");
const { Limiter } = require("./limiter.js");
const { native } = require("./native.js");
const { call } = require("./errors.js");

const WITHOUT_ADDRESS =
  "a request has no address, as over a Unix socket, and gets a 503: give `key`, or let the server " +
  "take the address from a trusted proxy";
const PROFILES = ["draft", "legacy", "both", "none"];

/** The subject of a client by its address; undefined over a Unix socket, which has none. */
function client(address) {
  return address ? call(native.clientSubject, address) : undefined;
}

/** The options of a middleware, of which none would only fail in a request. */
function middlewareOptions(limiter, given, usualKey) {
  if (!(limiter instanceof Limiter)) wrongType(limiter, "limiter", "a Limiter");
  const known = ["key", "headers", "onFailure"];
  const { key = usualKey, headers = "draft", onFailure } = options(given, known);
  if (typeof key !== "function") wrongType(key, "key", "a function");
  if (!PROFILES.includes(headers)) {
    throw new ArgumentError(`headers is ${shown(headers)}: give one of ${PROFILES.join(", ")}`);
  }
  if (![undefined, "allow", "deny"].includes(onFailure)) {
    throw new ArgumentError(`onFailure is ${shown(onFailure)}: give "allow" or "deny"`);
  }
  if (onFailure === undefined && !limiter.inMemory) {
    throw new ArgumentError(
      'onFailure is missing: say whether requests pass ("allow") or get a 503 ("deny") while the ' +
        "store cannot answer",
    );
  }
  return { limiter, key, headers, onFailure, isUsualKey: key === usualKey, hasWarned: false };
}

function shown(value) {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 40)) : typeof value;
}

/**
 * The treatment of a request of this subject: `decision` and `headers` where it passes, and
 * `refusal` where it does not. `warn` gets a message when the store could not answer.
 */
async function judge(settings, subject, warn) {
  const { limiter, headers, onFailure, isUsualKey } = settings;
  if (subject === undefined || subject === null) {
    // A caller's `key` returned nothing; the default one has found no address.
    if (!isUsualKey) return { headers: [] };
    if (!settings.hasWarned) warn(WITHOUT_ADDRESS);
    settings.hasWarned = true;
    return { refusal: limiter.unavailable() };
  }
  let decision;
  try {
    decision = await limiter.check(subject);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    warn(`no decision for a request: ${error.message}`);
    if (onFailure === "allow") return { headers: [] };
    return { refusal: limiter.unavailable() };
  }
  if (!decision.allowed) return { decision, refusal: limiter.refusal(decision, headers) };
  return { decision, headers: limiter.headers(decision, headers) };
}

module.exports = { client, judge, middlewareOptions };
