// Programs that the types allow.

import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import { Decision, Limiter, Limits, ManualClock, StoreError } from "tollgate-limiter";
import { sign, verify } from "tollgate-limiter";
import type { Cost } from "tollgate-limiter";
import { tollgate as forExpress } from "tollgate-limiter/express";
import { tollgate as forFastify, tollgateHook } from "tollgate-limiter/fastify";
import { tollgate as forHono } from "tollgate-limiter/hono";
import { freeze, unfreeze } from "tollgate-limiter/testing";
import { tollgate as forWeb } from "tollgate-limiter/web";

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

app.post(
  "/login",
  forExpress(limiter, {
    key: async (request) => [request.ip, null, ["all", new Limits("9/s")]],
    limits: (request) => (request.method === "GET" ? "1/s" : undefined),
    cost: { requests: 1, tokens: 3 },
    skip: (request) => request.method === "OPTIONS",
    onDenied: (request, { retryAfter }, refusal) => ({
      status: 503,
      headers: { "x-wait": `${retryAfter} ${request.url}` },
      body: { was: refusal.status },
    }),
    refundWhen: (response) => response.statusCode < 400,
    extraCost: async (response) => (response.statusCode === 200 ? 3 : undefined),
    onDecision: (request, decision) => console.log(request.url, `${decision}`),
  }),
);
fastify.get("/a", { preHandler: tollgateHook(limiter, { key: (it) => it.ip }) }, async () => 1);
const limited = forWeb(limiter, {
  key: (request) => request.headers.get("x-key"),
  onDenied: () => Response.json({ error: "slow down" }, { status: 429 }),
  refundWhen: (response) => response.ok,
});
const GET = limited(async (request: Request, { params }: { params: Promise<{ id: string }> }) =>
  Response.json({ left: request.tollgate?.remaining, id: (await params).id }),
);
const shown = limiter.limit(
  (request: { user: string }) => request.user,
  (request) => `for ${request.user}`,
  {
    onDecision: (given, request) => console.log(request.user, limiter.headers(given)),
    onDenied: (denied, { user }) => `${user} waits ${denied.retryAfter}`,
  },
);
console.log(await GET(new Request("http://a"), { params: Promise.resolve({ id: "1" }) }));
console.log(await shown({ user: "ann" }));

{
  // `Symbol.asyncDispose` is known here without a library of the program.
  await using slot = await limiter.acquire("backend");
  await using held = await limiter.reserve("user:42", 3, 60);
  using other = new Limiter("1/s");
  console.log(slot.text, held.allowed, other.limits);
}
const yes: boolean = await limiter.allows("user:42", { requests: 1 });
const sent: string = sign(decision.receipt ?? "", "a key of thirty-two bytes or more");
await limiter.refund(verify(sent, new Uint8Array(32)));
const restored = limiter.restore("tgh1");
console.log(yes, await restored.renew(), "release" in restored && (await restored.release()));
const clock: ManualClock = freeze();
clock.advance(1);
unfreeze();
