"use strict";
// Receipts and holds that leave the program: signed, in the form of the service.

const { createHmac, timingSafeEqual } = require("node:crypto");
const { text, wrongType } = require("./arguments.js");
const { ArgumentError } = require("./errors.js");

/** The bytes of a signature. */
const SIGNATURE = 16;

/** The fewest bytes of a key. */
const MIN_KEY = 32;

function signatureOf(bytes, key) {
  if (typeof key !== "string" && !(key instanceof Uint8Array)) {
    wrongType(key, "key", "a string or bytes");
  }
  const { length } = Buffer.from(key);
  if (length < MIN_KEY) throw new ArgumentError(`key has ${length} bytes: give at least ${MIN_KEY}`);
  return createHmac("sha256", key).update(bytes).digest().subarray(0, SIGNATURE);
}

/** Signs a receipt or a hold. */
function sign(what, key) {
  const bytes = Buffer.from(text(what, "text"));
  return Buffer.concat([signatureOf(bytes, key), bytes]).toString("base64url");
}

/** The text that was signed with this key. */
function verify(signed, key) {
  const all = Buffer.from(text(signed, "signed"), "base64url");
  const [signature, bytes] = [all.subarray(0, SIGNATURE), all.subarray(SIGNATURE)];
  const wanted = signatureOf(bytes, key);
  // Other spellings of the same bytes are not what was signed.
  const isSame = all.toString("base64url") === signed && signature.length === SIGNATURE;
  if (isSame && timingSafeEqual(signature, wanted)) return bytes.toString();
  throw new ArgumentError("signed is not what this key has signed: it was changed, or has another key");
}

module.exports = { sign, verify };
