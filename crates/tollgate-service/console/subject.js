// One subject: its state, why it is answered so, and corrections after a confirmation.

import { ask } from "./api.js";
import { clock, count, fill, get, make, say, sure } from "./dom.js";
import { ruleOn } from "./rulings.js";

/** The count that is shown, as the API names it. */
let shown = null;

function asked() {
  const body = { written_subject: get("subject").value.trim() };
  for (const key of ["policy", "limit"]) {
    const text = get(key).value.trim();
    if (text) body[key] = text;
  }
  return body;
}

function named(body) {
  return body.policy ? `${body.written_subject} in ${body.policy}` : body.written_subject;
}

/** What is held, and when that was so: the waits above are those of then. */
function heldWords(held) {
  const seen = ` Seen at ${clock(Date.now() / 1_000)}.`;
  if (held === null) return `Nothing is held: the subject is fresh.${seen}`;
  const events = held.logs.map(log => `${count(log.length)} events`);
  const fresh = new Date(held.fresh_at_us / 1_000).toLocaleString("en-GB");
  const shared = held.shared ? " The store is full, so others share this count." : "";
  return `Held under ${held.written_under}${events.length ? `: ${events.join(", ")}` : ""}. ` +
    `Fresh at ${fresh}.${shared}${seen}`;
}

function wait(report) {
  if (report.admits) return "none";
  return report.retry_after?.text ?? "for ever";
}

/** Each limit of an answer: what is left, and how long to wait. */
export function reports(body, limits) {
  fill(body, limits, one => `${one.subject} ${one.identity}`, one => [
    one.limit, `${count(one.remaining)} of ${count(one.capacity)}`, wait(one), one.reset_after.text,
  ]);
}

async function showSubject(body) {
  say(get("subject-fault"), "");
  try {
    const [{ held }, { text, answer }] = [
      await ask("/v1/admin/inspect", body), await ask("/v1/admin/peek", body),
    ];
    shown = body;
    say(get("words"), text ?? answer.error ?? answer.outcome);
    reports(get("reports"), answer.limits);
    say(get("held"), heldWords(held));
    get("subject-answer").hidden = false;
  } catch (error) {
    shown = null;
    get("subject-answer").hidden = true;
    say(get("subject-fault"), error.message);
  }
}

/** Corrects the shown count, if the administrator is sure. */
async function correct(act, more, title, words, yes, done) {
  const body = { ...shown, ...more };
  if (!(await sure(title, words, yes))) return;
  try {
    const answer = await ask(`/v1/admin/${act}`, body);
    say(get("subject-done"), done(answer));
    await showSubject(shown);
  } catch (error) {
    // What is shown may be old: it is asked for again, or goes.
    say(get("subject-done"), "");
    await showSubject(shown);
    say(get("subject-fault"), error.message);
  }
}

function reset() {
  const who = named(shown);
  correct("reset", {}, "Reset this count?",
    `The count of ${who} is forgotten: it may use its whole limit again at once.`, "Reset",
    ({ was_there: was }) => (was ? `${who} was reset.` : `Nothing was held for ${who}.`));
}

function adjust() {
  const text = get("units").value;
  const amounts = (text.includes("=") ? text : `units=${text}`).split(",").map(part => {
    const [unit, amount] = part.split("=");
    return [unit.trim(), amount?.trim() ? Number(amount) : 0];
  });
  if (!amounts.every(([, amount]) => Number.isInteger(amount) && amount !== 0)) {
    say(get("subject-fault"), "Units are a whole number, and not 0.");
    return;
  }
  const who = named(shown);
  const each = amounts.map(([unit, amount]) => (amount > 0
    ? `${count(amount)} ${unit} are given back to ${who}.`
    : `${count(-amount)} ${unit} are taken from ${who}.`));
  const by = text.includes("=") ? Object.fromEntries(amounts) : amounts[0][1];
  correct("adjust", { by }, "Adjust this count?", each.join(" "), "Adjust",
    ({ changed }) => `${who} was changed by ${changed.join(", ")}.`);
}

/** Shows a subject of the lists: who it is, where they are hashed. */
export async function lookUp({ subject, policy }, isHashed) {
  say(get("subject-fault"), "");
  say(get("subject-done"), "");
  get("subject-answer").hidden = true;
  try {
    let found = subject;
    if (isHashed) {
      const answer = await ask("/v1/admin/lookup", { subject });
      const one = answer.found.find(it => it.policy === policy) ?? answer.found[0];
      if (!one) throw new Error(`${subject} is not counted any more.`);
      found = one.subject;
    }
    get("subject").value = found;
    get("policy").value = policy ?? "";
    get("limit").value = "";
    get("subject").focus();
    if (policy === null) {
      say(get("subject-done"), "No policy counts it: give the limit that its requests name.");
    } else {
      await showSubject(asked());
    }
  } catch (error) {
    say(get("subject-fault"), error.message);
    get("subject").focus();
  }
}

/** Offers the names of the policies where one is typed. */
export async function namePolicies() {
  const { policies } = await ask("/v1/admin/policies?count=1000");
  get("policies").replaceChildren(...policies.map(({ name }) => make("option", { value: name })));
}

export function begin() {
  get("subject-form").addEventListener("submit", event => {
    event.preventDefault();
    say(get("subject-done"), "");
    showSubject(asked());
  });
  get("reset").addEventListener("click", reset);
  get("adjust").addEventListener("click", adjust);
  get("rule-on").addEventListener("click", () => ruleOn(shown.written_subject));
}
