"use strict";
// Middleware for Koa.

const { guardOf } = require("./policy_guard.js");
const { byName, tell, whenEnded } = require("./respond.js");

/** The connection of a request; `ctx.ip` follows the setting `app.proxy`. */
function connection(ctx) {
  const { ip, req: node } = ctx;
  return { ip, peer: node.socket?.remoteAddress, headers: node.headers, node };
}

/** Checks each request, and answers denied ones. The decision is in `ctx.state.tollgate`. */
function tollgate(limiter, options) {
  const guard = guardOf(limiter, options, connection);
  return async function tollgate(ctx, next) {
    const { decision, answer, told, after } = await guard.judge(ctx, ctx.req, console.warn);
    tell(ctx.res, told);
    if (answer !== undefined) {
      if (ctx.headerSent) return;
      for (const [name, value] of byName(answer.headers)) ctx.set(name, value);
      ctx.status = answer.status;
      ctx.body = answer.body === "" ? null : Buffer.from(answer.body);
      return;
    }
    ctx.state.tollgate = decision;
    if (after !== undefined) whenEnded(ctx.res, () => after(ctx.response));
    try {
      await next();
    } catch (error) {
      // Koa removes all headers from the response to an error, but for its own ones.
      if (told !== undefined && error instanceof Error) {
        error.headers = { ...Object.fromEntries(told.headers()), ...error.headers };
      }
      throw error;
    }
  };
}

module.exports = { tollgate };
