"use strict";
// The native module, and how its answers reach this thread.

const native = require("../tollgate.node");
const { raised } = require("./errors.js");

/** As many numbers as the longest decision has: 16 subjects of 32 limits. */
const LONGEST = 9 + 16 * 32 * 5;

const shared = new ArrayBuffer(LONGEST * 8);

/** The numbers of the last decision, in an array that the native module writes. */
const numbers = new Float64Array(shared);

/** Those who wait for an answer, by place. */
const waiting = [];

/** Places that nobody has. */
const free = [];

let open = 0;

// What keeps the process alive while somebody waits: the native module does not.
const alive = setInterval(() => {}, 2 ** 31 - 1);
alive.unref();

function leave(place) {
  const who = waiting[place];
  waiting[place] = undefined;
  free.push(place);
  open -= 1;
  if (open === 0) alive.unref();
  return who;
}

/**
 * A promise for an answer. `start` asks for it, with the place of who waits; `read` makes the
 * result of the reply.
 */
function ask(start, read) {
  return new Promise((resolve, reject) => {
    const place = free.length > 0 ? free.pop() : waiting.length;
    waiting[place] = { resolve, reject, read };
    if (open === 0) alive.ref();
    open += 1;
    try {
      start(place);
    } catch (error) {
      leave(place);
      reject(raised(error));
    }
  });
}

/** Gives the answers that came to those who wait for them. */
function wake() {
  for (;;) {
    const place = native.next();
    if (place >= 0) {
      const { resolve, read } = leave(place);
      resolve(read());
    } else if (place === -1) {
      return;
    } else {
      const { resolve, reject, read } = leave(-2 - place);
      try {
        resolve(read(native.arrived()));
      } catch (error) {
        reject(raised(error));
      }
    }
  }
}

/** The same array as bytes. */
const bytes = new Uint8Array(shared);

/** The longest subject that is written there. */
const LONGEST_WRITTEN = 64;

/**
 * Writes a question for `native.checkWritten`: limiter, cost, and a subject of ASCII. That is
 * faster than to pass a text. False where it is no such subject.
 */
function write(limiter, subject, cost) {
  const { length } = subject;
  if (length > LONGEST_WRITTEN) return false;
  for (let at = 0; at < length; at += 1) {
    const code = subject.charCodeAt(at);
    if (code > 127) return false;
    bytes[24 + at] = code;
  }
  numbers[0] = limiter;
  numbers[1] = cost;
  numbers[2] = length;
  return true;
}

native.attach(Buffer.from(shared), wake);

const collected = new FinalizationRegistry(({ forget, number }) => forget(number));

/** Forgets the thing of a number when the object that has it is collected. */
function owned(object, forget, number) {
  collected.register(object, { forget, number });
  return number;
}

module.exports = { ask, native, numbers, owned, write };
