// A transaction with ioredis.

import { Redis } from 'ioredis';

const client = new Redis(process.env.REDIS_URL);
const multi = client.multi();
for (let i = 0; i < 3; i++) multi.call('CL.THROTTLE', 'ioredis', 1, 2, 3600);
const answers = await multi.exec();
console.log(`[${answers.map(([, answer]) => answer[0]).join(', ')}]`);
client.disconnect();
