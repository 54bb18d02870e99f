// A lane: one strategy, what it answered, and how that is shown.

// The most requests that a lane remembers, and shows as text.
const MAX_EVENTS = 5_000;
const MAX_LINES = 500;

const make = (name, text, className) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};

function newLane({ strategy, limits, capacity }, index) {
  const root = document.getElementById("lane").content.cloneNode(true).querySelector("section");
  const find = name => root.querySelector(name);
  const title = find("h3");
  title.id = `lane-${index}`;
  title.textContent = strategy;
  root.setAttribute("aria-labelledby", title.id);
  const text = limits.map(limit => limit.text).join(", ");
  find(".limit").textContent = text;
  const pre = find("pre");
  pre.setAttribute("aria-label", `Answers of ${strategy}`);
  for (const limit of limits) {
    const list = make("dl");
    for (const [name, words] of limit.rows) list.append(make("dt", name), make("dd", words));
    if (limits.length > 1) find(".meaning").append(make("p", limit.text, "limit"));
    find(".meaning").append(list);
  }
  const lane = {
    root, strategy, text, capacity, limits, canvas: find("canvas"), pre,
    now: find(".now"), count: find(".count"), answers: find(".answers"),
    events: [], left: {}, admitted: 0, denied: 0,
  };
  find(".answers").addEventListener("toggle", () => showLines(lane));
  return lane;
}

// A strategy that the limits do not fit, and why.
function refusedLane({ strategy, problem }) {
  const root = make("section", undefined, "lane refused");
  root.setAttribute("aria-label", strategy);
  root.append(make("h3", strategy), make("p", `Not with these limits: ${problem.what}.`));
  root.append(make("p", problem.remedy, "limit"));
  return root;
}

// Microseconds of a wait, as the page counts time.
const micros = wait => wait && Math.round(wait.seconds * 1e6);

function decisionOf({ allowed, granted, remaining, retry_after, reset_after, binding }) {
  return {
    allowed, granted, cut: 0, remaining, retry: allowed ? 0 : micros(retry_after),
    reset: micros(reset_after), admitted: allowed, binding,
  };
}

// Each limit was charged by itself; the page shows the tightest numbers.
function chargeOf({ cost, limits }) {
  const most = waits => Math.max(...waits.map(micros));
  const cut = Math.max(...limits.map(limit => limit.cut));
  const remaining = Math.min(...limits.map(limit => limit.remaining));
  const waits = limits.map(limit => limit.retry_after);
  return {
    allowed: limits.every(limit => limit.fits), granted: cost - cut, cut, remaining,
    retry: waits.includes(null) ? null : most(waits),
    reset: most(limits.map(limit => limit.reset_after)), admitted: true,
    binding: limits.findIndex(limit => limit.remaining === remaining),
  };
}

function addEvent(lane, ask, answer) {
  const event = {
    at: ask.at_us, how: ask.how, cost: ask.cost, who: ask.subject,
    ...(ask.how === "charge" ? chargeOf(answer) : decisionOf(answer)),
  };
  lane.events.push(event);
  if (lane.events.length > MAX_EVENTS) lane.events.shift();
  lane[event.admitted ? "admitted" : "denied"] += 1;
  addLeft(lane, event.who, event.at, event.remaining);
  return event;
}

function addLeft(lane, who, at, remaining) {
  lane.left[who] ??= [];
  const points = lane.left[who];
  // Between two points of the same height there is nothing to draw.
  if (points.length && points.at(-1)[1] === remaining) return;
  points.push([at, remaining]);
  if (points.length > 4 * MAX_EVENTS) points.splice(0, MAX_EVENTS);
}

// The last answer, and the present state of the client.
function showNow(lane, at, who) {
  const last = lane.events.findLast(event => event.who === who);
  const left = lane.left[who]?.at(-1)?.[1] ?? lane.capacity;
  const standing = `${left} of ${lane.capacity} left`;
  lane.now.replaceChildren();
  if (!last) {
    lane.now.textContent = `${standing}. Nothing was asked yet.`;
  } else {
    const verdict = make("strong", ...verdictOf(last));
    const wait = last.retry === null ? Infinity : last.at + last.retry - at;
    const full = last.at + last.reset - at;
    const words = [standing];
    if (!last.admitted && last.retry !== null) {
      words.push(wait > 0 ? `retry in ${glance(wait)}` : "a retry is admitted now");
    }
    if (full > 0) words.push(`full again in ${glance(full)}`);
    lane.now.append(verdict, ` ${words.join(", ")}`);
    if (lane.limits.length > 1 && !last.admitted) {
      lane.now.append(`, by ${lane.limits[last.binding].text}`);
    }
  }
  lane.count.textContent = `${lane.admitted} admitted, ${lane.denied} denied`;
}

function verdictOf({ admitted, allowed, retry, how, cut, granted, cost }) {
  if (how === "charge" && !allowed) return [cut ? `Charged, ${cut} cut.` : "Charged, it owes.", "no"];
  if (how === "peek") return [allowed ? "Would be admitted." : "Would be denied.", allowed ? "yes" : "no"];
  if (admitted) return [granted < cost ? `${granted} of ${cost} admitted.` : "Admitted.", "yes"];
  return [retry === null ? "Denied: never." : "Denied.", "no"];
}

// The answers as time lines, one for each client, when somebody looks.
function showLines(lane) {
  if (!lane.answers.open) return;
  const clients = [...new Set(lane.events.map(event => event.who))];
  const lines = clients.flatMap(who => {
    const events = lane.events.filter(event => event.who === who).slice(-MAX_LINES);
    return [`# client ${who}: at | cost | allow | remaining | retry | reset`,
      `limit: ${lane.text}`, ...events.map(line)];
  });
  lane.pre.textContent = lines.join("\n") || "Nothing was asked yet.";
}

// The picture in words, for those who do not see it.
function describe(lane, at) {
  const parts = [`Time line of ${lane.strategy} until ${glance(at)}: ${lane.admitted} admitted, `
    + `${lane.denied} denied.`];
  for (const [who, points] of Object.entries(lane.left)) {
    parts.push(`Client ${who} has ${points.at(-1)[1]} of ${lane.capacity} left.`);
  }
  lane.canvas.setAttribute("aria-label", parts.join(" "));
}
