// Threads of JavaScript, other processes, the end of a process: nothing hangs, nothing is charged
// twice.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { before, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Limiter, StoreError } from "tollgate-limiter";
import { HERE, NO_REDIS, folder, freePort, node, redis, unique, waitUntil } from "./support.mjs";

let url;
before(async () => {
  url = await redis();
});

/** A server that accepts and never answers. */
async function silentServer() {
  const sockets = [];
  const server = createServer((socket) => sockets.push(socket.unref().on("error", () => {})));
  server.listen(0, "127.0.0.1").unref();
  await once(server, "listening");
  const close = () => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  };
  return { store: `redis://127.0.0.1:${server.address().port}?deadline=100ms`, close };
}

/** Asks twenty times in each of four threads, or processes, at once. */
const WORKER = `
import { isMainThread, parentPort, workerData } from "node:worker_threads";
import { Limiter } from "tollgate-limiter";
const { store, policy } = isMainThread ? JSON.parse(process.argv[1]) : workerData;
const limiter = new Limiter("50/h", { store, policy });
const asked = await Promise.all(Array.from({ length: 20 }, () => limiter.check("a")));
const admitted = asked.filter(({ allowed }) => allowed).length;
if (isMainThread) console.log(admitted);
else parentPort.postMessage(admitted);
`;

const THREADS = `
import { Worker } from "node:worker_threads";
const [code, workerData] = [process.argv[1], JSON.parse(process.argv[2])];
const ask = () => new Promise((resolve, reject) => {
  const worker = new Worker(code, { eval: true, execArgv: [], workerData });
  worker.on("message", resolve).on("error", reject);
});
const admitted = await Promise.all(Array.from({ length: 4 }, ask));
console.log(JSON.stringify(admitted));
`;

/** The same code for a thread, where a text is a script and no module. */
const AS_SCRIPT = WORKER.replaceAll(/import (.*) from ("[^"]*");/g, "const $1 = require($2);")
  .replace("const asked =", "(async () => { const asked =")
  .concat("})();");

for (const kind of ["memory", "sqlite", "redis"]) {
  test(`worker_threads count in ${kind}`, { skip: kind === "redis" && NO_REDIS }, async () => {
    const stores = { memory: "memory://", sqlite: `sqlite://${folder()}/counts.db`, redis: url };
    const data = JSON.stringify({ store: stores[kind], policy: unique() });
    const admitted = JSON.parse(await node(THREADS, AS_SCRIPT, data));
    const sum = admitted.reduce((sum, one) => sum + one);
    // In memory each thread counts for itself.
    assert.equal(sum, kind === "memory" ? 80 : 50);
  });

  test(`processes count in ${kind}`, { skip: kind === "redis" && NO_REDIS }, async () => {
    const stores = { memory: "memory://", sqlite: `sqlite://${folder()}/counts.db`, redis: url };
    const data = JSON.stringify({ store: stores[kind], policy: unique() });
    const said = await Promise.all(Array.from({ length: 4 }, () => node(WORKER, data)));
    const sum = said.map(Number).reduce((sum, one) => sum + one);
    assert.equal(sum, kind === "memory" ? 80 : 50);
  });
}

test("a cluster of node:cluster counts on Redis", { skip: NO_REDIS }, async () => {
  const child = spawn(process.execPath, [join(HERE, "tests/apps/cluster.mjs"), url, unique()], {
    cwd: HERE,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  child.stdout.on("data", (text) => (said += text));
  await once(child, "close");
  assert.equal(Number(said), 50);
});

test("a thread that ends while questions are open harms nobody", async () => {
  const { store, close } = await silentServer();
  const script = `
    import { Worker } from "node:worker_threads";
    const code = \`
      const { parentPort } = require("node:worker_threads");
      const { Limiter } = require("tollgate-limiter");
      const limiter = new Limiter("1/h", { store: \${JSON.stringify(process.argv[1])} });
      for (let index = 0; index < 20; index += 1) limiter.check("a").catch(() => {});
      parentPort.postMessage("asked");
    \`;
    for (let index = 0; index < 10; index += 1) {
      const worker = new Worker(code, { eval: true, execArgv: [] });
      await new Promise((resolve) => worker.once("message", resolve));
      await worker.terminate();
    }
    const { Limiter } = await import("tollgate-limiter");
    const error = await new Limiter("1/h", { store: process.argv[1] }).check("a").catch((it) => it);
    console.log(error.name);
  `;
  assert.equal(await node(script, store), "StoreError\n");
  close();
});

test("the process lives until there is an answer, and no longer", { skip: NO_REDIS }, async () => {
  const script = `
    import { Limiter } from "tollgate-limiter";
    const limiter = new Limiter("9/h", { store: process.argv[1], policy: process.argv[2] });
    limiter.check("a").then(({ remaining }) => console.log(remaining));
    process.on("exit", () => console.log("ends"));
  `;
  assert.equal(await node(script, url, unique()), "8\nends\n");
});

test("a process that is asked to end while questions are open ends", async () => {
  const { store, close } = await silentServer();
  const script = `
    import { Limiter } from "tollgate-limiter";
    const limiter = new Limiter("1/h", { store: process.argv[1] });
    for (let index = 0; index < 20; index += 1) limiter.check("a").catch(() => {});
    setTimeout(() => process.exit(0), 10);
  `;
  assert.equal(await node(script, store), "");
  close();
});

test("a store that is silent blocks nobody", async () => {
  const { store, close } = await silentServer();
  const limiter = new Limiter("100/h", { store });
  let turns = 0;
  let waits = true;
  const asked = Promise.allSettled(Array.from({ length: 20 }, () => limiter.check("a")));
  asked.then(() => (waits = false));
  while (waits) {
    turns += 1;
    await turn();
  }
  for (const { status, reason } of await asked) {
    assert.ok(status === "rejected" && reason instanceof StoreError && reason.transient, reason);
  }
  assert.ok(turns > 20, `${turns}`);
  close();
});

// It says each charge that was answered, until it is killed.
const KILLED = `
  import { writeSync } from "node:fs";
  import { Limiter } from "tollgate-limiter";
  const limiter = new Limiter("1000/h", { store: process.argv[1], policy: process.argv[2] });
  for (;;) writeSync(1, (await limiter.check("a")).remaining + "\\n");
`;

for (const kind of ["sqlite", "redis"]) {
  const skip = kind === "redis" && NO_REDIS;
  test(`a process that is killed charges nothing twice in ${kind}`, { skip }, async () => {
    const store = kind === "redis" ? url : `sqlite://${folder()}/counts.db`;
    const policy = unique();
    const words = ["--input-type=module", "-e", KILLED, store, policy];
    const child = spawn(process.execPath, words, {
      cwd: HERE,
      stdio: ["ignore", "pipe", "inherit"],
    });
    let said = "";
    child.stdout.on("data", (text) => {
      said += text;
      if (said.split("\n").length > 100) child.kill("SIGKILL");
    });
    await once(child, "close");
    const seen = said
      .split("\n")
      .filter((line) => line)
      .map(Number);
    assert.deepEqual(
      seen.slice(0, 100),
      Array.from({ length: 100 }, (_, index) => 999 - index),
    );
    // A question in flight when it was killed may have been charged: one check.
    const { remaining } = await new Limiter("1000/h", { store, policy }).peek("a");
    assert.ok([seen.at(-1), seen.at(-1) - 1].includes(remaining), `${remaining} ${seen.at(-1)}`);
  });
}

test("a Redis Cluster, found by one of its nodes", { skip: NO_REDIS }, async () => {
  const node = await redis("--cluster-enabled", "yes", "--cluster-port", `${await freePort()}`);
  const [, port] = /:(\d+)\?/.exec(node);
  // One node that has all slots is a cluster.
  const { connect } = await import("node:net");
  const ask = (line) =>
    new Promise((resolve, reject) => {
      const socket = connect(Number(port), "127.0.0.1", () => socket.write(`${line}\r\n`));
      socket.on("error", reject).on("data", (bytes) => {
        socket.destroy();
        resolve(bytes.toString());
      });
    });
  assert.match(await ask("CLUSTER ADDSLOTSRANGE 0 16383"), /^\+OK/);
  await waitUntil(
    async () => (await ask("CLUSTER INFO")).includes("cluster_state:ok"),
    "a cluster",
  );
  const limiter = new Limiter("5/h", { store: `redis+cluster://127.0.0.1:${port}?deadline=5s` });
  const asked = await Promise.all(Array.from({ length: 9 }, () => limiter.check("a")));
  assert.equal(asked.filter(({ allowed }) => allowed).length, 5);
  assert.ok((await limiter.checkAll(["b", "c"], 2)).allowed);
  assert.equal((await limiter.peek("c")).remaining, 3);
  limiter.close();
});

test("limiters that nobody has are forgotten", async () => {
  const script = `
    import { Limiter } from "tollgate-limiter";
    const bytes = () => { global.gc(); return process.memoryUsage().rss; };
    const make = async (turns) => {
      for (let turn = 0; turn < turns; turn += 1) {
        for (let index = 0; index < 2000; index += 1) new Limiter("9/h").checkSync("a");
        global.gc();
        await new Promise(setImmediate);
      }
    };
    await make(5);
    const before = bytes();
    await make(20);
    console.log(Math.round((bytes() - before) / 1e6));
  `;
  const words = ["--expose-gc", "--input-type=module", "-e", script];
  const child = spawn(process.execPath, words, { cwd: HERE, stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.on("data", (text) => (said += text));
  await once(child, "close");
  // 40,000 limiters were made meanwhile, each with a separate store.
  assert.ok(said !== "" && Number(said) < 60, `${said} MB more`);
});
