// A lane: one strategy, what it answered, and how that is shown.

// The most answers that a lane shows as text.
const MAX_LINES = 500;

// The names of the two texts of limits, where both are there.
const SIDES = ["first", "second"];

const make = (name, text, className) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};

// The engine's messages have code between backticks, as a terminal shows it.
const prose = text => text.split("\u0060")
  .map((part, index) => (index % 2 ? make("code", part) : part));

function newLane({ side, strategy, limits, capacity }, index, isPair) {
  const root = document.getElementById("lane").content.cloneNode(true).querySelector("section");
  const find = name => root.querySelector(name);
  const title = find("h3");
  const name = isPair ? `${strategy} (${SIDES[side]})` : strategy;
  title.id = `lane-${index}`;
  title.textContent = name;
  root.setAttribute("aria-labelledby", title.id);
  root.classList.add(SIDES[side]);
  const text = limits.map(limit => limit.text).join(", ");
  find(".limit").textContent = text;
  const means = new Set(limits.map(limit => limit.rows[0][1]));
  find(".means").textContent = [...means].join("; ");
  const pre = find("pre");
  pre.setAttribute("aria-label", `Answers of ${name}`);
  const meaning = find(".meaning");
  const choose = new Set(limits.flatMap(limit => limit.choose));
  const reasons = make("ul");
  for (const words of choose) reasons.append(make("li", words));
  if (choose.size) meaning.append(make("p", "When to choose it:"), reasons);
  for (const limit of limits) {
    const list = make("dl");
    for (const [name, words] of limit.rows) list.append(make("dt", name), make("dd", words));
    if (limits.length > 1) meaning.append(make("p", limit.text, "limit"));
    meaning.append(list);
  }
  const lane = {
    root, side, strategy, name, text, capacity, limits, canvas: find("canvas"), pre,
    last: find(".last"), now: find(".now"), count: find(".count"), why: find(".why"),
    answers: find(".answers"),
    events: [], left: {}, spans: [], reasons: [], admitted: 0, denied: 0,
  };
  find(".answers").addEventListener("toggle", () => showLines(lane));
  return lane;
}

// A strategy that the limits do not fit, and why.
function refusedLane({ side, strategy, problem }) {
  const root = make("section", undefined, `lane refused ${SIDES[side]}`);
  root.setAttribute("aria-label", strategy);
  const [what, remedy] = [make("p", "Not with these limits: "), make("p", undefined, "means")];
  what.append(...prose(`${problem.what}.`));
  remedy.append(...prose(`${problem.remedy}.`));
  root.append(make("h3", strategy), what, remedy);
  return root;
}

// The lanes in their order: two of one strategy are neighbours, and so side by side.
function arranged(lanes) {
  const [first, second] = [0, 1].map(side => lanes.filter(lane => lane.side === side));
  const twin = lane => second.find(other => other.strategy === lane.strategy);
  const twins = first.map(twin);
  const rest = second.filter(lane => !twins.includes(lane));
  return first.flatMap((lane, index) => [lane, twins[index] ?? rest.shift()])
    .concat(rest).filter(Boolean);
}

// Microseconds of a wait, as the page counts time.
const micros = wait => wait && Math.round(wait.seconds * 1e6);

function decisionOf({ allowed, granted, remaining, retry_after, reset_after, binding }, how) {
  return {
    allowed, granted, cut: 0, remaining, retry: allowed ? 0 : micros(retry_after),
    reset: micros(reset_after), admitted: allowed, charged: allowed && how !== "peek", binding,
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
    retry: waits.includes(null) ? null : most(waits), charged: cost > cut,
    reset: most(limits.map(limit => limit.reset_after)), admitted: true,
    binding: limits.findIndex(limit => limit.remaining === remaining),
  };
}

function addEvent(lane, ask, answer) {
  const event = {
    at: ask.at_us, how: ask.how, cost: ask.cost, who: ask.subject,
    ...(ask.how === "charge" ? chargeOf(answer) : decisionOf(answer, ask.how)),
  };
  lane.events.push(event);
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
  if (points.length > 40_000) points.splice(0, 10_000);
}

const countsOf = lane => `${lane.admitted} admitted, ${lane.denied} denied`;

// An answer, and apart from it the state of its client at this moment, which may be much later.
function showNow(lane, { at, step, clients }, who) {
  const last = step === null ? lane.events.findLast(event => event.who === who) : lane.events[step];
  const left = step === null ? lane.left[who]?.at(-1)?.[1] ?? lane.capacity : last.remaining;
  const of = clients.length > 1 ? ` of client ${last?.who ?? who}` : "";
  lane.last.replaceChildren();
  const words = [`${left} of ${lane.capacity} left`];
  if (!last) {
    lane.last.textContent = `No answer yet${of}.`;
  } else {
    const answer = step === null ? "Last answer" : `Answer ${step + 1}`;
    lane.last.append(`${answer}${of}, at ${moment(last.at)}: `, make("strong", ...verdictOf(last)));
    if (lane.limits.length > 1 && !last.admitted) {
      lane.last.append(` By ${lane.limits[last.binding].text}.`);
    }
    const wait = last.retry === null ? Infinity : last.at + last.retry - at;
    const full = last.at + last.reset - at;
    if (!last.admitted && last.retry !== null) {
      words.push(wait > 0 ? `a retry is admitted in ${glance(wait)}` : "a retry would be admitted");
    }
    if (full > 0) words.push(`full again in ${glance(full)}`);
  }
  lane.now.textContent = `${step === null ? "Now" : "Then"}: ${words.join(", ")}.`;
  lane.count.textContent = `${countsOf(lane)}.`;
}

// All lanes in one table: who cannot scroll through all pictures sees them side by side.
function showSums(lanes) {
  get("sums").hidden = !lanes.length;
  get("sums").tBodies[0].replaceChildren(...lanes.map(lane => {
    const row = make("tr");
    const name = make("th", lane.name);
    name.scope = "row";
    row.append(name);
    const most = lane.limits.map(limit => limit.most).filter(Boolean).join(", ");
    for (const text of [lane.admitted, lane.denied, lane.capacity, most]) {
      row.append(make("td", text));
    }
    return row;
  }));
}

// Why each limit answered so: the last request, or the one that is looked at.
function showWhy(lane) {
  const names = lane.limits.length > 1 ? lane.limits.map(limit => `${limit.text}: `) : [""];
  lane.why.replaceChildren(...lane.reasons.map((words, index) => (
    make("li", `${names[index]}${words}`))));
}

function verdictOf({ admitted, allowed, retry, how, cut, granted, cost }) {
  if (how === "charge" && !allowed) {
    return [cut ? `Charged, ${cut} cut.` : "Charged, it owes.", "no"];
  }
  if (how === "peek") return allowed ? ["Would be admitted.", "yes"] : ["Would be denied.", "no"];
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
  const parts = [`Time line of ${lane.name} until ${glance(at)}: ${countsOf(lane)}.`];
  for (const [who, points] of Object.entries(lane.left)) {
    parts.push(`Client ${who} has ${points.at(-1)[1]} of ${lane.capacity} left.`);
  }
  lane.canvas.setAttribute("aria-label", parts.join(" "));
}
