// An application of Fastify behind the plugin.

import Fastify from "fastify";
import { Limiter } from "tollgate-limiter";
import { tollgate } from "tollgate-limiter/fastify";

const { LIMITS = "1000/h", STORE = "memory://", POLICY = "api", ON_FAILURE = "deny" } = process.env;
const limiter = new Limiter(LIMITS, { store: STORE, policy: POLICY });
const app = Fastify();
const key = (request) => (request.headers["x-free"] ? null : `ip:${request.ip}`);
await app.register(tollgate, { limiter, key, headers: "both", onFailure: ON_FAILURE });
app.get("/", async (request) => ({ remaining: request.tollgate?.remaining ?? null }));
await app.listen({ port: Number(process.env.PORT), host: "127.0.0.1" });
