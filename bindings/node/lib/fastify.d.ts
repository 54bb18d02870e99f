import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from "fastify";
import type {
  Decision,
  Limiter,
  MiddlewareOptions,
  Policies,
  PolicyMiddlewareOptions,
} from "./index";

/** The options of the plugin. */
export interface TollgateOptions extends MiddlewareOptions<FastifyRequest, FastifyReply> {
  limiter: Limiter;
}

/** The options of the plugin over policies. */
export interface TollgatePolicyOptions extends PolicyMiddlewareOptions<FastifyRequest> {
  limiter: Policies;
}

/**
 * A plugin that checks each request, and answers denied ones. The decision is in
 * `request.tollgate`.
 */
export const tollgate: FastifyPluginAsync<TollgateOptions | TollgatePolicyOptions>;

/** The hook alone: for some routes, or as `preHandler`, which sees the body. */
export function tollgateHook(
  limiter: Limiter,
  options?: MiddlewareOptions<FastifyRequest, FastifyReply>,
): (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;
export function tollgateHook(
  policies: Policies,
  options?: PolicyMiddlewareOptions<FastifyRequest>,
): (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;

declare module "fastify" {
  interface FastifyRequest {
    /** The decision about this request; null where it was not limited. */
    tollgate: Decision | null;
  }
}
