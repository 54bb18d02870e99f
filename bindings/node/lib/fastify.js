"use strict";
// A plugin for Fastify.

const { client, judge, middlewareOptions } = require("./middleware.js");

/** The subject of a request: `request.ip`, which follows the option `trustProxy`. */
function address(request) {
  return client(request.ip);
}

/** Checks each request, and answers denied ones. The decision is in `request.tollgate`. */
async function tollgate(fastify, { limiter, prefix, logLevel, logSerializers, ...options }) {
  const settings = middlewareOptions(limiter, options, address);
  if (!fastify.hasRequestDecorator("tollgate")) fastify.decorateRequest("tollgate", null);
  fastify.addHook("onRequest", async (request, reply) => {
    const subject = await settings.key(request);
    const warn = (what) => request.log.warn(what);
    const { decision, refusal, headers } = await judge(settings, subject, warn);
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
