"use strict";
// The native module, and how its answers reach this thread.

const { closeSync } = require("node:fs");
const { Socket } = require("node:net");
const native = require("../tollgate.node");
const { raised } = require("./errors.js");

/** As many numbers as the longest decision has: 16 subjects of 32 limits. */
const LONGEST = 9 + 16 * 32 * 5;

const shared = new ArrayBuffer(LONGEST * 8);

/** The numbers of the last decision, in an array that the native module writes. */
const numbers = new Float64Array(shared);

/** That of Node: fake timers of a test have another. */
const { nextTick } = process;

/** Those who wait for an answer, by place. */
const waiting = [];

/** Places that nobody has. */
const free = [];

// The values that the native module returns instead of a place; see
// `src/bridge.rs`.
const NOTHING = -1;
const CHANGE = -2;
const ANSWER = -3;

let open = 0;

// A timer keeps the process alive while somebody waits: the native module does
// not.
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

/** The least and the most questions that begin while others are still being asked. */
const LEAST = 3;
const MOST = 16;

/** How many were asked and have not begun, and how many have begun since the last pass of code. */
let asked = 0;
let begun = 0;

/** How many were asked in the pass of code before this one. */
let before = 0;

/** Whether this pass ends with a turn. */
let willEnd = false;

/** Begins the questions that were asked. */
function turn() {
  begun += asked;
  asked = 0;
  give(native.turn());
}

/** Ends a pass of code: begins what is left. */
function end() {
  willEnd = false;
  if (asked > 0) turn();
  before = begun;
  begun = 0;
}

/**
 * Whether enough were asked that they begin: Redis answers them while this code asks others. About
 * four parts are under way at a time, so that neither side waits for the other.
 */
const isPart = () => asked >= Math.min(MOST, Math.max(LEAST, open >> 2));

/**
 * A promise for an answer. `start` asks for it, with the place of who waits; `read` makes the
 * result of the reply, and `raised` the error.
 */
function ask(start, read, raised) {
  return new Promise((resolve, fail) => {
    const place = free.length > 0 ? free.pop() : waiting.length;
    const reject = (error) => fail(raised(error));
    waiting[place] = { resolve, reject, read };
    if (open === 0) alive.ref();
    open += 1;
    try {
      start(place);
    } catch (error) {
      leave(place);
      reject(error);
      return;
    }
    asked += 1;
    // A lone question goes out immediately. Several go out in parts, the last when this code has
    // run.
    if ((open === 1 && before <= 1) || isPart()) turn();
    if (!willEnd) {
      willEnd = true;
      nextTick(end);
    }
  });
}

/** Gives the answers that came to those who wait for them, and does what is to be done for sockets. */
function give(first) {
  for (let code = first; code !== NOTHING; code = native.next()) {
    if (code >= 0) {
      const { resolve, read } = leave(code);
      resolve(read());
    } else if (code === CHANGE) {
      change();
    } else {
      const { resolve, reject, read } = leave(ANSWER - code);
      try {
        resolve(read(native.arrived()));
      } catch (error) {
        reject(error);
      }
    }
  }
}

/** The sockets that this thread reads, by number. */
const sockets = new Map();

/** What they read, until it is handed over: one at a time. */
const incoming = Buffer.alloc(64 * 1024);

function change() {
  const { socket: number, fd, bytes } = native.change();
  if (typeof fd === "number") {
    watch(number, fd);
  } else if (bytes) {
    sockets.get(number)?.write(bytes, () => give(native.written(number)));
  } else {
    const socket = sockets.get(number);
    sockets.delete(number);
    socket?.destroy();
  }
}

/** Reads a socket from now on. It does not keep the process alive. */
function watch(number, fd) {
  const callback = (count) => give(native.received(number, count));
  let socket;
  try {
    socket = new Socket({ fd, onread: { buffer: incoming, callback } });
  } catch {
    closeSync(fd);
    give(native.ended(number));
    return;
  }
  sockets.set(number, socket);
  socket.unref();
  // It is closed after an error too.
  socket.on("error", () => {});
  socket.on("close", () => {
    if (sockets.delete(number)) give(native.ended(number));
  });
}

/** The same array as bytes. */
const bytes = new Uint8Array(shared);

/** The longest subject that is written there. */
const LONGEST_WRITTEN = 64;

/**
 * Writes a question for `native.checkWritten`: limiter, cost, and a subject of ASCII. That is
 * faster than to pass a text. False where the subject is invalid.
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

/** Where the native module has the bridge to it. */
const BRIDGE = Symbol.for("tollgate-limiter.bridge");

/**
 * The bridge of this thread. Several copies of these files share it, as after `jest.resetModules()`:
 * the native module writes one array. Each test file of Jest has a realm of its own, and then the
 * one before has ended.
 */
function bridgeOf() {
  if (native[BRIDGE]?.realm !== globalThis) {
    native.attach(Buffer.from(shared), incoming, () => give(native.turn()));
    native[BRIDGE] = { realm: globalThis, ask, numbers, write };
  }
  return native[BRIDGE];
}

const bridge = bridgeOf();

const collected = new FinalizationRegistry(({ forget, number }) => forget(number));

/** Forgets the thing of a number when the object that has it is collected. */
function owned(object, forget, number) {
  collected.register(object, { forget, number });
  return number;
}

module.exports = {
  ask: (start, read) => bridge.ask(start, read, raised),
  native,
  numbers: bridge.numbers,
  owned,
  write: bridge.write,
};
