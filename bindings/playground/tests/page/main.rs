//! The built page in a browser: the time lines of `vectors/`, the reader's typing and presses, and
//! its looks. Without a target for WebAssembly or a browser the tests skip themselves, with a
//! message.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's panic is its verdict")]

mod browser;
mod links;
mod steps;

use serde_json::{Value, json};
use tollgate::LimitSet;
use tollgate_playground::Playground;
use tollgate_proof::vectors::holds::HOLD_VECTORS;
use tollgate_proof::vectors::{self, VECTORS};

use browser::{DESK, Screen, Visit, built, root, run, run_at};

/// Runs texts at exact times, and returns what the first lane answered to each.
const RUN_ALL: &str = r##"
  const answers = [];
  for (const text of input) {
    lanes()[0].querySelector(".answers").open = true;
    type("script", text);
    get("run").click();
    answers.push({ fault: get("fault").textContent, lanes: lanes().length,
      text: lanes()[0].querySelector("pre").textContent });
  }
  return answers;
"##;

#[test]
fn the_page_is_one_file_of_half_a_megabyte_at_most() {
    let Some(page) = built() else { return };
    assert!(page.len() <= 500_000, "{} bytes", page.len());
    assert!(page.len() > 100_000, "{} bytes: where is the engine?", page.len());
    for outside in ["src=", "href=", "http:", "https:"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("content=\"default-src 'none';"));
}

#[test]
fn the_page_answers_every_time_line_as_written() {
    let all: Vec<_> = VECTORS
        .iter()
        .flat_map(|(name, text)| {
            vectors::parse(text).unwrap().into_iter().map(move |line| (*name, *text, line))
        })
        .filter(|(.., line)| !is_zoned(&line.limit.to_string()))
        .collect();
    let scripts: Vec<String> = all
        .iter()
        .map(|(_, text, time_line)| {
            // As in the file, with parts that the page need not read.
            let raw: Vec<&str> = text.lines().collect();
            let lines = time_line.lines.iter().map(|line| raw[line.number - 1]);
            let lines: Vec<&str> = lines.collect();
            format!("# A comment.\nlimit: {}\n{}\n", time_line.limit, lines.join("\n"))
        })
        .collect();
    let Some(found) = run(DESK, RUN_ALL, &json!(scripts)) else { return };
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), all.len());
    let mut seen = 0;
    for ((name, _, time_line), found) in all.iter().zip(found) {
        assert_eq!((&found["fault"], &found["lanes"]), (&json!(""), &json!(1)), "{name}");
        let text = found["text"].as_str().unwrap();
        let answered =
            vectors::parse(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        assert_eq!(answered.len(), 1, "{name}: {text}");
        assert_eq!(answered[0].lines.len(), time_line.lines.len(), "{name}: {text}");
        for (answered, line) in answered[0].lines.iter().zip(&time_line.lines) {
            let of = |line: &vectors::Line| (line.at_us, line.ask, line.cost, line.expect);
            assert_eq!(of(answered), of(line), "{name}:{}", line.number);
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen} lines");
}

/// Whether a limit has a time zone that the page does not know.
fn is_zoned(limit: &str) -> bool {
    limit.contains(" in ") && !limit.contains(" in UTC")
}

#[test]
fn a_time_line_with_holds_is_refused_and_the_page_says_why() {
    let texts: Vec<&str> = HOLD_VECTORS.iter().map(|(_, text)| *text).collect();
    let Some(found) = run(DESK, RUN_ALL, &json!(texts)) else { return };
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), texts.len());
    for (found, (name, _)) in found.iter().zip(HOLD_VECTORS) {
        let fault = found["fault"].as_str().unwrap();
        assert!(fault.contains("line 2: this is a time line with holds"), "{name}: {fault}");
    }
}

#[test]
fn a_limit_that_is_wrong_is_shown_with_its_place() {
    let script = r##"
      return input.map(text => {
        type("limits", text);
        const mark = document.querySelector("#problem mark");
        const before = get("said").textContent;
        const taken = press(" ");
        return { text, mark: mark?.textContent ?? null, problem: get("problem").textContent,
          invalid: get("limits").getAttribute("aria-invalid"), lanes: lanes().length,
          refused: document.querySelectorAll(".refused").length, ask: get("ask").disabled,
          quiet: get("said").textContent === before };
      });
    "##;
    let typed = [
        ("10/s via gcr", Some("gcr"), "did you mean gcra?"),
        ("0/s", Some("0"), "at least 1"),
        ("10/s, 5/fortnight", Some("fortnight"), ""),
        ("\u{1f418} 10/s, 10/sec via gcr", None, ""),
        ("<b>10/s</b>", None, ""),
        ("", None, ""),
        ("10/s, 20/s", None, ""),
    ];
    let input: Vec<&str> = typed.iter().map(|(text, ..)| *text).chain(["10/s"]).collect();
    let Some(found) = run(DESK, script, &json!(input)) else { return };
    for (n, (text, mark, remedy)) in typed.iter().enumerate() {
        let found = &found[n];
        let error = text.parse::<LimitSet>().unwrap_err();
        let problem = found["problem"].as_str().unwrap();
        assert_eq!(found["text"], *text);
        assert!(!problem.is_empty() && problem.contains(remedy), "{found}");
        // A browser writes the same place that the library means.
        assert_eq!(found["mark"], text.get(error.span()).unwrap_or_default(), "{text}: {error}");
        assert!(mark.is_none_or(|mark| found["mark"] == mark), "{found}");
        assert_eq!((&found["invalid"], &found["lanes"]), (&json!("true"), &json!(0)), "{found}");
        assert_eq!((&found["ask"], &found["quiet"]), (&json!(true), &json!(true)), "{found}");
    }
    let good = &found[typed.len()];
    assert_eq!(
        (&good["invalid"], &good["problem"], &good["lanes"]),
        (&json!("false"), &json!(""), &json!(6))
    );
    assert_eq!((&good["ask"], &good["quiet"]), (&json!(false), &json!(false)), "{good}");
}

#[test]
fn strategies_zones_and_slots_that_do_not_fit_are_refused_with_the_reason() {
    let script = r##"
      const zone = (type("limits", "2/day in Europe/Berlin"), get("problem").textContent);
      const mark = document.querySelector("#problem mark").textContent;
      const slots = (type("limits", "20 at once"), get("problem").textContent);
      type("limits", "5/10s burst 10");
      const refused = [...document.querySelectorAll(".refused")].map(lane => lane.textContent);
      return { zone, mark, slots, refused, names: texts("h3") };
    "##;
    let Some(found) = run(DESK, script, &Value::Null) else { return };
    let has = |name: &str, words: &str| {
        assert!(found[name].as_str().unwrap().contains(words), "{found}");
    };
    has("zone", "built without time zones");
    has("mark", "Europe/Berlin");
    has("slots", "write a rate, as in 10/s");
    let refused = found["refused"].as_array().unwrap();
    let first = refused[0].as_str().unwrap();
    assert!(first.starts_with("uniformNot with these limits: ") && refused.len() == 4, "{found}");
    assert_eq!(found["names"], json!(["token_bucket", "gcra"]));
}

#[test]
fn the_words_of_a_limit_are_those_of_explain() {
    let script = r##"
      type("limits", "10/s, 100/m");
      return lanes().map(lane => [...lane.querySelectorAll("dl")].map(list =>
        [...list.querySelectorAll("dt")].map(term =>
          [term.textContent, term.nextElementSibling.textContent])));
    "##;
    let Some(found) = run(DESK, script, &Value::Null) else { return };
    for (n, strategy) in tollgate::Strategy::RATES.iter().enumerate() {
        let set = LimitSet::parse_with("10/s, 100/m", *strategy).unwrap();
        let lists = found[n].as_array().unwrap();
        assert_eq!(lists.len(), 2);
        for (limit, list) in set.limits().iter().zip(lists) {
            let rows = limit.meaning().rows(|_| String::new());
            // The last one has durations in it.
            let (last, rows) = rows.split_last().unwrap();
            let shown = list.as_array().unwrap();
            assert_eq!(shown.len(), rows.len() + 1);
            assert_eq!(json!(shown[..rows.len()]), json!(rows), "{strategy}");
            assert_eq!(shown[rows.len()][0], last.0);
        }
    }
}

#[test]
fn generated_traffic_is_what_the_engine_says_natively() {
    let script = r##"
      const found = [];
      for (const [pattern, seed] of input) {
        type("pattern", pattern);
        type("seed", seed);
        type("requests", 120);
        document.querySelector("#traffic button").click();
        lanes()[0].querySelector(".answers").open = true;
        for (let n = 0; n < 3; n += 1) await frame();
        found.push({ counts: texts(".count"), lines: texts("pre")[0] });
      }
      return found;
    "##;
    let patterns = [
        ("steady", 1),
        ("random", 1),
        ("random", 2),
        ("random", 1),
        ("bursts", 1),
        ("two_clients", 7),
    ];
    let Some(found) = run(DESK, script, &json!(patterns)) else { return };
    for (n, (pattern, seed)) in patterns.iter().enumerate() {
        let counts = counts(&["5/10s"], 30_000_000, pattern, 120, *seed);
        assert_eq!(found[n]["counts"], json!(counts), "{pattern} {seed}");
    }
    assert_eq!(found[1], found[3], "the same seed");
    assert_ne!(found[1], found[2], "another seed");
}

#[test]
fn the_space_key_asks_and_the_clock_runs_and_stops() {
    let script = r##"
      const count = () => texts(".count")[0];
      const clock = () => get("clock").textContent;
      const first = { counts: texts(".count"), at: clock() };
      // Other limits meet the same traffic, until somebody asks.
      type("limits", "60/m");
      first.changed = texts(".count");
      type("limits", "5/10s");
      first.again = texts(".count");
      get("reset").click();
      const found = { first, before: clock(), taken: press(" ") };
      found.asked = count();
      found.said = get("said").textContent;
      press(" ");
      found.twice = texts(".count");
      // In a field a space is a space, and a button has it for itself.
      found.typed = press(" ", get("limits")) || press(" ", get("stop"));
      found.still = count();
      const start = performance.now();
      while (performance.now() - start < 100) await frame();
      found.ran = clock();
      get("stop").click();
      found.stopped = clock();
      await frame(); await frame();
      found.later = clock();
      get("client").value = "b";
      get("ask").click();
      found.other = count();
      get("reset").click();
      found.fresh = [clock(), count()];
      type("cost", "6");
      get("ask").click();
      found.never = texts(".last");
      type("cost", "0");
      get("ask").click();
      found.fault = get("fault").textContent;
      get("stop").click();
      return found;
    "##;
    let Some(found) = run(DESK, script, &Value::Null) else { return };
    let is = |name: &str, value: Value| assert_eq!(found[name], value, "{name}: {found}");
    let first = &found["first"];
    assert_eq!((&first["at"], &first["counts"]), (&json!("30s"), &first["again"]), "{found}");
    assert_ne!(first["counts"], first["changed"]);
    let requests = |count: &Value| -> u64 {
        let words = count.as_str().unwrap().split(' ');
        words.filter_map(|word| word.parse::<u64>().ok()).sum()
    };
    assert_eq!((requests(&first["counts"][0]), requests(&first["changed"][0])), (40, 40));
    is("before", json!("0s"));
    is("taken", json!(true));
    is("asked", json!("1 admitted, 0 denied."));
    let said = found["said"].as_str().unwrap();
    assert!(said.starts_with("At 0s: admitted by uniform; fixed_window; "), "{said}");
    let twice = found["twice"].as_array().unwrap();
    assert_eq!(
        (&twice[0], &twice[1]),
        (&json!("1 admitted, 1 denied."), &json!("2 admitted, 0 denied."))
    );
    is("typed", json!(false));
    is("still", json!("1 admitted, 1 denied."));
    assert_ne!(found["ran"], "0s");
    assert_eq!(found["stopped"], found["later"]);
    is("other", json!("2 admitted, 1 denied."));
    is("fresh", json!(["0s", "0 admitted, 0 denied."]));
    let never = found["never"][0].as_str().unwrap();
    assert_eq!(never, "Last answer of client b, at 0s: Denied: never.");
    let fault = "Cost: \"0\" does not fit, write a whole number from 1 to 1099511627776.";
    is("fault", json!(fault));
}

#[test]
fn exact_times_that_are_wrong_are_shown_with_their_line() {
    let texts = [
        ("", "there is no request"),
        ("0 | 1\nsoon | 1", "line 2: \"soon\" is not a time"),
        ("0 | steal 1", "line 1: \"steal\" is not one of"),
        ("0", "line 1: write a time and a cost"),
        ("0 | 1\nlimit: 5/s", "line 2: write the limits once"),
        ("0 | 0", "a check costs at least 1"),
        ("0 | 99999999999999999999", "line 1: a cost of"),
    ];
    let scripts: Vec<&str> = texts.iter().map(|(text, _)| *text).collect();
    let Some(found) = run(DESK, RUN_ALL, &json!(scripts)) else { return };
    for (n, (text, fault)) in texts.iter().enumerate() {
        let seen = found[n]["fault"].as_str().unwrap();
        assert!(seen.starts_with(fault), "{text:?}: {seen}");
    }
}

#[test]
fn a_click_is_answered_within_a_frame() {
    let script = r##"
      type("limits", "10/s, 1000/m");
      type("pattern", "two_clients");
      type("requests", 5000);
      document.querySelector("#traffic button").click();
      const took = [];
      for (let n = 0; n < 40; n += 1) {
        const start = performance.now();
        get("ask").click();
        took.push(performance.now() - start);
        await frame();
      }
      return { took: took.sort((a, b) => a - b), said: get("said").textContent };
    "##;
    let Some(found) = run(DESK, script, &Value::Null) else { return };
    let took: Vec<f64> =
        found["took"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    assert!(found["said"].as_str().unwrap().starts_with("At "));
    println!("a click with 5000 requests shown takes {:.1} ms, at most {:.1}", took[20], took[39]);
    // A quarter of them: whatever else this machine does makes a click slower, never faster.
    assert!(took[10] < 16.0, "{took:?}");
}

/// The counts of the engine outside of the browser, for this traffic over so many microseconds.
fn counts(limits: &[&str], span_us: u64, pattern: &str, requests: u64, seed: u64) -> Vec<String> {
    let mut playground = Playground::default();
    let mut answer = |message: Value| -> Value {
        serde_json::from_str(&playground.answer(&message.to_string())).unwrap()
    };
    answer(json!({"do": "open", "limits": limits}));
    let made = answer(json!({
        "do": "traffic", "pattern": pattern, "seed": seed,
        "requests": requests, "span_us": span_us,
    }));
    let answers = answer(json!({"do": "ask", "asks": made["asks"]}));
    let count = |lane: &Value| {
        let all = lane.as_array().unwrap();
        let admitted = all.iter().filter(|it| it["allowed"] == true).count();
        format!("{admitted} admitted, {} denied.", all.len() - admitted)
    };
    answers["lanes"].as_array().unwrap().iter().map(count).collect()
}

/// Looks at the page as a reader does who has generated traffic and opened everything.
const LOOK: &str = r##"
  type("limits", "5/10s burst 10");
  const refused = document.querySelectorAll(".refused").length;
  type("limits", input.limits);
  type("pattern", "two_clients");
  type("requests", 120);
  document.querySelector("#traffic button").click();
  for (const part of document.querySelectorAll("details")) part.open = true;
  await frame(); await frame();
  const wide = [...document.querySelectorAll("body *")]
    .filter(part => part.getBoundingClientRect().right > innerWidth + 1)
    .filter(part => !part.closest("pre"))
    .map(part => part.outerHTML.slice(0, 80));
  // Every kind of paint is in the pictures.
  const inks = lanes().map(lane => {
    const canvas = lane.querySelector("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] === 255) seen.add(data.slice(at, at + 3).join());
    }
    const style = getComputedStyle(document.documentElement);
    return ["admitted", "denied", "left", "text", "line"].filter(name => {
      const colour = style.getPropertyValue(`--${name}`).replace("#", "");
      const digits = colour.length === 3 ? [...colour].map(digit => digit + digit) : colour.match(/../g);
      return !seen.has(digits.map(digit => parseInt(digit, 16)).join());
    });
  });
  // Where the button is, whether it can be pressed beside what else sticks, and hides nothing.
  const canPress = () => {
    const { x, y } = get("ask").getBoundingClientRect();
    return get("ask").contains(document.elementFromPoint(x + 9, y + 9));
  };
  const top = id => get(id).getBoundingClientRect().top;
  scrollBy(0, top("steps") - top("ask"));
  await frame();
  const isAbove = canPress();
  scrollTo(0, document.body.scrollHeight);
  await frame();
  const bar = get("bar").getBoundingClientRect();
  const isStuck = Math.abs(bar.bottom - innerHeight) < 1;
  const end = get("lanes").getBoundingClientRect().bottom;
  const found = {
    width: innerWidth, wide, inks, refused,
    bar: [isStuck, !isStuck || isAbove && canPress(), !isStuck || end <= bar.top],
    scrolls: document.documentElement.scrollWidth > innerWidth,
    paper: getComputedStyle(document.body).backgroundColor,
    asked: performance.getEntriesByType("resource").map(entry => entry.name),
    small: [...document.querySelectorAll("button, input, select, summary")]
      .filter(part => part.getBoundingClientRect().height < 24).map(part => part.outerHTML),
  };
  if (window.axe) {
    const { violations, passes } = await axe.run(document, { resultTypes: ["violations"] });
    found.passes = passes.length;
    found.violations = violations.map(({ id, help, nodes }) =>
      [id, help, ...nodes.map(node => `${node.html} ${node.failureSummary}`)]);
  }
  return found;
"##;

#[test]
fn the_page_fits_a_phone_and_a_desk_by_day_and_by_night() {
    let checker = root().join("target/tools/node/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(checker).ok();
    if axe.is_none() {
        println!("SKIPPED: axe-core is not installed: cargo xtask test installs it");
    }
    let mut papers = Vec::new();
    for width in [1_280, 390] {
        for is_dark in [false, true] {
            let input = json!({ "limits": "5/10s, 20/m" });
            let screen = Screen { width, is_dark };
            let library = axe.as_deref().unwrap_or_default();
            let visit = Visit { screen, address: "", library };
            let Some(found) = run_at(visit, LOOK, &input) else { return };
            let seen = format!("{width} {is_dark}: {found:#}");
            assert_eq!(found["width"], width, "{seen}");
            assert_eq!(found["scrolls"], false, "{seen}");
            // On a phone one can ask from wherever one reads.
            let is_phone = width == 390;
            assert_eq!(found["bar"], json!([is_phone, true, true]), "{seen}");
            for fault in ["wide", "asked", "small"] {
                assert_eq!(found[fault], json!([]), "{seen}");
            }
            assert_eq!(found["inks"], json!([[], [], [], [], [], []]), "{seen}");
            if axe.is_some() {
                assert_eq!(found["violations"], json!([]), "{seen}");
                assert!(found["passes"].as_u64().unwrap() > 15, "{seen}");
            }
            papers.push(found["paper"].clone());
        }
    }
    assert_ne!(papers[0], papers[1], "the night is dark");
    assert_eq!(papers[..2], papers[2..]);
}
