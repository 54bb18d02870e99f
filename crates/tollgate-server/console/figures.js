// The figures of /v1/admin/overview, put into the page.

import { hour, spark } from "./chart.js";
import { bytes, count, fill, get, make, micros, rate, say, share, span } from "./dom.js";
import { showReloads } from "./reloads.js";
import { lookUp } from "./subject.js";

/** The name of a row: the policy, and its limit below. */
function named({ policy, limit }) {
  const texts = {
    inline: ["no policy", "limits given in requests"],
    none: ["no limit", "no policy applied, a ban, or a failure rule"],
  };
  const [first, second] = policy === null ? texts[limit] ?? ["-", limit] : [policy, limit];
  return () => {
    const element = document.createDocumentFragment();
    element.append(make("strong", {}, first), make("small", {}, second));
    return element;
  };
}

const keyOf = ({ policy, limit, shadow }) => JSON.stringify([policy, limit, shadow]);

function wide(body) {
  for (const row of body.rows) row.lastElementChild.className = "wide";
}

/** Replaces the pairs of a list of terms, and keeps the elements whose term is the same. */
function facts(list, pairs) {
  const isSame = [...list.querySelectorAll("dt")].map(it => it.textContent).join() ===
    pairs.map(([term]) => term).join();
  if (!isSame) {
    const each = pairs.map(([term]) => make("div", {}, make("dt", {}, term), make("dd")));
    list.replaceChildren(...each);
  }
  pairs.forEach(([, text, kind = ""], at) => {
    const element = list.querySelectorAll("dd")[at];
    say(element, text);
    element.className = kind;
  });
}

function sumOf(limits, key) {
  return limits.reduce((all, one) => all + one[key], 0);
}

function tiles(figures, limits) {
  const seconds = figures.now_seconds;
  const store = figures.durations.by.find(one => one.authority === "store");
  const denied = sumOf(limits, "denied");
  const all = denied + sumOf(limits, "admitted");
  facts(get("tiles"), [
    ["Admitted a second", rate(sumOf(limits, "admitted_now"), seconds)],
    ["Denied a second", rate(sumOf(limits, "denied_now"), seconds)],
    ["Admitted, last hour", count(all - denied)],
    ["Denied, last hour", `${count(denied)} (${share(denied, all)})`],
    ["Store", figures.store.counts ? "counts" : "does not answer", figures.store.counts ? "" : "no"],
    ["99 % within", store ? micros(store.p99_us) : "-"],
    ["Policies", `${count(figures.policies)}, revision ${figures.revision.split("-")[0]}`],
    ["Up for", span(figures.at_s - figures.started_s)],
  ]);
  const { counts, error } = figures.store;
  say(get("store-fault"), counts ? "" : `The store cannot count: ${error}`);
}

function limitTables(figures, limits) {
  const seconds = figures.now_seconds;
  fill(get("limits"), limits, keyOf, one => [
    named(one),
    rate(one.admitted_now, seconds),
    rate(one.denied_now, seconds),
    count(one.admitted),
    count(one.denied),
    spark(one.minutes),
  ]);
  const shadows = figures.limits.filter(one => one.shadow);
  fill(get("shadows"), shadows, keyOf, one => [
    named(one),
    count(one.admitted),
    count(one.denied),
    share(one.denied, one.admitted + one.denied),
    spark(one.minutes),
  ]);
  wide(get("limits"));
  wide(get("shadows"));
}

/** All limits together, minute by minute. */
function together(limits) {
  const minutes = Array.from({ length: 60 }, () => [0, 0]);
  for (const one of limits) {
    one.minutes.forEach(([admitted, denied], at) => {
      minutes[at][0] += admitted;
      minutes[at][1] += denied;
    });
  }
  return minutes;
}

function busiest(body, top, isHashed) {
  fill(body, top.subjects, one => JSON.stringify([one.policy, one.subject]), one => {
    const least = one.count - one.error;
    const button = () => {
      const named = one.policy === null ? one.subject : `${one.subject} in ${one.policy}`;
      const name = `${isHashed ? "Look up" : "Show"} ${named}`;
      const element = make("button", { type: "button", "aria-label": name });
      element.textContent = isHashed ? "Look up" : "Show";
      element.addEventListener("click", () => lookUp(one, isHashed));
      return element;
    };
    const subject = () => {
      const element = document.createDocumentFragment();
      element.append(make("code", {}, one.subject), make("small", {}, one.policy ?? "no policy"));
      return element;
    };
    return [
      subject,
      one.error > 0 ? `at least ${count(least)}` : count(least),
      share(least, top.observed),
      button,
    ];
  });
}

function storeFacts(store) {
  const pairs = [["Kind", store.kind], ["Answered in", micros(store.took_us)]];
  if (store.kind === "memory" || store.max_bytes !== undefined) {
    pairs.push(
      ["Subjects", count(store.subjects)],
      ["Memory", `${bytes(store.bytes)} of ${bytes(store.max_bytes)}`],
      ["Decided while full", count(store.full_decisions)],
    );
  }
  if (store.breaker !== undefined) pairs.push(["Circuit breaker", store.breaker]);
  facts(get("store"), pairs);
}

const AUTHORITIES = {
  store: "the store", failure_rule: "a failure rule", local_share: "a local share",
};

function queueTable(queues) {
  const number = jobs => (jobs === null ? "?" : count(jobs));
  fill(get("queues"), queues, one => one.queue, one => [
    one.queue,
    number(one.waiting),
    number(one.in_flight),
    number(one.dead),
    count(one.offers.refused),
    one.oldest_ms === null ? "-" : span(one.oldest_ms / 1_000),
  ]);
  wide(get("queues"));
}

/** Shows all of it. */
export function show(figures) {
  const limits = figures.limits.filter(one => !one.shadow);
  tiles(figures, limits);
  // As many pixels as there are, so that its words are as large as others.
  const width = Math.max(get("hour").clientWidth, 300);
  get("hour").replaceChildren(hour(together(limits), figures.minutes_from_s, width));
  limitTables(figures, limits);
  const seconds = Math.round((figures.asked?.span_ms ?? 0) / 1_000);
  say(get("span"), `Counted in the last ${Math.max(1, Math.ceil(seconds / 60))} to 2 minutes. ` +
    (figures.subjects_hashed ? "Subjects are hashed; Look up shows who it is, and is logged." : ""));
  busiest(get("asked"), figures.asked, figures.subjects_hashed);
  busiest(get("denied"), figures.denied, figures.subjects_hashed);
  storeFacts(figures.store);
  fill(get("durations"), figures.durations.by, one => one.authority, one => [
    AUTHORITIES[one.authority] ?? one.authority,
    count(one.answers),
    micros(one.p50_us),
    micros(one.p99_us),
  ]);
  queueTable(figures.queues);
  showReloads(figures.reloads);
}
