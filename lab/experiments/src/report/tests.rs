//! Reports of good and of awkward results.

use serde_json::Value;

use super::*;
use crate::experiment::results::Bucket;
use crate::fixture::{HOSTILE, edges, results};

/// The page as XML: it differs by the doctype, by `meta`, which is not closed, and by the JSON.
fn page_as_xml(page: &str) -> String {
    let (head, body) = page.split_once("</head>").unwrap();
    let (doctype, head) = head.split_once("<html").unwrap();
    assert_eq!(doctype, "<!DOCTYPE html>");
    let mut parts = head.split("<meta ");
    let html = parts.next().unwrap();
    let after: String = parts.map(|part| part.split_once('>').unwrap().1).collect();
    let (body, script) = body.split_once("<script type=").unwrap();
    let (_, end) = script.split_once("</script>").unwrap();
    format!("<html{html}{after}</head>{body}{end}")
}

fn embedded(page: &str) -> Value {
    let marker = "<script type=\"application/json\" id=\"results\">";
    let (_, rest) = page.split_once(marker).unwrap();
    let (json, after) = rest.split_once("</script>").unwrap();
    assert_eq!(after, "</body></html>");
    serde_json::from_str(json).unwrap()
}

/// `(case, measure, exact value, text)` of every cell.
fn cells(page: &str) -> Vec<[String; 4]> {
    let xml = page_as_xml(page);
    let tree = roxmltree::Document::parse(&xml).unwrap();
    let cells = tree.descendants().filter(|node| node.has_attribute("data-measure"));
    cells
        .map(|cell| {
            let of = |name| cell.attribute(name).unwrap().to_owned();
            let text = cell.text().unwrap_or_default().to_owned();
            [of("data-case"), of("data-measure"), of("data-value"), text]
        })
        .collect()
}

#[test]
fn the_numbers_of_the_page_are_those_of_the_json() {
    let results = results();
    let page = html(&results);
    let json = embedded(&page);
    assert_eq!(json, serde_json::to_value(&results).unwrap());
    let cells = cells(&page);
    assert_eq!(cells.len(), results.cases.len() * 11, "bytes per subject are shown by none");
    for [case, measure, exact, text] in cells {
        let cases = json["cases"].as_array().unwrap();
        let case = cases.iter().find(|found| found["name"] == case).unwrap();
        let value = &case[&measure];
        assert_eq!(serde_json::from_str::<Value>(&exact).unwrap(), *value, "{measure}");
        match value {
            Value::Null => assert_eq!(text, "-"),
            value if value.is_u64() && !measure.ends_with("_us") => assert_eq!(text, exact),
            _ => assert!(text.starts_with(|c: char| c.is_ascii_digit()), "{measure}: {text}"),
        }
    }
}

#[test]
fn every_page_is_well_formed_and_asks_for_nothing() {
    for (name, results) in edges() {
        let page = html(&results);
        let xml = page_as_xml(&page);
        let tree = roxmltree::Document::parse(&xml).unwrap_or_else(|why| panic!("{name}: {why}"));
        for node in tree.descendants().filter(roxmltree::Node::is_element) {
            assert!(
                !["script", "link", "iframe", "img"].contains(&node.tag_name().name()),
                "{name}"
            );
            for attribute in node.attributes() {
                let is_request = ["src", "href", "action", "srcset"].contains(&attribute.name());
                assert!(!is_request && !attribute.name().starts_with("on"), "{name}");
            }
        }
        for request in ["@import", "url(", "https://"] {
            assert!(!page.contains(request), "{name}: {request}");
        }
        let links = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        assert!(!links.contains("http://"), "{name}");
        // NaN is null in the JSON, so that this can only be compared where there is none.
        if name != "no numbers" {
            assert_eq!(embedded(&page), serde_json::to_value(&results).unwrap(), "{name}");
        }
    }
}

#[test]
fn what_is_given_cannot_become_markup() {
    let (name, results) = edges().pop().unwrap();
    assert_eq!(name, "hostile names");
    let page = html(&results);
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("</script").count(), 1);
    assert!(!page.contains("<!--\\"), "a comment could hide the end of the element");
    let json = embedded(&page);
    let names = json["cases"].as_array().unwrap().iter().map(|case| case["name"].as_str().unwrap());
    assert!(names.eq(HOSTILE), "the JSON has them as they are");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn a_stopped_experiment_says_so() {
    let mut results = results();
    assert!(!html(&results).contains("Stopped") && !text(&results, 80).contains("Stopped"));
    results.complete = false;
    assert!(html(&results).contains("Stopped") && text(&results, 80).contains("Stopped"));
}

#[test]
fn a_broken_promise_is_told() {
    for (name, results) in edges() {
        let broken = name == "a broken promise";
        assert_eq!(
            html(&results).contains("<td class=\"broken\" data-label=\"holds\">no</td>"),
            broken,
            "{name}"
        );
        assert_eq!(text(&results, 80).contains("DOES NOT HOLD"), broken, "{name}");
    }
}

#[test]
fn text_fits_and_has_no_controls() {
    for (name, results) in edges().into_iter().chain([("fixture", results())]) {
        for width in [0, 40, 80, 100, 1_000] {
            let text = text(&results, width);
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{name}");
            // A single word may be longer than a line, and names may be wide.
            if !name.ends_with("names") && name != "largest numbers" {
                let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
                assert!(longest <= width.clamp(40, 160), "{name} at {width}: {longest}\n{text}");
            }
        }
    }
}

#[test]
fn text_has_every_measure_of_every_case() {
    let results = results();
    let text = text(&results, 100);
    for case in &results.cases {
        assert!(text.contains(&case.name));
        assert!(text.contains(&case.admitted.to_string()));
        assert!(text.contains(&case.peak.unwrap().to_string()));
    }
    assert!(text.contains("97.3%") && text.contains("1.3 s") && !text.contains("bytes"), "{text}");
}

#[test]
fn a_long_name_stands_whole_above_its_column() {
    let mut results = results();
    results.cases[1].name = "uniform gates, each caller its own".into();
    let text = text(&results, 100);
    let head: Vec<&str> =
        text.lines().skip_while(|line| !line.contains("  uniform gates,")).collect();
    for (line, part) in head.iter().zip(["uniform gates,", "each caller its", "own"]) {
        assert!(line.contains(part), "{part}: {text}");
    }
    assert!(head.len() > 3, "{text}");
    assert!(!text.contains("..."), "{text}");
}

#[test]
fn a_queue_is_told_in_words_and_all_queues_in_words_of_their_own() {
    let of = |wanted: &str| edges().into_iter().find(|(name, _)| *name == wanted).unwrap().1;
    let (mixed, queues) = (of("a queue beside limits"), of("queues"));
    let says = "3 workers of 33333 us a job";
    for results in [&mixed, &queues] {
        let (text, page) = (text(results, 100), html(results));
        assert!(text.contains(says) && page.contains(says), "{text}");
        assert!(text.contains("Depth of the queue: a column is the most of"), "{text}");
        let cells = cells(&page);
        let cell = cells.iter().find(|it| it[0] == "uniform" && it[1] == "queue.accepted_per_s");
        assert_eq!(cell.unwrap()[2..], ["29.9667", "30.0/s"]);
    }
    let has = |results: &Results, title: &str| {
        text(results, 100).lines().any(|line| line.trim_start().starts_with(title))
    };
    assert!(has(&mixed, "admitted  ") && !has(&mixed, "accepted  "));
    assert!(has(&queues, "accepted  ") && has(&queues, "refused  ") && !has(&queues, "admitted  "));
    assert!(text(&queues, 100).contains("no more than 30/s via uniform"));
    assert!(html(&queues).contains("wait or are in flight"));
}

#[test]
fn bars_show_the_spike_and_the_limit() {
    let mut results = results();
    results.bucket_us = 600;
    let case = &mut results.cases[0];
    case.buckets = vec![Bucket::default(); 100_000];
    case.buckets[54_321].occupancy = 600;
    results.cases.truncate(1);
    let text = text(&results, 80);
    let top = text.lines().find(|line| line.starts_with("600 │")).unwrap();
    assert_eq!(top.matches('█').count(), 1, "{text}");
    assert!(text.lines().any(|line| line.starts_with("300 │┄┄┄") && line.contains('█')), "{text}");
}

#[test]
fn what_is_above_the_line_of_the_limit_is_above_the_limit() {
    let mut results = results();
    for (occupancy, above) in [(299, 0), (300, 0), (301, 1), (450, 1), (566, 1), (1_100, 1)] {
        for case in &mut results.cases {
            case.buckets = vec![Bucket { occupancy, ..Bucket::default() }];
        }
        results.cases.truncate(1);
        let text = text(&results, 80);
        let (before, _) = text.split_once("300 │").unwrap();
        assert_eq!(before.matches(|c| ('▁'..='█').contains(&c)).count().min(1), above, "{text}");
    }
}

#[test]
fn an_advice_is_a_page_with_curves_and_a_curve_of_text() {
    use std::path::Path;
    use tollgate_logs::advise::{Options, advise};
    use tollgate_logs::{Lines, Reading};

    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../../examples/data/semicomplete_access.log.gz");
    let lines = Lines::open(&path).unwrap();
    let traffic = Reading::default().read_lines(lines, |_| ()).unwrap();
    let advice = advise(&traffic, &Options::default(), &mut |_| Ok(())).unwrap();
    let page = advice_html(&advice);
    let xml = page_as_xml(&page);
    let tree = roxmltree::Document::parse(&xml).unwrap();
    assert_eq!(tree.descendants().filter(|node| node.has_tag_name("svg")).count(), 2);
    assert_eq!(embedded(&page), serde_json::to_value(&advice).unwrap());
    for text in [
        &advice.recommended.limit,
        "Facts that are not in the log",
        "share of the clients that are ever denied",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let curve = advice_curve(&advice);
    assert_eq!(curve.matches("<- recommended").count(), 1);
    let chosen = curve.lines().find(|line| line.contains("<-")).unwrap();
    assert!(chosen.trim_start().starts_with(&advice.recommended.units.to_string()), "{chosen}");
    let dots: Vec<usize> = curve.lines().skip(2).map(|line| line.find('●').unwrap()).collect();
    assert!(dots.len() > 5 && dots.is_sorted_by(|a, b| a >= b), "{curve}");
    assert!(dots[0] > *dots.last().unwrap() + 15, "{curve}");
    assert!(curve.lines().all(|line| line.chars().count() <= 80), "{curve}");
    // The share of the limit is marked in the picture too, and nothing on it is a bar.
    assert!(page.contains(">nobody</text>") && page.contains(">100%</text>"));
    let limit = advice.curves()[0].limit.unwrap();
    assert_eq!(page.matches(&format!(">{limit}</text>")).count(), 2, "at both widths");
    // A hostile name stays a text.
    let mut advice = advice;
    advice.by = HOSTILE[0].to_owned();
    assert!(roxmltree::Document::parse(&page_as_xml(&advice_html(&advice))).is_ok());
}
