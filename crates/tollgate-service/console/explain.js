// One request: the answer that it would get, and the policies that apply to it first.

import { ask } from "./api.js";
import { expands, few, fill, get, pairs, say } from "./dom.js";
import { reports } from "./subject.js";

/** The policies of the last answer. */
let policies = [];

function showPolicies() {
  fill(get("standings"), few(get("standings-all"), policies), one => one.policy, one => [
    one.shadow ? `${one.policy} (shadow)` : one.policy,
    one.applies ? "yes" : "no",
    one.why,
    one.limits.join("; "),
  ]);
}

async function explain() {
  say(get("explain-fault"), "");
  try {
    const query = new URLSearchParams(pairs(get("fields").value));
    const answered = await ask(`/v1/admin/explain?${query}`);
    const { answer } = answered;
    policies = answered.policies;
    const by = answer.policy ? ` by ${answer.policy}` : "";
    const after = answer.retry_after ? `, to retry in ${answer.retry_after.text}` : "";
    say(get("explain-words"), `It would be ${answer.outcome.replace("_", " ")}${by}${after}.`);
    reports(get("explained"), answer.limits);
    showPolicies();
    get("explain-answer").hidden = false;
  } catch (error) {
    get("explain-answer").hidden = true;
    say(get("explain-fault"), error.message);
  }
}

export function begin() {
  expands(get("standings-all"), showPolicies);
  get("explain-form").addEventListener("submit", event => {
    event.preventDefault();
    explain();
  });
}
