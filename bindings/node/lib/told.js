"use strict";
// The headers of all limits that one request met: each header once, in the order of the limits.

/** The headers that are lists: each limit adds an entry. */
const LISTS = ["ratelimit-policy", "ratelimit"];

/** Where a request keeps its headers. A symbol of all copies of this package. */
const TOLD = Symbol.for("tollgate-limiter.told");

const isLegacy = ([name]) => name.startsWith("x-ratelimit-");
const isTold = (it) => LISTS.includes(it[0]) || isLegacy(it);

/** The headers of the limits that a request met so far, outer ones first. */
class Told {
  #each = [];
  #before;
  #without;

  /** Adds the headers of a decision. */
  add(decision, headers) {
    // A denial's own numbers agree with its `Retry-After`.
    this.#each.push({ left: decision.allowed ? decision.remaining : -1, headers });
  }

  /** Leaves out what a response has of its own. */
  leave(names) {
    this.#without = names;
  }

  /**
   * Each header once: lists with the entries of all limits, single numbers of the limit with the
   * least left. `read` reads what others wrote before, which stays first in a list.
   */
  headers(read) {
    const all = this.#all(read);
    return this.#without === undefined ? all : all.filter((it) => !this.#without.includes(it[0]));
  }

  #all(read = () => undefined) {
    this.#before ??= LISTS.map((name) => read(name) ?? []);
    const before = this.#before;
    if (this.#each.length === 1 && before.every((it) => it.length === 0)) {
      return this.#each[0].headers;
    }
    const lists = LISTS.map((name, place) => {
      const own = this.#each.flatMap(({ headers }) => headers.filter((it) => it[0] === name));
      return [name, own.length === 0 ? [] : [before[place], own.map((it) => it[1])].flat(2)];
    });
    const written = lists.filter((it) => it[1].length > 0);
    const legacy = this.#each.filter(({ headers }) => headers.some(isLegacy));
    const least = legacy.reduce((found, it) => (it.left < found.left ? it : found), legacy[0]);
    const numbers = least === undefined ? [] : least.headers.filter(isLegacy);
    return [...written.map(([name, values]) => [name, values.join(", ")]), ...numbers];
  }
}

/** The headers of a request, and whether this is the first limit that the request meets. */
function toldOf(carrier) {
  const known = carrier[TOLD];
  if (known !== undefined) return { told: known, isOuter: false };
  carrier[TOLD] = new Told();
  return { told: carrier[TOLD], isOuter: true };
}

/** The headers of a refusal that are about limits, and the others. */
function split(headers) {
  return [headers.filter(isTold), headers.filter((it) => !isTold(it))];
}

module.exports = { LISTS, split, toldOf };
