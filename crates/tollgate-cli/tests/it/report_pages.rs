//! The pages of `advise`, `replay` and `lab` in a browser, on a phone and a desk, by day and by
//! night.

use serde_json::{Value, json};

use crate::Place;
use crate::browser::{Browser, DESK, Screen, axe};
use crate::lab::{EXPERIMENT, write};
use crate::replaying::BUNDLED;

/// The tallest page of a phone, in pixels: about ten screens.
const TALLEST: u64 = 9_000;

/// The facts that a reader of this width finds.
const LOOK: &str = "
  const page = document.documentElement;
  const tables = [...document.querySelectorAll(\".table\")].filter(isShown);
  const wide = tables.filter(table => table.scrollWidth > table.clientWidth + 1);
  const faults = [];
  for (const table of wide) {
    const name = table.ariaLabel;
    if (!name || table.tabIndex !== 0) faults.push(`no keys reach ${name}`);
    const left = table.getBoundingClientRect().left;
    table.scrollLeft = table.scrollWidth;
    for (const row of table.querySelectorAll(\"tr\")) {
      if (Math.abs(row.cells[0].getBoundingClientRect().left - left) > 1) {
        faults.push(`${name}: the first column goes away: ${row.textContent}`);
      }
    }
    if (row0(table) > table.clientWidth * 0.6) faults.push(`${name}: no room beside the first column`);
    table.scrollLeft = 0;
    const { backgroundImage, backgroundAttachment } = getComputedStyle(table);
    if (!backgroundImage.includes(\"gradient\") || !backgroundAttachment.includes(\"local\")) {
      faults.push(`${name}: nothing shows that it goes on`);
    }
  }
  function row0(table) { return table.querySelector(\"tr\").cells[0].getBoundingClientRect().width; }
  const bare = [...document.querySelectorAll(\"td\")].filter(it => !it.textContent.trim());
  return { width: page.clientWidth, height: page.scrollHeight, faults, scrolling: wide.length,
    scrolls: page.scrollWidth > page.clientWidth, empty: bare.length,
    paper: getComputedStyle(document.body).backgroundColor,
    ...(window.axe ? await axeFinds() : { violations: [], passes: 99 }) };
";

/// Looks at a page on every screen; returns what a phone finds.
fn looks(browser: &mut Browser, axe: Option<&str>, name: &str, page: &str) -> Value {
    browser.look(DESK);
    browser.open(&format!("file://{page}"));
    if let Some(axe) = axe {
        browser.add(axe);
    }
    let (mut papers, mut phone) = (Vec::new(), Value::Null);
    for width in [1_280, 390] {
        for is_dark in [false, true] {
            browser.look(Screen { width, is_dark });
            let found = browser.run(LOOK);
            let seen = format!("{name} {width} {is_dark}: {found:#}");
            let theme = if is_dark { "dark" } else { "light" };
            browser.picture(&format!("{name}-{width}-{theme}"), true);
            assert_eq!(
                (&found["width"], &found["scrolls"]),
                (&json!(width), &json!(false)),
                "{seen}"
            );
            assert_eq!((&found["faults"], &found["empty"]), (&json!([]), &json!(0)), "{seen}");
            assert_eq!(found["violations"], json!([]), "{seen}");
            assert!(found["passes"].as_u64().unwrap() > 10, "{seen}");
            papers.push(found["paper"].clone());
            phone = found;
        }
    }
    assert_ne!(papers[0], papers[1], "the night is dark");
    assert_eq!(papers[..2], papers[2..]);
    assert!(phone["height"].as_u64().unwrap() < TALLEST, "{name}: {phone:#}");
    phone
}

#[test]
fn pages_fit_a_phone_and_a_desk_by_day_and_by_night() {
    let Some(mut browser) = Browser::start(DESK) else { return };
    let axe = axe();
    let place = Place::new();
    let report = place.path().join("page.html");
    let report = report.to_str().unwrap();
    let mut look = |name: &str, args: &[&str]| {
        let (code, _, error) = place.run(&[args, &["--report", report]].concat());
        assert_eq!(code, 0, "{args:?}: {error}");
        (
            looks(&mut browser, axe.as_deref(), name, report),
            std::fs::read_to_string(report).unwrap(),
        )
    };
    let (_, page) = look("advise", &["advise", BUNDLED]);
    assert!(page.contains(">the limit</text>"), "the picture has a key for it");
    let (phone, page) = look("advise-windows", &["advise", BUNDLED, "--per", "10s,1m,1h"]);
    assert!(phone["scrolling"].as_u64().unwrap() > 2, "{phone:#}");
    assert!(page.contains(" kB</td>"), "bytes have their unit");
    let limit = ["--limit", "5/10s", "--limit", "240/h", "--strategy", "all"];
    let (phone, page) = look("replay", &[&["replay", BUNDLED], &limit[..]].concat());
    assert!(phone["scrolling"].as_u64().unwrap() > 1, "{phone:#}");
    // Nobody tries again in a log, and nothing is by chance.
    let (_, measures) = page.split_once("<h2>Measures").unwrap();
    let (measures, _) = measures.split_once("<script").unwrap();
    for absent in ["attempts</th>", "retries", "never served", "longest wait", ">seed<"] {
        assert!(!measures.contains(absent), "{absent}");
    }
    let file = write(&place, "all.toml", EXPERIMENT);
    let (_, page) = look("lab", &["lab", "run", &file]);
    assert!(page.contains("never served") && page.contains(">seed<"));
    look("lab-zoo", &["lab", "zoo", "40", "30"]);
    let outage = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lab/outage.toml");
    let (_, page) = look("lab-outage", &["lab", "run", outage]);
    assert!(page.contains(">the store is away for some nodes or all</text>"));
}
