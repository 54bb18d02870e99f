//! The page on envoyproxy/ratelimit: its rules are loaded by its command and asked by its question.
//!
//! The other side is a program in Go, which nothing here can build.

use serde_json::Value;

use super::{asked_as_envoy, file};
use crate::Place;
use crate::page::block;
use crate::serving::Serving;

pub(super) const PAGE: &str = include_str!("../../../../../docs/coming-from-envoy-ratelimit.md");

const METRICS: &str = include_str!("../../../../../docs/metrics.md");

/// The page's command over the page's rules, in memory and on free ports.
fn serve(place: &Place) -> Serving {
    let folder = place.path().join("config");
    std::fs::create_dir(&folder).unwrap();
    file(place, "config/shop.yaml", block(PAGE, "yaml", 0));
    let folder = folder.display().to_string();
    let mut lines = block(PAGE, "sh", 0).lines();
    let line = lines.find_map(|line| line.strip_prefix("tollgate serve ")).unwrap();
    let here = |word| match word {
        "redis://127.0.0.1:6379" => "memory://",
        "0.0.0.0:8081" => "127.0.0.1:0",
        "config" => &folder,
        word => word,
    };
    Serving::start(place, &line.split(' ').map(here).collect::<Vec<_>>())
}

#[test]
fn the_rules_of_the_page_are_loaded_and_asked() {
    let place = Place::new();
    let serving = serve(&place);
    let mut client = serving.client();
    let question = block(PAGE, "sh", 1).split('\'').nth(1).unwrap();
    let (mut admitted, mut is_new_window, mut left) = (0, false, 60);
    let denied = loop {
        let (status, body) = client.ask("POST", "/json", question).unwrap();
        let said: Value = serde_json::from_str(&body).unwrap();
        let reset = said["statuses"][0]["durationUntilReset"].as_str().unwrap();
        let reset = reset.trim_end_matches('s').parse().unwrap();
        is_new_window |= reset > left;
        left = reset;
        if status != 200 {
            break (status, said);
        }
        admitted += 1;
    };
    assert!(admitted == 5 || is_new_window && admitted <= 10, "{admitted}");
    assert_eq!((denied.0, &denied.1["overallCode"]), (429, &"OVER_LIMIT".into()));
    let (_, metrics) = client.ask("GET", "/metrics", "").unwrap();
    for (outcome, count) in [("allowed", admitted), ("denied", 1)] {
        let sample =
            format!("limit=\"inline\",outcome=\"{outcome}\",authority=\"store\"}} {count}");
        assert!(metrics.contains(&sample), "{sample}: {metrics}");
    }
    // A rule in shadow mode denies nobody.
    let question = question.replace("path", "user").replace("}]}]", "}], \"hitsAddend\": 101}]");
    for _ in 0..2 {
        let (status, said) = client.ask("POST", "/json", &question).unwrap();
        assert_eq!(status, 200, "{said}");
    }
    let (status, said) = asked_as_envoy(&mut client, "shop", &[("user", "ann")]);
    assert_eq!(status, 200, "{said}");
}

#[test]
fn the_policies_of_the_page_are_what_is_imported() {
    let place = Place::new();
    let rules = file(&place, "shop.yaml", block(PAGE, "yaml", 0)).display().to_string();
    let (code, out, err) = place.run(&["config", "import", "envoy", &rules]);
    assert_eq!(code, 0, "{err}");
    let policy = block(PAGE, "toml", 0);
    assert!(out.contains(policy), "{out}\nhas no\n{policy}");
    assert!(out.contains("shadow = true"), "{out}");
}

#[test]
fn the_metrics_of_the_page_are_those_of_the_service() {
    let words = PAGE.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    let names: Vec<_> = words.filter(|word| word.starts_with("tollgate_")).collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        assert!(METRICS.contains(&format!("`{name}`")), "{name}");
    }
}
