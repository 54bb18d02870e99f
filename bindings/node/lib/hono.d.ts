import type { Context, MiddlewareHandler } from "hono";
import type {
  Decision,
  Limiter,
  MiddlewareOptions,
  Policies,
  PolicyMiddlewareOptions,
} from "./index";

/**
 * Middleware that checks each request, and answers denied ones. The decision is
 * `c.get("tollgate")`.
 */
export function tollgate(
  limiter: Limiter,
  options?: MiddlewareOptions<Context, Response>,
): MiddlewareHandler<{ Variables: { tollgate?: Decision } }>;
export function tollgate(
  policies: Policies,
  options?: PolicyMiddlewareOptions<Context>,
): MiddlewareHandler<{ Variables: { tollgate?: Decision } }>;
