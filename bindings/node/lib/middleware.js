"use strict";
// The common parts of the middleware for Express, Fastify and Hono.

const { options, wrongType } = require("./arguments.js");
const { ClientAddress } = require("./client.js");
const { ArgumentError, StoreError } = require("./errors.js");
const { Failures } = require("./failures.js");
const { Limiter } = require("./limiter.js");

const PROFILES = ["draft", "legacy", "both", "none"];

/** Who asks where a middleware has no `key`. */
const peers = new ClientAddress();

/** The same where a framework has believed a proxy. What it read there may be no address. */
const believed = new ClientAddress();

/**
 * A `key` for requests of Node by the address of their clients. `ip` is what the framework makes of
 * the connection and its own setting of trusted proxies.
 */
function byAddress(clients, connection) {
  return (request, warn) => {
    const { ip, incoming } = connection(request);
    const peer = incoming?.socket?.remoteAddress;
    if (clients !== peers) return clients.subject(peer, incoming?.headers, warn);
    const found = ip && ip !== peer ? believed.subject(ip, {}, () => {}) : undefined;
    if (found !== undefined) return found;
    return peers.subject(peer, incoming?.headers, warn);
  };
}

/** The options of a middleware, of which none would only fail in a request. */
function middlewareOptions(limiter, given, connection) {
  if (!(limiter instanceof Limiter)) wrongType(limiter, "limiter", "a Limiter");
  const known = ["key", "headers", "onFailure"];
  const { key = peers, headers = "draft", onFailure } = options(given, known);
  const isRequired = key instanceof ClientAddress;
  if (!isRequired && typeof key !== "function") wrongType(key, "key", "a function or ClientAddress");
  if (!PROFILES.includes(headers)) {
    throw new ArgumentError(`headers is ${shown(headers)}: give one of ${PROFILES.join(", ")}`);
  }
  const failures = new Failures(onFailure);
  if (onFailure === undefined && !limiter.inMemory) {
    throw new ArgumentError(
      'onFailure is missing: say whether requests pass ("allow") or get a 503 ("deny") while the ' +
        "store cannot answer",
    );
  }
  const subjectOf = isRequired ? byAddress(key, connection) : key;
  return { limiter, subjectOf, isRequired, headers, failures };
}

function shown(value) {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 40)) : typeof value;
}

/**
 * The treatment of a request: `decision` and `headers` where it passes, and `refusal` where it does
 * not. `warn` gets a message when the store could not answer, and of likely mistakes.
 */
async function judge(settings, request, warn) {
  const { limiter, subjectOf, isRequired, headers, failures } = settings;
  const subject = await subjectOf(request, warn);
  if (subject === undefined || subject === null) {
    // A caller's `key` returned nothing; or there is no address.
    return isRequired ? { refusal: limiter.unavailable() } : { headers: [] };
  }
  let decision;
  try {
    decision = await limiter.check(subject);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (failures.passes(error, warn)) return { headers: [] };
    return { refusal: limiter.unavailable() };
  }
  failures.answered(warn);
  if (!decision.allowed) return { decision, refusal: limiter.refusal(decision, headers) };
  return { decision, headers: limiter.headers(decision, headers) };
}

module.exports = { judge, middlewareOptions };
