// Asks a limit on Redis from Node, with node-redis: npm install redis
//
// limit.json is made once, wherever `tollgate` is:
//   tollgate scripts "2/h via gcra" --format json > limit.json
// Then: node limit.mjs user 42

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createClient } from 'redis';

const limit = JSON.parse(readFileSync('limit.json', 'utf8'));

// Without a queue, a check fails immediately while there is no connection. A command in flight
// when one is lost is not sent again (ioredis would do that: there,
// autoResendUnfulfilledCommands: false).
const client = createClient({
  url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379',
  disableOfflineQueue: true,
  // A client that never had a connection gives up; a lost one is made again, a second
  // apart.
  socket: { connectTimeout: 1_000, reconnectStrategy: (tries, why) => (wasReady ? 1_000 : why) },
});
let wasReady = false;
client.on('ready', () => (wasReady = true));
client.on('error', (error) => console.error(String(error)));

/** A subject as it stands in a key: what could be mistaken for something else is escaped. */
function written(dimension, value) {
  const plain = [...Buffer.from(value)].map((byte) =>
    byte >= 0x21 && byte <= 0x7e && !'%,{}'.includes(String.fromCharCode(byte))
      ? String.fromCharCode(byte)
      : '%' + byte.toString(16).toUpperCase().padStart(2, '0'));
  return `${dimension}:${plain.join('')}`;
}

/** EVALSHA; and EVAL, which loads it too, when the server has forgotten the script. */
async function call(options) {
  try {
    return await client.evalSha(limit.sha1, options);
  } catch (error) {
    if (!String(error.message).startsWith('NOSCRIPT')) throw error;
    return client.eval(limit.script, options);
  }
}

/** Whether it is admitted; if not, the seconds to wait, null when no wait would help. */
export async function check(dimension, value, cost = 1) {
  const subject = written(dimension, value);
  const keys = limit.keys.map((key) => key.pattern.replace('SUBJECT', () => subject));
  const mine = randomUUID();
  const [back, granted, , ...fields] = await call({ keys, arguments: [String(cost), mine] });
  if (back !== mine) throw new Error('this is the answer to another question');
  if (granted > 0) return { admitted: true, wait: 0 };
  // For each limit: what remains, how long to wait, how long until all of it is free.
  const waits = limit.limits[0].limits.map((_, i) => fields[3 * i + 1]);
  return { admitted: false, wait: waits.includes(-1) ? null : Math.max(...waits) / 1e6 };
}

if (process.argv.length !== 4) {
  console.error('usage: node limit.mjs DIMENSION VALUE, as in: node limit.mjs user 42');
  process.exit(2);
}
try {
  await client.connect();
} catch {
  process.exit(2);
}
const { admitted, wait } = await check(process.argv[2], process.argv[3]);
console.log(admitted ? 'allow' : `deny: wait ${wait} s`);
client.destroy();
process.exitCode = admitted ? 0 : 1;
