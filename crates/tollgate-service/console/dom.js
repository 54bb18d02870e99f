// Small helpers for elements and words. Every text is set as text: what a client named a subject is
// never read as HTML.

export const get = id => document.getElementById(id);

/** An element with attributes and children, which are elements or texts. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Sets a text, and leaves the element alone where it has it. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Fills a table's body. A row keeps its elements while its key is there, so that the focus and a
 * screen reader stay where they are. `cells` gives texts, or functions that make an element, which
 * is done once. The first cell is the header of the row.
 */
export function fill(body, list, key, cells) {
  const old = new Map([...body.rows].map(row => [row.dataset.key, row]));
  const rows = list.map((item, place) => {
    const name = key(item, place);
    const row = old.get(name) ?? make("tr", { "data-key": name });
    const texts = cells(item, place);
    texts.forEach((cell, at) => {
      let element = row.cells[at];
      if (!element) {
        element = at === 0 ? make("th", { scope: "row" }) : make("td");
        row.append(element);
        if (typeof cell === "function") element.append(cell());
      }
      if (typeof cell === "string") say(element, cell);
      if (cell instanceof Node) element.replaceChildren(cell);
    });
    return row;
  });
  const isSame = rows.length === body.rows.length && rows.every((row, at) => row === body.rows[at]);
  if (!isSame) {
    const focus = body.contains(document.activeElement) ? document.activeElement : null;
    body.replaceChildren(...rows);
    if (focus?.isConnected) focus.focus({ preventScroll: true });
  }
  body.closest("table").hidden = rows.length === 0;
  const none = get(`no-${body.id}`);
  if (none) none.hidden = rows.length > 0;
}

/** The rows of a long list that are shown at first. */
const FEW = 10;

/** The first of a list, or all of it: as the button beside the table has been pressed. */
export function few(button, list) {
  const isAll = button.getAttribute("aria-expanded") === "true";
  button.hidden = list.length <= FEW;
  say(button, isAll ? `First ${FEW}` : `All ${count(list.length)}`);
  return isAll ? list : list.slice(0, FEW);
}

/** Makes such a button work: each press shows the list anew. */
export function expands(button, show) {
  button.addEventListener("click", () => {
    button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") !== "true"));
    show();
  });
}

/** `ip=192.0.2.7 user="ann lee"` as pairs of a name and a value. */
export function pairs(text) {
  const words = text.trim().match(/[^\s"]*"[^"]*"|\S+/g) ?? [];
  return words.map(word => {
    const [name, ...rest] = word.split("=");
    if (!name || !rest.length) {
      throw new Error(`${word} is not a field: write NAME=VALUE, e.g. ip=192.0.2.7.`);
    }
    return [name, rest.join("=").replace(/^"(.*)"$/s, "$1")];
  });
}

const grouped = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** A whole number with its thousands apart. */
export const count = number => grouped.format(number);

/** Events in so many seconds, as events a second. */
export const rate = (events, seconds) => short.format(events / seconds);

export function share(part, whole) {
  return whole > 0 ? `${short.format((100 * part) / whole)} %` : "-";
}

/** A duration that was given in microseconds. */
export function micros(us) {
  if (us === null || us === undefined) return "more";
  if (us < 1_000) return `${us} µs`;
  if (us < 1_000_000) return `${short.format(us / 1_000)} ms`;
  return `${short.format(us / 1_000_000)} s`;
}

/** A longer duration, in its two largest units. */
export function span(seconds) {
  const units = [[86_400, "d"], [3_600, "h"], [60, "m"], [1, "s"]];
  const parts = [];
  for (const [length, name] of units) {
    const number = Math.floor(seconds / length);
    seconds -= number * length;
    if (number > 0) parts.push(`${number}${name}`);
  }
  return parts.slice(0, 2).join(" ") || "0s";
}

/** A time of the day, with the day where it is another one. */
export function clock(seconds) {
  const time = new Date(seconds * 1_000);
  const isToday = time.toDateString() === new Date().toDateString();
  return isToday ? time.toLocaleTimeString("en-GB") : time.toLocaleString("en-GB");
}

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let at = 0;
  while (number >= 1_024 && at < units.length - 1) {
    number /= 1_024;
    at += 1;
  }
  return `${short.format(number)} ${units[at]}`;
}

/** Ends the question before, which was not answered yet: it is a no. */
let endBefore = () => {};

/** Asks in a dialog: whether the answer is yes. The focus begins at Cancel. */
export function sure(title, words, yes) {
  const dialog = get("sure");
  endBefore();
  get("sure-title").textContent = title;
  get("sure-words").textContent = words;
  get("sure-yes").textContent = yes;
  dialog.returnValue = "no";
  return new Promise(done => {
    const end = isSure => {
      dialog.removeEventListener("close", closed);
      done(isSure);
    };
    // The event comes some time after the end of a dialog, and may be that of the one before.
    const closed = () => {
      if (!dialog.open) end(dialog.returnValue === "yes");
    };
    endBefore = () => end(false);
    dialog.addEventListener("close", closed);
    dialog.showModal();
    get("sure-no").focus();
  });
}
