// Bars for each minute: admitted below, denied above. The table beside has the numbers.

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

function bars(svg, minutes, { left, width, height, most }) {
  const step = width / minutes.length;
  minutes.forEach(([admitted, denied], at) => {
    const x = left + at * step;
    let y = height;
    for (const [number, kind] of [[admitted, "admitted"], [denied, "denied"]]) {
      // One pixel at least: a single denial among thousands is seen.
      const tall = number > 0 ? Math.max(1, (number / most) * (height - 4)) : 0;
      y -= tall;
      if (tall > 0) {
        svg.append(shape("rect", { x, y, width: Math.max(step - 1, 1), height: tall, class: kind }));
      }
    }
  });
}

const compact = new Intl.NumberFormat("en", { notation: "compact" });

const sum = (minutes, part) => minutes.reduce((all, minute) => all + minute[part], 0);

/** A small chart for a row of a table, whose numbers the row has. */
export function spark(minutes) {
  const svg = shape("svg", { viewBox: "0 0 120 24", class: "spark", "aria-hidden": "true" });
  const most = Math.max(1, ...minutes.map(([admitted, denied]) => admitted + denied));
  bars(svg, minutes, { left: 0, width: 120, height: 24, most });
  return svg;
}

/** The chart of the hour, in so many pixels. */
export function hour(minutes, fromSeconds, width) {
  const [height, left] = [180, 48];
  const most = round(Math.max(1, ...minutes.map(([admitted, denied]) => admitted + denied)));
  const label = `In the last hour ${sum(minutes, 0)} requests were admitted and ${sum(minutes, 1)} ` +
    "denied. The table below has them by policy and limit.";
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
  bars(svg, minutes, { left, width: width - left, height, most });
  for (const at of [0, 20, 40]) {
    const x = left + (at / minutes.length) * (width - left);
    const text = shape("text", { x, y: height + 20 });
    const time = new Date((fromSeconds + at * 60) * 1_000);
    text.textContent = time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    svg.append(text);
  }
  return svg;
}
