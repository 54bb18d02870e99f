"use strict";
// Exact rate limiting: several limits in one check, in memory, SQLite, Redis and Redis Cluster.

const { text } = require("./arguments.js");
const { Decision } = require("./decision.js");
const {
  ArgumentError,
  Denied,
  HoldError,
  LimitError,
  StoreError,
  TollgateError,
  call,
} = require("./errors.js");
const { Reservation, Slot } = require("./holds.js");
const { Limiter } = require("./limiter.js");
const { Limits, ManualClock } = require("./limits.js");
const { native } = require("./native.js");

/** The subject of a client by its address: `ip:192.0.2.7`, `ip:2001:db8::/64`. */
function clientSubject(address) {
  return call(native.clientSubject, text(address, "address"));
}

const version = native.version();

module.exports = {
  ArgumentError,
  Decision,
  Denied,
  HoldError,
  LimitError,
  Limiter,
  Limits,
  ManualClock,
  Reservation,
  Slot,
  StoreError,
  TollgateError,
  clientSubject,
  version,
};
