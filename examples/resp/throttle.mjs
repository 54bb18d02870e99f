// Asks `tollgate serve --resp` with node-redis: npm install redis
//
//   REDIS_URL=redis://127.0.0.1:6380 node throttle.mjs user:42
//
// Exit code 0: admitted, 1: denied, 2: no answer. The password is part of the URL:
// redis://:PASSWORD@...

import { createClient } from 'redis';

const client = createClient({
  url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6380',
  name: 'throttle',
  RESP: 3,
  socket: { connectTimeout: 5_000, reconnectStrategy: false },
});
client.on('error', () => {});
try {
  // 3 at once, 2 in an hour.
  const [limited, limit, remaining, retry] =
    await (await client.connect()).sendCommand(['CL.THROTTLE', process.argv[2], '2', '2', '3600']);
  console.log(limited ? `denied: retry in ${retry} s` : `admitted: ${remaining} of ${limit} remain`);
  process.exitCode = limited;
} catch (error) {
  console.error(`no answer: ${error.message}`);
  process.exitCode = 2;
} finally {
  if (client.isOpen) client.destroy();
}
