import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from "fastify";
import type { Decision, Limiter, MiddlewareOptions } from "./index";

/** The options of the plugin. */
export interface TollgateOptions extends MiddlewareOptions<FastifyRequest, FastifyReply> {
  limiter: Limiter;
}

/**
 * A plugin that checks each request, and answers denied ones. The decision is in
 * `request.tollgate`.
 */
export const tollgate: FastifyPluginAsync<TollgateOptions>;

/** The hook alone: for some routes, or as `preHandler`, which sees the body. */
export function tollgateHook(
  limiter: Limiter,
  options?: MiddlewareOptions<FastifyRequest, FastifyReply>,
): (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;

declare module "fastify" {
  interface FastifyRequest {
    /** The decision about this request; null where it was not limited. */
    tollgate: Decision | null;
  }
}
