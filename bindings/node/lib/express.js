"use strict";
// Middleware for Express, and for whatever calls `(request, response, next)`.

const { guardOf } = require("./policy_guard.js");
const { byName, tell, whenEnded } = require("./respond.js");

/** The connection of a request; `req.ip` follows the setting `trust proxy`. */
function connection(request) {
  const { ip, socket, headers } = request;
  return { ip, peer: socket?.remoteAddress, headers, node: request };
}

/** Checks each request, and answers denied ones. The decision is in `req.tollgate`. */
function tollgate(limiter, options) {
  const guard = guardOf(limiter, options, connection);
  return function tollgate(request, response, next) {
    limited(guard, request, response).then(
      (passes) => passes && next(),
      (error) => next(error),
    );
  };
}

async function limited(guard, request, response) {
  const verdict = await guard.judge(request, request, console.warn);
  const { decision, answer, told, after } = verdict;
  tell(response, told);
  if (answer === undefined) {
    request.tollgate = decision;
    if (after !== undefined) whenEnded(response, () => after(response));
    return true;
  }
  if (response.headersSent) return false;
  for (const [name, value] of byName(answer.headers)) response.setHeader(name, value);
  response.statusCode = answer.status;
  response.end(answer.body);
  return false;
}

module.exports = { tollgate };
