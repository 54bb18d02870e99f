"use strict";
// A plugin for Fastify, and its hook alone.

const { guardOf } = require("./policy_guard.js");
const { byName, whenEnded } = require("./respond.js");

/** The connection of a request; `request.ip` follows the option `trustProxy`. */
function connection({ ip, raw }) {
  return { ip, peer: raw.socket?.remoteAddress, headers: raw.headers, node: raw };
}

/** A hook for some routes, or for a later moment: `preHandler` sees the body. */
function tollgateHook(limiter, options) {
  const guard = guardOf(limiter, options, connection);
  return async function tollgate(request, reply) {
    const warn = (what) => request.log.warn(what);
    const { decision, answer, told, after } = await guard.judge(request, request.raw, warn);
    if (reply.sent) return undefined;
    for (const [name, value] of told?.headers((name) => reply.getHeader(name)) ?? []) {
      reply.header(name, value);
    }
    if (answer === undefined) {
      request.tollgate = decision ?? null;
      if (after !== undefined) whenEnded(reply.raw, () => after(reply));
      return undefined;
    }
    for (const [name, value] of byName(answer.headers)) reply.header(name, value);
    // As bytes: to a text Fastify adds a charset.
    return reply.code(answer.status).send(Buffer.from(answer.body));
  };
}

/** Checks each request, and answers denied ones. The decision is in `request.tollgate`. */
async function tollgate(fastify, { limiter, prefix, logLevel, logSerializers, ...options }) {
  if (!fastify.hasRequestDecorator("tollgate")) fastify.decorateRequest("tollgate", null);
  fastify.addHook("onRequest", tollgateHook(limiter, options));
}

// The hook is for all routes of the instance that registers it, not for those of the plugin alone.
tollgate[Symbol.for("skip-override")] = true;
tollgate[Symbol.for("fastify.display-name")] = "tollgate";

module.exports = { tollgate, tollgateHook };
