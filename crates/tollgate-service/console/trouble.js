// What is wrong with the service: in the title of the page in short, and on top of it in full.

import { clock, count, get, say } from "./dom.js";
import { troublesOf } from "./peers.js";

const TITLE = "Tollgate console";

const RULES = { failure_rule: "by a failure rule", local_share: "by a local share" };

/** Sets the title of the page: the first trouble, if there is one. */
export function title(trouble) {
  document.title = trouble ? `⚠ ${trouble} – ${TITLE}` : TITLE;
}

/** Each trouble in short and in full. */
function troubles({ store, durations, reloads }) {
  const found = [];
  if (!store.counts) {
    found.push(["store does not count", `The store cannot count: ${store.error}`]);
  } else if (store.breaker !== undefined && store.breaker !== "closed") {
    found.push([`circuit breaker ${store.breaker}`, `The circuit breaker is ${store.breaker}.`]);
  }
  const without = durations.by.filter(one => one.authority !== "store");
  if (without.length) {
    const each = without.map(one => `${count(one.answers)} ${RULES[one.authority]}`);
    found.push(["decisions without the store",
      `Decided without the store in the last ${durations.seconds} s: ${each.join(", ")}.`]);
  }
  const [last] = reloads.last;
  if (last?.result === "broken") {
    found.push(["policy file broken", `The policy file is broken since ${clock(last.at_s)}: ` +
      `revision ${last.revision} stays in force.`]);
  }
  return found;
}

export function showTroubles(figures) {
  const found = [...troubles(figures), ...troublesOf(figures)];
  title(found[0]?.[0]);
  say(get("troubles"), found.map(([, words]) => words).join("\n"));
}
