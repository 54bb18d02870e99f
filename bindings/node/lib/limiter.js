"use strict";
// The limiter: limits and the store that counts them.

const { inspect } = require("node:util");
const {
  abortSignal,
  callable,
  costOf,
  flag,
  options,
  seconds,
  text,
  units,
  wrongType,
} = require("./arguments.js");
const { Decision, isDecision, madeOf } = require("./decision.js");
const { ArgumentError, Denied, StoreError, TollgateError, call, raised } = require("./errors.js");
const { Failures } = require("./failures.js");
const { Reservation, Slot, settledOf } = require("./holds.js");
const { anyClock, anyLimits, numberOfLimits } = require("./limits.js");
const { Lines } = require("./line.js");
const { ask, native, owned, write } = require("./native.js");
const { followTime, timeNow, whenTimeChanges } = require("./time.js");

/** The most subjects of one check, as of the engine. */
const MAX_SUBJECTS = 16;

const QUESTION = {
  subjects: [],
  limits: [],
  units: 0,
  flag: false,
  ttl: 0,
  hold: 0,
  id: undefined,
  receipt: undefined,
  maker: 0,
  numbers: [],
};

/** What a closed limiter does before each question. */
function refuse() {
  throw new TollgateError("the limiter is closed");
}

/** Limits and the store that counts them. */
class Limiter {
  #number;
  #isMemory;
  #described;
  #handle;
  #lines;
  /** How it is opened, again where a test stops the time. */
  #opened;
  /** What comes before each question: usually nothing. */
  #before;

  constructor(limits, settings) {
    const { store = "memory://", policy, clock } = options(settings, ["store", "policy", "clock"]);
    const parsed = anyLimits(limits);
    text(store, "store");
    if (policy !== undefined) text(policy, "policy");
    anyClock(clock);
    this.#opened = { parsed, policy, store };
    this.#open(clock === undefined ? timeNow() : { clock });
    if (clock === undefined) followTime(this);
  }

  static {
    whenTimeChanges((limiter, time) => {
      if (limiter.#before === refuse) return;
      native.close(limiter.#number);
      limiter.#open(time);
    });
  }

  #open({ clock, before, lines = clock }) {
    const { parsed, policy, store } = this.#opened;
    const given = numberOfLimits(parsed);
    const within = policy === undefined ? given : call(native.limitsInPolicy, given, policy);
    try {
      this.#described = native.describeLimits(within);
      this.#number = call(native.open, within, store, anyClock(clock));
    } finally {
      if (within !== given) native.forgetLimits(within);
    }
    // Decisions keep it, so it is forgotten when the last of them is.
    this.#handle = { number: this.#number };
    owned(this.#handle, native.forgetLimiter, this.#number);
    this.#isMemory = native.kind(this.#number) === "memory";
    this.#lines = new Lines(lines);
    this.#before = before;
  }

  /** Whether it counts in the memory of this process, which answers at once. */
  get inMemory() {
    return this.#isMemory;
  }

  /** The limits as text. */
  get limits() {
    return this.#described.text;
  }

  /** The name of the policy, within which it counts; null without one. */
  get policy() {
    return this.#described.policy ?? null;
  }

  /** Checks every limit, and charges the cost if all admit. */
  check(subject, cost = 1) {
    // Not `async`, which takes longer, and without a function that would keep the arguments.
    if (typeof cost !== "number") return this.checkAll([subject], cost);
    if (!this.#isMemory) return this.#checkLater(subject, cost);
    try {
      return Promise.resolve(this.checkSync(subject, cost));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #checkLater(subject, cost) {
    try {
      this.#before?.();
      text(subject, "subject");
      units(cost, "cost");
    } catch (error) {
      return Promise.reject(error);
    }
    return ask(
      (place) => native.startCheck(this.#number, place, subject, cost),
      () => new Decision(this.#handle, subject),
    );
  }

  /** `check` in memory, which answers at once. */
  checkSync(subject, cost = 1) {
    if (this.#before !== undefined) this.#before();
    if (typeof subject !== "string") text(subject, "subject");
    units(cost, "cost");
    try {
      if (!write(this.#number, subject, cost) || !native.checkWritten()) {
        native.checkNow(this.#number, text(subject, "subject"), cost);
      }
    } catch (error) {
      throw raised(error);
    }
    return new Decision(this.#handle, subject);
  }

  #ask(question, read) {
    this.#before?.();
    const request = { ...QUESTION, ...question };
    if (this.#isMemory) return read(call(native.answer, this.#number, request));
    return ask((place) => native.start(this.#number, place, request), read);
  }

  /** Checks several subjects together: all limits admit, or nothing is charged. */
  async checkAll(subjects, cost = 1, given) {
    const { partial = false, waiting } = options(given, ["partial", "waiting"]);
    const parts = readSubjects(subjects);
    const question = {
      ask: "check",
      ...costOf(cost, "cost"),
      flag: flag(partial, "partial"),
      waiting: waiting === undefined ? waiting : text(waiting, "waiting"),
    };
    return this.#ask(
      { ...question, subjects: parts.subjects, limits: parts.limits },
      () => new Decision(this.#handle, { ...parts, amounts: question.amounts }),
    );
  }

  /** Whether `check` admits: the decision as a yes or no. */
  async allows(subject, cost = 1) {
    return (await this.check(subject, cost)).allowed;
  }

  /**
   * Waits until every limit admits, and charges: in the order of arrival of all that wait here for
   * this subject, for at most `timeout` seconds.
   */
  untilReady(subject, timeout, given) {
    return this.#lines.untilReady(this, subject, timeout, given);
  }

  /** No turn of `untilReady` begins for this subject before so many seconds are over. */
  backOff(subject, seconds) {
    this.#lines.backOff(subject, seconds);
  }

  /** What `check` would answer now, or with `kind` `reserve` or `acquire`. Nothing is charged. */
  async peek(subject, cost = 1, given) {
    const { partial = false, kind = "check" } = options(given, ["partial", "kind"]);
    const subjects = [text(subject, "subject")];
    const question = { ask: "peek", subjects, ...costOf(cost, "cost") };
    return this.#ask(
      { ...question, flag: flag(partial, "partial"), kind: text(kind, "kind") },
      () => new Decision(this.#handle, asked(subject, question)),
    );
  }

  /** Charges a cost that became known afterwards, also beyond the limits. */
  async charge(subject, cost) {
    const subjects = [text(subject, "subject")];
    const question = { ask: "charge", subjects, ...costOf(cost, "cost") };
    return this.#ask(question, ({ limits }) => limits);
  }

  /** Gives back what a decision charged, once, and only what still counts of it. */
  async refund(decision) {
    const reply = ({ already, given, left }) => ({ already, given, left });
    if (typeof decision === "string") {
      return this.#ask({ ask: "refund", receipt: text(decision, "receipt") }, reply);
    }
    if (!isDecision(decision)) wrongType(decision, "decision", "a Decision, or its receipt");
    const { subjects, limits, amounts, numbers, limiter } = madeOf(decision);
    const question = { ask: "refund", subjects, limits, amounts, numbers, maker: limiter };
    return this.#ask(question, reply);
  }

  /** Deletes the count of a subject. True when there was one. */
  async reset(subject) {
    return this.#ask({ ask: "reset", subjects: [text(subject, "subject")] }, (reply) => reply.flag);
  }

  /** Sets a cost aside until it is known what was used, for at most `ttl` seconds. */
  async reserve(subject, cost, ttl, given) {
    const { chargeAtEnd = false, id, signal } = options(given, ["chargeAtEnd", "id", "signal"]);
    const question = {
      ask: "reserve",
      id: id === undefined ? id : text(id, "id"),
      subjects: [text(subject, "subject")],
      ...costOf(cost, "cost"),
      ttl: seconds(ttl, "ttl"),
      flag: flag(chargeAtEnd, "chargeAtEnd"),
    };
    return this.#hold(question, (reply) => this.#held(Reservation, asked(subject, question), reply), signal);
  }

  /** Takes slots of limits such as `20 at once`. */
  async acquire(subject, slots = 1, given) {
    const { id, waiting, signal } = options(given, ["id", "waiting", "signal"]);
    const question = {
      ask: "acquire",
      id: id === undefined ? id : text(id, "id"),
      waiting: waiting === undefined ? waiting : text(waiting, "waiting"),
      subjects: [text(subject, "subject")],
      units: units(slots, "slots"),
    };
    return this.#hold(question, (reply) => this.#held(Slot, subject, reply), signal);
  }

  /**
   * Gives back the hold of a subject with this id. True when it was open until now. Where no hold
   * has the id, one that comes later is refused.
   */
  async release(subject, id) {
    const subjects = [text(subject, "subject")];
    return this.#ask({ ask: "release", subjects, id: text(id, "id") }, ({ flag }) => flag);
  }

  /** Charges what was used of the hold with this id, and gives the rest back. */
  async commit(subject, id, actual) {
    const subjects = [text(subject, "subject")];
    const question = { ask: "commit", subjects, id: text(id, "id") };
    return this.#ask({ ...question, ...costOf(actual, "actual", 0) }, settledOf);
  }

  /** Lets the hold with this id last `ttl` seconds from now. False when it is not open. */
  async renew(subject, id, ttl) {
    const question = { ask: "renew", subjects: [text(subject, "subject")], id: text(id, "id") };
    const words = ttl === undefined ? {} : { ttl: seconds(ttl, "ttl") };
    return this.#ask({ ...question, ...words }, ({ flag }) => flag);
  }

  /** The hold of a text, which may come from another process. Its `decision` is null. */
  restore(hold) {
    const { isSlot, ...reply } = call(native.savedHold, text(hold, "hold"));
    const Kind = isSlot ? Slot : Reservation;
    return new Kind((question, read) => this.#ask(question, read), null, reply);
  }

  /** Asks for a hold. If `given` aborts before the answer, the hold is given back. */
  #hold(question, read, given) {
    if (given === undefined) return this.#ask(question, read);
    const signal = abortSignal(given, "signal");
    signal.throwIfAborted();
    const asked = this.#ask(question, read);
    // Memory has answered already.
    if (this.#isMemory) return asked;
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal.reason);
      signal.addEventListener("abort", abort, { once: true });
      asked
        .finally(() => signal.removeEventListener("abort", abort))
        .then((hold) => {
          if (!signal.aborted) return resolve(hold);
          return hold.allowed && hold.ask("giveBack", {}, () => {});
        })
        // After an abort nobody hears of it, and what cannot be given back ends by itself.
        .catch(reject);
    });
  }

  #held(Kind, asked, reply) {
    const decision = new Decision(this.#handle, asked);
    return new Kind((question, read) => this.#ask(question, read), decision, reply);
  }

  /**
   * A function that checks before each call of another. `key` is a subject, or makes one of the
   * call's arguments; so does `cost`. A denied call returns what `onDenied` returns, and without it
   * throws `Denied`. `onDecision` sees each decision, before the call. While the store cannot answer,
   * calls go on with `onFailure: "allow"`, throw `Denied` with `"deny"`, and without it a
   * `StoreError`.
   */
  limit(key, limited, given) {
    const known = ["cost", "onDenied", "onDecision", "onFailure"];
    const { cost = 1, onDenied, onDecision, onFailure } = options(given, known);
    const failures = new Failures(onFailure);
    if (typeof key !== "function" && typeof key !== "string") {
      wrongType(key, "key", "a string or a function");
    }
    if (typeof limited !== "function") wrongType(limited, "limited", "a function");
    if (typeof cost !== "function") costOf(cost, "cost");
    callable(onDenied, "onDenied");
    callable(onDecision, "onDecision");
    const of = (value, words) => (typeof value === "function" ? value(...words) : value);
    const limiter = this;
    return async function (...words) {
      let decision;
      try {
        decision = await limiter.check(of(key, words), of(cost, words));
      } catch (error) {
        if (!(error instanceof StoreError) || onFailure === undefined) throw error;
        if (!failures.passes(error, console.warn)) throw new Denied(null, limiter, error);
        return limited.apply(this, words);
      }
      failures.answered(console.warn);
      if (onDecision !== undefined) await onDecision(decision, ...words);
      if (decision.allowed) return limited.apply(this, words);
      if (onDenied === undefined) throw new Denied(decision, limiter);
      return onDenied(decision, ...words);
    };
  }

  /** The headers of a response to a request that `decision` was made for. */
  headers(decision, headers = "draft") {
    if (!isDecision(decision)) wrongType(decision, "decision", "a Decision");
    return call(native.headers, madeOf(decision), text(headers, "headers"));
  }

  /** The status, headers and body for a denied request; null if it was admitted. */
  refusal(decision, headers = "draft") {
    if (!isDecision(decision)) wrongType(decision, "decision", "a Decision");
    return call(native.refusal, madeOf(decision), text(headers, "headers")) ?? null;
  }

  /** The status, headers and body where the store could not answer. */
  unavailable(retryAfter = 5) {
    return call(native.unavailable, this.#number, seconds(retryAfter, "retryAfter"));
  }

  /** Closes the store, once the questions that are under way have their answers. */
  close() {
    if (this.#before === refuse) return;
    this.#before = refuse;
    native.close(this.#number);
  }

  [Symbol.dispose]() {
    this.close();
  }

  [inspect.custom]() {
    return `<Limiter ${this.limits} in ${native.kind(this.#number)}>`;
  }
}

/** What a decision of one subject was asked for, as it keeps it. */
function asked(subject, { amounts }) {
  return amounts === undefined ? subject : { subjects: [subject], limits: [0], amounts };
}

/** The argument `subjects`. */
function readSubjects(value) {
  const wanted = "a list of strings or [subject, limits]";
  if (!Array.isArray(value)) wrongType(value, "subjects", wanted);
  if (value.length === 0 || value.length > MAX_SUBJECTS) {
    throw new ArgumentError(`subjects: a check is over 1 to 16 subjects, not ${value.length}`);
  }
  const parts = { subjects: [], limits: [], kept: [] };
  for (const part of value) {
    if (typeof part === "string") {
      parts.subjects.push(text(part, "subject"));
      parts.limits.push(0);
      continue;
    }
    if (!Array.isArray(part)) wrongType(part, "subjects", wanted);
    if (part.length !== 2) {
      throw new ArgumentError(`subjects has a list of ${part.length}: give [subject, limits]`);
    }
    const limits = anyLimits(part[1]);
    parts.subjects.push(text(part[0], "subject"));
    parts.limits.push(numberOfLimits(limits));
    parts.kept.push(limits);
  }
  return parts;
}

module.exports = { Limiter };
