// The page: limits, the clock, requests, and the frames in between.

const get = id => document.getElementById(id);

// How many seconds of the limits pass in a second of the reader.
const SPEEDS = [1e-4, 1e-3, 0.01, 0.1, 1, 10, 60, 600, 3_600, 86_400];

// A span is shown in this time, or less.
const SPAN_SECONDS = 60;

// As many times each span the page looks at what is left.
const LOOKS = 400;

const engine = await loadEngine();
const play = { lanes: [], clients: ["a"], span: 1, base: 0, since: null, speed: 1,
  looked: 0, asked: 0, traffic: false };

function now() {
  if (play.since === null) return play.base;
  return play.base + Math.round((performance.now() - play.since) * 1e3 * play.speed);
}

function setRunning(runs) {
  play.base = now();
  play.since = runs ? performance.now() : null;
  get("stop").disabled = !runs;
  if (runs) requestAnimationFrame(frame);
}

// Starts afresh under the limits that are typed.
function open() {
  const text = get("limits").value;
  const opened = engine({ do: "open", limits: text });
  const { problem } = opened;
  setRunning(false);
  showProblem(text, problem);
  for (const id of ["ask", "reset", "run"]) get(id).disabled = Boolean(problem);
  get("traffic").querySelector("button").disabled = Boolean(problem);
  Object.assign(play, { lanes: [], clients: ["a"], base: 0, looked: 0, asked: 0 });
  get("said").textContent = "";
  get("fault").textContent = "";
  if (problem) {
    get("lanes").replaceChildren();
    return false;
  }
  play.lanes = opened.lanes.map(newLane);
  get("lanes").replaceChildren(...play.lanes.map(lane => lane.root),
    ...opened.refused.map(refusedLane));
  const periods = play.lanes.flatMap(lane => lane.limits.map(limit => limit.period_us));
  setSpan(3 * Math.max(...periods));
  show();
  return true;
}

// Other limits: the generated traffic meets them too, unless somebody has asked by hand since.
function change() {
  if (open() && play.traffic) generate();
}

// The time that is shown, and a speed at which it passes soon.
function setSpan(span) {
  play.span = span;
  const least = span / 1e6 / SPAN_SECONDS;
  play.speed = SPEEDS.find(speed => speed >= least) ?? SPEEDS.at(-1);
  get("speed").value = play.speed;
}

function showProblem(text, problem) {
  const box = get("problem");
  box.replaceChildren();
  get("limits").setAttribute("aria-invalid", String(Boolean(problem)));
  if (!problem) return;
  const { what, remedy, start, end } = problem;
  const place = make("code", text.slice(0, start));
  place.append(make("mark", text.slice(start, end)), text.slice(end));
  box.append(`${what}: `, place, remedy);
}

// Asks every strategy, and keeps what they say.
function ask(asks) {
  const { lanes, error } = engine({ do: "ask", asks });
  get("fault").textContent = error ?? "";
  if (error) return false;
  for (const [index, lane] of play.lanes.entries()) {
    for (const [place, asked] of asks.entries()) addEvent(lane, asked, lanes[index][place]);
  }
  for (const { subject } of asks) {
    if (!play.clients.includes(subject)) play.clients.push(subject);
  }
  play.asked = asks.at(-1).at_us;
  play.lanes.forEach(showLines);
  return true;
}

// The remaining units of each client at these times, without asking for
// anything.
function look(times) {
  const asks = times.flatMap(at_us => play.clients.map(subject => (
    { at_us, cost: 1, how: "peek", subject })));
  const { lanes } = engine({ do: "ask", asks });
  for (const [index, lane] of play.lanes.entries()) {
    for (const [place, { subject, at_us }] of asks.entries()) {
      addLeft(lane, subject, at_us, lanes[index][place].remaining);
    }
  }
  play.looked = times.at(-1);
}

// Looks at the times since the last look: a page in the background has no frames.
function catchUp(at) {
  const grain = play.span / LOOKS;
  const count = Math.min(LOOKS, Math.floor((at - play.looked) / grain));
  if (count < 1) return;
  look(Array.from({ length: count }, (_, n) => Math.round(at - (count - 1 - n) * grain)));
}

function askNow() {
  if (get("ask").disabled) return;
  play.traffic = false;
  const at_us = now();
  if (play.since === null) setRunning(true);
  const asked = { at_us, cost: Number(get("cost").value), how: get("how").value,
    subject: get("client").value };
  if (!Number.isSafeInteger(asked.cost) || asked.cost < 0) {
    get("fault").textContent = "A cost is a whole number, e.g. 1.";
    return;
  }
  catchUp(at_us);
  if (!ask([asked])) return;
  play.looked = at_us;
  say(at_us);
  show();
}

// The last answers in one sentence, which screen readers read out.
function say(at) {
  const by = admitted => play.lanes.filter(lane => lane.events.at(-1).admitted === admitted)
    .map(lane => lane.strategy).join("; ");
  const done = get("how").value === "charge" ? "charged" : "admitted";
  const parts = [[done, by(true)], ["denied", by(false)]].filter(([, names]) => names);
  get("said").textContent = `At ${duration(at)}: ${parts.map(part => part.join(" by ")).join(". ")}.`;
}

// Requests in order of time, with looks in between.
function askAll(asks, end) {
  const times = Array.from({ length: LOOKS + 1 }, (_, n) => Math.floor((end * n) / LOOKS));
  const all = [];
  let next = 0;
  play.clients = [...new Set(["a", ...asks.map(asked => asked.subject)])];
  for (const asked of asks) {
    const before = [];
    while (next < times.length && times[next] < asked.at_us) before.push(times[next++]);
    if (before.length) {
      if (all.length && !ask(all.splice(0))) return false;
      look(before);
    }
    all.push(asked);
  }
  if (all.length && !ask(all)) return false;
  if (next < times.length) look(times.slice(next));
  return true;
}

function generate() {
  const number = id => Number(get(id).value);
  const made = engine({ do: "traffic", pattern: get("pattern").value,
    requests: number("requests"), span_us: play.span, seed: number("seed") });
  if (!open()) return;
  play.traffic = true;
  get("fault").textContent = made.error ?? "";
  if (made.error || !askAll(made.asks, play.span)) return;
  finish(play.span, `${made.asks.length} requests in ${duration(play.span)}.`);
}

function runScript() {
  let script;
  try {
    script = readScript(get("script").value);
  } catch (error) {
    get("fault").textContent = error.message;
    return;
  }
  play.traffic = false;
  if (script.limits !== null) get("limits").value = script.limits;
  const opened = play.lanes.map(lane => lane.answers.open);
  if (!open()) return;
  play.lanes.forEach((lane, index) => { lane.answers.open = opened[index] ?? opened[0]; });
  const end = Math.max(play.span, ...script.asks.map(asked => asked.at_us));
  const inOrder = script.asks.every((asked, n) => !n || asked.at_us >= script.asks[n - 1].at_us);
  // Where time goes back, a look at a later time would be a step of the clock.
  if (!(inOrder ? askAll(script.asks, end) : ask(script.asks))) return;
  play.span = end;
  finish(inOrder ? end : script.asks.at(-1).at_us, `${script.asks.length} requests at exact times.`);
}

function finish(at, words) {
  play.base = at;
  play.looked = at;
  const counts = play.lanes.map(lane => `${lane.strategy} admitted ${lane.admitted}`);
  get("said").textContent = `${words} ${counts.join(", ")}.`;
  show();
}

function show(moves = false) {
  const at = now();
  get("clock").textContent = glance(at);
  const from = Math.max(0, at - play.span);
  const view = { from, to: from + 1.15 * play.span, at, clients: play.clients };
  for (const lane of play.lanes) {
    showNow(lane, at, get("client").value);
    // In words after a request and at the end, not sixty times a second.
    if (!moves) describe(lane, at);
    draw(lane, view);
  }
}

function frame() {
  if (play.since === null) return;
  const at = now();
  catchUp(at);
  // Nothing moves any more: everybody can take a full burst again, or waits for a reader.
  if (at - play.asked > play.span) setRunning(false);
  show(play.since !== null);
  requestAnimationFrame(frame);
}

for (const speed of SPEEDS) {
  const option = make("option", exact(Math.round(speed * 1e6)));
  option.value = speed;
  get("speed").append(option);
}
get("speed").addEventListener("change", () => {
  setRunning(play.since !== null);
  play.speed = Number(get("speed").value);
});
get("limits").addEventListener("input", change);
for (const button of document.querySelectorAll(".example")) {
  button.addEventListener("click", () => {
    get("limits").value = button.textContent;
    change();
  });
}
get("ask").addEventListener("click", askNow);
get("stop").addEventListener("click", () => { setRunning(false); show(); });
get("reset").addEventListener("click", () => {
  play.traffic = false;
  open();
});
get("run").addEventListener("click", runScript);
get("client").addEventListener("change", () => show());
get("traffic").addEventListener("submit", event => {
  event.preventDefault();
  generate();
});
addEventListener("keydown", event => {
  const taken = event.target.closest?.("input, select, textarea, button, summary, pre");
  if (event.key !== " " || taken || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  askNow();
});
addEventListener("resize", () => show());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show());
open();
generate();
document.documentElement.dataset.ready = "yes";
