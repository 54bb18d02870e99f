"use strict";
// The treatment of requests by the policies of a file, and the choice between those and a limiter.

const { answerOf } = require("./answers.js");
const { callable, options } = require("./arguments.js");
const { ArgumentError } = require("./errors.js");
const { Guard } = require("./middleware.js");
const { native } = require("./native.js");
const { Policies } = require("./policies.js");
const { split, toldOf } = require("./told.js");

/** The options that mean something beside a file, which has the others. */
const OPTIONS = ["key", "fields", "skip", "onDenied"];

/** The pairs of Node's flat list of names and lines. */
function linesOf(rawHeaders) {
  const lines = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    lines.push([rawHeaders[at], rawHeaders[at + 1]]);
  }
  return lines;
}

/** The head of a request: of Node, or a `Request`. */
function headOf({ peer, node, web }) {
  if (web !== undefined) {
    const { pathname, search } = new URL(web.url);
    return { method: web.method, target: pathname + search, headers: web.headers, peer };
  }
  const { method, originalUrl, url, rawHeaders } = node;
  return { method, target: originalUrl ?? url, headers: linesOf(rawHeaders), peer };
}

/** What is left by the headers of a request that passed. */
function leftOf(headers) {
  const of = (wanted) => headers.find(([name]) => name === wanted)?.[1];
  const left = of("x-ratelimit-remaining") ?? /;r=(\d+)/.exec(of("ratelimit") ?? "")?.[1];
  return left === undefined ? Infinity : Number(left);
}

/** The treatment of requests by policies; the results are those of `Guard`. */
class PolicyGuard {
  #policies;
  #given;
  #connection;
  #names;
  #hasWarned = false;

  constructor(policies, given, connection) {
    this.#given = options(given, OPTIONS);
    for (const name of OPTIONS) callable(this.#given[name], name);
    this.#names = policies.fieldNames;
    if (this.#given.fields === undefined && this.#names.length > 0) {
      const read = this.#names.map((name) => `field.${name}`).join(", ");
      throw new ArgumentError(`fields is missing: give a function, since the file reads ${read}`);
    }
    this.#policies = policies;
    this.#connection = connection;
  }

  async judge(request, carrier, warn, context) {
    const { key, fields, skip, onDenied } = this.#given;
    if (skip !== undefined && (await skip(request, context))) return {};
    const [user, known] = [await key?.(request, context), await fields?.(request, context)];
    const head = headOf(this.#connection(request, context));
    let ruling;
    try {
      this.#checkNames(Object.keys(known ?? {}));
      ruling = await this.#policies.judge({ ...head, user, fields: known }, warn);
    } catch (error) {
      if (!(error instanceof ArgumentError || error instanceof TypeError)) throw error;
      if (!this.#hasWarned) warn(`a request gets a 400: ${error.message}`);
      this.#hasWarned = true;
      return { answer: native.unidentified() };
    }
    const { refusal } = ruling;
    const [headers, others] = split(refusal?.headers ?? ruling.headers);
    const allowed = refusal === null;
    const told = this.#told(carrier, { allowed, remaining: leftOf(headers) }, headers);
    if (allowed) return told;
    const own = onDenied === undefined ? onDenied : await onDenied(request, null, refusal);
    const answer = await answerOf(own, { ...refusal, headers: others });
    told.told?.leave(answer.headers.map(([name]) => name));
    return { answer, ...told };
  }

  /** A name that the file does not read is a mistake, and would leave a limit out. */
  #checkNames(names) {
    if (names.every((name) => this.#names.includes(name))) return;
    // It may have been read again.
    this.#names = this.#policies.fieldNames;
    const unknown = names.find((name) => !this.#names.includes(name));
    if (unknown === undefined) return;
    const read = this.#names.join(", ");
    throw new ArgumentError(`fields has \`${unknown.slice(0, 40)}\`, and the file reads ${read}`);
  }

  #told(carrier, decision, headers) {
    if (headers.length === 0) return {};
    const told = toldOf(carrier);
    told.told.add(decision, headers);
    return told;
  }
}

/** The guard of a middleware over a limiter, or over policies. */
function guardOf(limiter, given, connection) {
  const Kind = limiter instanceof Policies ? PolicyGuard : Guard;
  return new Kind(limiter, given, connection);
}

module.exports = { guardOf };
