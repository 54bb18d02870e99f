//! The report of a check of a history.

use std::fmt;

use super::record::History;

/// The promises that a history is checked for.
#[allow(clippy::exhaustive_enums, reason = "a report has each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// P1: no interval has more admitted than the strategy's bound, and the excess that the faults
    /// allow.
    Bound,
    /// P3: a denied call charges nothing.
    DenialsFree,
    /// P4: over several limits all are charged, or none.
    AllOrNothing,
    /// P5 and P6: each decision is that of the definitions, with `remaining` and `retry_after`.
    Exact,
    /// P8: a call is charged at most once, and so are all calls of one request id.
    ChargedOnce,
    /// The store's time follows real time: a call that returned before another began came first.
    Order,
    /// P14: a queue never exceeds its bound, is first in first out, and loses no accepted job.
    Queue,
    /// Holds: never more slots than there are, never more used and held than the limit admits, each
    /// hold settled once, and its end judged at its time.
    Holds,
}

impl Promise {
    /// All, in the order of a report.
    pub const ALL: [Self; 8] = [
        Self::Bound,
        Self::DenialsFree,
        Self::AllOrNothing,
        Self::Exact,
        Self::ChargedOnce,
        Self::Order,
        Self::Queue,
        Self::Holds,
    ];

    /// The name with its number.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bound => "P1 bound",
            Self::DenialsFree => "P3 denials are free",
            Self::AllOrNothing => "P4 all or nothing",
            Self::Exact => "P5, P6 exact answers",
            Self::ChargedOnce => "P8 charged once",
            Self::Order => "order in real time",
            Self::Queue => "P14 queue",
            Self::Holds => "holds",
        }
    }
}

/// Whether a promise held.
#[allow(clippy::exhaustive_enums, reason = "there are three")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It held in everything that was checked.
    Held,
    /// The history does not decide it.
    Unknown,
    /// It was broken.
    Broken,
}

/// The part of an answer that is wrong.
#[allow(clippy::exhaustive_enums, reason = "an answer has these parts")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wrong {
    /// Whether it was admitted, for now or for ever.
    Decision,
    /// The remaining units.
    Remaining,
    /// The wait.
    Wait,
}

/// The finding about one promise.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which promise.
    pub promise: Promise,
    /// Whether it held.
    pub verdict: Verdict,
    /// How many places of the history were decided: calls, or charges that would have shown.
    pub checked: u64,
    /// How many places there were.
    pub places: u64,
    /// The violation, or the reason why it is not decided. Empty when it held.
    pub reason: String,
    /// Of [`Promise::Exact`], the part of the answer that is wrong, where one answer shows it.
    pub wrong: Option<Wrong>,
    /// On [`Verdict::Broken`], the smallest part that shows it.
    pub part: History,
}

impl Finding {
    pub(super) fn none(promise: Promise) -> Self {
        Self {
            promise,
            verdict: Verdict::Held,
            checked: 0,
            places: 0,
            reason: String::new(),
            wrong: None,
            part: History::default(),
        }
    }

    /// The worse verdict wins, and the first reason for it.
    pub(super) fn worsen(&mut self, verdict: Verdict, reason: impl FnOnce() -> String) -> bool {
        let worse = verdict > self.verdict;
        if worse {
            self.verdict = verdict;
            self.reason = reason();
        }
        worse
    }

    pub(super) fn count(&mut self, checked: u64, places: u64) {
        self.checked += checked;
        self.places += places;
    }
}

/// The findings of all promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new() -> Self {
        Self { findings: Promise::ALL.map(Finding::none).into() }
    }

    /// One finding for each promise, in the order of [`Promise::ALL`].
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The verdict about a promise.
    #[must_use]
    pub fn verdict(&self, promise: Promise) -> Verdict {
        let found = self.findings.iter().find(|finding| finding.promise == promise);
        found.map_or(Verdict::Unknown, |finding| finding.verdict)
    }

    /// The promises that were broken.
    #[must_use]
    pub fn broken(&self) -> Vec<Promise> {
        let broken = self.findings.iter().filter(|finding| finding.verdict == Verdict::Broken);
        broken.map(|finding| finding.promise).collect()
    }

    pub(super) fn of(&mut self, promise: Promise) -> Option<&mut Finding> {
        self.findings.iter_mut().find(|finding| finding.promise == promise)
    }

    pub(super) fn count(&mut self, promise: Promise, checked: u64, places: u64) {
        if let Some(finding) = self.of(promise) {
            finding.count(checked, places);
        }
    }

    /// Records a worse verdict, with the part that shows it.
    pub(super) fn worsen(
        &mut self,
        promise: Promise,
        verdict: Verdict,
        reason: &str,
        part: impl FnOnce() -> History,
    ) {
        if let Some(finding) = self.of(promise)
            && finding.worsen(verdict, || reason.to_owned())
        {
            finding.part = part();
        }
    }

    /// Records which part of an answer is wrong: that of the finding that stands.
    pub(super) fn answer_is_wrong(&mut self, wrong: Wrong) {
        if let Some(finding) = self.of(Promise::Exact) {
            finding.wrong.get_or_insert(wrong);
        }
    }

    /// A promise without any check does not count as kept.
    pub(super) fn close(&mut self) {
        for finding in &mut self.findings {
            if finding.checked == 0 {
                finding.worsen(Verdict::Unknown, || "nothing in the history shows it".to_owned());
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::Unknown => "unknown",
            Self::Broken => "broken",
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let Finding { promise, verdict, checked, places, reason, part, .. } = finding;
            writeln!(f, "{:<22} {verdict:<8} {checked} of {places} checked", promise.name())?;
            if !reason.is_empty() {
                writeln!(f, "  {reason}")?;
            }
            for line in part.to_string().lines() {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}
