//! What a server pays for one request: a decision that lasts, asked for asynchronously, under
//! limits that were made ready before.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tollgate::{Ask, LimitSet, Limiter, Subject};

use super::{median, sides};

/// The sets that are measured. Their rates are such that nothing is denied while a run lasts.
const SETS: [&str; 4] = [
    "1000000000/h burst 1000000 via gcra",
    "1000000000/h via fixed_window",
    "1000000000/h burst 1000000 via gcra, 100000000000/d burst 1000000 via gcra",
    "100000000/m via fixed_window, 1000000000/h via fixed_window, 100000000000/d via fixed_window",
];

/// One row: the same limits asked both ways.
#[derive(Debug, Serialize)]
pub(super) struct Owned {
    pub(super) limits: String,
    /// `check_now` with a literal text.
    pub(super) check_now_ns: f64,
    /// `check_within` with a subject of its own, and `into_owned`.
    pub(super) check_within_ns: f64,
}

/// Both ways over one key, in turns.
pub(super) fn measure(calls: u32, runs: u32) -> Result<Vec<Owned>> {
    SETS.into_iter().map(|limits| row(limits, calls, runs)).collect()
}

fn row(text: &str, calls: u32, runs: u32) -> Result<Owned> {
    let limits: LimitSet = text.parse()?;
    let limiter = Limiter::memory(limits.clone());
    let key = sides::key(1);
    let subject = Subject::literal(&key)?;
    let (mut literal, mut owned) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        literal.push(timed(calls, || {
            let decision = limiter.check_now(Ask::new(black_box(&*key)).under(&limits));
            decision.is_ok_and(|decision| {
                black_box(decision.remaining());
                decision.is_allowed()
            })
        }));
        owned.push(timed(calls, || {
            let ask = Ask::new(black_box(&subject).clone()).under(black_box(&limits));
            let decision = limiter.check_within(Duration::from_millis(50), ask);
            ready(decision).is_some_and(|decision| {
                decision.is_ok_and(|decision| black_box(decision.into_owned()).is_allowed())
            })
        }));
    }
    let ns = |times: &mut Vec<Duration>| median(times).as_secs_f64() * 1e9 / f64::from(calls);
    let (check_now_ns, check_within_ns) = (ns(&mut literal), ns(&mut owned));
    Ok(Owned { limits: text.to_owned(), check_now_ns, check_within_ns })
}

fn timed(calls: u32, call: impl Fn() -> bool) -> Duration {
    let from = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    from.elapsed()
}

/// What a future answers that need not wait. Not an executor: its own work would be measured.
fn ready<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_measured_and_admits() {
        assert_eq!(measure(100, 1).unwrap().len(), SETS.len());
        for limits in SETS {
            let limiter = Limiter::memory(limits.parse().unwrap());
            let decision = ready(limiter.check("bob")).unwrap().unwrap();
            assert!(decision.is_allowed(), "{limits}");
        }
    }
}
