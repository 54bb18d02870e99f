//! The cost of one request for a server: an owned decision, asked for asynchronously, under limits
//! that were made ready before.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tollgate::{Ask, Cost, Decision, LimitSet, Limiter, Subject, at_once};

use super::sides;

/// The sets that are measured, beside the first. Their rates are such that nothing is denied while
/// a run lasts; `sliding_log` remembers each event of a microsecond.
const SETS: [&str; 14] = [
    "1000000000/h burst 1000000 via gcra",
    "100000000/s via uniform",
    "1000000000/h burst 1000000 via token_bucket",
    "1000000000/s refill interval via token_bucket",
    "1000000000/h via fixed_window",
    "1000000000/h via sliding_window",
    "1000/us via sliding_log",
    "1000000000/h burst 1000000 via gcra, 100000000000/d burst 1000000 via gcra",
    "100000000/m via fixed_window, 1000000000/h via fixed_window",
    "100000000/m via fixed_window, 1000000000/h via fixed_window, 100000000000/d via fixed_window",
    "1000000000/h burst 1000000 via gcra, 1000000000/h via sliding_window",
    "1000000000/h of tokens burst 1000000 via gcra",
    "1000000000/h burst 1000000 via gcra, 100000000000/d of tokens burst 1000000 via gcra",
    "1000000000/month in Europe/Berlin",
];

/// One row: the same limits asked both ways.
#[derive(Debug, Serialize)]
pub(super) struct Owned {
    pub(super) limits: String,
    /// `check(..).now()` with a literal text.
    pub(super) now_ns: f64,
    /// The same, over what it takes under the first set.
    pub(super) now_ratio: f64,
    /// `within` a deadline, with a separate subject, and `into_owned`.
    pub(super) within_ns: f64,
    /// The same, over what `now` takes under the first set.
    pub(super) within_ratio: f64,
}

/// Both ways over one key, all sets in turns.
pub(super) fn measure(calls: u32, runs: u32) -> Result<Vec<Owned>> {
    let sides = SETS.iter().map(|text| Case::new(text)).collect::<Result<Vec<_>>>()?;
    let mut times = vec![(Vec::new(), Vec::new()); sides.len()];
    for _ in 0..runs {
        for (case, (now, within)) in sides.iter().zip(&mut times) {
            now.push(timed(calls, || case.now()));
            within.push(timed(calls, || case.within()));
        }
    }
    let ns = |times: &mut Vec<Duration>| median(times).as_secs_f64() * 1e9 / f64::from(calls);
    let times: Vec<_> = times.iter_mut().map(|(now, within)| (ns(now), ns(within))).collect();
    let first = times.first().map_or(f64::NAN, |(now, _)| *now);
    let rows = SETS.iter().zip(times).map(|(limits, (now_ns, within_ns))| Owned {
        limits: (*limits).to_owned(),
        now_ns,
        now_ratio: now_ns / first,
        within_ns,
        within_ratio: within_ns / first,
    });
    Ok(rows.collect())
}

struct Case {
    limits: LimitSet,
    limiter: Limiter,
    key: String,
    subject: Subject,
    /// One of each unit, if the set counts more than requests.
    cost: Option<Cost>,
}

impl Case {
    fn new(text: &str) -> Result<Self> {
        let limits: LimitSet = text.parse()?;
        let (limiter, key) = (Limiter::memory(limits.clone()), sides::key(1));
        let subject = Subject::literal(&key)?;
        let each = limits.limits().iter().map(|limit| (limit.unit().name(), 1));
        let cost = if limits.is_plain() { None } else { Some(Cost::new(each)?) };
        Ok(Self { limits, limiter, key, subject, cost })
    }

    fn now(&self) -> bool {
        let ask = Ask::new(black_box(&*self.key)).under(&self.limits);
        match &self.cost {
            None => looked_at(self.limiter.check(ask).now()),
            Some(cost) => looked_at(self.limiter.check(ask.cost(black_box(cost).clone())).now()),
        }
    }

    fn within(&self) -> bool {
        let ask = Ask::new(black_box(&self.subject).clone()).under(black_box(&self.limits));
        let ask = ask.within(Duration::from_millis(50));
        match &self.cost {
            None => at_once(self.limiter.check(ask)).is_some_and(lasting),
            Some(cost) => {
                let ask = ask.cost(black_box(cost).clone());
                at_once(self.limiter.check(ask)).is_some_and(lasting)
            }
        }
    }
}

fn looked_at(answer: Result<Decision<'_>, tollgate::Error>) -> bool {
    answer.is_ok_and(|decision| {
        black_box(decision.remaining());
        decision.is_allowed()
    })
}

fn lasting(answer: Result<Decision<'_>, tollgate::Error>) -> bool {
    answer.is_ok_and(|decision| black_box(decision.into_owned()).is_allowed())
}

fn timed(calls: u32, call: impl Fn() -> bool) -> Duration {
    let from = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    from.elapsed()
}

pub(super) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_measured_and_admits() {
        assert_eq!(measure(100, 1).unwrap().len(), SETS.len());
        for limits in SETS {
            let case = Case::new(limits).unwrap();
            assert!(case.now() && case.within(), "{limits}");
        }
    }
}
