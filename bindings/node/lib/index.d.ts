/// <reference lib="esnext.disposable" />
/** Exact rate limiting: several limits in one check, in memory, SQLite, Redis, Redis Cluster. */

/** The version of the package. */
export const version: string;

/**
 * Signs a receipt or a hold, as the service does with `TOLLGATE_RECEIPT_KEY`: its own can be used
 * here, and those of here there. `key` has at least 32 bytes.
 */
export function sign(text: string, key: string | Uint8Array): string;

/** The text that was signed with this key. It throws an `ArgumentError` for any other. */
export function verify(signed: string, key: string | Uint8Array): string;

/** How the client of a request is found: see `docs/identity.md`. */
export interface ClientOptions {
  /** The networks of the proxies that are trusted: `10.0.0.0/8, 192.0.2.1`. */
  proxies?: string;
  /** How many proxies there are, 1 to 32. Without `proxies` any sender of the header is believed. */
  hops?: number;
  /**
   * The header that they write: `x-forwarded-for`, the default, `forwarded`, or the name of one
   * with a single address, as `x-real-ip`.
   */
  header?: string;
  /** The bits of an IPv6 address that tell clients apart, 32 to 128; 64 without it. */
  ipv6Prefix?: number;
}

/** Finds the client of a request by its address: the other end of the connection, or behind it. */
export class ClientAddress {
  constructor(options?: ClientOptions);
  /**
   * The subject of a client: `ip:192.0.2.7`, `ip:2001:db8::/64`; undefined without an address.
   * `peer` is the other end of the connection, with or without a port, and undefined at a Unix
   * socket. `warn` gets each likely mistake once; it is `console.warn` without one.
   */
  subject(
    peer: string | null | undefined,
    headers?: Record<string, string | string[] | undefined> | globalThis.Headers,
    warn?: (message: string) => void,
  ): string | undefined;
}

/** The headers that tell a client about its limits. */
export type Profile = "draft" | "legacy" | "both" | "none";

/** Pairs of a name and a value, in the order in which they are written. */
export type Headers = [string, string][];

/** A response: its status, headers and body. */
export interface Refusal {
  status: number;
  headers: Headers;
  body: string;
}

/** What one limit said in a decision. */
export interface LimitReport {
  /** The subject, in its written form. */
  readonly subject: string;
  /** The policy of the limit; null without one. */
  readonly policy: string | null;
  /** The limit's identity: what its count is known by. */
  readonly identity: string;
  /** The limit in its full form. */
  readonly limit: string;
  /** The units that a fresh subject can take. */
  readonly capacity: number;
  /** The largest cost that it would admit now. */
  readonly remaining: number;
  /** What `capacity` and `remaining` count. */
  readonly unit: "requests" | "slots";
  /** The seconds until it admits the cost: 0 for now, null for never. */
  readonly retryAfter: number | null;
  /** The seconds until it is fresh. */
  readonly resetAfter: number;
  /** Whether this limit would admit the cost. */
  readonly admits: boolean;
  /** What became of its count when its numbers had changed. */
  readonly carried: "same" | "over" | "fresh";
}

/** The result of a check. */
export class Decision {
  private constructor();
  /** Whether the cost was admitted. */
  get allowed(): boolean;
  /** What came of it; `never` where waiting does not help. */
  get outcome(): "allowed" | "denied" | "never";
  /** What decided. */
  get authority(): "store" | "lease" | "deny_cache";
  /** The capacity of the binding limit, in units. */
  get limit(): number;
  /** The largest cost that would be admitted now. */
  get remaining(): number;
  /** What `limit` and `remaining` count. */
  get unit(): "requests" | "slots";
  /** The units that were admitted; 0 on a denial. */
  get granted(): number;
  /** The wait in seconds after a denial: null where it was admitted, and where it never will be. */
  get retryAfter(): number | null;
  /** Whether `retryAfter` is an upper bound: settling open holds would shorten it. */
  get untilHold(): boolean;
  /** The seconds until the binding limit is fresh. */
  get resetAfter(): number;
  /** The place in `limits` of the binding limit: on a denial, the one that denies for longest. */
  get binding(): number;
  /** The report of each limit, in the order of the subjects and their limits. */
  get limits(): readonly LimitReport[];
  /** The store's time of the decision, in microseconds since 1970. */
  get atUs(): number;
  /**
   * The receipt of the charge as text, for `Limiter.refund` in any process on the same store; null
   * where nothing was charged. Who can write such a text can refund what was never charged: `sign`
   * it where it leaves your control.
   */
  get receipt(): string | null;
  /** One line for humans. */
  toString(): string;
  /** Every field, in the words and units of the service. */
  toJSON(): Record<string, unknown>;
}

/** What a charge without a check, or a commit, did to one limit. */
export interface Charged {
  /** The subject, in its written form. */
  readonly subject: string;
  /** The policy of the limit; null without one. */
  readonly policy: string | null;
  /** The limit's identity: what its count is known by. */
  readonly identity: string;
  /** The limit in its full form. */
  readonly limit: string;
  /** Whether a check would have admitted the cost. */
  readonly fits: boolean;
  /** The units that were not charged, since the limit cannot owe them. */
  readonly cut: number;
  /** The largest cost that would be admitted now. */
  readonly remaining: number;
  /** The seconds until the same cost is admitted: 0 for now, null for never. */
  readonly retryAfter: number | null;
  /** The seconds until the limit is fresh. */
  readonly resetAfter: number;
}

/** What a refund gave back. */
export interface Refund {
  /** Whether all of it had been refunded before. */
  readonly already: boolean;
  /** By how many units each limit's `remaining` rose. */
  readonly given: number[];
  /** The units of the charge that can still be refunded. */
  readonly left: number;
}

/** Requests, or an amount of each unit, such as `{ requests: 1, tokens: 800 }`. */
export type Cost = number | Record<string, number>;

/** What settling a hold did. */
export interface Settled {
  /** Whether it was settled before. Nothing was done now. */
  readonly already: boolean;
  /** What was charged for it. */
  readonly actual: Cost;
  /** What was done to each limit. */
  readonly limits: Charged[];
}

/** A hold, or the decision that denied it. */
interface Hold {
  /** Whether it was admitted. Otherwise nothing is held. */
  get allowed(): boolean;
  /** The decision, with its numbers. */
  get decision(): Decision;
  /** A number that rises with each hold of a count, to fence writes; null on a denial. */
  get fence(): number | null;
  /** When it was first to end by itself, in microseconds since 1970 by the store's clock. */
  get endUs(): number | null;
  /** The hold as text, for `Limiter.restore` in any process on the same store; null on a denial. */
  get text(): string | null;
  toJSON(): Record<string, unknown>;
  /** Lets it last `ttl` seconds from now. False when it is not open any more. */
  renew(ttl?: number): Promise<boolean>;
}

/** Units that `Limiter.reserve` set aside, or its denial. */
export class Reservation implements Hold {
  private constructor();
  get allowed(): boolean;
  get decision(): Decision;
  get fence(): number | null;
  get endUs(): number | null;
  get text(): string | null;
  toJSON(): Record<string, unknown>;
  renew(ttl?: number): Promise<boolean>;
  /** Adds what was used. The end charges the sum. */
  use(units: Cost): void;
  /** Charges what was used, and gives the rest back. A second commit charges nothing. */
  commit(actual: Cost): Promise<Settled>;
  /** Gives all of it back. */
  cancel(): Promise<Settled>;
  /** Charges the sum of `use`, unless it was settled before. `await using` calls it. */
  end(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Slots that `Limiter.acquire` took, or its denial. */
export class Slot implements Hold {
  private constructor();
  get allowed(): boolean;
  get decision(): Decision;
  get fence(): number | null;
  get endUs(): number | null;
  get text(): string | null;
  toJSON(): Record<string, unknown>;
  renew(ttl?: number): Promise<boolean>;
  /** Gives the slots back. True when they were held until now. `await using` calls it. */
  release(): Promise<boolean>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Limits, parsed once: for checks over several subjects. */
export class Limits {
  constructor(limits: string, policy?: string);
  /** Whether both count the same. */
  equals(other: unknown): boolean;
  /** The name of the policy, within which they count; null without one. */
  get policy(): string | null;
  toString(): string;
  /** The text. */
  toJSON(): string;
}

/** A clock that only moves when a test moves it. */
export class ManualClock {
  constructor(atUs?: number);
  /** Sets the time, in microseconds since 1970. It may go back. */
  set(atUs: number): void;
  /** Moves the time forward by so many seconds. */
  advance(seconds: number): void;
  /** The time, in microseconds since 1970. */
  get atUs(): number;
}

/** The options of a limiter. */
export interface LimiterOptions {
  /**
   * Where it counts: `memory://`, `sqlite://PATH`, `redis://HOST`, `redis+cluster://HOST,HOST` or
   * `redis+sentinel://HOST,HOST/NAME`.
   */
  store?: string;
  /** A name within which the limits count by themselves, and under which headers list them. */
  policy?: string;
  /** A clock, for tests. */
  clock?: ManualClock;
}

/** A subject, or a subject with its own limits. */
export type Subjects = readonly (string | readonly [string, string | Limits])[];

/** Limits and the store that counts them. The store is opened at the first call. */
export class Limiter {
  constructor(limits: string | Limits, options?: LimiterOptions);
  /** Whether it counts in the memory of this process, which answers at once. */
  get inMemory(): boolean;
  /** The limits as text. */
  get limits(): string;
  /** The name of the policy, within which it counts; null without one. */
  get policy(): string | null;
  /** Whether `check` admits: a yes or no, where the numbers are not asked for. */
  allows(subject: string, cost?: Cost): Promise<boolean>;
  /**
   * Checks every limit, and charges the cost if all admit. The result is an object also for a
   * denial: ask its `allowed`.
   */
  check(subject: string, cost?: Cost): Promise<Decision>;
  /** `check` in memory, which answers at once. */
  checkSync(subject: string, cost?: number): Decision;
  /**
   * Checks several subjects together: all limits admit, or nothing is charged. With `partial`, as
   * much of the cost is charged as remains. `waiting` says that you ask again where it is denied,
   * so that no ban counts the denial.
   */
  checkAll(
    subjects: Subjects,
    cost?: Cost,
    options?: { partial?: boolean; waiting?: "again" },
  ): Promise<Decision>;
  /**
   * Waits until every limit admits, and charges: in the order of arrival of all that wait here for
   * this subject. `timeout` is in seconds; `Infinity` is for ever.
   *
   * A denial comes at once where its wait is longer than the time that is left, and null where that
   * was over before its turn: nothing was asked. A check without a wait may come between. If
   * `signal` aborts during the wait, nothing was charged. With a `clock`, the wait moves the clock.
   */
  untilReady(
    subject: string,
    timeout: number,
    options?: { cost?: Cost; signal?: AbortSignal },
  ): Promise<Decision | null>;
  /**
   * No turn of `untilReady` begins for this subject before so many seconds are over: for a service
   * that has limits of its own, and has asked to be left alone for so long.
   */
  backOff(subject: string, seconds: number): void;
  /**
   * The answer that `check` would give now, or with `kind` `reserve` or `acquire`. Nothing is
   * charged. Of limits such as `20 at once`, a reserve takes one slot and an acquire its cost.
   */
  peek(
    subject: string,
    cost?: Cost,
    options?: { partial?: boolean; kind?: "check" | "reserve" | "acquire" },
  ): Promise<Decision>;
  /** Charges a cost that became known afterwards, also beyond the limits. */
  charge(subject: string, cost: Cost): Promise<Charged[]>;
  /**
   * Gives back what a decision charged, once, and only what still counts of it. `decision` is the
   * decision, or its `receipt`.
   */
  refund(decision: Decision | string): Promise<Refund>;
  /**
   * The hold of a text, which may come from another process on the same store. Its `decision` is
   * null.
   */
  restore(hold: string): Omit<Reservation, "decision"> | Omit<Slot, "decision">;
  /** Deletes the count of a subject. True when there was one. */
  reset(subject: string): Promise<boolean>;
  /**
   * Sets a cost aside until it is known what was used, for at most `ttl` seconds. If `signal`
   * aborts before the answer, nothing is held. `id` is your own for it: the same one is the same
   * hold.
   */
  reserve(
    subject: string,
    cost: Cost,
    ttl: number,
    options?: { chargeAtEnd?: boolean; id?: string; signal?: AbortSignal },
  ): Promise<Reservation>;
  /**
   * Takes slots of limits such as `20 at once`. If `signal` aborts before the answer, nothing is
   * held. `id` is your own for it: the same one is the same hold. `waiting` says that you ask again
   * where it is denied, so that no ban counts the denial; `"in_line"` also keeps a place in line for
   * the `id`, until 10 s after the last question.
   */
  acquire(
    subject: string,
    slots?: number,
    options?: { id?: string; waiting?: "again" | "in_line"; signal?: AbortSignal },
  ): Promise<Slot>;
  /**
   * Gives back the hold of a subject with this id. True when it was open until now. Where no hold
   * has the id, one that comes later is refused.
   */
  release(subject: string, id: string): Promise<boolean>;
  /** Charges what was used of the hold with this id, and gives the rest back. */
  commit(subject: string, id: string, actual: Cost): Promise<Settled>;
  /** Lets the hold with this id last `ttl` seconds from now. False when it is not open. */
  renew(subject: string, id: string, ttl?: number): Promise<boolean>;
  /**
   * A function that checks before each call of another. `key` is a subject, or makes one of the
   * call's arguments; so does `cost`. A denied call returns what `onDenied` returns, and without it
   * throws `Denied`. `onDecision` sees each decision, before the call. While the store cannot answer,
   * calls go on with `onFailure: "allow"`, throw `Denied` with `"deny"`, and without it a
   * `StoreError`.
   */
  limit<Words extends unknown[], Result, Other = never>(
    key: string | ((...words: Words) => string),
    limited: (...words: Words) => Result,
    options?: {
      cost?: Cost | ((...words: Words) => Cost);
      onDenied?: (decision: Decision, ...words: Words) => Other;
      onDecision?: (decision: Decision, ...words: Words) => unknown;
      onFailure?: "allow" | "deny";
    },
  ): (...words: Words) => Promise<Awaited<Result> | Awaited<Other>>;
  /** The headers of a response to a request that `decision` was made for. */
  headers(decision: Decision, headers?: Profile): Headers;
  /** The status, headers and body for a denied request; null if it was admitted. */
  refusal(decision: Decision, headers?: Profile): Refusal | null;
  /** The status, headers and body where the store could not answer. */
  unavailable(retryAfter?: number): Refusal;
  /** Closes the store, once the questions that are under way have their answers. */
  close(): void;
  [Symbol.dispose](): void;
}

/** The base of all errors of this package, but for `TypeError` on wrong types. */
export class TollgateError extends Error {}

/** A text that is not a limit. The message says where, and what would be right. */
export class LimitError extends TollgateError {}

/** An argument with a value that is out of range. The message names it. */
export class ArgumentError extends TollgateError {}

/**
 * A hold that is not open: it has ended by itself, was reset, or never was. Also an `id` that
 * another hold had.
 */
export class HoldError extends TollgateError {}

/** The store could not answer. */
export class StoreError extends TollgateError {
  /** Whether the same call may succeed later. */
  readonly transient: boolean;
  /** Whether the check may have been charged nevertheless, as after a lost connection. */
  readonly ambiguous: boolean;
}

/** What a function of `Limiter.limit` throws where the call was denied. */
export class Denied extends TollgateError {
  /** Why; null where the store could not answer. */
  readonly decision: Decision | null;
  /** The status, headers and body of a response: 429, 422 or 503. */
  refusal(headers?: Profile): Refusal;
  /** Without its limiter, as a log or another thread can have it. */
  toJSON(): Record<string, unknown>;
}

/** A value, now or later. */
type Later<T> = T | Promise<T>;

/**
 * The subject of a request, or several that are decided together, all or nothing. Undefined and null
 * are nobody: not limited.
 */
export type Key = string | null | undefined | readonly (
  string | readonly [string, Limits] | null | undefined
)[];

/** A response of your own. What it does not set is that of the refusal. */
export interface Answer {
  status?: number;
  headers?: Record<string, string> | Iterable<readonly [string, string]>;
  /** Text, bytes, or what is written as JSON. */
  body?: unknown;
}

/** The options of the middleware. `Request` and `Response` are what the framework passes. */
export interface MiddlewareOptions<Request, Response = unknown> {
  /** Who a request counts for. By default, and with a `ClientAddress`, it is the client's address,
   * without which a request gets a 503. */
  key?: ClientAddress | ((request: Request) => Later<Key>);
  /** The limits of a request; undefined and null for those of the limiter. */
  limits?: (request: Request) => Later<string | Limits | null | undefined>;
  /** The cost of a request: 1 by default, and for 0 it is not limited. */
  cost?: Cost | ((request: Request) => Later<Cost>);
  /** Whether a request is not limited. */
  skip?: (request: Request) => Later<boolean>;
  /** The response to a denied request; undefined for the usual one, which is `refusal`. */
  onDenied?: (
    request: Request,
    decision: Decision,
    refusal: Refusal,
  ) => Later<Answer | globalThis.Response | null | undefined | void>;
  /** Whether the charge is given back, when there is a response. */
  refundWhen?: (response: Response, request: Request) => Later<boolean>;
  /** What is charged in addition, when there is a response. */
  extraCost?: (response: Response, request: Request) => Later<Cost | null | undefined | void>;
  /** Sees each decision, for counts and logs. */
  onDecision?: (request: Request, decision: Decision) => Later<unknown>;
  /** The headers that tell a client about its limits. By default `draft`. */
  headers?: Profile;
  /**
   * The rule while the store cannot answer: requests pass, or get a 503. Required unless the
   * limiter counts in memory.
   */
  onFailure?: "allow" | "deny";
}

/** The options of a middleware over policies. The file has all others. */
export interface PolicyMiddlewareOptions<Request> {
  /** The authenticated user of a request, the field `user`. */
  key?: (request: Request) => Later<string | null | undefined>;
  /** The fields `field.NAME` of a request, by name. */
  fields?: (request: Request) => Later<Record<string, string | null | undefined>>;
  /** Whether a request is not limited. */
  skip?: (request: Request) => Later<boolean>;
  /** The response to a refused request; undefined for the usual one, which is `refusal`. */
  onDenied?: (
    request: Request,
    decision: null,
    refusal: Refusal,
  ) => Later<Answer | globalThis.Response | null | undefined | void>;
}

/** What `Policies` are read from. */
export interface PolicySettings {
  /** Where they count, as for a `Limiter`. */
  store: string;
  /** How clients are found. By default by the other end of the connection. */
  client?: ClientAddress;
  /** The headers that tell a client about its limits. By default `draft`. */
  headers?: Profile;
  /** The header with API keys, and the secret of 16 bytes or more by which they are hashed. */
  apiKey?: readonly [header: string, secret: string];
}

/** The head of a request. */
export interface RequestHead {
  method: string;
  /** The path with its query, as it was sent. */
  target: string;
  headers?: Iterable<readonly [string, string]>;
  /** The other end of the connection; undefined at a Unix socket. */
  peer?: string | null;
  /** The authenticated user. */
  user?: string | null;
  /** The template of its route. */
  route?: string | null;
  /** The fields `field.NAME`. */
  fields?: Record<string, string | null | undefined>;
}

/** The treatment of a request by policies. */
export interface Ruling {
  /** The headers for the response of a request that passes. */
  headers: Headers;
  /** The response of one that does not; null for one that passes. */
  refusal: Refusal | null;
}

/**
 * The policies of a file, and the store in which they count: all that the service does with a
 * request, in this process. Give it to a middleware in place of a `Limiter`. While the store cannot
 * answer, the failure rules of the file decide.
 */
export class Policies {
  constructor(file: string, settings: PolicySettings);
  /** The names of the fields `field.NAME` that the file reads. */
  get fieldNames(): string[];
  /** Reads the file again. Where it has problems, the policies stay as they are. */
  reload(): void;
  /** The ruling on a request by its head, which counts it. `warn` gets warnings for the log. */
  judge(head: RequestHead, warn?: (message: string) => void): Promise<Ruling>;
}
