// The answers of `vectors/wire/decisions.txt`, which every front gives.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Limiter, ManualClock } from "tollgate-limiter";
import { ROOT } from "./support.mjs";

const TEXT = readFileSync(join(ROOT, "vectors/wire/decisions.txt"), "utf8");

/** A name of JavaScript as the wire has it. */
const wire = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** A value of the file as a property has it: a wait is its seconds. */
const plain = (value) => value?.seconds ?? value;

function checkReports(found, fields) {
  assert.equal(found.length, fields.length);
  for (const [place, report] of found.entries()) {
    const said = Object.entries(report).map(([name, value]) => [wire(name), value]);
    const expected = Object.entries(fields[place]).map(([name, value]) => [name, plain(value)]);
    assert.deepEqual(Object.fromEntries(said), Object.fromEntries(expected));
  }
}

function checkDecision(decision, fields) {
  const getters = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(decision));
  for (const [name, { get }] of Object.entries(getters)) {
    // The answers of the service have a receipt where one was asked for.
    if (get === undefined || name === "limits" || name === "receipt") continue;
    assert.deepEqual(decision[name], plain(fields[wire(name)]), name);
  }
  checkReports(decision.limits, fields.limits);
}

test("decisions are those of every front", async () => {
  const clock = new ManualClock(1_000_000_000_000_000);
  const limiters = new Map();
  let held;
  for (const part of TEXT.trim().split("\n\n")) {
    const [about, line, text] = part.split("\n");
    const act = line.split(" ")[0];
    const { subject, limit, cost, actual, ttl } = JSON.parse(line.slice(act.length));
    const answer = JSON.parse(text);
    if (act === "commit") {
      const { already, actual: charged, limits } = await held.commit(actual);
      assert.deepEqual([already, charged], [answer.already, answer.actual], about);
      checkReports(limits, answer.limits);
      continue;
    }
    if (!limiters.has(limit)) limiters.set(limit, new Limiter(limit, { clock }));
    const limiter = limiters.get(limit);
    if (act === "charge") {
      checkReports(await limiter.charge(subject, cost), answer.limits);
      continue;
    }
    let decision;
    if (act === "check" || act === "peek") {
      decision = await limiter[act](subject, cost);
    } else {
      const hold = await limiter[act](subject, cost, ...(ttl === "1m" ? [60] : []));
      assert.deepEqual([hold.allowed, hold.fence], [answer.allowed, answer.fence], about);
      if (act === "reserve" && hold.allowed) held = hold;
      ({ decision } = hold);
      for (const name of ["hold", "fence", "ends_after", "ahead"]) delete answer[name];
    }
    assert.equal(JSON.stringify(decision), JSON.stringify(answer), about);
    checkDecision(decision, answer);
  }
});
