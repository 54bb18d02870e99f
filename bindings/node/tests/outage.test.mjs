// Redis stopped and started again under load, behind each framework.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, test } from "node:test";
import { Limiter } from "tollgate-limiter";
import { FRAMEWORKS, asked } from "./frameworks.mjs";
import { NO_REDIS, REDIS, answers, folder, freePort, unique, waitUntil } from "./support.mjs";

const CLIENTS = 2;
const DURING = 6;

const running = new Set();
after(() => running.forEach((it) => it.kill("SIGKILL")));

/** A server on a port, which is stopped and started. */
async function startRedis(port) {
  const words = ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--dir", folder()];
  const server = spawn(REDIS, words, { stdio: "ignore" });
  running.add(server);
  await waitUntil(() => answers(port), "Redis");
  return async () => {
    server.kill("SIGKILL");
    await once(server, "exit");
    running.delete(server);
  };
}

/** Asks again and again until it is stopped. `answers` has the status and whether it had a decision. */
function load(app) {
  const answers = [];
  let isOver = false;
  const client = async () => {
    while (!isOver) {
      const { status, headers } = await asked(app, { "x-user": "load" });
      answers.push({ status, isDecided: headers.has("ratelimit") });
    }
  };
  const clients = Promise.all(Array.from({ length: CLIENTS }, client));
  return {
    answers,
    stop: () => {
      isOver = true;
      return clients;
    },
  };
}

const RULES = { allow: 200, deny: 503 };

/** An application of a framework under a rule, and its load. */
async function run([name, { start, header }], onFailure, store) {
  const key = (it) => header(it, "x-user");
  const limiters = ["1000000/h via gcra", "20/h"].map(
    (limits) => new Limiter(limits, { store, policy: unique() }),
  );
  const app = await start([
    { limiter: limiters[0], key, onFailure },
    // It counts the last requests alone.
    { limiter: limiters[1], key, onFailure, skip: (it) => key(it) === "load" },
  ]);
  return { name: `${name} ${onFailure}`, rule: onFailure, limiters, app, ...load(app) };
}

test("Redis goes and comes back under load", { skip: NO_REDIS }, async (t) => {
  const warned = t.mock.method(console, "warn", () => {});
  const port = await freePort();
  let stopRedis = await startRedis(port);
  // A question waits so long for Redis, but is never late where Redis is there.
  const store = `redis://127.0.0.1:${port}?deadline=1s`;
  const runs = [];
  // Also where the test fails: nothing goes on asking.
  t.after(() => Promise.all(runs.map(({ stop }) => stop())));
  for (const framework of Object.entries(FRAMEWORKS)) {
    for (const rule of Object.keys(RULES)) runs.push(await run(framework, rule, store));
  }
  const all = (isSo) => () => runs.every(({ answers }) => isSo(answers));

  await waitUntil(all((it) => it.length > DURING), "the load");
  const isGood = ({ isDecided, status }) => isDecided && status === 200;
  for (const { name, answers } of runs) assert.ok(answers.every(isGood), name);

  await stopRedis();
  const undecided = (it) => it.filter(({ isDecided }) => !isDecided);
  await waitUntil(all((it) => undecided(it).length > DURING), "answers without Redis");
  stopRedis = await startRedis(port);
  await waitUntil(all((it) => it.at(-1).isDecided), "answers by Redis");

  await Promise.all(runs.map(({ stop }) => stop()));
  for (const { name, rule, app, answers, limiters } of runs) {
    for (const { status } of undecided(answers)) assert.equal(status, RULES[rule], name);
    const last = Array.from({ length: 40 }, () => asked(app, { "x-user": "last" }));
    const statuses = (await Promise.all(last)).map(({ status }) => status).sort();
    assert.deepEqual(statuses, [...Array(20).fill(200), ...Array(20).fill(429)], name);
    await app.close();
    limiters.forEach((it) => it.close());
  }
  await stopRedis();
  const said = warned.mock.calls.map(({ arguments: [what] }) => what.split(" ", 2).join(" "));
  const count = (start) => said.filter((it) => it === start).length;
  // That of Fastify goes to its log.
  const others = runs.length - 2;
  assert.deepEqual([count("no decision:"), count("the store")], [others, others], said.join("\n"));
});
