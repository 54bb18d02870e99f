"use strict";
// Exact rate limiting: several limits in one check, in memory, SQLite, Redis and Redis Cluster.

const { ClientAddress } = require("./client.js");
const { Decision } = require("./decision.js");
const {
  ArgumentError,
  Denied,
  HoldError,
  LimitError,
  StoreError,
  TollgateError,
} = require("./errors.js");
const { Reservation, Slot } = require("./holds.js");
const { Limiter } = require("./limiter.js");
const { Limits, ManualClock } = require("./limits.js");
const { native } = require("./native.js");
const { Policies } = require("./policies.js");
const { sign, verify } = require("./sign.js");

const version = native.version();

module.exports = {
  ArgumentError,
  ClientAddress,
  Decision,
  Denied,
  HoldError,
  LimitError,
  Limiter,
  Limits,
  ManualClock,
  Policies,
  Reservation,
  Slot,
  StoreError,
  TollgateError,
  sign,
  verify,
  version,
};
