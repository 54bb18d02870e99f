// Asks a limit on a Redis Cluster from Node, with ioredis: npm install ioredis
//
// limit.json is made once, wherever `tollgate` is:
//   tollgate scripts "2/h via gcra" --format json > limit.json
// Then: node cluster-ioredis.mjs user 42, with some nodes of the cluster in REDIS_NODES

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Cluster } from 'ioredis';

const limit = JSON.parse(readFileSync('limit.json', 'utf8'));
const nodes = (process.env.REDIS_NODES ?? '127.0.0.1:6379').split(',');

const cluster = new Cluster(nodes.map((node) => `redis://${node}`), {
  lazyConnect: true,
  // Without this, ioredis sends a command again after a lost connection, and a check that is sent
  // twice may be charged twice. It still follows MOVED and ASK.
  retryDelayOnFailover: 0,
  // Without a queue, a check fails immediately while there is no cluster.
  enableOfflineQueue: false,
  redisOptions: { connectTimeout: 1_000, commandTimeout: 250 },
  // A client that never had a connection gives up; a lost cluster is looked for again each
  // second.
  clusterRetryStrategy: () => (wasReady ? 1_000 : null),
});
let wasReady = false;
cluster.on('ready', () => (wasReady = true));
cluster.on('error', (error) => console.error(String(error)));

/** A subject as it stands in a key: what could be mistaken for something else is escaped. */
function written(dimension, value) {
  const plain = [...Buffer.from(value)].map((byte) =>
    byte >= 0x21 && byte <= 0x7e && !'%,{}'.includes(String.fromCharCode(byte))
      ? String.fromCharCode(byte)
      : '%' + byte.toString(16).toUpperCase().padStart(2, '0'));
  return `${dimension}:${plain.join('')}`;
}

/** EVALSHA; and EVAL, which loads it too, when this node does not know the script. */
async function call(keys, args) {
  try {
    return await cluster.evalsha(limit.sha1, keys.length, ...keys, ...args);
  } catch (error) {
    if (!String(error.message).startsWith('NOSCRIPT')) throw error;
    return cluster.eval(limit.script, keys.length, ...keys, ...args);
  }
}

/** Whether it is admitted; if not, the seconds to wait, null when no wait would help. */
export async function check(dimension, value, cost = 1) {
  const subject = written(dimension, value);
  // All of them have the same {...}, so they lie in one slot.
  const keys = limit.keys.map((key) => key.pattern.replace('SUBJECT', () => subject));
  const mine = randomUUID();
  const [back, granted, , ...fields] = await call(keys, [cost, mine]);
  if (back !== mine) throw new Error('this is the answer to another question');
  if (granted > 0) return { admitted: true, wait: 0 };
  // For each limit: what remains, how long to wait, how long until all of it is free.
  const waits = limit.limits[0].limits.map((_, i) => fields[3 * i + 1]);
  return { admitted: false, wait: waits.includes(-1) ? null : Math.max(...waits) / 1e6 };
}

try {
  await cluster.connect();
  const { admitted, wait } = await check(process.argv[2], process.argv[3]);
  console.log(admitted ? 'allow' : `deny: wait ${wait} s`);
  process.exitCode = admitted ? 0 : 1;
} catch (error) {
  // A connection that was lost leaves open whether the check was charged.
  console.error(`no answer: ${error.message}`);
  process.exitCode = 2;
}
cluster.disconnect();
