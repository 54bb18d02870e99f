"use strict";
// Middleware for Hono, on Node.

const { client, judge, middlewareOptions } = require("./middleware.js");
const { ArgumentError } = require("./errors.js");

/** The subject of a request by the address of its connection, which `@hono/node-server` tells. */
function address(c) {
  const incoming = c.env?.incoming;
  if (incoming === undefined) {
    throw new ArgumentError("key is missing: this server gives no address of a client");
  }
  return client(incoming.socket.remoteAddress);
}

/** Checks each request, and answers denied ones. The decision is `c.get("tollgate")`. */
function tollgate(limiter, options) {
  const settings = middlewareOptions(limiter, options, address);
  return async function tollgate(c, next) {
    const subject = await settings.key(c);
    const { decision, refusal, headers } = await judge(settings, subject, console.warn);
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
