// The connection to Redis, which the event loop carries: lost, slow, full, in pieces, closed.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { createServer as createTlsServer } from "node:tls";
import { Worker } from "node:worker_threads";
import { Limiter, StoreError } from "tollgate-limiter";
import { NO_REDIS, OPENSSL, folder, node, redis, unique, waitUntil } from "./support.mjs";

let url;
before(async () => {
  url = await redis();
});

const portOf = (store) => Number(/:(\d+)[/?]/.exec(store)[1]);

/**
 * Passes everything on to the Redis of this file. `links` are the open connections, each a pair of
 * sockets; `pass` writes what came from Redis.
 */
async function proxy(pass = (to, bytes) => to.write(bytes), where = { port: 0, host: "127.0.0.1" }) {
  const links = new Set();
  const server = createServer((from) => {
    const to = connect(portOf(url), "127.0.0.1");
    const link = { from, to };
    links.add(link);
    const end = () => {
      links.delete(link);
      from.destroy();
      to.destroy();
    };
    for (const socket of [from, to]) socket.unref().on("error", () => {}).on("close", end);
    from.on("data", (bytes) => to.write(bytes));
    to.on("data", (bytes) => pass(from, bytes));
  });
  server.listen(where).unref();
  await once(server, "listening");
  const store = where.path
    ? `redis+unix://${where.path}?deadline=5s`
    : `redis://127.0.0.1:${server.address().port}?deadline=5s`;
  const cut = () => links.forEach(({ from }) => from.destroy());
  return { store, links, cut };
}

/** Sends a command to the Redis of this file while this thread does nothing else. */
function tell(...words) {
  const script = `
    const [port, ...words] = process.argv.slice(1);
    const socket = require("node:net").connect(Number(port), "127.0.0.1");
    socket.write(words.join(" ") + "\\r\\n");
    socket.on("data", (bytes) => { process.stdout.write(bytes); socket.destroy(); });
  `;
  const said = spawnSync(process.execPath, ["-e", script, `${portOf(url)}`, ...words]);
  return said.stdout.toString();
}

/** Keeps this thread busy for so many milliseconds. */
function block(milliseconds) {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

const limiterOf = (limits, store) => new Limiter(limits, { store, policy: unique() });

/** How often the threads of the native module were woken until now. */
function wakeUps() {
  let sum = 0;
  for (const thread of readdirSync("/proc/self/task")) {
    const status = readFileSync(`/proc/self/task/${thread}/status`, "utf8");
    const isOurs = /^Name:\s+tollgate$/m.test(status);
    if (isOurs) sum += Number(/^voluntary_ctxt_switches:\s+(\d+)$/m.exec(status)[1]);
  }
  return sum;
}

describe("the connection to Redis", { skip: NO_REDIS }, () => {
  const skip = process.platform !== "linux" && "it is read from /proc";
  test("no other thread is woken for a check", { skip }, async () => {
    const limiter = limiterOf("9000/h via gcra", url);
    for (let call = 0; call < 50; call += 1) await limiter.check("a");
    const before = wakeUps();
    assert.ok(before > 0, "there is such a thread");
    for (let call = 0; call < 1000; call += 1) await limiter.check("a");
    const woken = wakeUps() - before;
    assert.ok(woken < 100, `${woken}`);
  });

  test("each answer goes to its question, in whatever pieces it comes", async () => {
    const held = [];
    const pass = (to, bytes) => {
      // One by one, or many together.
      if (bytes.length % 2) for (const byte of bytes) to.write(Buffer.of(byte));
      else to.write(bytes.subarray(0, 7)) && to.write(bytes.subarray(7));
      held.push(bytes.length);
    };
    const { store } = await proxy(pass);
    const limiter = limiterOf("1000/h", store);
    for (let round = 1; round <= 5; round += 1) {
      const costs = Array.from({ length: 60 }, (_, index) => index + 1);
      const asked = costs.map((cost) => limiter.check(`user:${cost}`, cost));
      const left = (await Promise.all(asked)).map(({ remaining }) => remaining);
      assert.deepEqual(left, costs.map((cost) => 1000 - round * cost));
    }
    assert.ok(held.length > 5, `${held}`);
  });

  test("what is asked together goes out in parts, each of them one call", async () => {
    const { store, links } = await proxy();
    const limiter = limiterOf("900/h", store);
    const round = (count) => Promise.all(Array.from({ length: count }, () => limiter.check("a")));
    await round(17);
    await round(17);
    let sent = "";
    links.forEach(({ from }) => from.on("data", (bytes) => (sent += bytes.toString("latin1"))));
    const partsOf = async (count) => {
      sent = "";
      await round(count);
      // Each call names its keys, and each question has one.
      const calls = sent.matchAll(/EVALSHA\r\n\$40\r\n\w+\r\n\$\d+\r\n(\d+)\r\n/g);
      return [...calls].map(([, keys]) => Number(keys));
    };
    // They begin while others are still being asked; the rest when that has been done.
    for (let index = 0; index < 5; index += 1) {
      assert.deepEqual(await partsOf(17), [3, 3, 3, 3, 3, 2]);
      assert.deepEqual(await partsOf(3), [3]);
      assert.deepEqual(await partsOf(2), [2]);
    }
    const parts = await partsOf(200);
    assert.equal(Math.max(...parts), 16);
    // A question that was alone before goes out alone.
    await round(1);
    assert.deepEqual(await partsOf(2), [1, 1]);
  });

  test("a lost connection fails what was under way, and the next check has a new one", async () => {
    const silent = { is: false };
    const { store, links, cut } = await proxy((to, bytes) => silent.is || to.write(bytes));
    // The end of the connection is the news, and not the deadline.
    const limiter = limiterOf("9/h", store.replace("5s", "60s"));
    assert.equal((await limiter.check("a")).remaining, 8);
    silent.is = true;
    let error;
    limiter.check("a").catch((it) => (error = it));
    const [{ to }] = links;
    await once(to, "data");
    cut();
    await waitUntil(() => error, "the error", 4);
    assert.ok(error instanceof StoreError && error.ambiguous && error.transient, error);
    silent.is = false;
    await waitUntil(() => limiter.check("a").then(() => true, () => false), "an answer");
    assert.ok((await limiter.peek("a")).remaining <= 6);
    assert.equal(links.size, 1);
  });

  test("a connection that ended while the loop was busy is not used again", async () => {
    const limiter = limiterOf("99/h", url);
    assert.equal((await limiter.check("a")).remaining, 98);
    assert.match(tell("CLIENT", "KILL", "TYPE", "normal"), /^:[1-9]/);
    block(120);
    assert.equal((await limiter.check("a")).remaining, 97);
  });

  test("an answer that came while the loop was busy is not late", async () => {
    const limiter = limiterOf("9/h", url.replace("5s", "50ms"));
    await waitUntil(() => limiter.peek("a").then(() => true, () => false), "a connection");
    for (let round = 1; round <= 5; round += 1) {
      const asked = limiter.check("a");
      // It is sent when the loop goes on.
      await Promise.resolve().then(() => new Promise(process.nextTick));
      block(120);
      assert.equal((await asked).remaining, 9 - round);
    }
  });

  test("more than the socket takes is written when there is room", async () => {
    const where = { path: join(folder(), "redis.sock") };
    const { store, links } = await proxy(undefined, where);
    const limiter = limiterOf("9/h", store);
    assert.equal((await limiter.check("first")).remaining, 8);
    const [{ from }] = links;
    from.pause();
    const asked = [];
    const ask = (count) => {
      for (const until = asked.length + count; asked.length < until; ) {
        const subject = `${asked.length}`.padStart(150, "x");
        asked.push(limiter.check(subject, 1 + (asked.length % 9)));
      }
    };
    ask(2500);
    for (let index = 0; index < 20; index += 1) await turn();
    from.resume();
    // Others are asked while JavaScript still writes: they wait for it.
    for (let index = 0; index < 100; index += 1) {
      ask(10);
      await turn();
    }
    const left = (await Promise.all(asked)).map(({ remaining }) => remaining);
    assert.deepEqual(left, left.map((_, index) => 8 - (index % 9)));
  });

  test("scripts that the server forgot are loaded again", async () => {
    const limiter = limiterOf("99/h", url);
    const round = () => Promise.all(Array.from({ length: 20 }, () => limiter.check("a")));
    await round();
    assert.equal(tell("SCRIPT", "FLUSH"), "+OK\r\n");
    assert.equal((await limiter.check("a")).remaining, 78);
    assert.equal(tell("SCRIPT", "FLUSH"), "+OK\r\n");
    // A call whose script was loaded again may come after others.
    const left = (await round()).map(({ remaining }) => remaining).sort((a, b) => b - a);
    assert.deepEqual(left, Array.from({ length: 20 }, (_, index) => 77 - index));
  });

  test("the URL's password and database", async () => {
    const locked = await redis("--requirepass", "s3cret");
    const port = portOf(locked);
    const of = (login) => limiterOf("9/h", `redis://${login}127.0.0.1:${port}/3?deadline=5s`);
    assert.equal((await of(":s3cret@").check("a")).remaining, 8);
    for (const login of ["", ":wrong@"]) {
      const error = await of(login).check("a").catch((it) => it);
      assert.ok(error instanceof StoreError && !error.ambiguous, error);
    }
    const socket = connect(port, "127.0.0.1");
    socket.end("AUTH s3cret\r\nSELECT 3\r\nDBSIZE\r\nSELECT 0\r\nDBSIZE\r\n");
    let said = "";
    for await (const bytes of socket) said += bytes;
    assert.match(said, /^\+OK\r\n\+OK\r\n:[1-9]\d*\r\n\+OK\r\n:0\r\n$/);
  });

  test("TLS", { skip: OPENSSL === undefined && "openssl is not installed" }, async () => {
    const certificates = folder();
    const [key, cert] = ["key.pem", "cert.pem"].map((name) => join(certificates, name));
    const words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=tollgate";
    const extensions = ["subjectAltName=DNS:localhost", "basicConstraints=critical,CA:FALSE"];
    const options = extensions.flatMap((extension) => ["-addext", extension]);
    const made = spawnSync(OPENSSL, [...words.split(" "), ...options, "-keyout", key, "-out", cert]);
    assert.equal(made.status, 0, made.stderr);
    const server = createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, (from) => {
      const to = connect(portOf(url), "127.0.0.1");
      from.pipe(to).pipe(from);
      for (const socket of [from, to]) socket.unref().on("error", () => {});
    });
    await once(server.listen(0, "127.0.0.1").unref(), "listening");
    const script = `
      import { Limiter } from "tollgate-limiter";
      const limiter = new Limiter("9/h", { store: process.argv[1], policy: process.argv[2] });
      const asked = await Promise.all(Array.from({ length: 20 }, () => limiter.check("a")));
      console.log(asked.filter(({ allowed }) => allowed).length);
    `;
    const store = `rediss://localhost:${server.address().port}?deadline=5s`;
    process.env.SSL_CERT_FILE = cert;
    const said = await node(script, store, unique());
    delete process.env.SSL_CERT_FILE;
    assert.equal(said, "9\n");
  });

  test("a limiter that is closed closes its connection", async () => {
    const { store, links } = await proxy();
    const limiter = limiterOf("9/h", store);
    const asked = limiter.check("a");
    assert.equal((await asked).remaining, 8);
    const last = limiter.check("a");
    limiter.close();
    assert.equal((await last).remaining, 7);
    await waitUntil(() => links.size === 0, "the end of the connection");
  });

  test("a thread that ends closes its connection", async () => {
    const { store, links } = await proxy();
    const code = `
      const { parentPort, workerData } = require("node:worker_threads");
      const { Limiter } = require("tollgate-limiter");
      const limiter = new Limiter("9/h", { store: workerData });
      limiter.check("a").then(({ remaining }) => parentPort.postMessage(remaining));
      setInterval(() => limiter, 1e6);
    `;
    const worker = new Worker(code, { eval: true, execArgv: [], workerData: store });
    const [remaining] = await once(worker, "message");
    assert.equal(remaining, 8);
    assert.equal(links.size, 1);
    await worker.terminate();
    await waitUntil(() => links.size === 0, "the end of the connection");
  });
});
