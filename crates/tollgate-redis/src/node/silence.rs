//! How long a server has answered nothing while a call waited for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The evidence of a call about the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It answered, even if with an error.
    Answered,
    /// It did not answer in time, or could not be reached.
    Silent,
    /// Neither: the connection broke, or the call was dropped or never sent.
    Unclear,
}

/// The bits of a word that count the waiting calls: more than all connections may carry.
const COUNT_BITS: u32 = 26;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// The silence of a server. It takes no lock.
///
/// It begins with a call when no other waits, starts again with each answer, and lasts while calls
/// wait. It also lasts from a call that failed without an answer to the next one, unless that comes
/// so late that the time in between was idle.
#[derive(Debug)]
pub(super) struct Silence {
    /// The instant from which milliseconds are counted.
    base: Instant,
    /// The number of waiting calls, and above it the milliseconds at which the silence began.
    word: AtomicU64,
    /// One more than the milliseconds at which a call last failed without an answer; 0 after an
    /// answer.
    failed: AtomicU64,
}

impl Silence {
    pub(super) fn new(base: Instant) -> Self {
        Self { base, word: AtomicU64::new(0), failed: AtomicU64::new(0) }
    }

    /// Begins a call, unless the silence has lasted for `longest`. Returns whether it began.
    pub(super) fn begin(&self, now: Instant, longest: Duration) -> bool {
        let (now, longest) = (self.ms(now), in_ms(longest).max(1));
        self.change(|count, since| {
            let since = if self.is_idle(count, now, longest) { now } else { since };
            (now.saturating_sub(since) < longest).then_some((count + 1, since))
        })
    }

    /// Begins a call, even if the silence has lasted for `longest`.
    pub(super) fn begin_anyway(&self, now: Instant, longest: Duration) {
        let (now, longest) = (self.ms(now), in_ms(longest).max(1));
        self.change(|count, since| {
            Some((count + 1, if self.is_idle(count, now, longest) { now } else { since }))
        });
    }

    /// Ends a call.
    pub(super) fn end(&self, verdict: Verdict, now: Instant) {
        let now = self.ms(now);
        let is_answer = verdict == Verdict::Answered;
        if verdict == Verdict::Silent {
            self.failed.store(now + 1, Ordering::SeqCst);
        } else if is_answer && self.failed.load(Ordering::SeqCst) != 0 {
            self.failed.store(0, Ordering::SeqCst);
        }
        self.change(|count, since| {
            Some((count.saturating_sub(1), if is_answer { since.max(now) } else { since }))
        });
    }

    /// Whether it has lasted for `longest`.
    pub(super) fn has_lasted(&self, now: Instant, longest: Duration) -> bool {
        let (now, longest) = (self.ms(now), in_ms(longest).max(1));
        let (count, since) = parts(self.word.load(Ordering::SeqCst));
        !self.is_idle(count, now, longest) && now.saturating_sub(since) >= longest
    }

    fn is_idle(&self, count: u64, now: u64, longest: u64) -> bool {
        let failed = self.failed.load(Ordering::SeqCst);
        count == 0 && (failed == 0 || now.saturating_sub(failed - 1) >= longest)
    }

    fn change(&self, change: impl Fn(u64, u64) -> Option<(u64, u64)>) -> bool {
        let changed = self.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
            let (count, since) = parts(word);
            change(count, since).map(|(count, since)| (since << COUNT_BITS) | count.min(COUNT))
        });
        changed.is_ok()
    }

    fn ms(&self, now: Instant) -> u64 {
        in_ms(now.saturating_duration_since(self.base))
    }
}

/// The count, and the milliseconds.
fn parts(word: u64) -> (u64, u64) {
    (word & COUNT, word >> COUNT_BITS)
}

/// At most what a word has room for, which is eight years.
fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(u64::MAX >> COUNT_BITS)
}
