// `fetch` that keeps to the limits of the service that it calls.

import type { Limiter } from "./index.js";

export interface FetchOptions {
  /** Makes the subject of a request; by default its host. */
  key?: (request: Request) => string;
  /** The longest time to wait for turns, in seconds, of all tries together; 60 by default. */
  timeout?: number;
  /** How often a 429 is tried again, and a 503 of a method that may be repeated; 2 by default. */
  retries?: number;
  /**
   * Whether requests go out ("allow") or fail ("deny") while the limiter's store cannot answer. It
   * has to be given unless the limiter counts in memory.
   */
  onFailure?: "allow" | "deny";
  /** Sends requests; by default `globalThis.fetch`. */
  fetch?: typeof fetch;
}

/**
 * A `fetch` whose requests wait for their turn, in the order of arrival. Without a turn in time, a
 * request fails with a `DOMException` of the name `TimeoutError`. A response that asks for a wait,
 * as by `Retry-After` or `RateLimit`, delays all that come after. A refused request is tried again
 * unless its body is a stream, and its last response is returned where there is no time for that.
 */
export function limitedFetch(limiter: Limiter, options?: FetchOptions): typeof fetch;
