//! The loss of something that is asked for each request, and its return: one line of the log for
//! each, however many are answered by failure rules meanwhile. Whatever asks a gate tells it: the
//! service, a layer, a program.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use parking_lot::Mutex;
use tollgate::Error;

use crate::outcome::{Authority, Outcome};

/// How long it must have answered before it is back: one late answer among many would else be two
/// lines.
const CALM: Duration = Duration::from_secs(1);

/// Whether something answers that each request needs, as a store, and what became of requests while
/// it did not. A [`Gate`](super::Gate) has one for its store.
#[derive(Debug)]
pub struct Loss {
    what: &'static str,
    /// Looked at with each answer.
    is_lost: AtomicBool,
    lost: Mutex<Option<Lost>>,
}

#[derive(Debug)]
struct Lost {
    since: Instant,
    last: Instant,
    allowed: u64,
    denied: u64,
}

impl Loss {
    /// The loss of `what`, as the log calls it: `the store`.
    #[must_use]
    pub const fn new(what: &'static str) -> Self {
        Self { what, is_lost: AtomicBool::new(false), lost: Mutex::new(None) }
    }

    /// It failed, and the failure rule answered.
    #[cold]
    pub fn failed(&self, allowed: bool, why: &dyn fmt::Display) {
        let now = Instant::now();
        let mut lost = self.lost.lock();
        let lost = lost.get_or_insert_with(|| {
            self.is_lost.store(true, Ordering::Relaxed);
            tracing::warn!(
                target: "tollgate",
                "{} does not answer, and failure rules do in its place: {why}",
                self.what
            );
            Lost { since: now, last: now, allowed: 0, denied: 0 }
        });
        lost.last = now;
        let counted = if allowed { &mut lost.allowed } else { &mut lost.denied };
        *counted += 1;
    }

    /// It answered.
    #[inline]
    pub fn answered(&self) {
        if self.is_lost.load(Ordering::Relaxed) {
            self.answered_again();
        }
    }

    #[cold]
    fn answered_again(&self) {
        let mut lost = self.lost.lock();
        let Some(Lost { since, allowed, denied, .. }) =
            lost.take_if(|lost| lost.last.elapsed() >= CALM)
        else {
            return;
        };
        self.is_lost.store(false, Ordering::Relaxed);
        tracing::warn!(
            target: "tollgate",
            allowed,
            denied,
            "{} answers again, after {:?}: failure rules let {allowed} pass and denied {denied}",
            self.what,
            Duration::from_secs(since.elapsed().as_secs())
        );
    }

    /// Sees the answer to a question to a store.
    #[inline]
    pub(super) fn see(&self, outcome: Outcome, authority: Authority, error: Option<&Error>) {
        match (authority, error) {
            (Authority::Store, _) => self.answered(),
            // A question that makes no sense and a state that is damaged say nothing of others.
            (Authority::FailureRule, Some(Error::Store(error))) if !error.is_alone() => {
                self.failed(outcome.admits(), error);
            }
            _ => {}
        }
    }
}
