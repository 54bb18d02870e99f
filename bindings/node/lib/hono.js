"use strict";
// Middleware for Hono.

const { guardOf } = require("./policy_guard.js");
const { around } = require("./web.js");

/** The connection of a request, which `@hono/node-server` has; other servers have none. */
function connection(c) {
  const incoming = c.env?.incoming;
  return { peer: incoming?.socket?.remoteAddress, headers: incoming?.headers, web: c.req.raw };
}

/** Checks each request, and answers denied ones. The decision is `c.get("tollgate")`. */
function tollgate(limiter, options) {
  const guard = guardOf(limiter, options, connection);
  return async function tollgate(c, next) {
    let inner;
    const response = await around(guard, { request: c, carrier: c }, async (decision) => {
      c.set("tollgate", decision);
      await next();
      inner = c.res;
      return inner;
    });
    if (inner === undefined) return response;
    if (response !== inner) {
      // Hono would write the old headers over the new ones.
      c.res = undefined;
      c.res = response;
    }
    return undefined;
  };
}

module.exports = { tollgate };
