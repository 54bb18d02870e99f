//! The verdicts of a judgement: for each promise, and for each kind of traffic.

use crate::history::{History, Promise, Verdict, Wrong};

/// A question that a judgement answers.
#[allow(clippy::exhaustive_enums, reason = "a report has each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// Whether more was admitted in an interval than the limit allows.
    Bound,
    /// Whether each question was admitted or denied as it must be.
    Decisions,
    /// Whether a denial charged something.
    Denials,
    /// Whether a check of several limits charged all of them or none.
    AllOrNothing,
    /// Whether a question was charged twice.
    Once,
    /// Whether told waits were too short or too long.
    Waits,
    /// Whether the told remaining units were there.
    Remaining,
    /// Whether the limiter's time follows real time.
    Order,
}

impl Area {
    /// All, in the order of a report.
    pub const ALL: [Self; 8] = [
        Self::Bound,
        Self::Decisions,
        Self::Denials,
        Self::AllOrNothing,
        Self::Once,
        Self::Waits,
        Self::Remaining,
        Self::Order,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Decisions => "decisions",
            Self::Denials => "denials are free",
            Self::AllOrNothing => "all or nothing",
            Self::Once => "charged once",
            Self::Waits => "waits",
            Self::Remaining => "remaining",
            Self::Order => "order in time",
        }
    }

    /// The area of a promise of the history checker, and of the part of an answer that is wrong.
    pub(super) fn of(promise: Promise, wrong: Option<Wrong>) -> Option<Self> {
        Some(match (promise, wrong) {
            (Promise::Bound, _) => Self::Bound,
            (Promise::DenialsFree, _) => Self::Denials,
            (Promise::AllOrNothing, _) => Self::AllOrNothing,
            (Promise::ChargedOnce, _) => Self::Once,
            (Promise::Order, _) => Self::Order,
            (Promise::Exact, Some(Wrong::Remaining)) => Self::Remaining,
            (Promise::Exact, Some(Wrong::Wait)) => Self::Waits,
            (Promise::Exact, _) => Self::Decisions,
            (Promise::Queue | Promise::Holds, _) => return None,
        })
    }
}

/// The finding about one area.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Which area.
    pub area: Area,
    /// Whether the promise was kept.
    pub verdict: Verdict,
    /// How many answers were decided.
    pub checked: u64,
    /// The traffic that showed it, where it is broken.
    pub traffic: Option<&'static str>,
    /// The violation, or the reason why it is not decided. Empty when it was kept.
    pub reason: String,
    /// The smallest history that was found to show it.
    pub part: History,
}

impl Judged {
    pub(super) fn new(area: Area) -> Self {
        Self {
            area,
            verdict: Verdict::Held,
            checked: 0,
            traffic: None,
            reason: String::new(),
            part: History::default(),
        }
    }

    pub(super) fn broken(area: Area, reason: String, part: History) -> Self {
        Self { verdict: Verdict::Broken, checked: 1, reason, part, ..Self::new(area) }
    }

    /// Takes a finding about the same area: a broken one stands, and of two the shorter.
    pub(super) fn join(&mut self, other: Self, traffic: &'static str) {
        self.checked += other.checked;
        let broken = other.verdict == Verdict::Broken;
        let shorter = other.part.calls.len() < self.part.calls.len();
        if broken && (self.verdict != Verdict::Broken || shorter) {
            *self = Self { checked: self.checked, traffic: Some(traffic), ..other };
        }
    }
}

/// The answers to one kind of traffic.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Its name.
    pub name: &'static str,
    /// How many questions were asked.
    pub asked: u64,
    /// How many were allowed.
    pub allowed: u64,
    /// How many were denied.
    pub denied: u64,
    /// How many got no decision: errors, and replies that were lost.
    pub undecided: u64,
    /// The areas that were broken in it.
    pub broken: Vec<Area>,
}

/// The most that was admitted beside a limit.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MostAdmitted {
    /// The limit, as text.
    pub limit: String,
    /// Its units.
    pub units: u64,
    /// Its period, in microseconds.
    pub period_us: u64,
    /// The most units of one subject that were surely admitted within one period.
    pub admitted: u64,
    /// The traffic that showed it.
    pub traffic: &'static str,
}

/// The result of a judgement.
#[allow(clippy::exhaustive_structs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The finding about each area, in the order of [`Area::ALL`].
    pub judged: Vec<Judged>,
    /// Each kind of traffic.
    pub traffic: Vec<Traffic>,
    /// The most that was admitted, for each limit.
    pub most: Vec<MostAdmitted>,
    /// All that was not asked or not decided, and why.
    pub open: Vec<String>,
    /// The questions of the flood, and how long it took in microseconds, where there was one.
    pub flood: Option<(u64, u64)>,
}

impl Judgement {
    /// The areas that are broken.
    #[must_use]
    pub fn broken(&self) -> Vec<Area> {
        let broken = self.judged.iter().filter(|judged| judged.verdict == Verdict::Broken);
        broken.map(|judged| judged.area).collect()
    }

    /// Whether anything was decided at all.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.judged.iter().any(|judged| judged.checked > 0)
    }
}
