// The common parts of the tests' scripts; they precede each of them.

const get = id => document.getElementById(id);
const texts = selector => [...document.querySelectorAll(selector)].map(it => it.textContent);

/** Waits until it is so, which it will be. */
async function until(isSo) {
  const began = performance.now();
  while (!isSo()) {
    if (performance.now() - began > 30_000) throw new Error(`never: ${isSo}`);
    await new Promise(done => setTimeout(done, 20));
  }
}

/** The rows of a table's body, each as the lines of its cells. */
const rows = id => [...get(id).rows].map(row => [...row.cells].map(cell =>
  [...cell.children].map(it => it.textContent).join("|") || cell.textContent));

const isShown = element => element.checkVisibility({ visibilityProperty: true });

/** Red, green, blue and how opaque. */
function colour(text) {
  const parts = text.match(/[\d.]+/g).map(Number);
  return { rgb: parts.slice(0, 3), alpha: parts[3] ?? 1 };
}

function brightness(rgb) {
  const [r, g, b] = rgb.map(part => {
    const value = part / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** The contrast of an element's text with what is behind it (WCAG 2.2, 1.4.3). */
function contrast(element) {
  const style = getComputedStyle(element);
  const ink = element instanceof SVGElement ? style.fill : style.color;
  let behind = element;
  while (behind && colour(getComputedStyle(behind).backgroundColor).alpha === 0) {
    behind = behind.parentElement;
  }
  const paper = getComputedStyle(behind ?? document.body).backgroundColor;
  const [one, other] = [ink, paper].map(text => brightness(colour(text).rgb));
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}

/** The name of a control, as far as this page gives names. */
function nameOf(control) {
  const by = control.labels?.length ? control.labels[0].textContent : "";
  return (control.getAttribute("aria-label") || by || control.textContent).trim();
}

/** What is wrong for people who do not see the page, or not well, or have no mouse. */
function hurdles() {
  const found = [];
  if (document.documentElement.lang !== "en") found.push("no language");
  if (!document.title) found.push("no title");
  for (const control of document.querySelectorAll("button, input, select, textarea, a")) {
    if (isShown(control) && !nameOf(control)) found.push(`no name: ${control.outerHTML}`);
    if (control.tabIndex > 0) found.push(`out of order: ${control.outerHTML}`);
  }
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    if (!isShown(heading)) continue;
    const own = Number(heading.localName[1]);
    if (own > level + 1) found.push(`h${own} after h${level}: ${heading.textContent}`);
    level = own;
  }
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption?.textContent) found.push("a table without a caption");
    const heads = table.tHead?.querySelectorAll("th") ?? [];
    if (!heads.length || [...heads].some(it => it.scope !== "col" || !it.textContent.trim())) {
      found.push(`headers: ${table.caption?.textContent}`);
    }
    for (const row of table.tBodies[0].rows) {
      if (row.cells[0].scope !== "row") found.push(`no header: ${row.textContent}`);
    }
  }
  for (const image of document.querySelectorAll("svg")) {
    if (!image.ariaLabel && image.getAttribute("aria-hidden") !== "true") found.push("a picture");
  }
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some(it => it.nodeType === 3 && it.data.trim());
    if (hasText && isShown(element) && element.localName !== "noscript") {
      const ratio = contrast(element);
      if (ratio < 4.5) found.push(`contrast ${ratio}: ${element.outerHTML.slice(0, 200)}`);
    }
  }
  return found;
}

/** What axe-core finds, where a test has added it. */
async function axeFinds() {
  const { violations, passes } = await axe.run(document, { resultTypes: ["violations"] });
  return {
    passes: passes.length,
    violations: violations.map(({ id, nodes }) =>
      [id, ...nodes.map(node => `${node.html} ${node.failureSummary}`)]),
  };
}
