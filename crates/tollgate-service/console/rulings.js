// Bans, exemptions and set limits: those in force, new ones, and their end before their time.

import { ask } from "./api.js";
import { count, expands, fill, get, make, pairs, say, span, sure } from "./dom.js";

const EFFECTS = {
  ban: ["Ban", "are denied"],
  exempt: ["Exempt", "are admitted without a limit"],
  set: ["Set limits", "have these limits"],
};

/** The number of rulings that the long list was asked for, and that list. */
let listed = { count: 0, all: [] };
let figures = null;

/** Conditions as a text: `ip=203.0.113.0/24 user=ann or bob`. */
function whenText(when) {
  const each = Object.entries(when).map(([field, any]) => `${field}=${[any].flat().join(" or ")}`);
  return each.join(" ");
}

function scopeText({ effect, policy, limits }) {
  const set = Object.entries(limits ?? {}).map(([name, text]) => `${name}: ${text}`);
  const where = policy ? ` in ${policy}` : "";
  return `${EFFECTS[effect]?.[0] ?? effect}${where}${set.length ? `: ${set.join(", ")}` : ""}`;
}

function row(ruling) {
  const lift = () => {
    const button = make("button", { type: "button", "aria-label": `Lift ${whenText(ruling.when)}` });
    button.textContent = "Lift…";
    button.addEventListener("click", () => liftOne(ruling));
    return button;
  };
  const notes = [ruling.reason, ruling.no_effect && `No effect: ${ruling.no_effect}`];
  return [
    whenText(ruling.when),
    scopeText(ruling),
    span(Math.ceil(ruling.left_ms / 1_000)),
    notes.filter(Boolean).join(" ") || "-",
    lift,
  ];
}

function render() {
  const { count: number, first } = figures;
  const button = get("rulings-all");
  const isAll = button.getAttribute("aria-expanded") === "true";
  button.hidden = number <= first.length;
  say(button, isAll ? `First ${first.length}` : `All ${count(number)}`);
  const list = isAll && listed.count === number ? listed.all : first;
  fill(get("rulings"), list, one => JSON.stringify([one.when, one.policy, one.effect]), row);
  if (isAll && listed.count !== number) readAll(number);
}

async function readAll(number) {
  // Marked at once, so that the next figures do not ask again.
  listed = { count: number, all: figures.first };
  try {
    listed.all = (await ask("/v1/admin/rulings")).rulings;
    render();
  } catch (error) {
    say(get("ruling-fault"), error.message);
  }
}

/** Shows the rulings of these figures. */
export function showRulings(rulings) {
  figures = rulings;
  render();
}

/** Asks for a change, if the administrator is sure. */
async function change(act, body, title, words, done) {
  say(get("ruling-fault"), "");
  if (!(await sure(`${title}?`, words, title))) return;
  try {
    const answer = await ask(`/v1/admin/${act}`, body);
    say(get("ruling-done"), done(answer));
  } catch (error) {
    say(get("ruling-done"), "");
    say(get("ruling-fault"), error.message);
  }
}

function liftOne({ when, policy, effect }) {
  const body = policy ? { when, policy } : { when };
  const who = whenText(when);
  change("lift", body, "Lift", `${scopeText({ effect, policy })} of requests with ${who} ends now.`,
    ({ was_there: was }) => (was ? `${who}: lifted.` : `${who}: there was no such ruling.`));
}

/** `minute=500/m, hour=3/h` as an object. */
function limitsOf(text) {
  return Object.fromEntries(text.split(",").map(part => {
    const [name, ...rest] = part.split("=");
    if (!rest.length) throw new Error("Limits are written NAME=LIMIT, e.g. minute=500/m.");
    return [name.trim(), rest.join("=").trim()];
  }));
}

/** Several values of one field are a list. */
function whenOf(text) {
  const when = {};
  for (const [name, value] of pairs(text)) (when[name] ??= []).push(value);
  return when;
}

function rule() {
  try {
    const effect = get("effect").value;
    const body = { when: whenOf(get("when").value), for: get("for").value.trim() };
    for (const [key, id] of [["policy", "ruled-policy"], ["reason", "reason"]]) {
      const text = get(id).value.trim();
      if (text) body[key] = text;
    }
    if (effect === "set") body.limits = limitsOf(get("set-limits").value);
    const [title, words] = EFFECTS[effect];
    const where = body.policy ? ` in ${body.policy}` : " everywhere";
    change(effect, body, title,
      `Requests with ${whenText(body.when)} ${words}${where} for ${body.for}.`,
      ({ replaced, warning }) => `${scopeText({ ...body, effect })} for ${body.for}: ` +
        `${whenText(body.when)}.${replaced ? " It replaces the ruling before." : ""}` +
        `${warning ? ` ${warning}` : ""}`);
  } catch (error) {
    say(get("ruling-fault"), error.message);
  }
}

/** Begins a ruling on the requests of this subject: `ip:192.0.2.7`. */
export function ruleOn(subject) {
  const [dimension, ...rest] = subject.split(":");
  const value = rest.join(":");
  get("when").value = `${dimension}=${/\s/.test(value) ? `"${value}"` : value}`;
  get("when").focus();
}

export function begin() {
  const isSet = () => { get("set-limits").parentElement.hidden = get("effect").value !== "set"; };
  get("effect").addEventListener("change", isSet);
  isSet();
  expands(get("rulings-all"), () => {
    listed = { count: -1, all: [] };
    render();
  });
  get("ruling-form").addEventListener("submit", event => {
    event.preventDefault();
    rule();
  });
}
