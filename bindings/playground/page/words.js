// Times as text. All times are whole microseconds.

const UNITS = [["d", 86_400e6], ["h", 3_600e6], ["m", 60e6], ["s", 1e6], ["ms", 1e3], ["us", 1]];

// In days, hours, minutes and seconds, as the command line writes them.
function duration(us) {
  let [rest, text] = [us, ""];
  for (const [unit, length] of UNITS.slice(0, 3)) {
    if (rest >= length) {
      text += `${Math.floor(rest / length)}${unit}`;
      rest %= length;
    }
  }
  if (rest > 0 || !text) {
    const fraction = String(rest % 1e6).padStart(6, "0").replace(/0+$/, "");
    text += `${Math.floor(rest / 1e6)}${fraction && "."}${fraction}s`;
  }
  return text;
}

// For a number that moves: rounded up to what can be read.
function glance(us) {
  const step = [[600e6, 1e6], [10e6, 1e5], [1e5, 1e4], [1e3, 1e2]].find(([from]) => us >= from);
  const grain = step ? step[1] : 1;
  return duration(Math.ceil(us / grain) * grain);
}

// A time that has passed, to the millisecond where seconds are shown.
const moment = us => duration(us < 1e6 ? us : Math.round(us / 1e3) * 1e3);

// Exact, in the largest unit that divides it, as in `vectors/`.
function exact(us) {
  if (us === 0) return "0";
  const [unit, length] = UNITS.find(([, length]) => us % length === 0);
  return `${us / length}${unit}`;
}

// `1_500ms`, or a plain number of microseconds; undefined if it is neither.
function readTime(text) {
  const [, digits, unit] = /^(\d[\d_]*)\s*([a-z]*)$/.exec(text) ?? [];
  const length = UNITS.find(([name]) => name === (unit || "us"))?.[1];
  const us = Number(digits?.replaceAll("_", "")) * length;
  return Number.isSafeInteger(us) ? us : undefined;
}

// How a request is written and what was answered: one line of a time line, as in `vectors/`.
function line({ at, how, cost, allowed, granted, cut, remaining, retry, reset }) {
  const asked = how === "check" ? `${cost}` : `${how} ${cost}`;
  let allow = allowed ? "yes" : retry === null ? "never" : "no";
  if (how === "partial") allow = `${granted}`;
  if (how === "charge" && !allowed) allow = cut ? `cuts ${cut}` : "owes";
  const wait = retry === null ? "-" : exact(retry);
  return `${exact(at)} | ${asked} | ${allow} | ${remaining} | ${wait} | ${exact(reset)}`;
}

// Reads requests at exact times: the limits if there are any, and the requests.
function readScript(text) {
  const [script, hows] = [{ limits: null, asks: [] }, ["check", "peek", "partial", "charge"]];
  for (const [index, raw] of text.split("\n").entries()) {
    const fail = what => { throw new Error(`line ${index + 1}: ${what}`); };
    const read = raw.trim();
    if (!read || read.startsWith("#")) continue;
    if (read.startsWith("limits:")) fail("this is a time line with holds, and this page has none");
    if (read.startsWith("limit:")) {
      if (script.limits !== null || script.asks.length) {
        fail("write the limits once, before all requests");
      }
      script.limits = read.slice("limit:".length).trim();
      continue;
    }
    const [time, request] = read.split("|").map(column => column.trim());
    const at = readTime(time);
    if (at === undefined) fail(`"${time}" is not a time such as 1500ms, 2s or 0`);
    const words = (request ?? "").split(/\s+/);
    const how = words.length > 1 ? words.shift() : "check";
    if (!hows.includes(how)) fail(`"${how}" is not one of ${hows.join(", ")}`);
    if (words.length !== 1 || !/^[\d_]+$/.test(words[0])) {
      fail("write a time and a cost, as 1500ms | 1");
    }
    const cost = Number(words[0].replaceAll("_", ""));
    if (!Number.isSafeInteger(cost)) fail(`a cost of ${words[0]} is too large`);
    script.asks.push({ at_us: at, cost, how, subject: "a" });
  }
  if (!script.asks.length) throw new Error("there is no request: write one, e.g. 1500ms | 1");
  return script;
}
