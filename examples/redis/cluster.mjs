// Asks a limit on a Redis Cluster from Node, with node-redis: npm install redis
//
// limit.json is made once, wherever `tollgate` is:
//   tollgate scripts "2/h via gcra" --format json > limit.json
// Then: node cluster.mjs user 42, with some nodes of the cluster in REDIS_NODES

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createCluster } from 'redis';

const limit = JSON.parse(readFileSync('limit.json', 'utf8'));
const nodes = (process.env.REDIS_NODES ?? '127.0.0.1:6379').split(',');

// node-redis sends a command again after MOVED and ASK alone, which ran nothing. Without a queue, a
// check fails immediately while there is no connection, in place of being charged later.
const cluster = createCluster({
  rootNodes: nodes.map((node) => ({ url: `redis://${node}` })),
  defaults: { disableOfflineQueue: true, socket: { connectTimeout: 1_000 } },
});
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
async function call(options) {
  try {
    return await cluster.evalSha(limit.sha1, options);
  } catch (error) {
    if (!String(error.message).startsWith('NOSCRIPT')) throw error;
    return cluster.eval(limit.script, options);
  }
}

/** Whether it is admitted; if not, the seconds to wait, null when no wait would help. */
export async function check(dimension, value, cost = 1) {
  const subject = written(dimension, value);
  // All of them have the same {...}, so they lie in one slot.
  const keys = limit.keys.map((key) => key.pattern.replace('SUBJECT', () => subject));
  const mine = randomUUID();
  const [back, granted, , ...fields] = await call({ keys, arguments: [String(cost), mine] });
  if (back !== mine) throw new Error('this is the answer to another question');
  if (granted > 0) return { admitted: true, wait: 0 };
  // For each limit: what remains, how long to wait, how long until all of it is free.
  const waits = limit.limits[0].limits.map((_, i) => fields[3 * i + 1]);
  return { admitted: false, wait: waits.includes(-1) ? null : Math.max(...waits) / 1e6 };
}

let code = 2;
try {
  await cluster.connect();
  const { admitted, wait } = await check(process.argv[2], process.argv[3]);
  console.log(admitted ? 'allow' : `deny: wait ${wait} s`);
  code = admitted ? 0 : 1;
} catch (error) {
  // A connection that was lost leaves open whether the check was charged.
  console.error(`no answer: ${error.message}`);
}
// Else a connection that is being made again would keep the process.
process.exit(code);
