"use strict";
// A plugin for Fastify.

const { judge, middlewareOptions } = require("./middleware.js");

/** The connection of a request; `request.ip` follows the option `trustProxy`. */
function connection(request) {
  return { ip: request.ip, incoming: request.raw };
}

/** Checks each request, and answers denied ones. The decision is in `request.tollgate`. */
async function tollgate(fastify, { limiter, prefix, logLevel, logSerializers, ...options }) {
  const settings = middlewareOptions(limiter, options, connection);
  if (!fastify.hasRequestDecorator("tollgate")) fastify.decorateRequest("tollgate", null);
  fastify.addHook("onRequest", async (request, reply) => {
    const warn = (what) => request.log.warn(what);
    const { decision, refusal, headers } = await judge(settings, request, warn);
    if (refusal === undefined) {
      request.tollgate = decision ?? null;
      for (const [name, value] of headers) reply.header(name, value);
      return undefined;
    }
    for (const [name, value] of refusal.headers) reply.header(name, value);
    // As bytes: to a text Fastify adds a charset.
    return reply.code(refusal.status).send(Buffer.from(refusal.body));
  });
}

// The hook is for all routes of the instance that registers it, not for those of the plugin alone.
tollgate[Symbol.for("skip-override")] = true;
tollgate[Symbol.for("fastify.display-name")] = "tollgate";

module.exports = { tollgate };
