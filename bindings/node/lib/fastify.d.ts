import type { FastifyPluginAsync, FastifyRequest } from "fastify";
import type { Decision, Limiter, MiddlewareOptions } from "./index";

/** The options of the plugin. */
export interface TollgateOptions extends MiddlewareOptions<FastifyRequest> {
  limiter: Limiter;
}

/**
 * A plugin that checks each request, and answers denied ones. The decision is in
 * `request.tollgate`.
 */
export const tollgate: FastifyPluginAsync<TollgateOptions>;

declare module "fastify" {
  interface FastifyRequest {
    /** The decision about this request; null where it was not limited. */
    tollgate: Decision | null;
  }
}
