"use strict";
// What happens while the store cannot answer.

const { ArgumentError } = require("./errors.js");

/** The rule while the store cannot answer. It says once that the store is lost, and that it is back. */
class Failures {
  /** How many questions had no answer since the store was lost. */
  lost = 0;

  constructor(rule) {
    if (![undefined, "allow", "deny"].includes(rule)) {
      const shown = typeof rule === "string" ? JSON.stringify(rule.slice(0, 40)) : typeof rule;
      throw new ArgumentError(`onFailure is ${shown}: give "allow" or "deny"`);
    }
    this.rule = rule;
  }

  /** Whether what was asked for may go on without an answer. */
  passes(error, warn) {
    if (this.lost === 0) {
      const what = this.rule === "allow" ? "pass" : "are refused";
      warn(`no decision: ${error.message}. Requests ${what} until the store answers`);
    }
    this.lost += 1;
    return this.rule === "allow";
  }

  /** The store answers. */
  answered(warn) {
    if (this.lost === 0) return;
    warn(`the store answers again: ${this.lost} requests had no decision`);
    this.lost = 0;
  }
}

module.exports = { Failures };
