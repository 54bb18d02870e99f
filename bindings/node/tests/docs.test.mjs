// The examples of the documents run, and print the text below them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ROOT, node } from "./support.mjs";

const PAGES = ["docs/node.md", "docs/calling.md", "bindings/node/README.md"];
const BLOCK = /^```js\n(.*?)^```\n(?:```text\n(.*?)^```\n)?/gms;

let count = 0;
for (const page of PAGES) {
  const text = readFileSync(join(ROOT, page), "utf8");
  for (const [index, [, code, output]] of [...text.matchAll(BLOCK)].entries()) {
    count += 1;
    test(`${page}, example ${index + 1}`, async () => {
      // A server that an example starts has no end.
      const end = /listen\(|serve\(/.test(code) ? "\nprocess.exit();" : "";
      const said = await node(code + end);
      if (output !== undefined) assert.equal(said, output);
    });
  }
}

test("there are examples", () => assert.ok(count >= 8, `${count}`));
