// The console: signs in, and asks for the figures every two seconds while somebody looks.

import { ask, token } from "./api.js";
import { get, say } from "./dom.js";
import * as explain from "./explain.js";
import { show } from "./figures.js";
import * as limits from "./limits.js";
import * as queues from "./queues.js";
import * as reloads from "./reloads.js";
import * as rulings from "./rulings.js";
import * as subject from "./subject.js";
import { title } from "./trouble.js";

const PAUSE_MS = 2_000;

let timer = 0;
let isPaused = false;
let revision = "";

function signIn(fault) {
  clearTimeout(timer);
  token.forget();
  for (const id of ["figures", "leave", "pause"]) get(id).hidden = true;
  get("entry").hidden = false;
  say(get("entry-fault"), fault);
  say(get("state"), "Signed out.");
  title("");
  get("token").value = "";
  get("token").focus();
}

async function update() {
  clearTimeout(timer);
  if (isPaused || document.hidden) return;
  try {
    const figures = await ask("/v1/admin/overview");
    get("entry").hidden = true;
    get("figures").hidden = false;
    get("pause").hidden = false;
    show(figures);
    get("leave").hidden = !token.isNeeded;
    document.documentElement.dataset.updates =
      Number(document.documentElement.dataset.updates ?? 0) + 1;
    document.body.classList.remove("stale");
    say(get("state"), "Every two seconds.");
    if (figures.revision !== revision) {
      revision = figures.revision;
      await subject.namePolicies();
    }
  } catch (error) {
    if (error.isToken) return signIn("The service does not accept this token.");
    document.body.classList.add("stale");
    const words = error.status ? error.message : "The service does not answer.";
    say(get("state"), `${words} The figures are old.`);
    title("no answer");
  }
  timer = setTimeout(update, PAUSE_MS);
}

get("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  get("pause").setAttribute("aria-pressed", String(isPaused));
  if (isPaused) say(get("state"), "Paused.");
  update();
});
get("leave").addEventListener("click", () => {
  token.forget();
  // Nothing of the figures is left in the page.
  location.reload();
});
get("entry-form").addEventListener("submit", event => {
  event.preventDefault();
  token.keep(get("token").value.trim());
  update();
});
document.addEventListener("visibilitychange", update);

for (const part of [limits, subject, explain, rulings, queues, reloads]) part.begin();
if (token.isNeeded && !token.get()) signIn("");
else update();
