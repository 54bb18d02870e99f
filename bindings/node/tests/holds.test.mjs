// The time lines of `vectors/holds/` through Node, in memory and on a Redis.
//
// Lines after a `change:` are left out, since a limiter has its limits for good. So are names of
// holds that were never placed, which Node cannot say. Holds that callers name have separate
// tests.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { HoldError, Limiter, ManualClock } from "tollgate-limiter";
import { NO_REDIS, ROOT, microseconds, redis, timelines, us, whole } from "./support.mjs";

const FOLDER = join(ROOT, "vectors/holds");
const FILES = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".txt") && file !== "names.txt")
  .sort();
const column = (it) => [it.remaining, us(it.retryAfter), us(it.resetAfter)];

function said(decision) {
  let answer = decision.allowed ? "yes" : decision.outcome === "never" ? "never" : "no";
  if (decision.untilHold && answer === "no") answer = "no, held";
  return { answer, columns: decision.limits.map(column) };
}

/** A limiter, and the holds that were placed by name. */
class Asker {
  constructor(limiter, subject) {
    Object.assign(this, { limiter, subject, holds: new Map() });
  }

  /** The answer as it is written, and its columns; undefined if it cannot be asked. */
  async ask(question) {
    const [word, ...rest] = question.split(" ").filter((it) => it);
    const { limiter, subject, holds } = this;
    if (["check", "peek", "partial"].includes(word)) {
      const units = whole(rest[0]);
      if (word === "peek") return said(await limiter.peek(subject, units));
      const decision = await limiter.checkAll([subject], units, { partial: word === "partial" });
      const { answer, columns } = said(decision);
      const isGranted = word === "partial" && decision.allowed;
      return { answer: isGranted ? `granted ${decision.granted}` : answer, columns };
    }
    if (word === "charge") {
      const charged = await limiter.charge(subject, whole(rest[0]));
      return { answer: `charged ${whole(rest[0])}`, columns: charged.map(column) };
    }
    if (word === "reset") {
      await limiter.reset(subject);
      return { answer: "reset", columns: [] };
    }
    const name = rest[0];
    if (word === "reserve" || word === "acquire") {
      const units = whole(rest[1]);
      const hold =
        word === "acquire"
          ? await limiter.acquire(subject, units)
          : await limiter.reserve(subject, units, microseconds(rest[3]) / 1e6, {
              chargeAtEnd: rest.at(-1) === "charging",
            });
      holds.delete(name);
      const { answer, columns } = said(hold.decision);
      if (!hold.allowed) return { answer, columns };
      holds.set(name, hold);
      return { answer: `until ${hold.endUs}`, columns };
    }
    const hold = holds.get(name);
    if (hold === undefined) return undefined;
    // The kinds of a hold have no call of the other kind, which a time line may ask.
    const ask = (question, words, read) => hold.ask(question, words, read);
    if (word === "release") {
      const released = await ask("release", {}, ({ flag }) => flag);
      return { answer: released ? "released" : "not open", columns: [] };
    }
    if (word === "renew") {
      const ttl = rest.length > 1 ? microseconds(rest[2]) / 1e6 : undefined;
      return { answer: (await hold.renew(ttl)) ? "until" : "not open", columns: [] };
    }
    const units = word === "commit" ? whole(rest[1]) : 0;
    try {
      const settled = await ask("commit", { units }, (reply) => reply);
      if (settled.already) return { answer: `already ${settled.actual}`, columns: [] };
      return { answer: `charged ${settled.actual}`, columns: settled.limits.map(column) };
    } catch (error) {
      assert.ok(error instanceof HoldError, error);
      return { answer: "not open", columns: [] };
    }
  }
}

/** An answer in the form of `Asker.ask`. */
function written(answer, question) {
  if (question.startsWith("renew")) return answer === "not open" ? answer : "until";
  if (answer.startsWith("until ")) return `until ${microseconds(answer.slice("until ".length))}`;
  return answer.replaceAll("_", "");
}

function checkColumn(text, found, place) {
  const [remaining, retry, reset] = text.split(" ").filter((it) => it);
  const wait = retry === "-" ? null : microseconds(retry);
  assert.deepEqual(found.slice(0, 2), [whole(remaining), wait], place);
  const least = microseconds(reset.replace(/\+$/, ""));
  if (reset.endsWith("+")) assert.ok(found[2] >= least, place);
  else assert.equal(found[2], least, place);
}

let url;
before(async () => {
  url = await redis();
});

for (const kind of ["memory", "redis"]) {
  for (const file of FILES) {
    test(`holds/${file} in ${kind}`, { skip: kind === "redis" && NO_REDIS }, async () => {
      let asked = 0;
      for (const [index, { limits, lines }] of timelines(join(FOLDER, file), "limits:").entries()) {
        const clock = new ManualClock();
        const store = kind === "memory" ? "memory://" : url;
        const asker = new Asker(new Limiter(limits, { store, clock }), `line:${index}`);
        for (const { number, columns } of lines) {
          if (columns[0].startsWith("change:")) break;
          const [at, question, answer, ...expected] = columns;
          clock.set(microseconds(at));
          const place = `${file}:${number}`;
          const found = await asker.ask(question);
          if (found === undefined) continue;
          assert.equal(found.answer, written(answer, question), place);
          assert.ok(found.columns.length === expected.length || !found.columns.length, place);
          found.columns.forEach((numbers, at) => checkColumn(expected[at], numbers, place));
          asked += 1;
        }
      }
      assert.ok(asked >= 10, `${file} asks next to nothing`);
    });
  }
}

const ID = "b1946ac92492d2347c6235b4d2611184";

test("one hold more than a count can have is an error of its own", async () => {
  const units = new Limiter("9999/h via gcra");
  const charging = { chargeAtEnd: true };
  for (let i = 0; i < 1000; i += 1) await units.reserve("bob", 1, 60, charging);
  await assert.rejects(units.reserve("bob", 1, 60, charging), (error) => {
    assert.ok(error instanceof HoldError, error);
    assert.match(error.message, /1000 holds that charge at their end are open/);
    return true;
  });
  assert.ok(await units.reserve("bob", 1, 60));
});

test("a hold with an id is one and is settled by it", async () => {
  const slots = new Limiter("2 at once hold 30s");
  const first = await slots.acquire("backend", 1, { id: ID });
  const again = await slots.acquire("backend", 1, { id: ID });
  assert.equal(first.fence, again.fence);
  assert.equal((await slots.peek("backend")).remaining, 1);
  await assert.rejects(slots.acquire("backend", 2, { id: ID }), /asked for otherwise/);
  assert.equal(await slots.renew("backend", ID), true);
  assert.equal(await slots.release("backend", ID), true);
  assert.equal(await slots.release("backend", ID), false);
  assert.equal((await slots.peek("backend")).remaining, 2);
  // A release that comes first refuses what comes later.
  const early = "0123456789abcdef";
  assert.equal(await slots.release("backend", early), false);
  await assert.rejects(slots.acquire("backend", 1, { id: early }), HoldError);
  const units = new Limiter("100/h");
  await units.reserve("bob", 70, 60, { id: ID });
  assert.equal((await units.commit("bob", ID, 30)).actual, 30);
  assert.equal((await units.commit("bob", ID, 30)).already, true);
  assert.equal((await units.peek("bob")).remaining, 70);
});

test("a wrong id is refused, and no message repeats it", async () => {
  const slots = new Limiter("2 at once hold 30s");
  for (const wrong of ["", "x".repeat(15), "x".repeat(257), "a secret of sixteen"]) {
    const says = (error) => {
      assert.equal(error.name, "ArgumentError");
      assert.match(error.message, /^id: .*: give 16 to 256 printable characters of ASCII/);
      return wrong === "" || !error.message.includes(wrong);
    };
    await assert.rejects(slots.acquire("backend", 1, { id: wrong }), says);
    await assert.rejects(slots.reserve("backend", 1, 1, { id: wrong }), says);
    await assert.rejects(slots.release("backend", wrong), says);
  }
  const type = { name: "TypeError", message: "id must be a string, not number" };
  await assert.rejects(slots.acquire("backend", 1, { id: 7 }), type);
  await assert.rejects(slots.commit("backend", 7, 1), type);
});

test("who waits is not banned, and stands in line", async () => {
  const slots = new Limiter("1 at once hold 30s, ban 10m after 2 denials in 1m");
  const held = await slots.acquire("backend");
  const [first, second] = ["a".repeat(16), "b".repeat(16)];
  const inLine = (id) => slots.acquire("backend", 1, { id, waiting: "in_line" });
  for (let turn = 0; turn < 4; turn++) {
    assert.equal((await inLine(first)).allowed, false);
    assert.equal((await inLine(second)).allowed, false);
    assert.equal((await slots.acquire("backend", 1, { waiting: "again" })).allowed, false);
  }
  await held.release();
  assert.equal((await inLine(second)).allowed, false);
  assert.equal((await inLine(first)).allowed, true);
  await assert.rejects(slots.acquire("backend", 1, { waiting: "soon" }), /^.*waiting: .*say `again`/);
});
