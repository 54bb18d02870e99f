// A transaction with node-redis.

import { createClient } from 'redis';

const client = createClient({ url: process.env.REDIS_URL });
await client.connect();
const multi = client.multi();
for (let i = 0; i < 3; i++) multi.addCommand(['CL.THROTTLE', 'node-redis', '1', '2', '3600']);
const answers = await multi.exec();
console.log(`[${answers.map((answer) => answer[0]).join(', ')}]`);
client.destroy();
