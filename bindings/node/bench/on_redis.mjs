// `check` on Redis beside rate-limiter-flexible with ioredis, on the same Redis.
//
// Each is asked by one task, and by twenty concurrently, in turns; the median of the rounds counts. The maximum
// for Node is shown too: a bare socket that sends the bytes of a check, and waits for as many replies. It needs
// the package of release, rate-limiter-flexible, ioredis and a Redis server:
//
//     node bench/on_redis.mjs redis://127.0.0.1:6379 [ROUNDS]

import { once } from "node:events";
import { connect, createServer } from "node:net";
import { Redis } from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { Limiter } from "tollgate-limiter";

const CALLS = 2_000;
const UNITS = 1_000_000;

// The requirements.
const BAR = 1.2;

const [url, given = "11"] = process.argv.slice(2);
const client = new Redis(url);
const peer = new RateLimiterRedis({ storeClient: client, points: 1e9, duration: 60 });
const store = `${url}?deadline=5s`;
const [fixed, gcra] = ["fixed_window", "gcra"].map(
  (strategy) => new Limiter(`${UNITS}/s via ${strategy}`, { store }),
);

const { hostname, port } = new URL(url);
const toRedis = (options) => connect({ host: hostname, port: Number(port || 6379), ...options });

/** The bytes of a check, which a proxy sees. */
async function bytesOfACheck() {
  let last;
  const proxy = createServer((from) => {
    const to = toRedis({ noDelay: true });
    from.on("data", (bytes) => to.write((last = bytes)));
    to.on("data", (bytes) => from.write(bytes));
    for (const socket of [from, to]) socket.on("error", () => {}).unref();
  });
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  proxy.unref();
  const through = `redis://127.0.0.1:${proxy.address().port}?deadline=5s`;
  const limiter = new Limiter(`${UNITS}/s via fixed_window`, { store: through });
  for (let call = 0; call < 3; call += 1) await limiter.check("user:42");
  limiter.close();
  return last;
}

const bytes = await bytesOfACheck();
const waiting = [];
const callback = (count, buffer) => {
  // Each reply is one list, which begins with `*`.
  for (let at = 0; at < count; at += 1) if (buffer[at] === 42) waiting.shift()();
};
const bare = toRedis({ noDelay: true, onread: { buffer: Buffer.alloc(65_536), callback } });
const send = () =>
  new Promise((resolve) => {
    waiting.push(resolve);
    bare.write(bytes);
  });

const PEER = "rate-limiter-flexible";
const BARE = "a bare socket";
const ASK = {
  [PEER]: (subject) => peer.consume(subject),
  "tollgate fixed_window": (subject) => fixed.check(subject),
  "tollgate gcra": (subject) => gcra.check(subject),
  [BARE]: send,
};

/** Calls a second. */
async function round(ask, tasks) {
  const some = async () => {
    for (let call = 0; call < CALLS / tasks; call += 1) await ask("user:42");
  };
  const start = performance.now();
  await Promise.all(Array.from({ length: tasks }, some));
  return (CALLS / (performance.now() - start)) * 1000;
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

for (const tasks of [1, 20]) {
  const rates = Object.fromEntries(Object.keys(ASK).map((name) => [name, []]));
  for (let index = -1; index < Number(given); index += 1) {
    for (const [name, ask] of Object.entries(ASK)) {
      const rate = await round(ask, tasks);
      if (index >= 0) rates[name].push(rate);
    }
  }
  console.log(`${tasks} tasks at once, ${given} rounds of ${CALLS} calls, calls a second, medians`);
  for (const [name, of] of Object.entries(rates)) {
    const ratio = median(of) / median(rates[PEER]);
    const verdict = [PEER, BARE].includes(name) ? "" : ratio >= BAR ? "holds" : "is missed";
    const line = `${name.padEnd(24)} ${median(of).toFixed(0).padStart(7)}`;
    console.log(`${line}  ${ratio.toFixed(2)} times ${PEER} ${verdict}`);
  }
}
client.disconnect();
bare.destroy();
