// Programs of Koa and Nest that the types allow. Their own types do not pass `skipLibCheck false`.

import { Controller, UseGuards } from "@nestjs/common";
import Koa from "koa";
import { Limiter, Policies } from "tollgate-limiter";
import { tollgate } from "tollgate-limiter/koa";
import { TollgateGuard } from "tollgate-limiter/nest";

const limiter = new Limiter("10/s");
const koa = new Koa();
koa.use(tollgate(limiter, { key: (ctx) => ctx.ip, refundWhen: ({ status }) => status < 400 }));
const policies = new Policies("policies.toml", { store: "memory://" });
koa.use(tollgate(policies, { key: (ctx) => ctx.state["user"], fields: () => ({ tenant: "a" }) }));
koa.use((ctx) => {
  ctx.body = ctx.state.tollgate?.remaining;
});

@Controller()
@UseGuards(new TollgateGuard<{ ip: string }>(limiter, { key: ({ ip }) => ip }))
export class Shop {}
