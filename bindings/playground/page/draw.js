// The time line of a lane: what is left to each client, and what was admitted and denied.

const STRIP = { left: 56, admitted: 62, denied: 73, mark: 8, height: 86 };
const AXIS = 18;

// The line with a client's name, where there are several.
const NAME = 18;

function draw(lane, { from, to, at, clients }) {
  const canvas = lane.canvas;
  const strip = STRIP.height + (clients.length > 1 ? NAME : 0);
  const [width, height] = [canvas.clientWidth, clients.length * strip + AXIS];
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const ink = name => style.getPropertyValue(`--${name}`);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = '12px "DejaVu Sans",Verdana,Arial,sans-serif';
  const x = us => ((us - from) / (to - from)) * width;
  drawAxis(pen, { from, to, x, width, height, ink });
  for (const [index, client] of clients.entries()) {
    pen.save();
    pen.translate(0, index * strip);
    if (clients.length > 1) {
      pen.fillStyle = ink("muted");
      pen.fillText(`client ${client}`, 0, 13);
      pen.translate(0, NAME);
    }
    drawLeft(pen, lane, client, { x, at, width, ink });
    drawMarks(pen, lane, client, { x, width, ink });
    pen.restore();
  }
  pen.fillStyle = ink("text");
  pen.fillRect(Math.min(Math.round(x(at)), width - 1), 0, 1, height - AXIS);
}

// Lines at round times, as many as there is room for.
function drawAxis(pen, { from, to, x, width, height, ink }) {
  const wanted = (to - from) / Math.max(2, Math.floor(width / 90));
  const steps = UNITS.flatMap(([, unit]) => [1, 2, 5, 10, 15, 20, 30, 50, 100, 200, 500]
    .map(count => count * unit)).sort((a, b) => a - b);
  const step = steps.find(step => step >= wanted) ?? wanted;
  for (let us = Math.ceil(from / step) * step; us <= to; us += step) {
    pen.fillStyle = ink("grid");
    pen.fillRect(Math.round(x(us)), 0, 1, height - AXIS);
    const text = duration(us);
    pen.fillStyle = ink("muted");
    const place = x(us) - pen.measureText(text).width / 2;
    pen.fillText(text, Math.max(0, Math.min(place, width - pen.measureText(text).width)), height - 4);
  }
}

// The remaining units, as an area: full height is the capacity. Of the points in one column of
// pixels the least and the last are drawn, so that thousands of them cost no more than the width.
function drawLeft(pen, lane, client, { x, at, width, ink }) {
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
  const end = Math.max(column, Math.min(x(at), width));
  pen.lineTo(end, high(last));
  pen.lineTo(end, STRIP.left);
  pen.fill();
  pen.stroke();
  pen.fillStyle = ink("line");
  pen.fillRect(0, STRIP.left, width, 1);
}

// A bar for each request: admitted ones in one row, denied ones in the row below. Bars in one place
// are one.
function drawMarks(pen, lane, client, { x, width, ink }) {
  const rows = [new Uint8Array(width + 1), new Uint8Array(width + 1)];
  let last = null;
  for (const event of lane.events) {
    if (event.who !== client) continue;
    last = event;
    const place = Math.round(x(event.at));
    if (place >= 0 && place <= width) rows[event.admitted ? 0 : 1][place] = 1;
  }
  for (const [name, marks] of [["admitted", rows[0]], ["denied", rows[1]]]) {
    pen.fillStyle = ink(name);
    for (let place = marks.indexOf(1); place >= 0; place = marks.indexOf(1, place + 1)) {
      pen.fillRect(place - 1, STRIP[name], 2, STRIP.mark);
    }
  }
  if (last && !last.admitted && last.retry !== null) {
    pen.fillStyle = ink("denied");
    const [start, end] = [x(last.at), x(last.at + last.retry)];
    pen.fillRect(start, STRIP.denied + STRIP.mark / 2 - 1, end - start, 2);
    pen.fillRect(end - 1, STRIP.denied, 2, STRIP.mark);
  }
}
