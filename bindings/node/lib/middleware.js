"use strict";
// The common parts of all middleware: its options, and the treatment of a request.

const { answerOf } = require("./answers.js");
const { callable, costOf, options, text, wrongType } = require("./arguments.js");
const { ClientAddress } = require("./client.js");
const { ArgumentError, StoreError } = require("./errors.js");
const { Failures } = require("./failures.js");
const { Limiter } = require("./limiter.js");
const { ParsedLimits, isLimits } = require("./limits.js");
const { native } = require("./native.js");
const { split, toldOf } = require("./told.js");

const PROFILES = ["draft", "legacy", "both", "none"];

/** The options that are functions and nothing else. */
const FUNCTIONS = ["limits", "skip", "onDenied", "refundWhen", "extraCost", "onDecision"];

const OPTIONS = ["key", "cost", "headers", "onFailure", ...FUNCTIONS];

/** Who asks where a middleware has no `key`. */
const peers = new ClientAddress();

/** The same where a framework has believed a proxy. What it read there may be no address. */
const believed = new ClientAddress();

/**
 * A `key` by the address of clients. `connection` makes of a request its `peer`, its `headers`, and
 * the `ip` that a framework found by its own setting of trusted proxies.
 */
function byAddress(clients, connection) {
  return (request, context, warn) => {
    const { ip, peer, headers } = connection(request, context);
    if (clients === peers && ip && ip !== peer) {
      const found = believed.subject(ip, {}, () => {});
      if (found !== undefined) return found;
    }
    return clients.subject(peer, headers, warn);
  };
}

/** The options of a middleware, of which none would only fail in a request. */
function checked(limiter, given) {
  if (!(limiter instanceof Limiter)) wrongType(limiter, "limiter", "a Limiter");
  const { key = peers, headers = "draft", cost = 1, ...others } = options(given, OPTIONS);
  if (!(key instanceof ClientAddress) && typeof key !== "function") {
    wrongType(key, "key", "a function or ClientAddress");
  }
  if (!PROFILES.includes(headers)) {
    throw new ArgumentError(`headers is ${shown(headers)}: give one of ${PROFILES.join(", ")}`);
  }
  for (const name of FUNCTIONS) callable(others[name], name);
  if (typeof cost !== "function") costOf(cost, "cost");
  if (/ at once\b/.test(limiter.limits)) {
    throw new ArgumentError(
      `limiter has slots, \`${limiter.limits}\`: a middleware gives none back, so acquire one in ` +
        "the handler, and release it there",
    );
  }
  if (others.onFailure === undefined && !limiter.inMemory) {
    throw new ArgumentError(
      'onFailure is missing: say whether requests pass ("allow") or get a 503 ("deny") while the ' +
        "store cannot answer",
    );
  }
  return { key, headers, cost, ...others };
}

function shown(value) {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 40)) : typeof value;
}

/** The treatment of requests by one middleware. */
class Guard {
  #limiter;
  #given;
  #subjectsOf;
  #isRequired;
  #failures;
  #parsed;
  #warned = new Set();

  constructor(limiter, given, connection) {
    this.#given = checked(limiter, given);
    this.#limiter = limiter;
    const { key, onFailure } = this.#given;
    this.#isRequired = key instanceof ClientAddress;
    this.#subjectsOf = this.#isRequired ? byAddress(key, connection) : key;
    this.#failures = new Failures(onFailure);
    this.#parsed = new ParsedLimits(limiter.policy ?? undefined);
  }

  /**
   * The treatment of a request. All middleware of a request see the same `carrier`. `warn` gets a
   * message when the store could not answer, and of likely mistakes. The result has:
   *
   * - `decision`, where there is one;
   * - `answer` where the request does not pass: status, headers, body;
   * - `told`: the headers of the limits, and `isOuter`: whether no other wrote to them;
   * - `after`, where something is to be done with the response.
   */
  async judge(request, carrier, warn, context) {
    const { skip, limits, cost, onDecision } = this.#given;
    if (skip !== undefined && (await skip(request, context))) return {};
    const subjects = await this.#subjectsOf(request, context, warn);
    if (subjects === undefined || subjects === null) {
      // A caller's `key` returned nothing; or there is no address.
      return this.#isRequired ? { answer: this.#limiter.unavailable() } : {};
    }
    const own = limits === undefined ? limits : await limits(request, context);
    const under = own === undefined || own === null ? undefined : this.#parsed.of(own);
    const units = typeof cost === "function" ? await cost(request, context) : cost;
    if (units === 0) return {};
    let asked;
    let decision;
    try {
      asked = asksOf(subjects, under);
      if (Array.isArray(asked) && asked.length === 0) return {};
      decision = await this.#check(asked, units);
    } catch (error) {
      return this.#undecided(error, warn);
    }
    this.#failures.answered(warn);
    if (onDecision !== undefined) await onDecision(request, decision);
    if (!decision.allowed) return this.#denied(request, carrier, decision);
    return this.#passed(request, carrier, { decision, asked, warn });
  }

  #check(asked, units) {
    // The usual case, and the fastest.
    if (typeof asked === "string") return this.#limiter.check(asked, units);
    return this.#limiter.checkAll(asked, units);
  }

  #undecided(error, warn) {
    if (error instanceof StoreError) {
      return this.#failures.passes(error, warn) ? {} : { answer: this.#limiter.unavailable() };
    }
    if (!(error instanceof ArgumentError || error instanceof TypeError)) throw error;
    this.#once(`a request gets a 400, for its key or cost is invalid: ${error.message}`, warn);
    return { answer: native.unidentified() };
  }

  async #denied(request, carrier, decision) {
    const { headers, onDenied } = this.#given;
    const refusal = this.#limiter.refusal(decision, headers);
    const own = onDenied === undefined ? onDenied : await onDenied(request, decision, refusal);
    const [told, others] = split(refusal.headers);
    const answer = await answerOf(own, { ...refusal, headers: others });
    const verdict = { decision, answer, ...this.#told(carrier, decision, told) };
    verdict.told?.leave(answer.headers.map(([name]) => name));
    return verdict;
  }

  #passed(request, carrier, { decision, asked, warn }) {
    const { headers, refundWhen, extraCost } = this.#given;
    const told = headers === "none" ? [] : this.#limiter.headers(decision, headers);
    const passed = { decision, ...this.#told(carrier, decision, told) };
    if (refundWhen === undefined && extraCost === undefined) return passed;
    const after = (response) => this.#settle(request, response, { decision, asked, warn });
    return { ...passed, after };
  }

  #told(carrier, decision, headers) {
    if (headers.length === 0) return {};
    const told = toldOf(carrier);
    told.told.add(decision, headers);
    return told;
  }

  /** What is done when there is a response. It never fails: the request has its answer. */
  async #settle(request, response, { decision, asked, warn }) {
    const { refundWhen, extraCost } = this.#given;
    try {
      if (refundWhen !== undefined && (await refundWhen(response, request))) {
        await this.#limiter.refund(decision);
      }
      const extra = extraCost === undefined ? 0 : await extraCost(response, request);
      if (extra !== 0 && extra !== undefined && extra !== null) await this.#charge(asked, extra);
    } catch (error) {
      if (error instanceof StoreError) this.#failures.passes(error, warn);
      else this.#once(`refundWhen or extraCost failed: ${error?.stack ?? error}`, warn);
    }
  }

  async #charge(asked, extra) {
    if (typeof asked === "string") return this.#limiter.charge(asked, extra);
    const each = asked.map((it) => {
      if (typeof it === "string") return this.#limiter.charge(it, extra);
      // Limits of one's own are charged as far as they have units.
      return this.#limiter.checkAll([it], extra, { partial: true });
    });
    return Promise.all(each);
  }

  #once(message, warn) {
    // A message per kind: some have texts of clients.
    const kind = message.slice(0, 20);
    if (this.#warned.has(kind)) return;
    this.#warned.add(kind);
    warn(message);
  }
}

/** The subjects of a check: one, or a list of subjects and pairs with limits. */
function asksOf(subjects, under) {
  if (!Array.isArray(subjects)) {
    const subject = text(subjects, "key");
    return under === undefined ? subject : [[subject, under]];
  }
  const known = subjects.filter((it) => it !== undefined && it !== null);
  return known.map((it) => {
    if (!Array.isArray(it)) return under === undefined ? it : [it, under];
    // A list may come from a client's JSON, which must not set limits: no JSON has `Limits`.
    if (it.length === 2 && isLimits(it[1])) return it;
    throw new ArgumentError("key: a subject with limits is [subject, new Limits(...)]");
  });
}

module.exports = { Guard };
