// Programs that the types refuse: each marked line is an error.

import { Decision, Limiter } from "tollgate-limiter";
import { tollgate } from "tollgate-limiter/express";

const limiter = new Limiter("10/s");
new Limiter(10); // wrong
new Limiter("10/s", { stroe: "memory://" }); // wrong
await limiter.check(42); // wrong
await limiter.check("a", "1"); // wrong
await limiter.checkAll("a"); // wrong
await limiter.checkAll([["a", 3]]); // wrong
await limiter.reserve("a", 1); // wrong
await limiter.acquire("a", 1, { id: 7 }); // wrong
await limiter.commit("a", "b1946ac92492d2347c6235b4d2611184"); // wrong
new Decision(); // wrong
limiter.headers(await limiter.check("a"), "all"); // wrong
tollgate(limiter, { onFailure: "maybe" }); // wrong
tollgate(limiter, { key: () => 42 }); // wrong
tollgate(limiter, { key: () => [["a", "3/h"]] }); // wrong
tollgate(limiter, { onDenied: () => "slow down" }); // wrong
tollgate(limiter, { refundWhen: (response) => response.status < 400 }); // wrong
const wait: number = (await limiter.check("a")).retryAfter; // wrong
console.log(wait);
