// Asks `tollgate serve --resp` with ioredis: npm install ioredis
//
//   REDIS_URL=redis://127.0.0.1:6380 node throttle-ioredis.mjs user:42
//
// Exit code 0: admitted, 1: denied, 2: no answer. The password is part of the URL:
// redis://:PASSWORD@...

import { Redis } from 'ioredis';

const client = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6380', {
  connectionName: 'throttle',
  connectTimeout: 5_000,
  retryStrategy: () => null,
  maxRetriesPerRequest: 0,
});
client.on('error', () => {});
try {
  // 3 at once, 2 in an hour.
  const [limited, limit, remaining, retry] =
    await client.call('CL.THROTTLE', process.argv[2], 2, 2, 3600);
  console.log(limited ? `denied: retry in ${retry} s` : `admitted: ${remaining} of ${limit} remain`);
  process.exitCode = limited;
} catch (error) {
  console.error(`no answer: ${error.message}`);
  process.exitCode = 2;
} finally {
  client.disconnect();
}
