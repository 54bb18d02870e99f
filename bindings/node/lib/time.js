"use strict";
// The time of limiters that have no clock of their own: the store's, unless a test has stopped it.

/** The store's own time. */
const REAL = {};

let time = REAL;
let reopen;

/** The limiters that follow it. A limiter that nobody has is not kept. */
const followers = new Set();
const collected = new FinalizationRegistry((reference) => followers.delete(reference));

/** The time of a new limiter. */
const timeNow = () => time;

/** Lets a limiter follow each change of the time. */
function followTime(limiter) {
  const reference = new WeakRef(limiter);
  followers.add(reference);
  collected.register(limiter, reference);
}

/** How a limiter changes its time. */
function whenTimeChanges(change) {
  reopen = change;
}

/**
 * Changes the time of all limiters that have no clock of their own. They are opened again: counts in
 * memory are fresh.
 */
function setTime(next) {
  time = next;
  for (const reference of followers) {
    const limiter = reference.deref();
    if (limiter !== undefined) reopen(limiter, time);
  }
}

module.exports = { REAL, followTime, setTime, timeNow, whenTimeChanges };
