"use strict";
// The response to a request that does not pass: the package's own, or that of `onDenied`.

const { wrongType } = require("./arguments.js");

/** The statuses of responses without a body. */
const WITHOUT_BODY = [204, 205, 304];

/** Headers of any form as pairs with names in small letters. */
function pairs(headers) {
  if (headers === undefined) return [];
  const each = Symbol.iterator in Object(headers) ? [...headers] : Object.entries(headers);
  return each.map(([name, value]) => [String(name).toLowerCase(), String(value)]);
}

/** A body as it is written, and the type of its content. */
function written(body) {
  if (typeof body === "string") return [body, "text/plain; charset=utf-8"];
  if (body instanceof Uint8Array) return [body, "application/octet-stream"];
  return [JSON.stringify(body), "application/json"];
}

/**
 * The response that `onDenied` wants: a `Response`, or an object with `status`, `headers` and
 * `body`. What it does not set is that of the refusal.
 */
async function answerOf(own, refusal) {
  if (own === undefined || own === null) return refusal;
  if (typeof own !== "object") {
    wrongType(own, "the result of onDenied", "an object with status, headers, body");
  }
  const isResponse = own instanceof Response;
  const body = isResponse ? new Uint8Array(await own.arrayBuffer()) : own.body;
  const status = own.status ?? refusal.status;
  const headers = pairs(own.headers);
  const has = (name) => headers.some((it) => it[0] === name);
  const isEmpty = WITHOUT_BODY.includes(status);
  const isOwn = isEmpty || body !== undefined;
  for (const it of refusal.headers) {
    if (!has(it[0]) && !(isOwn && it[0] === "content-type")) headers.push(it);
  }
  if (isEmpty) return { status, headers, body: "" };
  if (!isOwn) return { status, headers, body: refusal.body };
  const [text, type] = written(body);
  if (!has("content-type") && !isResponse) headers.push(["content-type", type]);
  return { status, headers, body: text };
}

module.exports = { answerOf };
