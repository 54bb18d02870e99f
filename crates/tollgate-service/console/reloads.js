// Reloads of the policies: how many there were, and what the last ones changed.

import { ask } from "./api.js";
import { clock, count, get, make, say, sure } from "./dom.js";

/** What is shown, so that an unchanged list stays as it is. */
let shown = "";

/** Whether the fault of a reload is about a file that was seen as broken: it goes with that. */
let isOfFile = false;

function changeItem({ policy, what, lines }) {
  const title = policy === null ? `The file: ${what}` : `${policy}: ${what}`;
  const each = lines.map(line => {
    const kind = line.startsWith("+") ? "came" : "gone";
    return make("span", { class: kind }, `${line}\n`);
  });
  return make("div", { class: "change" }, make("h4", {}, title), make("pre", {}, ...each));
}

function reloadItem({ at_s: at, result, revision, error, changes, further }) {
  const words = {
    taken: `revision ${revision} is in force`,
    unchanged: `the file is whole again, and revision ${revision} stays in force`,
    broken: `the file was broken, and revision ${revision} stayed in force`,
  };
  const item = make("li", {}, make("h3", {}, `${clock(at)}: ${words[result]}`));
  if (error) item.append(make("pre", { class: "fault" }, error));
  item.append(...changes.map(changeItem));
  if (further > 0) item.append(make("p", {}, `${count(further)} more policies changed.`));
  return item;
}

export function showReloads({ counts, last }) {
  const isBroken = last[0]?.result === "broken";
  if (isOfFile && !isBroken) say(get("reload-fault"), "");
  isOfFile = isBroken;
  say(get("reload-counts"), `${count(counts.taken)} taken, ${count(counts.unchanged)} unchanged, ` +
    `${count(counts.broken)} broken.`);
  const text = JSON.stringify(last);
  if (text === shown) return;
  shown = text;
  get("reloads").replaceChildren(...last.map(reloadItem));
}

async function reload() {
  say(get("reload-fault"), "");
  const words = "The policies of the file come into force at once. A broken file changes nothing.";
  if (!(await sure("Read the policies again?", words, "Read"))) return;
  try {
    const { revision } = await ask("/v1/admin/reload", {});
    say(get("reload-done"), `Policies of revision ${revision}.`);
  } catch (error) {
    say(get("reload-fault"), error.message);
  }
}

export function begin() {
  get("reload").addEventListener("click", reload);
}
