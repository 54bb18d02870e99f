// The page: limits, the clock, requests, and the frames in between.

// How many seconds of the limits pass in a second of the reader.
const SPEEDS = [1e-4, 1e-3, 0.01, 0.1, 1, 10, 60, 600, 3_600, 86_400];

// A span is shown in this time, or less.
const SPAN_SECONDS = 60;

// As many times each span the page looks at what is left.
const LOOKS = 400;

// The address follows what is typed so much later, in milliseconds: browsers refuse hundreds of
// changes in a row.
const ADDRESS_MS = 300;

const FIELDS = ["limits", "second"];
const play = { lanes: [], clients: ["a"], span: 1, base: 0, since: null, speed: 1,
  looked: 0, asked: 0, step: null, traffic: "random", wait: null };

const engine = await loadEngine().catch(error => {
  showTrouble([`The engine cannot start in this browser: ${error.message}. It needs WebAssembly `
    + "and DecompressionStream, which every browser has since 2023."]);
  document.documentElement.dataset.ready = "no";
  // Nothing of the rest can run.
  return new Promise(() => {});
});

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
  const texts = FIELDS.map(id => get(id).value).filter((text, side) => side === 0 || text.trim());
  const opened = engine({ do: "open", limits: texts });
  const { problem } = opened;
  setRunning(false);
  for (const [side, id] of FIELDS.entries()) {
    showProblem(id, problem && opened.side === side ? problem : null);
  }
  for (const id of ["ask", "reset", "run", "generate", "picture", "data"]) {
    get(id).disabled = Boolean(problem);
  }
  Object.assign(play, { lanes: [], clients: ["a"], base: 0, looked: 0, asked: 0, step: null });
  for (const id of ["said", "fault", "brief", "saved"]) get(id).textContent = "";
  showAddress();
  const isPair = texts.length > 1;
  get("lanes").classList.toggle("pair", isPair);
  if (problem) {
    get("lanes").replaceChildren();
    showSums([]);
    showStep();
    return false;
  }
  play.lanes = opened.lanes.map((lane, index) => newLane(lane, index, isPair));
  const refused = opened.refused.map(lane => ({ ...lane, root: refusedLane(lane) }));
  get("lanes").replaceChildren(
    ...[...arranged(play.lanes), ...arranged(refused)].map(lane => lane.root));
  for (const lane of play.lanes) {
    lane.canvas.addEventListener("click", event => stepAt(lane, event));
  }
  const periods = play.lanes.flatMap(lane => lane.limits.map(limit => limit.period_us));
  setSpan(3 * Math.max(...periods));
  show();
  return true;
}

// Other limits: the same traffic meets them too, unless somebody has asked by hand since.
function change() {
  if (!open() || play.traffic === "none") return;
  if (play.traffic === "exact") runScript(false);
  else generate();
}

// The time that is shown, and a speed at which it passes soon.
function setSpan(span) {
  play.span = span;
  const least = span / 1e6 / SPAN_SECONDS;
  play.speed = SPEEDS.find(speed => speed >= least) ?? SPEEDS.at(-1);
  get("speed").value = play.speed;
}

function showProblem(id, problem) {
  const box = get(id === "limits" ? "problem" : `${id}-problem`);
  box.replaceChildren();
  get(id).setAttribute("aria-invalid", String(Boolean(problem)));
  if (!problem) return;
  const { what, remedy, start, end } = problem;
  const text = get(id).value;
  const before = start > 100 ? `…${text.slice(start - 60, start)}` : text.slice(0, start);
  const place = make("code", before, "place");
  place.append(make("mark", shorten(text.slice(start, end), 200)), shorten(text.slice(end)));
  box.append(...prose(`${shorten(what, 200)}: `), place, ...prose(shorten(remedy, 200)));
}

// The value of a number field; `null` and a message at its fault.
function numberOf(id) {
  let number = null;
  try {
    number = wholeNumber(id, get(id).value.trim());
  } catch (error) {
    // A browser gives no text of a number field that is not a number.
    const typed = get(id).value ? `"${shorten(get(id).value)}"` : "what is typed";
    get("fault").textContent = `${get(id).labels[0].textContent.trim()}: ${typed} does not fit, `
      + `${error.message}.`;
  }
  get(id).setAttribute("aria-invalid", String(number === null));
  return number;
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

// The remaining units of each client at these times, without asking for anything.
function look(times_us) {
  const { left } = engine({ do: "look", times_us, subjects: play.clients });
  for (const [index, lane] of play.lanes.entries()) {
    for (const [place, at] of times_us.entries()) {
      for (const [number, who] of play.clients.entries()) {
        addLeft(lane, who, at, left[index][number][place]);
      }
    }
  }
  play.looked = times_us.at(-1);
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
  const cost = numberOf("cost");
  if (cost === null) return;
  play.traffic = "none";
  play.step = null;
  const at_us = now();
  if (play.since === null) setRunning(true);
  catchUp(at_us);
  if (!ask([{ at_us, cost, how: get("how").value, subject: get("client").value }])) return;
  play.looked = at_us;
  say(at_us);
  showAddress();
  show();
}

// The last answers in one sentence, which screen readers read out.
function say(at) {
  const parts = partsOf(requests().length - 1);
  get("said").textContent = `At ${duration(at)}: `
    + `${parts.map(([verb, names]) => `${verb} by ${names.join("; ")}`).join(". ")}.`;
  get("brief").textContent = brief(parts);
}

// Who admitted a request, counted from 0, and who denied it.
function partsOf(step) {
  const by = admitted => play.lanes.filter(lane => lane.events[step].admitted === admitted)
    .map(lane => lane.name);
  const done = requests()[step].how === "charge" ? "charged" : "admitted";
  return [[done, by(true)], ["denied", by(false)]].filter(([, names]) => names.length);
}

const brief = parts => parts.map(([verb, names]) => `${verb} by ${names.length}`).join(", ");

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
  const [count, seed] = [numberOf("requests"), numberOf("seed")];
  if (count === null || seed === null) return;
  const { asks, error } = engine({ do: "traffic", pattern: get("pattern").value,
    requests: count, span_us: play.span, seed });
  if (!open()) return;
  play.traffic = get("pattern").value;
  get("fault").textContent = error ?? "";
  if (error || !askAll(asks, play.span)) return;
  finish(play.span, `${count} requests were generated, in ${duration(play.span)}.`);
}

// Runs the requests at exact times. Their own limits are for those who ask for them: whoever types
// others, or follows a link, has chosen.
function runScript(setsLimits) {
  let script;
  try {
    script = readScript(get("script").value);
  } catch (error) {
    get("fault").textContent = error.message;
    return;
  }
  play.traffic = "exact";
  if (setsLimits && script.limits !== null) get("limits").value = script.limits;
  const opened = play.lanes.map(lane => lane.answers.open);
  if (!open()) return;
  play.lanes.forEach((lane, index) => { lane.answers.open = opened[index] ?? opened[0]; });
  const end = Math.max(play.span, ...script.asks.map(asked => asked.at_us));
  const inOrder = script.asks.every((asked, n) => !n || asked.at_us >= script.asks[n - 1].at_us);
  // Where time goes back, a look at a later time would be a step of the clock.
  if (!(inOrder ? askAll(script.asks, end) : ask(script.asks))) {
    // Some of them may have been answered: then the page would show less than was charged.
    const fault = get("fault").textContent;
    open();
    get("fault").textContent = fault;
    return;
  }
  play.span = end;
  const at = inOrder ? end : script.asks.at(-1).at_us;
  finish(at, `${script.asks.length} requests at exact times.`);
}

function finish(at, words) {
  play.base = at;
  play.looked = at;
  get("said").textContent = words;
  showAddress();
  show();
}

// The present, or the request that is looked at.
function viewNow() {
  const until = now();
  const at = play.step === null ? until : requests()[play.step].at;
  const from = Math.max(0, Math.min(until - play.span, at));
  return { from, to: from + 1.15 * play.span, at, until, step: play.step, clients: play.clients };
}

function show(moves = false) {
  const view = viewNow();
  get("clock").textContent = glance(view.until);
  if (!play.lanes.length) return;
  const asked = view.step === null ? null : view.step + 1;
  const { spans, why } = engine({ do: "see", asked, at_us: view.at, subjects: view.clients });
  const who = asked ? requests()[view.step].who : get("client").value;
  for (const [index, lane] of play.lanes.entries()) {
    Object.assign(lane, { spans: spans[index], reasons: why[who]?.[index] ?? [] });
    showNow(lane, view, who);
    // In words after a request and at the end, not sixty times a second.
    if (!moves) {
      showWhy(lane);
      describe(lane, view.until);
    }
    draw(lane, view);
  }
  if (moves) return;
  showSums(arranged(play.lanes));
  showStep();
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

// What a link carries. Requests by hand have no place in it.
function addressNow() {
  const values = { limits: get("limits").value };
  if (get("second").value.trim()) values.second = get("second").value;
  values.traffic = play.traffic;
  if (play.traffic === "exact") values.times = get("script").value.trim();
  else if (play.traffic !== "none") {
    Object.assign(values, { requests: get("requests").value, seed: get("seed").value });
  }
  return writeAddress(values);
}

function showAddress() {
  if (document.documentElement.dataset.ready !== "yes") return;
  clearTimeout(play.wait);
  play.wait = setTimeout(() => {
    const address = addressNow();
    if (address.length > MAX_ADDRESS) return;
    try {
      history.replaceState(null, "", address);
    } catch {
      // A frame may have no address of its own: *Copy link* has it.
    }
  }, ADDRESS_MS);
}

// Shows what an address has; the rest is as the page begins.
function applyAddress() {
  const { values, problems } = readAddress(location.hash);
  showTrouble(problems);
  const traffic = values.traffic ?? (values.times === undefined ? "random" : "exact");
  for (const [id, value] of [["limits", values.limits ?? "5/10s"], ["second", values.second ?? ""],
    ["requests", values.requests ?? 40], ["seed", values.seed ?? 1]]) get(id).value = value;
  if (values.times !== undefined) get("script").value = values.times;
  const isPattern = [...get("pattern").options].some(option => option.value === traffic);
  if (isPattern) get("pattern").value = traffic;
  if (traffic === "exact") get("exact").open = true;
  play.traffic = traffic;
  if (traffic === "exact" && values.limits === undefined) runScript(true);
  else change();
}

function takeLink() {
  const address = addressNow();
  if (address.length > MAX_ADDRESS) {
    get("saved").textContent = `A link has at most ${MAX_ADDRESS} characters, and this would have `
      + `${address.length}: save the data instead.`;
    return;
  }
  copyLink(location.href.split("#")[0] + address);
}

function takePicture() {
  const generated = `${get("pattern").selectedOptions[0].textContent} traffic, `
    + `${get("requests").value} requests, seed ${get("seed").value}`;
  const traffic = { none: "requests by hand", exact: "requests at exact times" };
  const about = `Tollgate: ${traffic[play.traffic] ?? generated}, until ${duration(now())}`;
  const lanes = arranged(play.lanes);
  pictureOf(lanes, viewNow(), about).toBlob(blob => download("tollgate.png", blob));
}

for (const speed of SPEEDS) {
  const option = make("option", `${exact(Math.round(speed * 1e6))} per second`);
  option.value = speed;
  get("speed").append(option);
}
get("speed").addEventListener("change", () => {
  setRunning(play.since !== null);
  play.speed = Number(get("speed").value);
});
for (const id of FIELDS) get(id).addEventListener("input", change);
for (const button of document.querySelectorAll(".example")) {
  button.addEventListener("click", () => {
    get("limits").value = button.querySelector("code").textContent;
    change();
  });
}
get("ask").addEventListener("click", askNow);
get("stop").addEventListener("click", () => { setRunning(false); show(); });
get("reset").addEventListener("click", () => {
  play.traffic = "none";
  open();
});
get("run").addEventListener("click", () => runScript(true));
get("link").addEventListener("click", takeLink);
get("picture").addEventListener("click", takePicture);
get("data").addEventListener("click", () => {
  download("tollgate.csv", new Blob([dataOf(arranged(play.lanes))], { type: "text/csv" }));
});
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
addEventListener("hashchange", applyAddress);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show());
startSteps();
applyAddress();
get("starting").remove();
document.documentElement.dataset.ready = "yes";
