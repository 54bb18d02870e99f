// Applications of each framework, behind the same layers of middleware.

import { once } from "node:events";
import { createServer } from "node:http";
import { serve } from "@hono/node-server";
import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import { tollgate as forExpress } from "tollgate-limiter/express";
import { tollgate as forFastify } from "tollgate-limiter/fastify";
import { tollgate as forHono } from "tollgate-limiter/hono";
import { tollgate as forKoa } from "tollgate-limiter/koa";
import { TollgateGuard } from "tollgate-limiter/nest";
import { tollgate as forWeb } from "tollgate-limiter/web";

/** Where the server listens, and its end. */
async function listening(server) {
  if (!server.listening) await once(server, "listening");
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${server.address().port}/`, close };
}

/** The application's answer: the status that the request wants, and the decision. */
const wanted = (status) => Number(status ?? 200);
const shown = (decision) => ({ remaining: decision?.remaining ?? null });

async function nest(layers) {
  await import("reflect-metadata");
  const { Controller, Get, Module, Req, Res } = await import("@nestjs/common");
  const { NestFactory } = await import("@nestjs/core");
  class Shop {
    show(request, response) {
      response.status(wanted(request.headers["x-status"])).json(shown(request.tollgate));
    }
  }
  Req()(Shop.prototype, "show", 0);
  Res()(Shop.prototype, "show", 1);
  Get()(Shop.prototype, "show", Object.getOwnPropertyDescriptor(Shop.prototype, "show"));
  Controller()(Shop);
  class All {}
  Module({ controllers: [Shop] })(All);
  const app = await NestFactory.create(All, { logger: false });
  app.useGlobalGuards(...layers.map(({ limiter, ...options }) => new TollgateGuard(limiter, options)));
  await app.listen(0, "127.0.0.1");
  return listening(app.getHttpServer());
}

/**
 * By name: how an application starts behind layers, `{ limiter, ...options }`, outermost first; how
 * an option reads a header of its request, and the status of its response.
 */
export const FRAMEWORKS = {
  express: {
    header: (request, name) => request.headers[name],
    status: (response) => response.statusCode,
    start: async (layers) => {
      const app = express();
      for (const { limiter, ...options } of layers) app.use(forExpress(limiter, options));
      app.get("/", (request, response) => {
        response.status(wanted(request.headers["x-status"])).json(shown(request.tollgate));
      });
      return listening(app.listen(0, "127.0.0.1"));
    },
  },
  fastify: {
    header: (request, name) => request.headers[name],
    status: (reply) => reply.statusCode,
    start: async (layers) => {
      const app = Fastify();
      for (const layer of layers) await app.register(forFastify, layer);
      app.get("/", async (request, reply) => {
        reply.code(wanted(request.headers["x-status"]));
        return shown(request.tollgate);
      });
      await app.listen({ port: 0, host: "127.0.0.1" });
      return listening(app.server);
    },
  },
  hono: {
    header: (c, name) => c.req.header(name),
    status: (response) => response.status,
    start: (layers) => {
      const app = new Hono();
      for (const { limiter, ...options } of layers) app.use(forHono(limiter, options));
      app.get("/", (c) => c.json(shown(c.get("tollgate")), wanted(c.req.header("x-status"))));
      return listening(serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }));
    },
  },
  koa: {
    header: (ctx, name) => ctx.get(name) || undefined,
    status: (response) => response.status,
    start: (layers) => {
      const app = new Koa();
      app.silent = true;
      for (const { limiter, ...options } of layers) app.use(forKoa(limiter, options));
      app.use((ctx) => {
        const status = wanted(ctx.get("x-status") || undefined);
        if (status >= 400) ctx.throw(status);
        ctx.status = status;
        ctx.body = shown(ctx.state.tollgate);
      });
      return listening(createServer(app.callback()).listen(0, "127.0.0.1"));
    },
  },
  nest: {
    header: (request, name) => request.headers[name],
    status: (response) => response.statusCode,
    start: nest,
  },
  web: {
    header: (request, name) => request.headers.get(name) ?? undefined,
    status: (response) => response.status,
    start: (layers) => {
      const peer = (request, { incoming }) => incoming.socket.remoteAddress;
      const answer = (request) => {
        const status = wanted(request.headers.get("x-status") ?? undefined);
        return Response.json(shown(request.tollgate), { status });
      };
      const fetch = layers.reduceRight(
        (inner, { limiter, ...options }) => forWeb(limiter, { peer, ...options })(inner),
        answer,
      );
      return listening(serve({ fetch, port: 0, hostname: "127.0.0.1" }));
    },
  },
};

/** The answer to a request: its status, headers and body. */
export async function asked(app, headers = {}) {
  const response = await fetch(app.url, { headers });
  const body = await response.text();
  return { status: response.status, headers: response.headers, body };
}
