"use strict";
// Middleware for Hono, on Node.

const { judge, middlewareOptions } = require("./middleware.js");

/** The connection of a request, which `@hono/node-server` has; other servers have none. */
function connection(c) {
  return { incoming: c.env?.incoming };
}

/** Checks each request, and answers denied ones. The decision is `c.get("tollgate")`. */
function tollgate(limiter, options) {
  const settings = middlewareOptions(limiter, options, connection);
  return async function tollgate(c, next) {
    const { decision, refusal, headers } = await judge(settings, c, console.warn);
    if (refusal !== undefined) {
      const { status, body } = refusal;
      return new Response(body, { status, headers: refusal.headers });
    }
    c.set("tollgate", decision);
    await next();
    for (const [name, value] of headers) c.header(name, value, { append: true });
    return undefined;
  };
}

module.exports = { tollgate };
