"use strict";
// Responses of Node's HTTP server, which Express, Koa and Nest have too.

/** Writes the headers of the limits: each replaces what an outer middleware wrote. */
function tell(response, told) {
  if (told === undefined || response.headersSent) return;
  for (const [name, value] of told.headers((name) => response.getHeader(name))) {
    response.setHeader(name, value);
  }
}

/** Headers by name: several of one name are a list. */
function byName(headers) {
  const names = new Map();
  for (const [name, value] of headers) names.set(name, [...(names.get(name) ?? []), value]);
  return [...names].map(([name, values]) => [name, values.length > 1 ? values : values[0]]);
}

/**
 * Calls `run` when a response has ended. One that never ends, since its client went away before it
 * was written, is no response: its status says nothing.
 */
function whenEnded(response, run) {
  let isDone = false;
  const done = () => {
    if (isDone || !response.writableEnded) return;
    isDone = true;
    run();
  };
  response.once("finish", done);
  response.once("close", done);
}

module.exports = { byName, tell, whenEnded };
