//! Holds, placed, committed, renewed and released; charges without a check, and refunds.

use core::time::Duration;

use super::answer::Answer;
use super::value::{Fields, ToValue as _, Value, objects, written};
use super::wait::Wait;
use crate::engine::{self, ShownHold};
use crate::{ChargedLimit, Cost, Hold, Inspection, LimitSet, Refund, Settled, Subject, Time};

/// An answer, with the hold where one was placed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HoldAnswer<'a> {
    /// The answer, whose fields come first.
    pub answer: Answer<'a>,
    /// The text that settles the hold; `None` on a denial.
    pub hold: Option<String>,
    /// A number that is larger than that of every earlier hold of the count.
    pub fence: Option<u64>,
    /// How long it lasts, unless it is renewed or settled.
    pub ends_after: Option<Wait>,
    /// How many wait in line ahead of this question.
    pub ahead: usize,
}

impl<'a> HoldAnswer<'a> {
    /// An answer, and the hold as who settles it writes it, its fence and its end.
    #[must_use]
    pub fn new(answer: Answer<'a>, hold: Option<(String, u64, Time)>, ahead: usize) -> Self {
        let now_us = answer.at_us;
        let (hold, rest) = hold.map(|(hold, fence, end)| (hold, (fence, end))).unzip();
        let (fence, end) = rest.unzip();
        let ends_after = end.zip(now_us).map(|(end, now_us)| {
            Wait(Duration::from_micros(end.as_micros().saturating_sub(now_us)))
        });
        Self { answer, hold, fence, ends_after, ahead }
    }
}

impl Fields for HoldAnswer<'_> {
    fn count(&self) -> usize {
        self.answer.count() + 4
    }

    fn each<'s>(&'s self, to: &mut dyn FnMut(&'static str, Value<'s>)) {
        self.answer.each(to);
        to("hold", self.hold.to_value());
        to("fence", self.fence.to_value());
        to("ends_after", self.ends_after.to_value());
        to("ahead", self.ahead.to_value());
    }
}

written!(HoldAnswer<'a>);

objects! {
    /// The effect of a commit.
    pub struct Committed<'a> {
        /// Whether it was settled before, and nothing was charged now.
        already: bool,
        /// The amounts charged for the hold, now or before.
        actual: Cost,
        /// The effect on each limit; empty where it was settled before.
        limits: Vec<Charged<'a>>,
    }

    /// The effect of a charge without a check.
    pub struct Charge<'a> {
        /// The amounts that were to be charged.
        cost: Cost,
        /// The effect on each limit; empty where no policy applies.
        limits: Vec<Charged<'a>>,
    }

    /// The effect of a commit or a charge on one limit.
    pub struct Charged<'a> {
        /// The subject, in its written form.
        subject: &'a str,
        /// The policy of the limit; `None` for limits without one.
        policy: Option<&'a str>,
        /// The limit's identity.
        identity: &'a str,
        /// The limit in its full form, or `unlimited`.
        limit: &'a str,
        /// Whether a check would have admitted the units.
        fits: bool,
        /// The units that were not charged, since they exceed the limit's debt.
        cut: u64,
        /// The largest cost in units that the limit would admit now.
        remaining: u64,
        /// The wait until the limit admits the same units: zero for now; `None` if it never does.
        retry_after: Option<Wait>,
        /// The shortest wait until the limit is fresh.
        reset_after: Wait,
    }

    /// The effect of a refund.
    pub struct Refunded {
        /// Whether all of it had been refunded before, of the units that were to be refunded.
        already: bool,
        /// By how many units `remaining` of each limit rose.
        given: Vec<u64>,
        /// The amounts of the charge that can still be refunded.
        left: Cost,
    }

    /// A hold that was renewed.
    pub struct Renewed {
        /// The text that settles it from now on; `None` where the caller knows it by its id.
        hold: Option<String>,
        /// Its fence; `None` as above.
        fence: Option<u64>,
        /// When it ends by itself.
        end_us: u64,
    }

    /// A hold that was given back.
    pub struct Released {
        /// Always true: a hold that is not open is an error.
        released: bool,
    }

    /// An open hold, as an inspection shows it.
    pub struct OpenHold {
        /// The text that settles it: the signed text of a service, or the word of the command line.
        hold: String,
        /// The kind of units that it keeps: `acquire`, `reserve`, or `charging` for a reserve whose
        /// end charges.
        kind: &'static str,
        /// Its cost.
        cost: Cost,
        /// When it ends by itself.
        end_us: u64,
        /// How long ago it was placed; `None` where an earlier version placed it.
        age: Option<Wait>,
    }
}

impl<'a> Committed<'a> {
    /// The effect of settling this hold.
    #[must_use]
    pub fn new(hold: &'a Hold, settled: &'a Settled) -> Self {
        let limits = hold.charged(settled).map(Charged::from).collect();
        Self { already: settled.already, actual: settled.actual.clone(), limits }
    }
}

impl<'a> Charge<'a> {
    /// The effect of a charge of this cost on these counts.
    #[must_use]
    pub fn new(
        cost: impl Into<Cost>,
        counts: impl IntoIterator<Item = (&'a Subject, &'a LimitSet)>,
        charged: &'a [engine::Charged],
    ) -> Self {
        let limits = ChargedLimit::each(counts, charged).map(Charged::from).collect();
        Self { cost: cost.into(), limits }
    }
}

impl<'a> From<ChargedLimit<'a>> for Charged<'a> {
    fn from(done: ChargedLimit<'a>) -> Self {
        let engine::Charged { fits, cut, remaining, .. } = *done.charged;
        Self {
            subject: done.subject.as_str(),
            policy: done.policy,
            identity: done.limit.identity(),
            limit: done.limit.shown(),
            fits,
            cut,
            remaining,
            retry_after: done.charged.retry_after().map(Wait),
            reset_after: Wait(done.charged.reset_after()),
        }
    }
}

impl From<Refund> for Refunded {
    fn from(Refund { already, given, left }: Refund) -> Self {
        Self { already, given, left }
    }
}

impl Renewed {
    /// A hold as who settles it writes it, with its fence, and its end.
    #[must_use]
    pub fn new(hold: Option<(String, u64)>, end: Time) -> Self {
        let (hold, fence) = hold.unzip();
        Self { hold, fence, end_us: end.as_micros() }
    }
}

impl Released {
    /// It was open until now.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is what was done, and no usual value")]
    pub const fn new() -> Self {
        Self { released: true }
    }
}

impl OpenHold {
    /// The first open holds of a count to end, each as `text` writes it.
    #[must_use]
    pub fn each(
        (subject, limits, shard): (&Subject, &LimitSet, Option<&str>),
        held: &Inspection,
        text: impl Fn(&Hold) -> String,
    ) -> Vec<Self> {
        let each = held.holds.iter().map(|ShownHold { hold: open, age_us }| {
            let engine::OpenHold { end_us, id, cost } = open.clone();
            let counts = [(subject.clone(), limits.clone())];
            let mut hold = Hold::new(id, 0, cost.clone(), Time::from_micros(end_us), counts);
            hold.shard = shard.map(str::to_owned);
            let age = age_us.map(|age_us| Wait(Duration::from_micros(age_us)));
            Self { hold: text(&hold), kind: hold.kind().name(), cost, end_us, age }
        });
        each.collect()
    }
}
