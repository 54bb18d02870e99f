// Bars for each part of a time range: admitted below, denied above. The table beside has the numbers.

import { clock, count } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** The least round number that is not below: 1, 2 or 5 and zeros. */
function round(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 1)));
  return [1, 2, 5, 10].map(step => step * power).find(step => step >= number);
}

/** When a bar begins and ends, and what it has. */
export function words([admitted, denied], at, { from, step }) {
  const begin = from + at * step;
  return `${clock(begin)} to ${clock(begin + step)}: ${count(admitted)} admitted, ` +
    `${count(denied)} denied`;
}

function bars(svg, view, { left, width, height, most }) {
  const step = width / view.bars.length;
  view.bars.forEach((bar, at) => {
    const x = left + at * step;
    let y = height;
    for (const [part, kind] of [[0, "admitted"], [1, "denied"]]) {
      // One pixel at least: a single denial among thousands is seen.
      const tall = bar[part] > 0 ? Math.max(1, (bar[part] / most) * (height - 4)) : 0;
      y -= tall;
      if (tall > 0) {
        svg.append(shape("rect", { x, y, width: Math.max(step - 1, 1), height: tall, class: kind }));
      }
    }
    // The tooltip of the whole column, so that a low bar has one, too.
    const column = shape("rect", { x, y: 0, width: step, height, class: "column" });
    const title = shape("title", {});
    title.textContent = words(bar, at, view);
    column.append(title);
    svg.append(column);
  });
}

const compact = new Intl.NumberFormat("en", { notation: "compact" });

const sum = (view, part) => view.bars.reduce((all, bar) => all + bar[part], 0);

const highest = view => Math.max(1, ...view.bars.map(([admitted, denied]) => admitted + denied));

/** A small chart for a row of a table, whose numbers the row has. */
export function spark(view) {
  const svg = shape("svg", { viewBox: "0 0 120 24", class: "spark", "aria-hidden": "true" });
  bars(svg, view, { left: 0, width: 120, height: 24, most: highest(view) });
  return svg;
}

/** The chart of a view, in so many pixels. */
export function chart(view, width) {
  const [height, left] = [180, 48];
  const most = round(highest(view));
  const label = `In the last ${view.range} ${sum(view, 0)} requests were admitted and ` +
    `${sum(view, 1)} denied${view.of ? ` by ${view.of}` : ""}. The table below has them by time.`;
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height + 28}`, width, height: height + 28, class: "hour", role: "img", "aria-label": label,
  });
  for (const part of [0, 0.5, 1]) {
    const y = height - part * (height - 4);
    svg.append(shape("line", { x1: left, x2: width, y1: y, y2: y, class: "grid" }));
    if (Number.isInteger(most * part)) {
      const text = shape("text", { x: left - 8, y: Math.max(y + 5, 14), "text-anchor": "end" });
      text.textContent = compact.format(most * part);
      svg.append(text);
    }
  }
  bars(svg, view, { left, width: width - left, height, most });
  for (const part of [0, 1, 2]) {
    const at = Math.floor((part * view.bars.length) / 3);
    const x = left + (at / view.bars.length) * (width - left);
    const text = shape("text", { x, y: height + 20 });
    text.textContent = tick(view.from + at * view.step, view.step);
    svg.append(text);
  }
  return svg;
}

/** The time below a bar: with the day where bars are longer than minutes. */
function tick(seconds, step) {
  const time = new Date(seconds * 1_000);
  const hours = time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (step < 600) return hours;
  return `${time.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${hours}`;
}
