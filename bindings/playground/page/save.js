// What a reader takes along: the link, the picture, the data.

const PICTURE = { width: 1_000, margin: 16, line: 18, scale: 2 };

function download(name, blob) {
  const link = make("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // A browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  get("saved").textContent = `Saved as ${name}.`;
}

// Every answer, a line each, exact to the microsecond.
function dataOf(lanes) {
  const names = ["limits", "strategy", "client", "at_us", "how", "cost", "allowed", "granted",
    "cut", "remaining", "retry_after_us", "reset_after_us"];
  const field = text => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = lanes.flatMap(lane => lane.events.map(event => [
    lane.text, lane.strategy, event.who, event.at, event.how, event.cost, event.allowed,
    event.granted, event.cut, event.remaining, event.retry ?? "", event.reset,
  ].map(value => field(String(value))).join(",")));
  return `${[names.join(","), ...rows].join("\n")}\n`;
}

// All lanes, one below the other, each with its words: for a ticket or a page.
function pictureOf(lanes, view, about) {
  const { width, margin, line, scale } = PICTURE;
  const inner = width - 2 * margin;
  const heights = lanes.map(lane => 3 * line + heightOf(lane, view) + margin);
  const canvas = make("canvas");
  canvas.width = width * scale;
  canvas.height = (2 * margin + line + heights.reduce((sum, height) => sum + height, 0)) * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.fillStyle = ink("paper");
  pen.fillRect(0, 0, width, canvas.height);
  pen.translate(margin, margin);
  const write = (text, place, colour, weight = "") => {
    pen.font = `${weight} ${FONT}`;
    pen.fillStyle = ink(colour);
    pen.fillText(text, 0, place * line - 5, inner);
  };
  write(about, 1, "muted");
  pen.translate(0, line);
  for (const [index, lane] of lanes.entries()) {
    write(lane.name, 1, "text", "bold");
    write(lane.text, 2, "muted");
    write(countsOf(lane), 3, "text");
    pen.save();
    pen.translate(0, 3 * line);
    paint(pen, lane, view, inner);
    pen.restore();
    pen.translate(0, heights[index]);
  }
  return canvas;
}

// Not every page may write to the clipboard: until it is there, the link is shown.
function copyLink(link) {
  get("saved").replaceChildren("Copy this link: ", make("code", link));
  navigator.clipboard?.writeText(link).then(() => {
    get("saved").textContent = "The link is copied.";
  }, () => {});
}
