import { ManualClock } from "./index";

export { ManualClock };

/**
 * Stops the time of all limiters that have no clock of their own, also of those that exist. It goes
 * on when the clock is moved. Counts in memory are fresh. It starts at `Date.now()`, or at a time in
 * microseconds since 1970.
 */
export function freeze(atUs?: number): ManualClock;

/** From now on these limiters tell the time by `Date`, which fake timers move. Counts are fresh. */
export function followDate(): void;

/** Gives these limiters the real time again. Counts in memory are fresh. */
export function unfreeze(): void;
