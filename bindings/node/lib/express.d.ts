/// <reference types="node" />
import type { IncomingMessage, ServerResponse } from "node:http";
import type {
  Decision,
  Limiter,
  MiddlewareOptions,
  Policies,
  PolicyMiddlewareOptions,
} from "./index";

/** A request of Express, as far as it is known here. */
type Request = IncomingMessage & { ip?: string | undefined; tollgate?: Decision | undefined };

/**
 * Middleware that checks each request, and answers denied ones. The decision is in `req.tollgate`.
 */
export function tollgate<Of extends IncomingMessage = Request>(
  limiter: Limiter,
  options?: MiddlewareOptions<Of, ServerResponse>,
): (request: Of, response: ServerResponse, next: (error?: unknown) => void) => void;
export function tollgate<Of extends IncomingMessage = Request>(
  policies: Policies,
  options?: PolicyMiddlewareOptions<Of>,
): (request: Of, response: ServerResponse, next: (error?: unknown) => void) => void;

declare global {
  namespace Express {
    interface Request {
      /** The decision about this request, where it was limited. */
      tollgate?: Decision;
    }
  }
}
