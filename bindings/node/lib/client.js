"use strict";
// The client of a request, as the middleware finds it.

const { options, text, wrongType } = require("./arguments.js");
const { ArgumentError, call } = require("./errors.js");
const { native, owned } = require("./native.js");

/** The number of a way to find clients. */
let numberOfClients;

/** Finds the client of a request by its address. */
class ClientAddress {
  #number;
  /** The headers that are read, in small letters. */
  #names;

  constructor(given) {
    const known = ["proxies", "hops", "header", "ipv6Prefix"];
    const { proxies, hops, header, ipv6Prefix } = options(given, known);
    if (proxies !== undefined) text(proxies, "proxies");
    if (header !== undefined) text(header, "header");
    whole(hops, "hops", 1, 32);
    whole(ipv6Prefix, "ipv6Prefix", 32, 128);
    const clients = call(native.clients, { proxies, hops, header, ipv6Prefix });
    this.#number = owned(this, native.forgetClients, clients);
    this.#names = native.clientHeaders(clients);
  }

  static {
    numberOfClients = (clients) => clients.#number;
  }

  /**
   * The subject of a client: `ip:192.0.2.7`; undefined without an address. `headers` are those of
   * Node, an object by name, or a `Headers`. `warn` gets each likely mistake once.
   */
  subject(peer, headers = {}, warn = console.warn) {
    const lines = [];
    for (const name of this.#names) {
      const value = typeof headers.get === "function" ? headers.get(name) : headers[name];
      if (value === undefined || value === null) continue;
      for (const line of [value].flat()) lines.push([name, String(line)]);
    }
    const address = peer === null || peer === undefined ? undefined : String(peer);
    const { subject, warning } = call(native.findClient, this.#number, address, lines);
    if (warning !== undefined && warning !== null) {
      // A header that is only a reason to warn is read until then.
      this.#names = native.clientHeaders(this.#number);
      warn(warning);
    }
    return subject ?? undefined;
  }
}

function whole(value, name, least, most) {
  if (value === undefined) return;
  if (typeof value !== "number") wrongType(value, name, "a number");
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw new ArgumentError(`${name} is ${value}: give a whole number from ${least} to ${most}`);
}

module.exports = { ClientAddress, numberOfClients: (it) => numberOfClients(it) };
