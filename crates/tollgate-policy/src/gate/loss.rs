//! Detects when a dependency of every request, such as the store, is lost and when it is back. Each
//! is one log line, however many requests the failure rules decide meanwhile. Every caller of a
//! gate reports to it: the service, a layer, a program.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use parking_lot::Mutex;
use tollgate::Error;

use crate::outcome::{Authority, Outcome};

/// How long the dependency must answer before it counts as back: otherwise one late answer among
/// many would cause two log lines.
const CALM: Duration = Duration::from_secs(1);

/// Whether a dependency of every request answers, and the outcomes of requests while it did not. A
/// [`Gate`](super::Gate) has one for its store.
#[derive(Debug)]
pub struct Loss {
    what: &'static str,
    /// Read with each answer.
    is_lost: AtomicBool,
    lost: Mutex<Option<Lost>>,
}

#[derive(Debug)]
struct Lost {
    since: Instant,
    last: Instant,
    by_rules: Decided,
    by_shares: Decided,
}

/// How many requests were decided in place of the dependency.
#[derive(Debug, Default)]
struct Decided {
    allowed: u64,
    denied: u64,
}

impl Loss {
    /// The loss of `what`, the name in log lines, such as `the store`.
    #[must_use]
    pub const fn new(what: &'static str) -> Self {
        Self { what, is_lost: AtomicBool::new(false), lost: Mutex::new(None) }
    }

    /// Records a failure that the failure rule decided.
    pub fn failed(&self, allowed: bool, why: &dyn fmt::Display) {
        self.decided(Authority::FailureRule, allowed, why);
    }

    #[cold]
    fn decided(&self, by: Authority, allowed: bool, why: &dyn fmt::Display) {
        let now = Instant::now();
        let mut lost = self.lost.lock();
        let lost = lost.get_or_insert_with(|| {
            self.is_lost.store(true, Ordering::Relaxed);
            tracing::warn!(
                target: "tollgate",
                "{} does not answer, and failure rules do in its place: {why}",
                self.what
            );
            let (by_rules, by_shares) = (Decided::default(), Decided::default());
            Lost { since: now, last: now, by_rules, by_shares }
        });
        lost.last = now;
        let decided = match by {
            Authority::LocalShare => &mut lost.by_shares,
            _ => &mut lost.by_rules,
        };
        decided.allowed += u64::from(allowed);
        decided.denied += u64::from(!allowed);
    }

    /// Records an answer.
    #[inline]
    pub fn answered(&self) {
        if self.is_lost.load(Ordering::Relaxed) {
            self.answered_again();
        }
    }

    #[cold]
    fn answered_again(&self) {
        let mut lost = self.lost.lock();
        let Some(Lost { since, by_rules, by_shares, .. }) =
            lost.take_if(|lost| lost.last.elapsed() >= CALM)
        else {
            return;
        };
        self.is_lost.store(false, Ordering::Relaxed);
        let Decided { allowed, denied } = by_rules;
        let (allowed_by_shares, denied_by_shares) = (by_shares.allowed, by_shares.denied);
        let shares = match allowed_by_shares + denied_by_shares {
            0 => String::new(),
            _ => {
                format!(", local shares let {allowed_by_shares} pass and denied {denied_by_shares}")
            }
        };
        tracing::warn!(
            target: "tollgate",
            allowed,
            denied,
            allowed_by_shares,
            denied_by_shares,
            "{} answers again, after {:?}: failure rules let {allowed} pass and denied {denied}{shares}",
            self.what,
            Duration::from_secs(since.elapsed().as_secs())
        );
    }

    /// Records the result of a store call.
    #[inline]
    pub(super) fn see(&self, outcome: Outcome, authority: Authority, error: Option<&Error>) {
        match (authority, error) {
            (Authority::Store, _) => self.answered(),
            // An invalid question and a damaged state do not affect other questions.
            (by, Some(Error::Store(error))) if by.is_in_place_of_store() && !error.is_alone() => {
                self.decided(by, outcome.admits(), error);
            }
            _ => {}
        }
    }
}
