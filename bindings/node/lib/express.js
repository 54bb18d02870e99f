"use strict";
// Middleware for Express, and for whatever calls `(request, response, next)`.

const { judge, middlewareOptions } = require("./middleware.js");

/** The connection of a request; `req.ip` follows the setting `trust proxy`. */
function connection(request) {
  return { ip: request.ip, incoming: request };
}

/** Checks each request, and answers denied ones. The decision is in `req.tollgate`. */
function tollgate(limiter, options) {
  const settings = middlewareOptions(limiter, options, connection);
  return function tollgate(request, response, next) {
    limited(settings, request, response).then(
      (passes) => passes && next(),
      (error) => next(error),
    );
  };
}

async function limited(settings, request, response) {
  const { decision, refusal, headers } = await judge(settings, request, console.warn);
  if (refusal === undefined) {
    request.tollgate = decision;
    for (const [name, value] of headers) response.appendHeader(name, value);
    return true;
  }
  for (const [name, value] of refusal.headers) response.appendHeader(name, value);
  response.statusCode = refusal.status;
  response.end(refusal.body);
  return false;
}

module.exports = { tollgate };
