// The options of the middleware, the same in each framework.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import Fastify from "fastify";
import { Hono } from "hono";
import { ArgumentError, Denied, Limiter, Limits } from "tollgate-limiter";
import { tollgate as forExpress } from "tollgate-limiter/express";
import { tollgate as forFastify, tollgateHook } from "tollgate-limiter/fastify";
import { tollgate as forHono } from "tollgate-limiter/hono";
import { tollgate as forWeb } from "tollgate-limiter/web";
import { FRAMEWORKS, asked } from "./frameworks.mjs";
import { waitUntil } from "./support.mjs";

/** A test of an application behind layers, in each framework. */
function each(name, layersOf, run) {
  for (const [framework, tools] of Object.entries(FRAMEWORKS)) {
    test(`${name}: ${framework}`, async () => {
      const layers = layersOf(tools);
      const app = await tools.start(layers);
      try {
        await run(app, layers, tools);
      } finally {
        await app.close();
      }
    });
  }
}

const byUser = ({ header }) => (request) => header(request, "x-user");
const ofUser = (name) => ({ "x-user": name });
const left = async (limiter, subject) => (await limiter.peek(subject)).remaining;

each(
  "a key is one subject, several, or nobody",
  (tools) => [
    {
      limiter: new Limiter("3/h"),
      key: async (request) => {
        const names = tools.header(request, "x-user")?.split(" ");
        return names?.length > 1 ? [...names, null] : names?.[0];
      },
    },
  ],
  async (app, [{ limiter }]) => {
    assert.equal((await asked(app, ofUser("a b"))).status, 200);
    assert.equal((await asked(app, ofUser("a"))).status, 200);
    assert.equal((await asked(app, ofUser("a"))).status, 200);
    assert.equal((await asked(app, ofUser("a b"))).status, 429);
    // All or nothing: what denied for one charged nothing to the other.
    assert.deepEqual([await left(limiter, "a"), await left(limiter, "b")], [0, 2]);
    const free = await asked(app);
    assert.deepEqual([free.status, free.headers.get("ratelimit")], [200, null]);
    assert.equal(free.body, '{"remaining":null}');
  },
);

const [ONE, TWO] = [new Limits("1/h", "route"), new Limits("2/h", "all")];
each(
  "subjects with limits are decided together",
  () => [{ limiter: new Limiter("9/h"), key: () => [["route:/", ONE], ["tenant:t", TWO], "c"] }],
  async (app) => {
    const { headers } = await asked(app);
    const policies = '"route";q=1;w=3600, "all";q=2;w=3600, "client";q=9;w=3600';
    assert.equal(headers.get("ratelimit-policy"), policies);
    assert.match(headers.get("ratelimit"), /^"route";r=0;t=3[56]\d\d$/);
    assert.equal((await asked(app)).status, 429);
  },
);

each(
  "limits are those of the request",
  ({ header }) => [
    {
      limiter: new Limiter("1/h", { policy: "api" }),
      // What changes its limits keeps its count, so that each plan has a subject.
      key: (request) => header(request, "x-user") ?? "a",
      limits: async (request) => {
        const plan = header(request, "x-user");
        return plan === "parsed" ? new Limits("9/h") : plan;
      },
    },
  ],
  async (app) => {
    const remaining = async (plan) => {
      const { status, body } = await asked(app, plan ? ofUser(plan) : {});
      return status === 200 ? JSON.parse(body).remaining : status;
    };
    assert.deepEqual([await remaining("3/h"), await remaining("3/h")], [2, 1]);
    assert.equal(await remaining("parsed"), 8);
    assert.deepEqual([await remaining(), await remaining()], [0, 429]);
    const { headers } = await asked(app, ofUser("5/h"));
    assert.equal(headers.get("ratelimit-policy"), '"api";q=5;w=3600');
  },
);

each(
  "a cost is a number, amounts, or of the request",
  ({ header }) => [
    { limiter: new Limiter("10/h"), key: () => "a", cost: 2 },
    {
      limiter: new Limiter("10/h, 100/h of tokens"),
      key: () => "b",
      cost: (request) => {
        const tokens = Number(header(request, "x-user") ?? 0);
        return tokens === 0 ? 0 : { requests: 1, tokens };
      },
    },
  ],
  async (app, [two, tokens]) => {
    assert.equal((await asked(app, ofUser("60"))).status, 200);
    assert.equal((await asked(app, ofUser("60"))).status, 429);
    assert.equal((await asked(app)).status, 200);
    assert.equal(await left(two.limiter, "a"), 4);
    const { limits } = await tokens.limiter.peek("b", { requests: 1, tokens: 1 });
    assert.deepEqual(limits.map((it) => it.remaining), [9, 40]);
  },
);

each(
  "what is skipped is not limited",
  (tools) => [
    { limiter: new Limiter("1/h"), key: () => "a", skip: async (it) => byUser(tools)(it) === "b" },
  ],
  async (app) => {
    const statuses = [];
    for (const user of ["b", "a", "b", "a"]) statuses.push((await asked(app, ofUser(user))).status);
    assert.deepEqual(statuses, [200, 200, 200, 429]);
  },
);

each(
  "a denial has a response of one's own",
  ({ header }) => [
    {
      limiter: new Limiter("1/h", { policy: "api" }),
      key: () => "a",
      headers: "both",
      onDenied: async (request, decision, refusal) => {
        const wait = Math.ceil(decision.retryAfter);
        const forms = {
          json: { body: { error: { code: "slow_down", wait } } },
          own: { status: 403, headers: { "RateLimit": '"mine"' }, body: { status: refusal.status } },
          response: Response.json({ wait }, { status: 420, headers: { "x-own": "1" } }),
          status: { status: 503 },
        };
        return forms[header(request, "x-user")];
      },
    },
  ],
  async (app) => {
    await asked(app);
    const usual = await asked(app);
    assert.equal(usual.status, 429);
    assert.equal(JSON.parse(usual.body).title, "Quota exceeded");
    const json = await asked(app, ofUser("json"));
    assert.equal(json.status, 429);
    assert.match(json.headers.get("content-type"), /^application\/json/);
    assert.equal(JSON.parse(json.body).error.code, "slow_down");
    assert.equal(json.headers.get("retry-after"), `${JSON.parse(json.body).error.wait}`);
    assert.match(json.headers.get("ratelimit"), /^"api";r=0;t=3/);
    const own = await asked(app, ofUser("own"));
    assert.deepEqual([own.status, own.headers.get("ratelimit")], [403, '"mine"']);
    assert.equal(own.body, '{"status":429}');
    assert.ok(Number(own.headers.get("retry-after")) > 0);
    const response = await asked(app, ofUser("response"));
    assert.deepEqual([response.status, response.headers.get("x-own")], [420, "1"]);
    assert.ok(response.headers.get("retry-after") && JSON.parse(response.body).wait > 0);
    const status = await asked(app, ofUser("status"));
    assert.equal(status.status, 503);
    assert.equal(JSON.parse(status.body).title, "Quota exceeded");
  },
);

each(
  "only failures count, and an answer may cost more",
  ({ status }) => [
    { limiter: new Limiter("2/h"), key: () => "a", refundWhen: (it) => status(it) < 400 },
    {
      limiter: new Limiter("20/h"),
      key: () => ["b", ["c", new Limits("12/h")]],
      extraCost: (response) => (status(response) === 201 ? 5 : undefined),
    },
  ],
  async (app, [failures, extra]) => {
    for (let times = 0; times < 4; times += 1) {
      assert.equal((await asked(app)).status, 200);
      await waitUntil(async () => (await left(failures.limiter, "a")) === 2, "the refund");
    }
    assert.equal((await asked(app, { "x-status": "201" })).status, 201);
    await waitUntil(async () => (await left(extra.limiter, "b")) === 10, "the extra cost");
    assert.equal((await asked(app, { "x-status": "401" })).status, 401);
    assert.equal((await asked(app, { "x-status": "401" })).status, 401);
    assert.equal((await asked(app)).status, 429);
    // Seven requests and the extra cost are all of twelve.
    const both = await extra.limiter.checkAll([["c", new Limits("12/h")]]);
    assert.equal(both.allowed, false);
  },
);

const seen = [];
each(
  "a hook sees each decision",
  (tools) => [
    {
      limiter: new Limiter("1/h"),
      key: byUser(tools),
      onDecision: (request, decision) =>
        seen.push(`${byUser(tools)(request)} ${decision.allowed}`),
    },
  ],
  async (app) => {
    seen.length = 0;
    for (const user of ["a", "b", "a"]) await asked(app, ofUser(user));
    assert.deepEqual(seen, ["a true", "b true", "a false"]);
  },
);

each(
  "the headers of several limits are there once, outer ones first",
  () =>
    [["outer", 3], ["inner", 100], ["last", 2]].map(([policy, number]) => ({
      limiter: new Limiter(`${number}/h`, { policy }),
      key: () => "a",
      headers: "both",
    })),
  async (app) => {
    const numbers = ({ headers }) => [
      headers.get("ratelimit-policy"),
      headers.get("ratelimit")?.replaceAll(/;t=\d+/g, ""),
      headers.get("x-ratelimit-limit"),
      headers.get("x-ratelimit-remaining"),
    ];
    const policy = '"outer";q=3;w=3600, "inner";q=100;w=3600, "last";q=2;w=3600';
    const first = await asked(app);
    assert.deepEqual(numbers(first), [policy, '"outer";r=2, "inner";r=99, "last";r=1', "2", "1"]);
    const failed = await asked(app, { "x-status": "404" });
    assert.deepEqual(numbers(failed), [policy, '"outer";r=1, "inner";r=98, "last";r=0', "2", "0"]);
    const denied = await asked(app);
    assert.equal(denied.status, 429);
    assert.deepEqual(numbers(denied), [policy, '"outer";r=0, "inner";r=97, "last";r=0', "2", "0"]);
    assert.deepEqual(JSON.parse(denied.body)["violated-policies"], ["last"]);
    const outer = '"outer";q=3;w=3600';
    assert.deepEqual(numbers(await asked(app)), [outer, '"outer";r=0', "3", "0"]);
  },
);

test("lists of others stay, and single numbers are those of the limit", async () => {
  const limited = { limiter: new Limiter("5/h", { policy: "own" }), key: () => "a", headers: "both" };
  const { limiter, ...options } = limited;
  const theirs = { "ratelimit": '"theirs";r=1', "x-ratelimit-limit": "7" };

  const fastify = Fastify();
  fastify.addHook("onRequest", async (_, reply) => reply.headers(theirs) && undefined);
  await fastify.register(forFastify, limited);
  fastify.get("/", async () => "");
  const before = (await fastify.inject("/")).headers;
  assert.match(before.ratelimit, /^"theirs";r=1, "own";r=4;t=\d+$/);
  assert.equal(before["x-ratelimit-limit"], "5");

  // A response of `fetch` cannot be changed.
  const upstream = () => Response.redirect("http://a");
  const redirected = await forWeb(limiter, options)(upstream)(new Request("http://a"));
  assert.equal(redirected.status, 302);
  assert.match(redirected.headers.get("ratelimit"), /^"own";r=3;t=\d+$/);

  const hono = new Hono();
  hono.use(forHono(limiter, options));
  hono.get("/", () => new Response("", { headers: theirs }));
  const behind = (await hono.request("/")).headers;
  assert.match(behind.get("ratelimit"), /^"own";r=2;t=\d+, "theirs";r=1$/);
  assert.equal(behind.get("x-ratelimit-limit"), "5");
});

test("a hook of Fastify limits some routes, and sees the body", async () => {
  const app = Fastify();
  const limiter = new Limiter("1/h");
  const preHandler = tollgateHook(limiter, { key: (request) => `mail:${request.body.mail}` });
  app.post("/login", { preHandler }, async () => "in");
  app.get("/", async () => "free");
  const login = (mail) => app.inject({ method: "POST", url: "/login", payload: { mail } });
  assert.deepEqual([(await login("a")).statusCode, (await login("b")).statusCode], [200, 200]);
  assert.equal((await login("a")).statusCode, 429);
  assert.equal((await app.inject("/")).headers.ratelimit, undefined);
});

test("a response that never was gives no charge back", async () => {
  let asks = 0;
  const limiter = new Limiter("5/h");
  const options = { key: () => "a", refundWhen: () => (asks += 1) };
  const { default: express } = await import("express");
  const app = express();
  app.use(forExpress(limiter, options));
  const waiting = new Promise((resolve) => app.get("/", (request) => resolve(request)));
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect(server.address().port, "127.0.0.1");
  client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const { res } = await waiting;
  client.destroy();
  await once(res, "close");
  await new Promise((resolve) => server.close(resolve));
  assert.deepEqual([asks, (await limiter.peek("a")).remaining], [0, 4]);
});

test("an option that is wrong fails when the middleware is made", () => {
  const limiter = new Limiter("1/s");
  for (const [options, type, message] of [
    [{ limits: "5/h" }, TypeError, "limits must be a function, not string"],
    [{ onDenied: {} }, TypeError, "onDenied must be a function, not object"],
    [{ cost: -1 }, ArgumentError, "cost is -1: give a whole number"],
    [{ cost: "1" }, TypeError, "cost must be a number or an object"],
    [{ skip: true }, TypeError, "skip must be a function, not boolean"],
    [{ skipp: () => true }, ArgumentError, "options has no `skipp`"],
  ]) {
    const is = (error) => error instanceof type && error.message.startsWith(message);
    assert.throws(() => forExpress(limiter, options), is, message);
  }
  const slots = new Limiter("5/h, 2 at once");
  assert.throws(() => forExpress(slots), /^ArgumentError: limiter has slots, `5\/h .*2 at once/);
  assert.throws(() => forWeb(limiter), /^ArgumentError: key is missing: a Request has no address/);
  assert.throws(() => forWeb(limiter, { peer: "a" }), /^TypeError: peer must be a function/);
});

test("what fails in an option is the application's error, and after the answer a warning", async (t) => {
  const warned = t.mock.method(console, "warn", () => {});
  const fails = () => {
    throw new Error("mine");
  };
  const of = (options) => {
    const limited = forWeb(new Limiter("1/h"), { key: () => "a", ...options });
    return limited(() => new Response("ok"));
  };
  const request = () => new Request("http://a");
  for (const options of [{ key: fails }, { limits: fails }, { skip: fails }, { onDecision: fails }]) {
    await assert.rejects(of(options)(request()), /mine/);
  }
  await assert.rejects(of({ limits: () => "five" })(request()), /LimitError/);
  const denied = of({ onDenied: () => "no" });
  await denied(request());
  await assert.rejects(denied(request()), /the result of onDenied must be an object with status/);
  assert.equal(warned.mock.callCount(), 0);
  const settled = of({ refundWhen: fails });
  assert.deepEqual([(await settled(request())).status, warned.mock.callCount()], [200, 1]);
  assert.match(warned.mock.calls[0].arguments[0], /refundWhen or extraCost failed: Error: mine/);
});

test("a denial without a body has none", async () => {
  const limited = forWeb(new Limiter("1/h"), { key: () => "a", onDenied: () => ({ status: 204 }) });
  const handle = limited(() => new Response("ok"));
  await handle(new Request("http://a"));
  const response = await handle(new Request("http://a"));
  assert.deepEqual([response.status, await response.text()], [204, ""]);
});

test("a limited function's answers can have headers, and a denial has its limiter's", async () => {
  const limiter = new Limiter("1/h", { policy: "mine" });
  const seen = [];
  const show = limiter.limit((name) => name, (name, headers) => [name, headers.length], {
    onDecision: async (decision, name, headers) => headers.push(...limiter.headers(decision)),
  });
  assert.deepEqual(await show("a", []), ["a", 2]);
  const refused = show("a", seen);
  await assert.rejects(refused, (error) => {
    assert.ok(error instanceof Denied);
    const headers = Object.fromEntries(error.refusal().headers);
    return headers["ratelimit-policy"] === '"mine";q=1;w=3600';
  });
  assert.match(Object.fromEntries(seen).ratelimit, /^"mine";r=0/);
  const onDenied = (decision, name, words) => [name, words, decision.outcome];
  const other = limiter.limit("a", () => "ran", { onDenied });
  assert.deepEqual(await other("b", 1), ["b", 1, "denied"]);
});
