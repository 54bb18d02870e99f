// The figures of /v1/admin/overview, put into the page.

import { bytes, count, fill, get, make, micros, rate, say, share, span } from "./dom.js";
import * as limits from "./limits.js";
import { showPeers } from "./peers.js";
import { showQueues } from "./queues.js";
import { showReloads } from "./reloads.js";
import { showRulings } from "./rulings.js";
import { lookUp } from "./subject.js";
import { showTroubles } from "./trouble.js";

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
  const without = sumOf(figures.durations.by.filter(one => one !== store), "answers");
  const denied = sumOf(limits, "denied");
  const all = denied + sumOf(limits, "admitted");
  facts(get("tiles"), [
    ["Admitted a second", rate(sumOf(limits, "admitted_now"), seconds)],
    ["Denied a second", rate(sumOf(limits, "denied_now"), seconds)],
    ["Admitted, last hour", count(all - denied)],
    ["Denied, last hour", `${count(denied)} (${share(denied, all)})`],
    ["Store", figures.store.counts ? "counts" : "does not count", figures.store.counts ? "" : "no"],
    ["Without the store, last minute", count(without), without ? "no" : ""],
    ["99 % within", store ? micros(store.p99_us) : "-"],
    ["Policies", `${count(figures.policies)}, revision ${figures.revision.split("-")[0]}`],
  ]);
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

function storeFacts({ store, version, at_s: at, started_s: started }) {
  const pairs = [["Service", `${version}, up for ${span(at - started)}`], ["Store", store.kind]];
  // An error comes fast, and is no answer.
  if (store.counts) pairs.push(["Answered in", micros(store.took_us)]);
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

/** Shows all of it. */
export function show(figures) {
  showTroubles(figures);
  tiles(figures, figures.limits.filter(one => !one.shadow));
  showPeers(figures);
  limits.show(figures);
  const seconds = Math.max(1, Math.round((figures.asked?.span_ms ?? 0) / 1_000));
  say(get("span"), `Counted in the last ${span(seconds)}. ` +
    (figures.subjects_hashed ? "Subjects are hashed; Look up shows who it is, and is logged." : ""));
  busiest(get("asked"), figures.asked, figures.subjects_hashed);
  busiest(get("denied"), figures.denied, figures.subjects_hashed);
  storeFacts(figures);
  fill(get("durations"), figures.durations.by, one => one.authority, one => [
    AUTHORITIES[one.authority] ?? one.authority,
    count(one.answers),
    micros(one.p50_us),
    micros(one.p99_us),
  ]);
  showQueues(figures);
  showRulings(figures.rulings);
  showReloads(figures.reloads);
}
