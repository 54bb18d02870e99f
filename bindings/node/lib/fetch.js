"use strict";
// `fetch` that keeps to the limits of the service that it calls.

const { options, text, wrongType } = require("./arguments.js");
const { ArgumentError, StoreError } = require("./errors.js");
const { Failures } = require("./failures.js");
const { Limiter } = require("./limiter.js");
const { native } = require("./native.js");

/** Methods of which a server may have done the first request, too. */
const IDEMPOTENT = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"];

/** The host of a request: `api.example.com`. */
const host = ({ url }) => new URL(url).hostname;

function checked(limiter, given) {
  if (!(limiter instanceof Limiter)) wrongType(limiter, "limiter", "a Limiter");
  const known = ["key", "timeout", "retries", "onFailure", "fetch"];
  const { key = host, timeout = 60, retries = 2, onFailure, ...others } = options(given, known);
  const { fetch: send = globalThis.fetch } = others;
  if (typeof key !== "function") wrongType(key, "key", "a function");
  if (typeof send !== "function") wrongType(send, "fetch", "a function");
  if (typeof timeout !== "number") wrongType(timeout, "timeout", "a number of seconds");
  if (!(timeout >= 0)) throw new ArgumentError(`timeout is ${timeout}: give seconds of 0 or more`);
  if (typeof retries !== "number") wrongType(retries, "retries", "a number");
  if (!(Number.isInteger(retries) && retries >= 0)) {
    throw new ArgumentError(`retries is ${retries}: give a whole number of 0 or more`);
  }
  const failures = new Failures(onFailure);
  if (onFailure === undefined && !limiter.inMemory) {
    throw new ArgumentError(
      'onFailure is missing: say whether requests go out ("allow") or fail ("deny") while the ' +
        "store cannot answer",
    );
  }
  return { limiter, key, timeout, retries, send, failures };
}

/** Whether a request has its turn; a denial, or null, where it does not come in time. */
async function turnOf({ limiter, failures }, subject, seconds, signal) {
  try {
    const decision = await limiter.untilReady(subject, Math.max(seconds, 0), { signal });
    failures.answered(console.warn);
    return decision;
  } catch (error) {
    if (!(error instanceof StoreError) || !failures.passes(error, console.warn)) throw error;
    return { allowed: true };
  }
}

/** Learns the wait that a response asks for. True where it is worth another request. */
function isRefused({ limiter }, subject, request, response, done) {
  const { status } = response;
  const refused = status === 429 || (status === 503 && IDEMPOTENT.includes(request.method));
  const asked = native.waitOf(status, [...response.headers]);
  const wait = asked ?? (refused ? 2 ** done : undefined);
  if (wait !== undefined) limiter.backOff(subject, wait);
  return refused;
}

/** A stream is sent once. Other bodies are made again by `fetch`. */
const isStream = (input, init) =>
  init?.body instanceof ReadableStream || (input instanceof Request && input.body !== null);

/**
 * A `fetch` whose requests wait for their turn, in the order of arrival, and learn from responses
 * how long to wait.
 */
function limitedFetch(limiter, given) {
  const settings = checked(limiter, given);
  return async function fetch(input, init) {
    const { key, timeout, retries, send } = settings;
    const isRequest = input instanceof Request;
    const request = isRequest ? input : new Request(input, { ...init, body: undefined });
    const subject = text(key(request), "key");
    const signal = init?.signal ?? (isRequest ? input.signal : undefined);
    const end = performance.now() / 1000 + timeout;
    const tries = isStream(input, init) ? 1 : retries + 1;
    let response;
    for (let done = 0; done < tries; done += 1) {
      const turn = await turnOf(settings, subject, end - performance.now() / 1000, signal);
      if (!turn?.allowed) {
        if (response !== undefined) break;
        const why = turn === null ? "" : `: ${turn}`;
        const message = `no turn for ${subject} within ${timeout} s${why}`;
        throw new DOMException(message, "TimeoutError");
      }
      // A body that nobody reads keeps its connection.
      await response?.body?.cancel();
      response = await send(input, init);
      if (!isRefused(settings, subject, request, response, done)) break;
    }
    return response;
  };
}

module.exports = { limitedFetch };
