//! The alerts of the examples: they ask for what there is, say what to do, and are tested.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::common::promtool;
use crate::reading::{Named, everything, file};

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Alert>,
}

#[derive(Deserialize)]
struct Alert {
    alert: String,
    expr: String,
    r#for: String,
    labels: Labels,
    annotations: Annotations,
}

#[derive(Deserialize)]
struct Labels {
    severity: String,
}

#[derive(Deserialize)]
struct Annotations {
    summary: String,
    description: String,
    runbook: String,
}

fn read(name: &str) -> String {
    std::fs::read_to_string(file(&format!("examples/prometheus/{name}"))).unwrap()
}

fn alerts() -> Vec<Alert> {
    let rules: Rules = serde_saphyr::from_str(&read("alerts.yaml")).unwrap();
    rules.groups.into_iter().flat_map(|group| group.rules).collect()
}

/// The anchor that a heading has on pages of GitHub and its like.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

#[tokio::test]
async fn every_alert_asks_for_what_there_is_and_says_what_to_do() {
    let Some(mut there) = everything().await else { return };
    // Prometheus' own.
    there.insert("up".to_owned(), BTreeSet::new());
    let page = std::fs::read_to_string(file("docs/metrics.md")).unwrap();
    for alert in alerts() {
        let Alert { alert: name, expr, r#for, labels, annotations } = alert;
        Named::read(&expr).exists(&expr, &there);
        assert!(r#for.ends_with('m'), "{name}: {}", r#for);
        assert!(["critical", "warning"].contains(&labels.severity.as_str()), "{name}");
        let Annotations { summary, description, runbook } = annotations;
        assert!(!summary.is_empty() && description.ends_with('.'), "{name}");
        let (path, wanted) = runbook.split_once('#').unwrap_or((&runbook, ""));
        let text = std::fs::read_to_string(file(path)).unwrap_or_else(|_| panic!("{name}: {path}"));
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        let is_there = headings.any(|it| anchor(it.trim_start_matches('#').trim()) == wanted);
        assert!(wanted.is_empty() || is_there, "{name}: {runbook}");
        assert!(page.contains(&format!("| `{name}` |")), "docs/metrics.md does not name {name}");
    }
}

/// Prometheus evaluates them in its own tests, where it is installed.
#[test]
fn every_alert_fires_in_a_test() {
    let tests = read("alerts_test.yaml");
    for Alert { alert, .. } in alerts() {
        assert!(tests.contains(&format!("{{alertname=\"{alert}\"}}")), "no test has {alert} fire");
    }
    let path = |name: &str| file(&format!("examples/prometheus/{name}")).display().to_string();
    promtool(&["check", "rules", &path("alerts.yaml")], "");
    promtool(&["test", "rules", &path("alerts_test.yaml")], "");
}
