// Step by step: one request after the other, with what counted then and why it was answered so.

// The requests that can be looked at: every lane has answered the same ones.
const requests = () => play.lanes[0]?.events ?? [];

// Looks at a request, counted from 0; at what is now with `null`.
function stepTo(step) {
  const most = requests().length - 1;
  play.step = step === null || most < 0 ? null : Math.max(0, Math.min(step, most));
  if (play.step !== null) setRunning(false);
  show();
}

const stepBy = count => stepTo((play.step ?? requests().length) + count);

function sayStep() {
  const { at, how, cost, who } = requests()[play.step];
  const asked = how === "check" ? `cost ${cost}` : `${how}, cost ${cost}`;
  const number = `Request ${play.step + 1} of ${requests().length}`;
  return `${number}: at ${duration(at)}, client ${who}, ${asked}: `
    + `${brief(partsOf(play.step))}.`;
}

function showStep() {
  const [{ length }, { step }] = [requests(), play];
  const slider = get("step");
  slider.max = Math.max(1, length);
  slider.value = step === null ? slider.max : step + 1;
  slider.setAttribute("aria-valuetext", step === null ? "now" : sayStep());
  get("step").disabled = !length;
  for (const id of ["first", "back"]) get(id).disabled = !length || step === 0;
  get("next").disabled = step === null || step === length - 1;
  get("present").disabled = step === null;
  get("step-at").textContent = step === null ? `Now, after ${length} requests.` : sayStep();
}

// The request that is nearest to a place in a picture.
function stepAt(lane, event) {
  const { from, to } = viewNow();
  const box = lane.canvas.getBoundingClientRect();
  const us = from + ((event.clientX - box.left) / box.width) * (to - from);
  const away = requests().map(({ at }) => Math.abs(at - us));
  if (away.length) stepTo(away.indexOf(Math.min(...away)));
}

function startSteps() {
  get("first").addEventListener("click", () => stepTo(0));
  get("back").addEventListener("click", () => stepBy(-1));
  get("next").addEventListener("click", () => stepBy(1));
  get("present").addEventListener("click", () => stepTo(null));
  get("step").addEventListener("input", () => stepTo(Number(get("step").value) - 1));
}
