// The package as it is installed: its size, the time to load it, its files, its types.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import * as imported from "tollgate-limiter";
import { HERE, ROOT, node } from "./support.mjs";

const MAX_PACKAGE_BYTES = 8_000_000;
const MAX_LOAD_MS = 50;

const require = createRequire(join(HERE, "x.js"));
const FOLDER = dirname(require.resolve("tollgate-limiter/package.json"));

test("it is loaded in time", async () => {
  // Time of the processor: what else the machine does is not the package's.
  const script = `
    const start = process.cpuUsage();
    await import("tollgate-limiter");
    const { user, system } = process.cpuUsage(start);
    console.log((user + system) / 1000);
  `;
  const times = [];
  for (let turn = 0; turn < 7; turn += 1) times.push(Number(await node(script)));
  assert.ok(Math.min(...times) <= MAX_LOAD_MS, `${times}`);
});

test("the package is small", () => {
  assert.ok(statSync(process.env.TOLLGATE_PACKAGE).size <= MAX_PACKAGE_BYTES);
});

test("both kinds of modules see the same names", () => {
  const required = require("tollgate-limiter");
  const names = Object.keys(imported).filter((name) => name !== "default");
  assert.deepEqual(
    names.filter((name) => name !== "module.exports").sort(),
    Object.keys(required).sort(),
  );
  assert.equal(required.Limiter, imported.Limiter);
});

test("the types name what is there", () => {
  const types = readFileSync(join(FOLDER, "lib/index.d.ts"), "utf8");
  const declared = [...types.matchAll(/^export (?:class|const|function) (\w+)/gm)].map(
    (it) => it[1],
  );
  assert.deepEqual(declared.sort(), Object.keys(require("tollgate-limiter")).sort());
  for (const name of ["Decision", "Limiter", "Limits", "ManualClock", "Reservation", "Slot"]) {
    const body = types.slice(types.indexOf(`export class ${name} `)).split("\n}\n")[0];
    const names = [...body.matchAll(/^ {2}(?:get )?(\w+)[(<]/gm)].map((it) => it[1]);
    const methods = names.filter((it) => it !== "constructor" && it !== "private");
    let prototype = imported[name].prototype;
    const there = new Set();
    for (; prototype !== Object.prototype; prototype = Object.getPrototypeOf(prototype)) {
      Object.getOwnPropertyNames(prototype).forEach((it) => there.add(it));
    }
    there.delete("constructor");
    assert.deepEqual([...new Set(methods)].sort(), [...there].sort(), name);
  }
});

test("a program with types is accepted, and a wrong one is not", () => {
  const tsc = join(HERE, "node_modules/.bin/tsc");
  const words = "--noEmit --strict --target es2022 --module node16 --experimentalDecorators";
  const check = (file, ...more) =>
    spawnSync(tsc, [...words.split(" "), file, ...more], { cwd: HERE, encoding: "utf8" });
  for (const [file, skips] of [["right", "false"], ["koa", "true"]]) {
    const right = check(`tests/types/${file}.mts`, "--skipLibCheck", skips);
    assert.equal(right.status, 0, right.stdout);
  }
  const wrong = check("tests/types/wrong.mts");
  const marked = readFileSync(join(HERE, "tests/types/wrong.mts"), "utf8").split("\n");
  const lines = marked.flatMap((line, index) => (line.endsWith("// wrong") ? [index + 1] : []));
  const found = [...wrong.stdout.matchAll(/wrong\.mts\((\d+),/g)].map((it) => Number(it[1]));
  assert.deepEqual([...new Set(found)], lines, wrong.stdout);
});

test("each module has types, also for compilers that do not read exports", () => {
  const { exports, typesVersions } = require("tollgate-limiter/package.json");
  const modules = Object.keys(exports).filter((it) => /^\.\/\w+$/.test(it));
  assert.ok(modules.length >= 7, `${modules}`);
  for (const module of modules) {
    const { types, default: code } = exports[module];
    assert.deepEqual(typesVersions["*"][module.slice(2)], [types]);
    for (const path of [types, code]) assert.ok(statSync(join(FOLDER, path)).size > 0, path);
  }
  assert.equal(Object.keys(typesVersions["*"]).length, modules.length);
});

test("its version is the workspace's", () => {
  const { version } = require("tollgate-limiter/package.json");
  assert.equal(version, imported.version);
  assert.ok(readFileSync(join(ROOT, "Cargo.toml"), "utf8").includes(`\nversion = "${version}"\n`));
});

test("it has what it says and nothing else", () => {
  const listed = spawnSync("npm", ["pack", "--dry-run", "--json"], {
    cwd: FOLDER,
    encoding: "utf8",
  });
  assert.equal(listed.status, 0, listed.stderr);
  const { files } = Object.values(JSON.parse(listed.stdout))[0];
  const names = files.map(({ path }) => path);
  const known = /^(lib\/\w+\.(js|d\.ts)|tollgate\.node|package\.json|README\.md)$/;
  assert.ok(names.length > 15 && names.every((name) => known.test(name)), names.join(" "));
  writeFileSync(join(HERE, "files.txt"), names.join("\n"));
});
