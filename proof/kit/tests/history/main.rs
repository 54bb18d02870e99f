//! The history checker: its verdicts by example, beside an exhaustive search, and its speed.
#![allow(clippy::unwrap_used)] // tests may unwrap

mod examples;
mod exhaustive;
mod holds;
mod holds_recorded;
mod large;
mod leased;
mod page;
mod sound;

use tollgate_proof::history::{Bounds, Call, History, Promise, Report, Verdict, check};

/// Checks lines of the text form.
fn report(text: &str) -> Report {
    report_with(text, &Bounds::default())
}

fn report_with(text: &str, bounds: &Bounds) -> Report {
    let history: History = text.parse().unwrap_or_else(|e| panic!("{e}"));
    check(&history, bounds)
}

/// The ids of the part that shows that a promise was broken.
fn shown(report: &Report, promise: Promise) -> Vec<u64> {
    let finding = report.findings().iter().find(|finding| finding.promise == promise).unwrap();
    assert_eq!(finding.verdict, Verdict::Broken, "{report}");
    let queue = finding.part.queue.iter().map(|call| call.id);
    finding.part.calls.iter().map(|call| call.id).chain(queue).collect()
}
