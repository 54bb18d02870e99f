// The common parts of the tests' scripts. It is put into the page.

const report = found => parent.home(JSON.stringify(found));
const get = id => document.getElementById(id);
const frame = () => new Promise(done => requestAnimationFrame(done));

async function ready() {
  while (!document.documentElement.dataset.ready) await frame();
}

async function until(holds) {
  const end = performance.now() + 20_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`not in 20 s: ${holds}`);
    await frame();
  }
}

function type(id, text) {
  get(id).value = text;
  get(id).dispatchEvent(new InputEvent("input", { bubbles: true }));
  get(id).dispatchEvent(new Event("change", { bubbles: true }));
}

function press(key, target = document.body) {
  const options = { key, bubbles: true, cancelable: true };
  return !target.dispatchEvent(new KeyboardEvent("keydown", options));
}

const lanes = () => [...document.querySelectorAll(".lane:not(.refused)")];
const texts = selector => lanes().map(lane => lane.querySelector(selector).textContent);
