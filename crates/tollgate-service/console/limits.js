// Admitted and denied requests over a time range: the chart with its table, and a row for each
// limit, those that deny first.

import { ask } from "./api.js";
import { chart, spark } from "./chart.js";
import { clock, count, expands, few, fill, get, make, rate, say, share } from "./dom.js";

/** The range that the figures of each answer have. */
const HOUR = "1h";

const RANGES = { "10m": "10 minutes", [HOUR]: "hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days" };

/** The most bars of a chart. */
const BARS = 60;

/** How old the series of another range may be, in milliseconds: those of long ones change little. */
const FRESH_MS = { "10m": 10_000 };
const USUAL_FRESH_MS = 60_000;

/** The last figures, and the last series of another range. */
let figures = null;
let series = { range: HOUR, answer: null };
/** The range whose series were asked for last, and when. */
let asked = { range: HOUR, at: 0 };

let sortedBy = "denied_now";
/** The key of the limit in the chart; `null` for all of them. */
let charted = null;

const keyOf = ({ policy, limit, shadow }) => JSON.stringify([policy, limit, Boolean(shadow)]);

/** The name of a row: the policy, and its limit below. */
function named({ policy, limit, numbers }) {
  const texts = {
    inline: ["no policy", "limits given in requests"],
    none: ["no limit", "no policy applied, a ban, or a failure rule"],
  };
  return policy === null ? texts[limit] ?? ["-", limit] : [policy, numbers ?? limit];
}

/** The rows of the last hour, or of the series of another range. */
function rowsOf(range) {
  if (range === HOUR) {
    const time = { from: figures.minutes_from_s, step: 60 };
    return figures.limits.map(one => ({ ...one, view: { ...time, bars: one.minutes } }));
  }
  const { from_s: from, step_s: step, buckets, series: each } = series.answer;
  const group = Math.ceil(buckets / BARS);
  const now = new Map(figures.limits.map(one => [keyOf(one), one]));
  const rows = new Map();
  for (const one of each) {
    const key = keyOf(one);
    const row = rows.get(key) ?? {
      admitted_now: 0, denied_now: 0, ...now.get(key), ...one, admitted: 0, denied: 0,
      view: {
        from, step: step * group,
        bars: Array.from({ length: Math.ceil(buckets / group) }, () => [0, 0]),
      },
    };
    rows.set(key, row);
    one.counts.forEach((number, at) => {
      row.view.bars[Math.floor(at / group)][one.admits ? 0 : 1] += number;
      row[one.admits ? "admitted" : "denied"] += number;
    });
  }
  return [...rows.values()].sort((one, other) => other.denied - one.denied);
}

/** All limits together, or the chosen one. */
function viewOf(rows, range) {
  const chosen = rows.find(one => keyOf(one) === charted);
  if (chosen) return { ...chosen.view, range: RANGES[range], of: named(chosen).join(", ") };
  const those = rows.filter(one => !one.shadow);
  const time = rows[0]?.view ?? { from: figures.minutes_from_s, step: 60 };
  const bars = Array.from({ length: rows[0]?.view.bars.length ?? BARS }, () => [0, 0]);
  for (const { view } of those) {
    view.bars.forEach(([admitted, denied], at) => {
      bars[at][0] += admitted;
      bars[at][1] += denied;
    });
  }
  return { ...time, bars, range: RANGES[range], of: "" };
}

function showChart(view) {
  say(get("chart-of"), view.of ? `Only ${view.of}.` : "All limits that are not in shadow.");
  get("chart-all").hidden = !view.of;
  // A tooltip goes with its bar, so the bars stay while somebody points at them.
  if (!get("hour").matches(":hover")) {
    // As many pixels as there are, so that its words are as large as others.
    const width = Math.max(get("hour").clientWidth, 300);
    get("hour").replaceChildren(chart(view, width));
  }
  if (!get("chart-table").open) return;
  const bars = view.bars.map((bar, at) => ({ bar, begin: view.from + at * view.step })).reverse();
  fill(get("bars"), bars, one => String(one.begin), one => [
    clock(one.begin), count(one.bar[0]), count(one.bar[1]),
  ]);
}

function sorted(rows) {
  if (sortedBy === "name") {
    return rows.toSorted((one, other) => named(one).join().localeCompare(named(other).join()));
  }
  return rows.toSorted((one, other) => other[sortedBy] - one[sortedBy]);
}

function name(one) {
  return () => {
    const [first, second] = named(one);
    const button = make("button", {
      type: "button", class: "link", "aria-label": `Chart ${first}, ${second}`,
    }, first);
    button.addEventListener("click", () => {
      charted = charted === keyOf(one) ? null : keyOf(one);
      show(figures);
    });
    const element = document.createDocumentFragment();
    element.append(button, make("small", {}, second));
    return element;
  };
}

/** Marks the limit of the chart, and hides the small charts from narrow screens. */
function mark(body) {
  for (const row of body.rows) {
    row.lastElementChild.className = "wide";
    const isCharted = String(row.dataset.key === charted);
    row.querySelector("button").setAttribute("aria-pressed", isCharted);
  }
}

/** Shows the limits of these figures. Those of before stay until the series of a range are here. */
export function show(answered) {
  figures = answered;
  const range = get("range").value;
  refresh(range);
  if (range !== HOUR && series.range !== range) return;
  const rows = rowsOf(range);
  showChart(viewOf(rows, range));
  for (const place of document.querySelectorAll(".range")) say(place, `last ${RANGES[range]}`);
  const seconds = figures.now_seconds;
  const wanted = get("filter").value.trim().toLowerCase();
  const limits = sorted(rows.filter(one => !one.shadow));
  const found = limits.filter(one => named(one).join(" ").toLowerCase().includes(wanted));
  fill(get("limits"), few(get("limits-all"), found), keyOf, one => [
    name(one),
    rate(one.admitted_now, seconds),
    rate(one.denied_now, seconds),
    count(one.admitted),
    count(one.denied),
    spark(one.view),
  ]);
  say(get("no-limits"), limits.length ? `No limit of ${count(limits.length)} has this in its name.`
    : `No request was decided in the last ${RANGES[range]}.`);
  const shadows = rows.filter(one => one.shadow);
  fill(get("shadows"), few(get("shadows-all"), shadows), keyOf, one => [
    name(one),
    count(one.admitted),
    count(one.denied),
    share(one.denied, one.admitted + one.denied),
    spark(one.view),
  ]);
  mark(get("limits"));
  mark(get("shadows"));
}

/** Asks for the series of another range, where those that are here are old. */
async function refresh(range) {
  const isFresh = asked.range === range &&
    Date.now() - asked.at < (FRESH_MS[range] ?? USUAL_FRESH_MS);
  if (range === HOUR || isFresh) return;
  // Marked at once, so that the next figures do not ask again.
  asked = { range, at: Date.now() };
  try {
    series = { range, answer: await ask(`/v1/admin/series?last=${range}`) };
    say(get("range-fault"), "");
    if (get("range").value === range) show(figures);
  } catch (error) {
    asked.at = 0;
    say(get("range-fault"), error.message);
  }
}

function sortBy(key) {
  sortedBy = key;
  for (const button of document.querySelectorAll("[data-sort]")) {
    const isIt = button.dataset.sort === key;
    const order = key === "name" ? "ascending" : "descending";
    button.closest("th").setAttribute("aria-sort", isIt ? order : "none");
  }
}

export function begin() {
  const again = () => figures && show(figures);
  sortBy(sortedBy);
  for (const button of document.querySelectorAll("[data-sort]")) {
    button.addEventListener("click", () => {
      sortBy(button.dataset.sort);
      again();
    });
  }
  get("filter").addEventListener("input", again);
  get("range").addEventListener("change", again);
  get("chart-table").addEventListener("toggle", again);
  get("chart-all").addEventListener("click", () => {
    charted = null;
    again();
  });
  expands(get("limits-all"), again);
  expands(get("shadows-all"), again);
}
