"use strict";
// `fetch` that keeps to the limits of the service that it calls.

const { callable, costOf, options, whole, wrongType } = require("./arguments.js");
