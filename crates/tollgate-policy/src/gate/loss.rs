//! The store's loss, and its return: one line of the log for each, however many are answered by
//! failure rules meanwhile. Whatever asks a gate tells it: the service, a layer, a program.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use parking_lot::Mutex;
use tollgate::Error;

use super::answer::{Authority, Outcome};

/// How long the store must have answered before it is back: one late answer among many would else
/// be two lines.
const CALM: Duration = Duration::from_secs(1);

/// Whether the store answers, and what became of questions while it did not.
#[derive(Debug, Default)]
pub(super) struct Loss {
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
    /// Sees the answer to a question.
    #[inline]
    pub(super) fn see(&self, outcome: Outcome, authority: Authority, error: Option<&Error>) {
        match authority {
            Authority::FailureRule => self.failed(outcome, error),
            Authority::Store if self.is_lost.load(Ordering::Relaxed) => self.answered(),
            _ => {}
        }
    }

    #[cold]
    fn failed(&self, outcome: Outcome, error: Option<&Error>) {
        let now = Instant::now();
        let mut lost = self.lost.lock();
        let lost = lost.get_or_insert_with(|| {
            self.is_lost.store(true, Ordering::Relaxed);
            let why = error.map(ToString::to_string).unwrap_or_default();
            tracing::warn!(
                target: "tollgate",
                "the store does not answer, and failure rules do in its place: {why}"
            );
            Lost { since: now, last: now, allowed: 0, denied: 0 }
        });
        lost.last = now;
        let counted = if outcome.admits() { &mut lost.allowed } else { &mut lost.denied };
        *counted += 1;
    }

    #[cold]
    fn answered(&self) {
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
            "the store answers again, after {:?}: failure rules let {allowed} pass and denied {denied}",
            Duration::from_secs(since.elapsed().as_secs())
        );
    }
}
