// Programs that the types allow.

import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import { Decision, Limiter, Limits, ManualClock, StoreError } from "tollgate-limiter";
import type { Cost } from "tollgate-limiter";
import { tollgate as forExpress } from "tollgate-limiter/express";
import { tollgate as forFastify } from "tollgate-limiter/fastify";
import { tollgate as forHono } from "tollgate-limiter/hono";

const limiter = new Limiter("10/s", {
  store: "memory://",
  policy: "api",
  clock: new ManualClock(),
});
const decision: Decision = await limiter.check("user:42", 5);
const wait: number | null = decision.retryAfter;
const [charged] = await limiter.charge("user:42", 2);
const cut: number = charged?.cut ?? 0;
await limiter.checkAll(["a", ["b", new Limits("3/h")], ["c", "4/h"]], 1, { partial: true });
await limiter.checkAll(["a"], 1, { waiting: "again" });
const sum = limiter.limit(
  (a: number) => `user:${a}`,
  (a: number) => a + 1,
);
const three: number = await sum(2);
const other = limiter.limit("b", async () => "ran", { onDenied: () => null });
const ran: string | null = await other();
const reservation = await limiter.reserve("user:42", 800, 60, { chargeAtEnd: true });
reservation.use(3);
await reservation.end();
const released: boolean = await (await limiter.acquire("backend")).release();
const { signal } = new AbortController();
const aborted: boolean = (await limiter.acquire("backend", 1, { signal })).allowed;
const id = "b1946ac92492d2347c6235b4d2611184";
const fence: number | null = (await limiter.acquire("backend", 1, { id })).fence;
const renewed: boolean = await limiter.renew("backend", id);
const gone: boolean = await limiter.release("backend", id);
const used: Cost = (await limiter.commit("user:42", id, { requests: 1, tokens: 300 })).actual;
try {
  await limiter.refund(decision);
} catch (error) {
  if (error instanceof StoreError && error.ambiguous) throw error;
}
const headers: [string, string][] = limiter.headers(decision, "both");
console.log(wait, cut, three, ran, released, aborted, fence, renewed, gone, used);
console.log(headers, limiter.refusal(decision)?.status);

const app = express();
app.use(forExpress(limiter, { headers: "legacy", onFailure: "allow" }));
app.get("/", (request, response) => {
  response.json(request.tollgate?.remaining);
});
const fastify = Fastify();
await fastify.register(forFastify, { limiter, key: async (request) => `ip:${request.ip}` });
fastify.get("/", async (request) => request.tollgate?.remaining);
const hono = new Hono().use(forHono(limiter, { key: (c) => c.req.header("x-key") }));
hono.get("/", (c) => c.json(c.get("tollgate")?.remaining));
