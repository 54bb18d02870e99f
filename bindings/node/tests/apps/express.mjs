// An application of Express behind the middleware.

import express from "express";
import { Limiter } from "tollgate-limiter";
import { tollgate } from "tollgate-limiter/express";

const { LIMITS = "1000/h", STORE = "memory://", POLICY = "api", ON_FAILURE = "deny" } = process.env;
const limiter = new Limiter(LIMITS, { store: STORE, policy: POLICY });
const app = express();
app.use(tollgate(limiter, { onFailure: ON_FAILURE }));
app.get("/", (request, response) => {
  response.json({ remaining: request.tollgate?.remaining ?? null });
});
app.listen(Number(process.env.PORT), "127.0.0.1");
