"use strict";
// Middleware for Express, and for whatever calls `(request, response, next)`.

const { client, judge, middlewareOptions } = require("./middleware.js");

/** The subject of a request: `req.ip`, which follows the setting `trust proxy`. */
function address(request) {
  return client(request.ip ?? request.socket.remoteAddress);
}

/** Checks each request, and answers denied ones. The decision is in `req.tollgate`. */
function tollgate(limiter, options) {
  const settings = middlewareOptions(limiter, options, address);
  return function tollgate(request, response, next) {
    limited(settings, request, response).then(
      (passes) => passes && next(),
      (error) => next(error),
    );
  };
}

async function limited(settings, request, response) {
  const subject = await settings.key(request);
  const { decision, refusal, headers } = await judge(settings, subject, console.warn);
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
