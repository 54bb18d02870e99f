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

/// A generator of numbers that are the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
