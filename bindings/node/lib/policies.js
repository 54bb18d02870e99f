"use strict";
// Policies of a file, without the service.

const { options, text, typeOf, wrongType } = require("./arguments.js");
const { ClientAddress, numberOfClients } = require("./client.js");
const { ArgumentError, call } = require("./errors.js");
const { ask, native, owned } = require("./native.js");

/** The policies of a file, and the store in which they count. */
class Policies {
  #number;
  #isMemory;

  constructor(file, given) {
    const known = ["store", "client", "headers", "apiKey"];
    const { store, client, headers = "draft", apiKey } = options(given, known);
    if (client !== undefined && !(client instanceof ClientAddress)) {
      wrongType(client, "client", "a ClientAddress");
    }
    const settings = {
      file: text(file, "file"),
      store: text(store, "store"),
      headers: text(headers, "headers"),
      clients: client === undefined ? 0 : numberOfClients(client),
      apiKey: apiKey === undefined ? undefined : keyOf(apiKey),
    };
    this.#number = owned(this, native.forgetPolicies, call(native.policies, settings));
    this.#isMemory = native.policiesInMemory(this.#number);
  }

  /** The names of the fields `field.NAME` that the file reads. */
  get fieldNames() {
    return call(native.policyFields, this.#number);
  }

  /** Reads the file again. Where it has problems, the policies stay as they are. */
  reload() {
    call(native.reloadPolicies, this.#number);
  }

  /** The ruling on a request by its head, which counts it. */
  async judge(given, warn = console.warn) {
    const known = ["method", "target", "headers", "peer", "user", "route", "fields"];
    const { method, target, headers = [], peer, user, route, fields } = options(given, known);
    const request = {
      method: text(method, "method"),
      target: text(target, "target"),
      headers: [...headers].map(([name, value]) => [String(name), String(value)]),
      peer: maybe(peer, "peer"),
      user: maybe(user, "user"),
      route: maybe(route, "route"),
      fields: fieldsOf(fields ?? {}),
    };
    const ruling = this.#isMemory
      ? call(native.judge, this.#number, request)
      : await ask(
          (place) => native.startJudging(this.#number, place, request),
          (reply) => reply.ruling,
        );
    for (const warning of ruling.warnings) warn(warning);
    return { headers: ruling.headers, refusal: ruling.refusal ?? null };
  }
}

/** A text that may be absent. */
function maybe(value, name) {
  return value === undefined || value === null ? undefined : text(value, name);
}

/** The option `apiKey`: the header with the keys, and the secret that hashes them. */
function keyOf(value) {
  if (!Array.isArray(value)) wrongType(value, "apiKey", "a list of a header and a secret");
  if (value.length !== 2) {
    throw new ArgumentError(`apiKey has ${value.length} entries: give [header, secret]`);
  }
  return [text(value[0], "apiKey[0]"), text(value[1], "apiKey[1]")];
}

/** The fields `field.NAME`, of which an absent one has no value. */
function fieldsOf(value) {
  if (typeof value !== "object" || Array.isArray(value)) wrongType(value, "fields", "an object");
  const known = Object.entries(value).filter(([, it]) => it !== undefined && it !== null);
  return known.map(([name, it]) => {
    if (typeof it !== "string") {
      throw new TypeError(`fields.${name.slice(0, 40)} must be a string, not ${typeOf(it)}`);
    }
    return [text(name, "a name of fields"), text(it, `fields.${name.slice(0, 40)}`)];
  });
}

module.exports = { Policies };
