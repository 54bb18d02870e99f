// The queues: how full they are and how fast jobs leave; and their dead jobs, which are offered
// again or deleted.

import { ask } from "./api.js";
import { count, fill, get, make, rate, say, span, sure } from "./dom.js";

/** The longest content of a job that is shown, in characters. */
const MOST = 200;

/** The figures before: for the jobs that were done since then. */
let before = { at_s: 0, queues: [] };

/** The queue whose dead jobs are shown. */
let opened = "";

function doneRate(one, at) {
  const old = before.queues.find(it => it.queue === one.queue);
  const seconds = at - before.at_s;
  if (typeof one.done !== "number" || typeof old?.done !== "number" || seconds <= 0) return "-";
  return rate(Math.max(0, one.done - old.done), seconds);
}

function deadCell(one) {
  if (!one.dead) return one.dead === null ? "?" : "0";
  const number = count(one.dead);
  const name = `${number} dead jobs of ${one.queue}`;
  const button = make("button", { type: "button", "aria-label": name }, number);
  button.addEventListener("click", () => open(one.queue));
  return button;
}

/** Shows the queues of these figures. */
export function showQueues({ at_s: at, queues }) {
  // A second of figures is given to several questions.
  if (at === before.at_s) return;
  const number = jobs => (jobs === null ? "?" : count(jobs));
  fill(get("queues"), queues, one => `${one.queue} ${one.dead}`, one => [
    one.paused ? `${one.queue} (paused)` : one.queue,
    one.bound === null ? number(one.waiting) : `${number(one.waiting)} of ${count(one.bound)}`,
    number(one.in_flight),
    () => deadCell(one),
    count(one.offers.refused),
    doneRate(one, at),
    one.rate ?? "none",
    one.oldest_ms === null ? "-" : span(one.oldest_ms / 1_000),
  ]);
  for (const row of get("queues").rows) {
    for (const at of [4, 5, 7]) row.cells[at].className = "wide";
  }
  before = { at_s: at, queues };
}

function contentOf(job) {
  const text = job.fields ? Object.entries(job.fields).map(([name, value]) => `${name}=${value}`)
    .join(" ") : `${count(Math.floor((job.base64?.length ?? 0) * 0.75))} bytes`;
  return text.length > MOST ? `${text.slice(0, MOST)}…` : text;
}

/** Buttons for one job. */
function acts(id) {
  return () => {
    const element = make("div", { class: "row" });
    for (const [act, word] of [["again", "Again"], ["forget", "Delete"]]) {
      const button = make("button", { type: "button", "aria-label": `${word} ${id}` }, `${word}…`);
      button.addEventListener("click", () => change(act, id));
      element.append(button);
    }
    return element;
  };
}

async function open(queue) {
  say(get("queue-fault"), "");
  try {
    const jobs = await ask("/v1/admin/dead", { queue });
    opened = queue;
    say(get("dead-title"), `Dead jobs of ${queue}`);
    fill(get("dead"), jobs, one => one.id, one => [
      one.id, count(one.deliveries), one.why ?? "-", contentOf(one), acts(one.id),
    ]);
    for (const id of ["dead-again", "dead-forget"]) get(id).hidden = jobs.length === 0;
    get("dead-jobs").hidden = false;
  } catch (error) {
    get("dead-jobs").hidden = true;
    say(get("queue-fault"), error.message);
  }
}

/** Offers jobs again or deletes them, if the administrator is sure. */
async function change(act, which) {
  const queue = opened;
  const jobs = which === "all" ? `All dead jobs of ${queue}` : `The job ${which} of ${queue}`;
  const isAgain = act === "again";
  const words = isAgain ? "offered again, at the end of the queue" : "deleted for good";
  const verb = which === "all" ? "are" : "is";
  const title = isAgain ? "Offer again" : "Delete";
  if (!(await sure(`${title}?`, `${jobs} ${verb} ${words}.`, title))) return;
  try {
    const done = await ask("/v1/admin/dead", { queue, [act]: which });
    const full = done.full ? " The queue is full." : "";
    const bad = done.no_job?.length ? ` ${count(done.no_job.length)} are no valid jobs.` : "";
    say(get("queue-done"), `${count(done.jobs)} ${isAgain ? "offered again" : "deleted"}, ` +
      `${count(done.dead)} dead.${full}${bad}`);
    await open(queue);
  } catch (error) {
    say(get("queue-done"), "");
    await open(queue);
    say(get("queue-fault"), error.message);
  }
}

export function begin() {
  get("dead-again").addEventListener("click", () => change("again", "all"));
  get("dead-forget").addEventListener("click", () => change("forget", "all"));
  get("dead-close").addEventListener("click", () => { get("dead-jobs").hidden = true; });
}
