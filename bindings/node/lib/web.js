"use strict";
// Limits for handlers of a Web `Request` that return a `Response`: Next.js, and others.

const { callable } = require("./arguments.js");
const { ArgumentError } = require("./errors.js");
const { Policies } = require("./policies.js");
const { guardOf } = require("./policy_guard.js");
const { LISTS } = require("./told.js");

/** The response with the headers of the limits. Entries of one behind this handler stay. */
function marked(response, told) {
  // No header can be added to it.
  if (response.status < 200) return response;
  const each = told.headers().map(([name, value]) => {
    const inner = LISTS.includes(name) ? response.headers.get(name) : null;
    return [name, inner === null ? value : `${value}, ${inner}`];
  });
  try {
    each.forEach(([name, value]) => response.headers.set(name, value));
    return response;
  } catch {
    // That of `fetch` and `Response.redirect` cannot be changed.
    const copy = new Response(response.body, response);
    each.forEach(([name, value]) => copy.headers.set(name, value));
    return copy;
  }
}

/** The response of `handle`, which gets the decision, or that of a denial. */
async function around(guard, { request, carrier, context }, handle) {
  const verdict = await guard.judge(request, carrier, console.warn, context);
  const { decision, answer, told, isOuter, after } = verdict;
  let response;
  if (answer === undefined) {
    response = await handle(decision);
    if (after !== undefined) await after(response);
  } else {
    const { status, headers, body } = answer;
    response = new Response(body === "" ? null : body, { status, headers });
  }
  // The outermost writes, when all within have added theirs.
  return isOuter ? marked(response, told) : response;
}

/**
 * A function that puts the limiter before a handler. `peer` makes of the handler's arguments the
 * address at the other end of the connection. The decision is in `request.tollgate`.
 */
function tollgate(limiter, given) {
  const { peer, ...others } = given ?? {};
  callable(peer, "peer");
  const hasOwnClients = limiter instanceof Policies;
  if (peer === undefined && others.key === undefined && !hasOwnClients) {
    throw new ArgumentError(
      "key is missing: a Request has no address. Give `peer`, or `new ClientAddress({ hops })` " +
        "behind proxies, or a function",
    );
  }
  const connection = (request, context) => {
    return { peer: peer?.(request, context), headers: request.headers, web: request };
  };
  const guard = guardOf(limiter, others, connection);
  return (handler) =>
    function limited(request, ...context) {
      const asked = { request, carrier: request, context: context[0] };
      return around(guard, asked, (decision) => {
        request.tollgate = decision;
        return handler.call(this, request, ...context);
      });
    };
}

module.exports = { around, tollgate };
