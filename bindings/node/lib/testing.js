"use strict";
// Time for tests: a clock that they move, and one that follows the timers of a test runner.

const { micros } = require("./arguments.js");
// Before a limiter's time changes, there is the class that knows how.
require("./limiter.js");
const { ManualClock } = require("./limits.js");
const { REAL, setTime } = require("./time.js");

/** The time of `Date`, which fake timers move, in microseconds. */
const dateUs = () => Math.floor(Date.now() * 1000);

/**
 * Stops the time of all limiters that have no clock of their own. It goes on when the clock is
 * moved.
 */
function freeze(atUs = dateUs()) {
  const clock = new ManualClock(micros(atUs, "atUs"));
  setTime({ clock });
  return clock;
}

/** From now on the time of these limiters is that of `Date`. */
function followDate() {
  const clock = new ManualClock(dateUs());
  const lines = {
    get atUs() {
      return dateUs();
    },
  };
  setTime({ clock, lines, before: () => clock.set(dateUs()) });
}

/** Gives these limiters the real time again. */
function unfreeze() {
  setTime(REAL);
}

module.exports = { ManualClock, followDate, freeze, unfreeze };
