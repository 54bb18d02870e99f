import type { Context, Middleware, Response } from "koa";
import type {
  Decision,
  Limiter,
  MiddlewareOptions,
  Policies,
  PolicyMiddlewareOptions,
} from "./index";

/**
 * Middleware that checks each request, and answers denied ones. The decision is in
 * `ctx.state.tollgate`.
 */
export function tollgate(
  limiter: Limiter,
  options?: MiddlewareOptions<Context, Response>,
): Middleware<{ tollgate?: Decision }>;
export function tollgate(
  policies: Policies,
  options?: PolicyMiddlewareOptions<Context>,
): Middleware<{ tollgate?: Decision }>;
