// Decisions, receipts and holds that leave the process: as JSON, as text, and signed.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { Worker } from "node:worker_threads";
import { once } from "node:events";
import { ArgumentError, Denied, Limiter, Limits, sign, verify } from "tollgate-limiter";
import { HERE, NO_REDIS, PROGRAM, folder, freePort, node, redis, serve, unique } from "./support.mjs";

const KEY = "a key of thirty-two bytes or more";

let url;
before(async () => {
  url = await redis();
});

const stores = { sqlite: () => `sqlite://${folder()}/counts.db`, redis: () => url };

for (const [kind, storeOf] of Object.entries(stores)) {
  test(`a receipt is text for any process: ${kind}`, { skip: kind === "redis" && NO_REDIS }, async () => {
    const settings = { store: storeOf(), policy: unique() };
    const limiter = new Limiter("5/h", settings);
    const { receipt } = await limiter.check("a", 3);
    const script = `
      import { Limiter } from "tollgate-limiter";
      const [receipt, settings] = process.argv.slice(1);
      const { store } = JSON.parse(settings);
      const limiter = new Limiter("1/s", { store });
      console.log(JSON.stringify(await limiter.refund(receipt)));
      limiter.close();
    `;
    const refund = JSON.parse(await node(script, receipt, JSON.stringify(settings)));
    assert.deepEqual(refund, { already: false, given: [3], left: 0 });
    assert.equal((await limiter.refund(receipt)).already, true);
    assert.equal((await limiter.peek("a")).remaining, 5);

    const slots = new Limiter("1 at once", settings);
    const { text } = await slots.acquire("a");
    const other = new Limiter("1 at once", settings);
    const slot = other.restore(text);
    assert.deepEqual([slot.allowed, slot.decision, slot.text], [true, null, text]);
    assert.ok(await slot.renew());
    assert.deepEqual([await slot.release(), (await slots.acquire("a")).allowed], [true, true]);

    const reservation = await limiter.reserve("a", 4, 60);
    const settled = await limiter.restore(reservation.text).commit(1);
    assert.equal(settled.actual, 1);
    assert.equal((await limiter.peek("a")).remaining, 4);
    for (const it of [limiter, slots, other]) it.close();
  });
}

test("what charged nothing has no receipt, and a damaged text is named", async () => {
  const limiter = new Limiter("1/h, 1 at once");
  const rate = new Limiter("1/h");
  const { receipt } = await rate.check("a");
  const denied = await rate.check("a");
  assert.deepEqual([denied.receipt, typeof receipt], [null, "string"]);
  await assert.rejects(rate.refund("tgr1"), (error) => {
    return error instanceof ArgumentError && /^receipt: .* give it back as it/.test(error.message);
  });
  assert.throws(() => limiter.restore("tgh1\nx"), /^ArgumentError: hold: /);
  await assert.rejects(new Limiter("1/h").refund(receipt), /store/);
  await limiter.acquire("a");
  assert.equal((await limiter.acquire("a")).text, null);
});

const skip = PROGRAM === undefined ? "TOLLGATE_BIN is not there" : NO_REDIS;
test("receipts and holds are those of the service", { skip }, async () => {
  const port = await freePort();
  const store = url;
  const env = { ...process.env, TOLLGATE_RECEIPT_KEY: KEY };
  const words = ["serve", "--store", store, "--listen", `127.0.0.1:${port}`];
  await serve(PROGRAM, words, port, { env, stdio: "ignore" });
  const post = async (path, body) => {
    const response = await fetch(`http://127.0.0.1:${port}/v1/${path}`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    return response.json();
  };
  const limiter = new Limiter("5/h", { store });
  const decision = await limiter.check("user:r", 2);
  const there = await post("refund", { receipt: sign(decision.receipt, KEY) });
  assert.deepEqual(there, { already: false, given: [2], left: 0 });
  const { receipt } = await post("check", { subject: "user:r", limit: "5/h", receipt: true });
  assert.deepEqual(await limiter.refund(verify(receipt, KEY)), {
    already: false,
    given: [1],
    left: 0,
  });
  assert.equal((await limiter.peek("user:r")).remaining, 5);

  const slots = new Limiter("1 at once", { store });
  const { hold } = await post("acquire", { subject: "user:h", limit: "1 at once" });
  assert.ok(await slots.restore(verify(hold, KEY)).release());
  const slot = await slots.acquire("user:h");
  const released = await post("release", { hold: sign(slot.text, KEY) });
  assert.ok(!("error" in released) || released.error === null, JSON.stringify(released));
  assert.ok((await slots.acquire("user:h")).allowed);
  for (const it of [limiter, slots]) it.close();
});

test("a signed text that was changed is refused", () => {
  const signed = sign("tgr1\n1 2 3 4", KEY);
  assert.equal(verify(signed, KEY), "tgr1\n1 2 3 4");
  assert.equal(verify(signed, Buffer.from(KEY)), "tgr1\n1 2 3 4");
  for (let at = 0; at < signed.length; at += 1) {
    const changed = signed.slice(0, at) + (signed[at] === "A" ? "B" : "A") + signed.slice(at + 1);
    assert.throws(() => verify(changed, KEY), ArgumentError, `${at}`);
  }
  for (const wrong of ["", "A", signed.slice(0, 20), `${signed}=`, ` ${signed}`, signed + "A"]) {
    assert.throws(() => verify(wrong, KEY), ArgumentError, wrong);
  }
  assert.throws(() => verify(signed, `${KEY}!`), ArgumentError);
  assert.throws(() => sign("a", "short"), /key has 5 bytes: give at least 32/);
  assert.throws(() => sign("a", 7), /^TypeError: key must be a string or bytes/);
});

test("decisions, denials, limits and holds are JSON", async () => {
  const limiter = new Limiter("1/h", { policy: "api" });
  const decision = await limiter.check("a");
  const json = JSON.parse(JSON.stringify({ decision, limits: new Limits("5/h") }));
  assert.deepEqual([json.decision.allowed, json.limits], [true, "5/h via sliding_log"]);
  const denied = await limiter.limit("a", () => 1)().catch((error) => error);
  assert.ok(denied instanceof Denied);
  const { name, decision: why } = JSON.parse(JSON.stringify(denied));
  assert.deepEqual([name, why.allowed], ["Denied", false]);
  const hold = JSON.parse(JSON.stringify(await new Limiter("1 at once").acquire("a")));
  assert.ok(hold.allowed && hold.fence > 0 && hold.text.startsWith("tgh1"));
});

test("a worker posts a decision as JSON", async () => {
  const script = `
    const { parentPort } = require("node:worker_threads");
    const { Limiter } = require("tollgate-limiter");
    const decision = new Limiter("1/h").checkSync("a");
    parentPort.postMessage(decision.toJSON());
  `;
  const worker = new Worker(script, { eval: true, cwd: HERE });
  const [{ allowed, remaining }] = await once(worker, "message");
  assert.deepEqual([allowed, remaining], [true, 0]);
});

test("allows is the decision as a yes or no", async () => {
  const limiter = new Limiter("1/h");
  assert.deepEqual([await limiter.allows("a"), await limiter.allows("a")], [true, false]);
  assert.equal(await limiter.allows("b", 2), false);
  await assert.rejects(limiter.allows("b", 0), ArgumentError);
});
