// The common parts of the tests: a Redis server, the program `tollgate`, and processes that
// are ended.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

/** The project's folder, which `cargo xtask node-package` tells. */
export const ROOT = process.env.TOLLGATE_ROOT;

/** Where this test was started: a folder in which the package is installed. */
export const HERE = process.cwd();

export async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Returns when it is there, and fails when it is not in time. */
export async function waitUntil(isThere, what, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  while (!(await isThere())) {
    if (Date.now() > end) throw new Error(`${what} did not come within ${seconds} s`);
    await pause(20);
  }
}

export function answers(port) {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => resolve(true)).on("error", () => resolve(false));
    socket.on("connect", () => socket.destroy());
  });
}

function found(...names) {
  for (const name of names) {
    if (spawnSync("sh", ["-c", `command -v ${name}`]).status === 0) return name;
  }
  return undefined;
}

export const REDIS = found("redis-server", "valkey-server");
export const AB = found("ab");
export const OPENSSL = found("openssl");

/** What is done at the end of this file's process: last things first. */
const ends = [];
process.on("exit", () => ends.reverse().forEach((end) => end()));

/** A folder that is removed after the tests of this file. */
export function folder() {
  const path = mkdtempSync(join(tmpdir(), "tollgate-node-"));
  ends.push(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Starts a server that is ended after the tests of this file, and waits for its port. */
export async function serve(command, words, port, options = {}) {
  const server = spawn(command, words, { stdio: ["ignore", "ignore", "inherit"], ...options });
  server.unref();
  ends.push(() => server.kill("SIGKILL"));
  await waitUntil(() => answers(port), command);
  return port;
}

/** The URL of a Redis server of this file's own; undefined where there is none to start. */
export async function redis(...options) {
  if (REDIS === undefined) return undefined;
  const port = await freePort();
  const words = ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--dir", folder()];
  await serve(REDIS, [...words, ...options], port);
  // A busy machine may be late. A late answer is an error, and this is not the subject of
  // the test.
  return `redis://127.0.0.1:${port}?deadline=5s`;
}

/** Why a test that needs a Redis server is skipped; false where it is not. */
export const NO_REDIS = REDIS === undefined && "redis-server is not installed";

let next = 0;

/** A name that no other test of this run has. */
export function unique() {
  next += 1;
  return `t${process.pid}-${next}`;
}

/** The program `tollgate`; undefined where it is not built. */
export const PROGRAM = [process.env.TOLLGATE_BIN].find((path) => path && existsSync(path));

/** What a fresh Node prints for a script, which sees `words` as its arguments. */
export async function node(script, ...words) {
  const child = spawn(process.execPath, ["--input-type=module", "-e", script, ...words], {
    cwd: HERE,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 60_000,
  });
  let out = "";
  let err = "";
  child.stdout.on("data", (text) => (out += text));
  child.stderr.on("data", (text) => (err += text));
  const [code, signal] = await once(child, "close");
  if (code !== 0) throw new Error(`${code ?? signal}\n${out}\n${err}`);
  return out;
}

const UNITS = { "": 1, us: 1, ms: 1e3, s: 1e6, m: 6e7, h: 3.6e9, d: 8.64e10 };

/** A time of a time line, in microseconds. */
export function microseconds(text) {
  const [, digits, unit] = /^([0-9_]+)([a-z]*)$/.exec(text);
  return whole(digits) * UNITS[unit];
}

/** A wait of an answer, in microseconds. */
export const us = (seconds) => (seconds === null ? null : Math.round(seconds * 1e6));

/** A number of a time line. */
export const whole = (text) => Number(text.replaceAll("_", ""));

/** The time lines of a file: each has limits, after `word`, and lines with columns. */
export function timelines(path, word) {
  const found = [];
  for (const [index, raw] of readFileSync(path, "utf8").split("\n").entries()) {
    const line = raw.trim();
    if (line.startsWith(word)) {
      found.push({ limits: line.slice(word.length).trim(), lines: [] });
    } else if (line && !line.startsWith("#")) {
      const columns = line.split("|").map((column) => column.trim());
      found.at(-1).lines.push({ number: index + 1, columns });
    }
  }
  return found;
}
