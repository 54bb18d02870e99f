// The clients of requests: `vectors/clients.txt`, as each middleware finds them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT } from "./support.mjs";
import { ClientAddress, Limiter } from "tollgate-limiter";
import { tollgate as express } from "tollgate-limiter/express";

function* cases() {
  let clients = new ClientAddress();
  for (const line of readFileSync(join(ROOT, "vectors/clients.txt"), "utf8").split("\n")) {
    if (line.startsWith("clients:")) {
      const pairs = line.slice(8).split(";").filter((it) => it.trim());
      const given = Object.fromEntries(pairs.map((it) => it.trim().split("=")));
      if (given.hops) given.hops = Number(given.hops);
      if (given.ipv6_prefix) {
        given.ipv6Prefix = Number(given.ipv6_prefix);
        delete given.ipv6_prefix;
      }
      clients = new ClientAddress(given);
    } else if (line && !line.startsWith("#")) {
      const [request, subject] = line.split(" -> ");
      const [peer, ...lines] = request.split(" | ");
      const headers = {};
      for (const it of lines) {
        const at = it.indexOf(": ");
        const name = it.slice(0, at).toLowerCase();
        // As Node joins several lines of a header.
        headers[name] = [headers[name], it.slice(at + 2)].filter(Boolean).join(", ");
      }
      yield {
        line,
        clients,
        peer: peer === "none" ? undefined : peer,
        headers,
        subject: subject === "none" ? undefined : subject,
      };
    }
  }
}

test("a client is found as the vectors state", () => {
  let count = 0;
  for (const { line, clients, peer, headers, subject } of cases()) {
    assert.equal(clients.subject(peer, headers, () => {}), subject, line);
    count += 1;
  }
  assert.ok(count >= 40, `${count} clients`);
});

/** The status that the middleware answers, and undefined where the request passes. */
function asked(middleware, request) {
  return new Promise((resolve, reject) => {
    const response = { getHeader() {}, setHeader() {}, end: () => resolve(response.statusCode) };
    middleware(request, response, (error) => (error ? reject(error) : resolve(undefined)));
  });
}

test("no client makes the middleware fail", async () => {
  for (const { line, clients, peer, headers, subject } of cases()) {
    const middleware = express(new Limiter("1000/h"), { key: clients });
    const request = { socket: { remoteAddress: peer }, headers };
    assert.equal(await asked(middleware, request), subject === undefined ? 503 : undefined, line);
  }
});

test("what a framework read from a header may be no address", async () => {
  const limiter = new Limiter("1/h");
  const middleware = express(limiter);
  for (const ip of ["unknown", "garbage", "_hidden", "", "192.0.2.7"]) {
    const request = { ip, socket: { remoteAddress: "192.0.2.7" }, headers: {} };
    assert.equal(await asked(middleware, request), ip === "unknown" ? undefined : 429, ip);
  }
  const request = { ip: "198.51.100.7:4711", socket: { remoteAddress: "10.0.0.1" }, headers: {} };
  assert.equal(await asked(middleware, request), undefined);
  assert.equal(limiter.checkSync("ip:198.51.100.7").allowed, false);
});

test("each likely mistake is said once", () => {
  const said = [];
  const clients = new ClientAddress();
  for (let times = 0; times < 3; times += 1) {
    clients.subject("10.0.0.1", { "x-forwarded-for": "6.6.6.6" }, (what) => said.push(what));
    clients.subject(undefined, {}, (what) => said.push(what));
  }
  assert.equal(said.length, 2);
  assert.match(said[0], /its peer is not a trusted proxy/);
  assert.match(said[1], /gets a 503/);
});
