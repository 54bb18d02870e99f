import type {
  Decision,
  Limiter,
  MiddlewareOptions,
  Policies,
  PolicyMiddlewareOptions,
} from "./index";

/** The options: functions of the request. */
export interface TollgateOptions<Of extends Request = Request, Context = any>
  extends MiddlewareOptions<Of, Response> {
  /** The address at the other end of the connection, of the handler's arguments. */
  peer?: (request: Of, context: Context) => string | null | undefined;
}

/**
 * A function that puts the limiter before a handler. The decision is in `request.tollgate`. Either
 * `key` or `peer` has to be given: a `Request` has no address.
 */
export function tollgate<Of extends Request = Request, Context = any>(
  limiter: Limiter,
  options: TollgateOptions<Of, Context>,
): <Asked extends Of, Rest extends unknown[]>(
  handler: (request: Asked, ...rest: Rest) => Response | Promise<Response>,
) => (request: Asked, ...rest: Rest) => Promise<Response>;
export function tollgate<Of extends Request = Request, Context = any>(
  policies: Policies,
  options?: PolicyMiddlewareOptions<Of> & Pick<TollgateOptions<Of, Context>, "peer">,
): <Asked extends Of, Rest extends unknown[]>(
  handler: (request: Asked, ...rest: Rest) => Response | Promise<Response>,
) => (request: Asked, ...rest: Rest) => Promise<Response>;

declare global {
  interface Request {
    /** The decision about this request, where it was limited. */
    tollgate?: Decision;
  }
}
