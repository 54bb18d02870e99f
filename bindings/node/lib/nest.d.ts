import type { Limiter, MiddlewareOptions, Policies, PolicyMiddlewareOptions } from "./index";

/** An `ExecutionContext` of Nest, as far as it is known here. */
interface Context {
  getType(): string;
  switchToHttp(): { getRequest(): any; getResponse(): any };
}

/**
 * A guard (`CanActivate`) that checks each request over HTTP, and throws an `HttpException` for
 * denied ones. The decision is in `request.tollgate`. `Request` and `Response` are the platform's.
 */
export class TollgateGuard<Request = any, Response = any> {
  constructor(limiter: Limiter, options?: MiddlewareOptions<Request, Response>);
  constructor(policies: Policies, options?: PolicyMiddlewareOptions<Request>);
  canActivate(context: Context): Promise<boolean>;
}
