// The instances of `--peers`, side by side with this one.

import { count, fill, get, rate, span } from "./dom.js";

/** A row: figures, or why there are none. */
function row(one) {
  if (one.error !== undefined) return [one.at, "-", "-", "-", one.error, "-", "-", "-"];
  const seconds = one.now_seconds;
  return [
    one.at,
    rate(one.admitted_now, seconds),
    rate(one.denied_now, seconds),
    count(one.denied),
    one.store_counts ? "counts" : "does not count",
    count(one.without_store),
    `revision ${one.revision}`,
    span(one.up_s),
  ];
}

/** Shows the instances of these figures, where there are others. */
export function showPeers({ peers }) {
  get("instances").hidden = peers.length === 0;
  fill(get("peers"), peers, one => one.at, row);
  for (const element of get("peers").rows) {
    for (const at of [3, 5, 6, 7]) element.cells[at].className = "wide";
    const isWell = element.cells[4].textContent === "counts";
    element.cells[4].className = isWell ? "" : "no";
  }
}

/** The trouble of the others, in short and in full. */
export function troublesOf({ peers }) {
  const away = peers.filter(one => one.error !== undefined);
  const found = away.map(one => ["instance does not answer", `${one.at} does not answer: ${one.error}.`]);
  const files = new Set(peers.filter(one => one.revision).map(one => one.revision.split("-").at(-1)));
  if (files.size > 1) found.push(["other policies", "The instances have different policies."]);
  return found;
}
