// A primary and three workers that share a limit on Redis. It says how many were admitted.

import cluster from "node:cluster";
import { Limiter } from "tollgate-limiter";

const [store, policy] = process.argv.slice(2);
const limiter = new Limiter("50/h", { store, policy });

if (cluster.isPrimary) {
  // The primary has an open store when it starts its workers.
  await limiter.check("first");
  let sum = 0;
  let left = 3;
  for (let index = 0; index < 3; index += 1) cluster.fork();
  cluster.on("message", (worker, admitted) => {
    sum += admitted;
    worker.disconnect();
  });
  cluster.on("exit", () => {
    left -= 1;
    if (left === 0) console.log(sum);
  });
} else {
  let admitted = 0;
  for (let index = 0; index < 30; index += 1) {
    if ((await limiter.check("a")).allowed) admitted += 1;
  }
  process.send(admitted);
}
