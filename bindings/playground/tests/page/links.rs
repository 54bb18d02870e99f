//! The address of the page: a link shows what its sender saw, and a wrong one does no harm.

use serde_json::{Value, json};

use crate::browser::{DESK, Visit, root, run_at};
use crate::counts;

#[test]
fn a_link_shows_what_its_sender_saw() {
    let script = r##"
      const now = () => ({ counts: texts(".count"), names: texts("h3"),
        trouble: get("trouble").textContent, fields: ["limits", "second", "pattern", "requests",
          "seed"].map(id => get(id).value) });
      const found = { opened: now() };
      const first = location.hash;
      type("seed", 8);
      get("generate").click();
      found.other = now();
      await until(() => location.hash.includes("seed=8"));
      found.address = location.hash;
      get("link").click();
      await until(() => get("saved").textContent);
      found.link = get("saved").textContent;
      found.here = location.href;
      // At exact times, and by hand.
      type("script", "0 | 1\n1s | 1");
      get("run").click();
      await until(() => location.hash.includes("times="));
      found.exact = location.hash;
      get("ask").click();
      await until(() => location.hash.includes("traffic=none"));
      found.hand = location.hash;
      location.hash = found.exact;
      await until(() => get("said").textContent.startsWith("2 requests at exact times"));
      found.repeated = texts(".count");
      location.hash = first;
      await until(() => get("seed").value === "7");
      found.again = now();
      return found;
    "##;
    // The one of the documentation.
    let page = std::fs::read_to_string(root().join("docs/playground.md")).unwrap();
    let address = page.lines().find_map(|line| line.strip_prefix("playground.html")).unwrap();
    let visit = Visit { screen: DESK, address, library: "" };
    let Some(found) = run_at(visit, script, &Value::Null) else { return };
    let limits = ["10/s burst 20 via gcra", "10/s via sliding_log"];
    let opened = &found["opened"];
    assert_eq!(opened["fields"], json!([limits[0], limits[1], "random", "80", "7"]));
    assert_eq!(opened["trouble"], "");
    assert_eq!(opened["names"], json!(["gcra (first)", "sliding_log (second)"]));
    let counts = |seed| counts(&limits, 3_000_000, "random", 80, seed);
    assert_eq!(opened["counts"], json!(counts(7)), "{found}");
    assert_eq!(found["other"]["counts"], json!(counts(8)));
    assert_ne!(opened["counts"], found["other"]["counts"]);
    assert_eq!(*opened, found["again"], "the link is followed again");
    let (limits, _) = address.split_once("random").unwrap();
    assert_eq!(found["address"], format!("{limits}random&requests=80&seed=8"));
    assert_eq!(found["exact"], format!("{limits}exact&times=0+|+1%0A1s+|+1"));
    assert_eq!(found["hand"], format!("{limits}none"));
    assert_eq!(found["repeated"], json!(["2 admitted, 0 denied.", "2 admitted, 0 denied."]));
    let (link, here) = (found["link"].as_str().unwrap(), found["here"].as_str().unwrap());
    assert!(link == "The link is copied." || link == format!("Copy this link: {here}"), "{link}");
}

#[test]
fn an_address_that_is_wrong_is_shown_and_never_run() {
    let long = format!("#limits={}", "9".repeat(9_000));
    let large = format!("#limits={}", "9".repeat(8_000));
    let hurt = "<img src=x onerror=parent.hurt=1><script>parent.hurt=1</script>";
    let (limits, second) = (format!("#limits={hurt}"), format!("#second=</textarea>{hurt}"));
    let (name, number) = (format!("#{hurt}"), format!("#requests={hurt}"));
    let times = format!("#traffic=exact&times=0 | {hurt}");
    let range = "write a whole number from 1 to 5000";
    // What is shown, and where: above the page, at a field, or beside the requests.
    let cases: &[(&str, &str, &str)] = &[
        (&limits, "problem", "img"),
        (&second, "second-problem", "textarea"),
        (&name, "trouble", "there is no \"<img src\", only limits, second, traffic, "),
        (&number, "trouble", range),
        (&times, "fault", "line 1: \"<img\" is not one of check, peek, partial, charge"),
        ("#requests=1e9", "trouble", range),
        ("#requests=5001", "trouble", range),
        ("#requests=-1", "trouble", range),
        ("#requests=", "trouble", range),
        ("#seed=1.5", "trouble", "write a whole number from 0 to 9007199254740991"),
        ("#traffic=flood", "trouble", "write one of random, steady, bursts, two_clients, exact"),
        ("#speed=9&seed=3", "trouble", "there is no \"speed\", only limits"),
        ("#seed=1&seed=2", "trouble", "it has \"seed\" already: write it once"),
        ("#limits=%FF%zz", "problem", "%zz"),
        ("#javascript:parent.hurt=1", "trouble", "there is no \"javascript:parent.hurt\""),
        (&large, "problem", "this is not a quota"),
        (&long, "trouble", "has 9007 characters after its #, and at most 8192 are read"),
    ];
    let script = r##"
      const elements = () => document.querySelectorAll("img, script, svg, b").length;
      const before = elements();
      const found = [];
      for (const [address, place] of input) {
        if (found.length) {
          const changed = new Promise(done => addEventListener("hashchange", done, { once: true }));
          location.hash = address;
          await changed;
        }
        await frame();
        found.push({ text: get(place).textContent, lanes: lanes().length,
          elements: elements() - before, seed: get("seed").value });
      }
      return { found, hurt: parent.hurt ?? null };
    "##;
    let visit = Visit { screen: DESK, address: cases[0].0, library: "" };
    let input: Vec<(&str, &str)> = cases.iter().map(|case| (case.0, case.1)).collect();
    let Some(found) = run_at(visit, script, &json!(input)) else { return };
    assert_eq!(found["hurt"], Value::Null);
    for (n, (address, place, text)) in cases.iter().enumerate() {
        let found = &found["found"][n];
        let shown = found["text"].as_str().unwrap();
        assert!(shown.contains(text), "{address}: {shown}");
        assert!(shown.len() < 1_000, "{shown}");
        assert_eq!(found["elements"], 0, "{address}: {found}");
        // The rest of the page is as it begins.
        let is_read = !place.ends_with("problem");
        assert_eq!(found["lanes"] == 6, is_read, "{address}: {found}");
        let seed = if address.ends_with("seed=3") { "3" } else { "1" };
        assert!(found["seed"] == seed, "{address}: {found}");
    }
}
