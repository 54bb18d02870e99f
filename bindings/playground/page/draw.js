// The picture of a lane: what is left to each client, what was admitted and denied, and what counts
// at the moment.

const STRIP = { left: 56, admitted: 62, denied: 73, mark: 8, spans: 86, span: 12, gap: 4 };
const AXIS = 18;
const FONT = '12px "DejaVu Sans",Verdana,Arial,sans-serif';

// The line with a client's name, where there are several.
const NAME = 18;

// Edges closer to each other than this, in pixels, would be a grey area.
const MIN_EDGES = 5;

const ink = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

const heightOf = (lane, { clients }) => clients.length * stripOf(lane, clients) + AXIS;

function stripOf(lane, clients) {
  const rows = lane.limits.length * (STRIP.span + STRIP.gap);
  return STRIP.spans + rows + (clients.length > 1 ? NAME : 0);
}

function draw(lane, view) {
  const canvas = lane.canvas;
  const [width, height] = [canvas.clientWidth, heightOf(lane, view)];
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  paint(pen, lane, view, width);
}

// Draws at the pen's origin.
function paint(pen, lane, view, width) {
  const { from, to, at, clients } = view;
  const [height, strip] = [heightOf(lane, view), stripOf(lane, clients)];
  const x = us => ((us - from) / (to - from)) * width;
  const page = { ...view, x, width, height };
  pen.save();
  pen.beginPath();
  pen.rect(0, 0, width, height);
  pen.clip();
  pen.font = FONT;
  drawAxis(pen, page);
  for (const [index, client] of clients.entries()) {
    pen.save();
    pen.translate(0, index * strip);
    if (clients.length > 1) {
      pen.fillStyle = ink("muted");
      pen.fillText(`client ${client}`, 0, 13);
      pen.translate(0, NAME);
    }
    drawLeft(pen, lane, client, page);
    drawEdges(pen, lane, client, page);
    drawMarks(pen, lane, client, page);
    for (const [number, limit] of lane.limits.entries()) {
      const top = STRIP.spans + number * (STRIP.span + STRIP.gap);
      drawSpans(pen, limit, lane.spans[index]?.[number] ?? [], { ...page, top });
    }
    pen.restore();
  }
  pen.fillStyle = ink("text");
  pen.fillRect(Math.min(Math.round(x(at)), width - 1), 0, 1, height - AXIS);
  pen.restore();
}

// Lines at round times, as many as there is room for.
function drawAxis(pen, { from, to, x, width, height }) {
  const wanted = (to - from) / Math.max(2, Math.floor(width / 90));
  const counts = { d: [1, 2, 5, 7, 10, 20, 50, 100], h: [1, 2, 3, 6, 12], m: [1, 2, 5, 10, 15, 30],
    s: [1, 2, 5, 10, 15, 30], ms: [1, 2, 5, 10, 20, 50, 100, 200, 500] };
  const steps = UNITS.toReversed().flatMap(([name, unit]) => (
    (counts[name] ?? counts.ms).map(count => count * unit)));
  const step = steps.find(step => step >= wanted) ?? wanted;
  for (let us = Math.ceil(from / step) * step; us <= to; us += step) {
    pen.fillStyle = ink("grid");
    pen.fillRect(Math.round(x(us)), 0, 1, height - AXIS);
    const text = duration(us);
    pen.fillStyle = ink("muted");
    const place = x(us) - pen.measureText(text).width / 2;
    const most = width - pen.measureText(text).width;
    pen.fillText(text, Math.max(0, Math.min(place, most)), height - 4);
  }
}

// The remaining units, as an area: full height is the capacity. Of the points in one column of
// pixels the least and the last are drawn, so that thousands of them cost no more than the width.
function drawLeft(pen, lane, client, { x, until, width }) {
  const high = remaining => STRIP.left - (remaining / lane.capacity) * (STRIP.left - 4);
  pen.fillStyle = ink("left");
  pen.strokeStyle = ink("admitted");
  pen.beginPath();
  pen.moveTo(0, STRIP.left);
  let [column, least, last] = [0, lane.capacity, lane.capacity];
  const step = () => {
    pen.lineTo(column, high(least));
    pen.lineTo(column, high(last));
  };
  for (const [us, remaining] of lane.left[client] ?? []) {
    const place = Math.round(x(us));
    if (place > column) {
      step();
      pen.lineTo(place, high(last));
      [column, least] = [place, remaining];
    }
    least = place < 0 ? remaining : Math.min(least, remaining);
    last = remaining;
  }
  step();
  const end = Math.max(column, Math.min(x(until), width));
  pen.lineTo(end, high(last));
  pen.lineTo(end, STRIP.left);
  pen.fill();
  pen.stroke();
  pen.fillStyle = ink("line");
  pen.fillRect(0, STRIP.left, width, 1);
}

// Where windows, sub-buckets and intervals begin.
function drawEdges(pen, lane, client, { from, to, x }) {
  pen.strokeStyle = ink("line");
  pen.setLineDash([2, 3]);
  pen.beginPath();
  for (const limit of lane.limits) {
    for (const us of edgesOf(limit, lane, client, from, to, x)) {
      const place = Math.round(x(us)) + 0.5;
      pen.moveTo(place, 0);
      pen.lineTo(place, STRIP.denied + STRIP.mark);
    }
  }
  pen.stroke();
  pen.setLineDash([]);
}

function edgesOf({ edges }, lane, client, from, to, x) {
  if (edges?.dates) return edges.dates.filter(us => us >= from && us <= to);
  if (edges?.first_hit) return firstHits(lane, client, edges.first_hit);
  const every = edges?.every;
  if (!every || x(from + every) < MIN_EDGES) return [];
  const first = Math.ceil(from / every);
  return Array.from({ length: Math.floor(to / every) - first + 1 }, (_, n) => (first + n) * every);
}

// A window opens at the first admitted request after the end of the one before.
function firstHits(lane, client, length) {
  const edges = [];
  let end = 0;
  for (const event of lane.events) {
    if (event.who !== client || !event.charged || event.at < end) continue;
    end = event.at + length;
    if (edges.at(-1) !== event.at) edges.push(event.at);
    edges.push(end);
  }
  return edges;
}

// A bar for each request: admitted ones in one row, denied ones in the row below. Bars in one place
// are one.
function drawMarks(pen, lane, client, { x, width, step }) {
  const rows = [new Uint8Array(width + 1), new Uint8Array(width + 1)];
  const shown = lane.events[step === null ? lane.events.length - 1 : step];
  let last = null;
  for (const event of lane.events) {
    if (event.who !== client) continue;
    last = event;
    const place = Math.round(x(event.at));
    if (place >= 0 && place <= width) rows[event.admitted ? 0 : 1][place] = 1;
  }
  if (step !== null) last = shown.who === client ? shown : null;
  for (const [name, marks] of [["admitted", rows[0]], ["denied", rows[1]]]) {
    pen.fillStyle = ink(name);
    for (let place = marks.indexOf(1); place >= 0; place = marks.indexOf(1, place + 1)) {
      pen.fillRect(place - 1, STRIP[name], 2, STRIP.mark);
    }
  }
  if (!last) return;
  if (step !== null) {
    pen.strokeStyle = ink("text");
    const row = last.admitted ? STRIP.admitted : STRIP.denied;
    pen.strokeRect(Math.round(x(last.at)) - 3.5, row - 1.5, 7, STRIP.mark + 3);
  }
  if (!last.admitted && last.retry !== null) {
    pen.fillStyle = ink("denied");
    const [start, end] = [x(last.at), x(last.at + last.retry)];
    pen.fillRect(start, STRIP.denied + STRIP.mark / 2 - 1, end - start, 2);
    pen.fillRect(end - 1, STRIP.denied, 2, STRIP.mark);
  }
}

// What counts at the moment: a window and its sub-buckets, each filled by its part of the capacity;
// the events of a log; the time until all has come back.
function drawSpans(pen, limit, spans, { x, at, top }) {
  const box = (from, to) => {
    const left = Math.round(x(from));
    pen.strokeRect(left + 0.5, top + 0.5, Math.max(1, Math.round(x(to)) - left), STRIP.span);
  };
  pen.strokeStyle = ink("line");
  if (limit.kind === "log") {
    box(Math.max(0, at - limit.period_us), at);
    pen.fillStyle = ink("admitted");
    for (const { start_us } of spans) pen.fillRect(x(start_us) - 1, top + 2, 2, STRIP.span - 3);
    return;
  }
  if (limit.kind === "sub_buckets") {
    const { every } = limit.edges;
    // The oldest straddles the far edge of the window.
    const end = (Math.floor(at / every) + 1) * every;
    const start = Math.max(0, end - limit.period_us - every);
    if (x(every) - x(0) < MIN_EDGES) box(start, end);
    else for (let us = start; us < end; us += every) box(us, us + every);
  }
  for (const { start_us, end_us, units, counted } of spans) {
    const isBan = limit.kind === "ban";
    const fill = Math.max(2, (isBan ? 1 : Math.min(1, units / limit.capacity)) * (STRIP.span - 1));
    pen.fillStyle = ink(isBan ? "denied" : "admitted");
    // Where a part of it counts it is paler.
    pen.globalAlpha = units ? 0.25 + (0.75 * counted) / (100 * units) : 1;
    if (units > 0) {
      const width = Math.max(1, x(end_us) - x(start_us));
      pen.fillRect(x(start_us), top + STRIP.span - fill, width, fill);
    }
    pen.globalAlpha = 1;
    box(start_us, end_us);
  }
}
