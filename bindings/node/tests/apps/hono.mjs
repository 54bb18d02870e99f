// An application of Hono behind the middleware.

import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { Limiter } from "tollgate-limiter";
import { tollgate } from "tollgate-limiter/hono";

const { LIMITS = "1000/h", STORE = "memory://", POLICY = "api", ON_FAILURE = "deny" } = process.env;
const limiter = new Limiter(LIMITS, { store: STORE, policy: POLICY });
const app = new Hono();
app.use(tollgate(limiter, { onFailure: ON_FAILURE }));
app.get("/", (c) => c.json({ remaining: c.get("tollgate")?.remaining ?? null }));
serve({ fetch: app.fetch, port: Number(process.env.PORT), hostname: "127.0.0.1" });
