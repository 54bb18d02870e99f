"use strict";
// A guard for Nest, over Express or Fastify.

const { HttpException } = require("@nestjs/common");
const { ArgumentError } = require("./errors.js");
const { guardOf } = require("./policy_guard.js");
const { byName, whenEnded } = require("./respond.js");

/** The connection of a request; `request.ip` follows the setting of the platform. */
function connection(request) {
  const { ip, headers } = request;
  const node = request.raw ?? request;
  return { ip, peer: node.socket?.remoteAddress, headers, node };
}

/** The body of an exception: the exception filter writes objects as JSON. */
function bodyOf(body) {
  const text = typeof body === "string" ? body : Buffer.from(body).toString();
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Checks each request, and throws an `HttpException` for denied ones. */
class TollgateGuard {
  #guard;

  constructor(limiter, options) {
    this.#guard = guardOf(limiter, options, connection);
  }

  async canActivate(context) {
    if (context.getType() !== "http") {
      throw new ArgumentError(`the guard limits HTTP alone, not ${context.getType()}`);
    }
    const http = context.switchToHttp();
    const [request, response] = [http.getRequest(), http.getResponse()];
    const raw = { request: request.raw ?? request, response: response.raw ?? response };
    const verdict = await this.#guard.judge(request, raw.request, console.warn);
    const { decision, answer, told, after } = verdict;
    const headers = told?.headers((name) => response.getHeader(name)) ?? [];
    for (const [name, value] of [...headers, ...byName(answer?.headers ?? [])]) {
      response.header(name, value);
    }
    if (answer !== undefined) throw new HttpException(bodyOf(answer.body), answer.status);
    request.tollgate = decision;
    if (after !== undefined) whenEnded(raw.response, () => after(response));
    return true;
  }
}

module.exports = { TollgateGuard };
