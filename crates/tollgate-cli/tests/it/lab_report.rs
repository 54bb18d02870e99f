//! Pages of the lab in a browser.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Place;
use crate::lab::{EXPERIMENT, write};

/// Measures a page from within, and leaves what it finds in it, as JSON.
const PROBE: &str = r#"
<script>
addEventListener("load", () => {
  const light = colour => {
    const parts = (colour.match(/[\d.]+/g) || [0, 0, 0]).slice(0, 3).map(part => {
      const one = part / 255;
      return one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const shown = element => element.getClientRects().length > 0;
  const page = getComputedStyle(document.body).backgroundColor;
  const pictures = [...document.querySelectorAll("svg")].filter(shown);
  const texts = pictures.flatMap(picture => [...picture.querySelectorAll("text")])
    .filter(text => text.textContent.trim() && shown(text));
  const pale = texts.filter(text => contrast(getComputedStyle(text).fill, page) < 4.5);
  const small = texts.filter(text => text.getBoundingClientRect().height < 9);
  const cut = texts.filter(text => {
    const inner = text.getBoundingClientRect();
    const outer = text.closest("svg").getBoundingClientRect();
    return inner.left < outer.left - 1 || inner.right > outer.right + 1;
  });
  // Names that are cut at the end; those of hundreds of characters have a title.
  const short = texts.filter(text => text.textContent.includes("…") && !text.closest("g.whole"));
  // Text that runs into the next cell.
  const place = cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getBoundingClientRect();
  };
  const over = [...document.querySelectorAll("th + th, th + td, td + td")].filter(shown)
    .filter(cell => {
      const [one, other] = [place(cell.previousElementSibling), place(cell)];
      return one.right > other.left && one.bottom > other.top && one.top < other.bottom;
    });
  const cells = [...document.querySelectorAll("[data-case][data-measure]")]
    .map(cell => [cell.dataset.case, cell.dataset.measure, cell.textContent.trim()]);
  const found = {
    width: innerWidth, page, pictures: pictures.length, texts: texts.length,
    pale: pale.map(text => text.textContent), small: small.map(text => text.textContent),
    cut: cut.map(text => text.textContent), short: short.map(text => text.textContent),
    over: over.map(cell => cell.textContent),
    wide: document.documentElement.scrollWidth > innerWidth + 1,
    body: contrast(getComputedStyle(document.body).color, page), cells,
    asked: performance.getEntriesByType("resource").map(entry => entry.name),
    results: document.getElementById("results").textContent,
    injected: document.querySelectorAll("b").length,
  };
  const pre = document.createElement("pre");
  pre.id = "found";
  pre.textContent = JSON.stringify(found);
  parent.document.body.replaceChildren(pre);
});
</script>
"#;

/// The page in a frame of this width: a browser's window is at least 500 pixels wide.
fn framed(page: &str, width: u32) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><style>body{{margin:0}}iframe{{border:0}}</style>\
         <iframe width=\"{width}\" height=\"2000\" srcdoc=\"{page}\"></iframe>"
    )
}

/// The facts that a browser finds in a page; `None` without a browser.
fn found(page: &Path, is_dark: bool) -> Option<Value> {
    let profile = tempfile::tempdir().unwrap();
    let programs = ["chromium", "chromium-browser", "google-chrome"];
    let start = |program: &&str| {
        Command::new(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"])
            .arg("--window-size=1400,2000")
            .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("file://{}", page.display()))
            .output()
            .ok()
    };
    let Some(output) = programs.iter().find_map(start) else {
        println!("SKIPPED: no browser is installed: apt-get install chromium");
        return None;
    };
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    let (_, rest) = dom.split_once("<pre id=\"found\">").unwrap_or_else(|| panic!("{dom}{error}"));
    let text = rest.split_once("</pre>").unwrap().0;
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}");
    Some(serde_json::from_str(&text.replace("&amp;", "&")).unwrap())
}

#[test]
fn a_browser_shows_the_report_on_a_phone_and_a_desk_by_day_and_by_night() {
    let place = Place::new();
    let file = write(&place, "all.toml", EXPERIMENT);
    let counts = ["requests", "attempts", "admitted", "denied", "retries", "peak"];
    shows(&place, &["run", &file], 4, &counts);
    let short = EXPERIMENT.replace("20s", "1s").replace("/5s", "/250ms").replace("3s", "200ms");
    let file = write(&place, "short.toml", &short);
    let counts = ["requests", "attempts", "admitted", "denied", "retries", "peak", "live.failed"];
    shows(&place, &["run", &file, "--live", "--operation", "5ms"], 5, &counts);
    let both = format!("{EXPERIMENT}[[case]]\nqueue = {{ bound = 5, work = \"190ms\" }}\n");
    let file = write(&place, "both.toml", &both);
    let counts = ["requests", "admitted", "denied", "peak"];
    shows(&place, &["run", &file], 6, &counts);
    let counts = ["admitted", "denied", "queue.done", "queue.depth_max"];
    shows(&place, &["queue", "--offers", "19/s", "--for", "30s"], 4, &counts);
    // Long names, of cases and of clients.
    shows(&place, &["zoo", "40", "30"], 6, &["admitted", "denied", "peak"]);
    shows(&place, &["sides"], 4, &["admitted", "denied", "peak"]);
    let race = place.path().join("race.html");
    let (code, _, error) = place.run(&["lab", "race", "--report", race.to_str().unwrap()]);
    assert_eq!(code, 0, "{error}");
    for found in looks(&place, &race, 1) {
        let json: Value = serde_json::from_str(found["results"].as_str().unwrap()).unwrap();
        assert_eq!((&json["atomic"], &json["on"]), (&5.into(), &"simulated".into()));
    }
    let lines = (0..40).map(|n| {
        let ip = ["2001:db8:85a3:8d3:1319:8a2e:370:7344", "192.0.2.1"][n % 2];
        let path = "/files/rubygems615/rubygems-update-1.3.5/pkg/rubygems-update-1.3.5.gem";
        format!("{{\"ip\":\"{ip}\",\"ts\":{},\"path\":\"{path}?{n}\"}}\n", 1_800_000_000 + n / 4)
    });
    let log = write(&place, "access.log", &lines.collect::<String>());
    let report = place.path().join("replay.html");
    let file = report.to_str().unwrap();
    for by in ["ip", "path"] {
        let args = ["replay", &log, "--by", by, "--limit", "2/10s", "--strategy", "all"];
        let (code, _, error) = place.run(&[&args[..], &["--report", file]].concat());
        assert_eq!(code, 0, "{error}");
        looks(&place, &report, 2);
    }
}

/// Runs an experiment, and looks at its report in a browser: these pictures and counts are there.
fn shows(place: &Place, args: &[&str], pictures: u64, counts: &[&str]) {
    let report = place.path().join("report.html");
    let more = ["--json", "--report", report.to_str().unwrap()];
    let (code, out, error) = place.run(&[&["lab"], args, &more].concat());
    assert_eq!(code, 0, "{error}");
    let json: Value = serde_json::from_str(&out).unwrap();
    for found in looks(place, &report, pictures) {
        // The numbers are those of the JSON.
        let embedded: Value = serde_json::from_str(found["results"].as_str().unwrap()).unwrap();
        assert_eq!(embedded, json);
        let cells = found["cells"].as_array().unwrap();
        for case in json["cases"].as_array().unwrap() {
            for measure in counts {
                let cell = cells.iter().find(|it| it[0] == case["name"] && it[1] == **measure);
                let cell = cell.unwrap_or_else(|| panic!("{measure} of {}", case["name"]));
                let digits: String =
                    cell[2].as_str().unwrap().chars().filter(char::is_ascii_digit).collect();
                let number = case.pointer(&format!("/{}", measure.replace('.', "/")));
                let number = number.unwrap().to_string();
                assert_eq!(digits, number, "{measure} of {}", case["name"]);
            }
        }
    }
}

/// The facts that a browser finds in a report, at both widths by day and by night; empty without a
/// browser.
fn looks(place: &Place, report: &Path, pictures: u64) -> Vec<Value> {
    let page = std::fs::read_to_string(report).unwrap();
    let probed = place.path().join("probed.html");
    // The page itself lets no script run.
    let (before, rest) = page.split_once("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let (policy, after) = rest.split_once('>').unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    let page = format!("{before}{after}").replace("</body>", &format!("{PROBE}</body>"));
    let mut pages = Vec::new();
    for (width, is_dark) in [(1_280, false), (1_280, true), (390, false), (390, true)] {
        std::fs::write(&probed, framed(&page, width)).unwrap();
        let Some(found) = found(&probed, is_dark) else { return Vec::new() };
        let seen = format!("{width} {is_dark}: {found:.3000}");
        assert_eq!(found["pictures"], pictures, "{seen}");
        assert!(found["texts"].as_u64().unwrap() > 9 * pictures, "{seen}");
        assert_eq!(found["width"], width);
        for fault in ["pale", "small", "cut", "short", "over", "asked"] {
            assert_eq!(found[fault], serde_json::json!([]), "{fault}: {seen}");
        }
        assert_eq!(found["wide"], false, "it does not scroll sideways: {seen}");
        assert!(found["body"].as_f64().unwrap() >= 7.0, "{seen}");
        assert_eq!(found["injected"], 0, "the name is text: {seen}");
        pages.push(found);
    }
    let paper = |place: usize| pages[place]["page"].clone();
    assert_ne!(paper(0), paper(1), "the night is dark");
    assert_eq!((paper(0), paper(1)), (paper(2), paper(3)));
    pages
}
