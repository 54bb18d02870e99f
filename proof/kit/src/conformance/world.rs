//! A store under test with its clock, and helpers for the cases.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tollgate::engine::ShownHold;
use tollgate::{
    Adjustment, Anchor, Ask, Clock, Cost, Decision, Inspection, Limit, LimitSet, Limiter,
    ManualClock, Quota, Receipt, Refill, Refund, Rounding, SKEW_US, Strategy, Time,
};

use super::StoreMaker;
use crate::Random;
use crate::oracle::{self, Charged, Fields, Oracle, OracleAnswer, Rule};

/// A time far from zero, so that a clock can step back.
pub(super) const START_US: u64 = 1_763_632_000_000;

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread, without a runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

/// The oracle's rule of a limit, read from its quota. None for a strategy that the oracle does
/// not know.
#[must_use]
pub fn rule_of(limit: &Limit) -> Option<Rule> {
    let Quota { units, period, burst, precision, rounding, refill, anchor, .. } = *limit.quota();
    let (n, d_us) = (units, period.as_micros());
    let burst = burst.unwrap_or(units);
    if let Some(calendar) = &limit.quota().calendar {
        let edges = oracle::edges_of(&calendar.to_string())?;
        return Some(Rule::Dates { n, d_us, edges });
    }
    Some(match limit.strategy() {
        Strategy::Uniform => Rule::Greedy { n, d_us, burst: 1 },
        Strategy::TokenBucket if refill == Some(Refill::Interval) => {
            Rule::Interval { n, d_us, burst }
        }
        Strategy::Gcra | Strategy::TokenBucket => Rule::Greedy { n, d_us, burst },
        Strategy::FixedWindow if anchor == Some(Anchor::FirstHit) => {
            Rule::FixedFirstHit { n, d_us }
        }
        Strategy::FixedWindow => Rule::FixedEpoch { n, d_us },
        Strategy::SlidingLog => Rule::Log { n, d_us },
        Strategy::SlidingWindow => Rule::Window {
            n,
            d_us,
            precision_us: precision?.as_micros(),
            rounding: match rounding? {
                Rounding::Interpolate => oracle::Rounding::Interpolate,
                Rounding::Truncate => oracle::Rounding::Truncate,
                _ => oracle::Rounding::Conservative,
            },
        },
        _ => return None,
    })
}

/// The oracle of a limit, with its debt.
pub(super) fn oracle_of(limit: &Limit) -> Oracle {
    let oracle = Oracle::new(rule_of(limit).expect("a rule")).expect("a rule that is accepted");
    oracle.with_debt(limit.debt()).expect("a debt that is accepted")
}

/// A fresh store on a separate clock.
pub(super) struct World<S> {
    pub(super) clock: ManualClock,
    pub(super) limiter: Limiter<S>,
}

impl<S: tollgate::Store> World<S> {
    /// A store at `now_us` under `limits`.
    pub(super) fn new<M: StoreMaker<Store = S>>(maker: &M, limits: &str, now_us: u64) -> Self {
        let clock = ManualClock::at_micros(now_us);
        let store = maker.make(clock.clone());
        Self { limiter: Limiter::new(set(limits), store), clock }
    }

    pub(super) fn at(&self, now_us: u64) {
        self.clock.set(Time::from_micros(now_us));
    }

    pub(super) fn now_us(&self) -> u64 {
        self.clock.now().as_micros()
    }

    pub(super) fn check<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Decision<'l> {
        block_on(self.limiter.check(ask)).expect("the store answers")
    }

    pub(super) fn peek<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Decision<'l> {
        block_on(self.limiter.check(ask.into().peek())).expect("the store answers")
    }

    pub(super) fn refund_part(&self, receipt: &Receipt, units: impl Into<Cost>) -> Refund {
        block_on(self.limiter.refund(receipt.part(units))).expect("the store answers")
    }

    pub(super) fn refund(&self, receipt: &Receipt) -> Refund {
        block_on(self.limiter.refund(receipt)).expect("the store answers")
    }

    pub(super) fn adjust<'l>(
        &'l self,
        ask: impl Into<Ask<'l>>,
        by: impl Into<Adjustment>,
    ) -> Vec<i64> {
        block_on(self.limiter.admin().adjust(ask, by)).expect("the store answers")
    }

    /// Charges without a check under one limit.
    pub(super) fn charge<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Charged {
        self.charge_each(ask)[0]
    }

    /// The same under several, in declared order.
    pub(super) fn charge_each<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Vec<Charged> {
        let each = block_on(self.limiter.charge(ask)).expect("the store answers");
        each.iter().map(charged).collect()
    }

    pub(super) fn reset<'l>(&'l self, ask: impl Into<Ask<'l>>) -> bool {
        block_on(self.limiter.admin().reset(ask)).expect("the store answers")
    }

    /// The open holds that an inspection shows: when each ends, its cost, and its age, in
    /// microseconds. They are in order.
    pub(super) fn shown<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Vec<(u64, u64, u64)> {
        let held = self.inspect(ask).map(|held| held.holds).unwrap_or_default();
        let each = held.iter().map(|ShownHold { hold, age_us }| {
            (
                hold.end_us,
                hold.cost.plain().expect("requests alone"),
                age_us.expect("this version placed it"),
            )
        });
        let mut each: Vec<_> = each.collect();
        each.sort_unstable();
        each
    }

    pub(super) fn inspect<'l>(&'l self, ask: impl Into<Ask<'l>>) -> Option<Inspection> {
        block_on(self.limiter.admin().inspect(ask)).expect("the store answers")
    }
}

/// Limits of the kit's own: they parse.
pub(super) fn set(text: &str) -> LimitSet {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// The fields of a decision's `index`th limit, as the oracle writes them.
pub(super) fn fields(decision: &Decision<'_>, index: usize) -> Fields {
    let report = decision.reports().nth(index).expect("one report per limit");
    let micros = |wait: std::time::Duration| u64::try_from(wait.as_micros()).unwrap();
    Fields {
        remaining: report.remaining(),
        retry_after_us: report.retry_after().map(micros),
        reset_after_us: micros(report.reset_after()),
    }
}

/// The effect of a charge without a check on a limit, as the oracle writes it.
pub(super) fn charged(charged: &tollgate::Charged) -> Charged {
    let tollgate::Charged { fits, cut, remaining, retry_after_us, reset_after_us, .. } = *charged;
    Charged { fits, cut, fields: Fields { remaining, retry_after_us, reset_after_us } }
}

/// The time at which a history of one count goes on, where its clock steps back now and then: to a
/// time at which every store still agrees with the oracle. `all_count` says whether all of the
/// count matters at a time.
pub(super) fn stepped_back(
    random: &mut Random,
    now_us: u64,
    latest_us: &mut u64,
    all_count: impl FnOnce(u64) -> bool,
) -> u64 {
    if random.below(8) == 0 {
        // A store may forget what is fresh for a second: so far back it still agrees.
        return (*latest_us).max(now_us) - random.below(SKEW_US + 1);
    }
    // And so it does at any distance from a time at which all of it still counted.
    if random.below(12) == 0 && all_count(*latest_us) {
        *latest_us -= random.below(20_000_000);
        return *latest_us;
    }
    now_us
}

/// A decision over one limit, as the oracle writes it.
pub(super) fn answer(decision: &Decision<'_>, peek: bool) -> OracleAnswer {
    OracleAnswer {
        admitted: decision.is_allowed(),
        granted: if peek { 0 } else { decision.granted() },
        fields: fields(decision, 0),
    }
}

/// One limit of every strategy and option, with numbers small enough to reach every branch.
pub const SMALL: [&str; 25] = [
    "1/7ms via uniform",
    "3/10us via uniform",
    "5/3s via uniform",
    "5/10s via gcra",
    "7/3s burst 3 via gcra",
    "3/10us burst 7 via gcra",
    "2/3us burst 5 via gcra",
    "10/1s burst 4 refill greedy via token_bucket",
    "5/3s burst 5 refill interval via token_bucket",
    "2/5s burst 7 refill interval via token_bucket",
    "9/4s burst 3 refill interval via token_bucket",
    "4/9s burst 5 debt 1 via gcra",
    "4/5s burst 6 debt 0 refill interval via token_bucket",
    "5/10s via fixed_window",
    "4/300ms via fixed_window",
    "5/day in Europe/Berlin via fixed_window",
    "5/10s anchor first-hit via fixed_window",
    "3/700ms anchor first-hit via fixed_window",
    "5/10s via sliding_log",
    "5/10s debt 2 via sliding_log",
    "7/400ms via sliding_log",
    "6/10s precision 1s via sliding_window",
    "6/10s precision 2500ms rounding interpolate via sliding_window",
    "9/900ms precision 100ms rounding interpolate via sliding_window",
    "5/6s precision 2s rounding truncate via sliding_window",
];
