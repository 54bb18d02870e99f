//! The answers of a front, by operation and by outcome.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use super::latency::Latency;

/// The label for everything without a separate series. A policy with this name has no separate
/// series either.
pub(crate) const OTHER: &str = "other";

/// A family of counters of a front.
#[derive(Clone, Debug)]
pub(crate) struct FrontFamily {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// The names of the labels: of the operation, and of the outcome.
    pub(crate) labels: [&'static str; 2],
    /// The operations. All else counts as [`OTHER`]: a label with names chosen by clients would be
    /// unbounded.
    pub(crate) asked: Vec<&'static str>,
    pub(crate) ended: &'static [&'static str],
    /// Whether the family is on the page before anything was answered.
    pub(crate) is_always_there: bool,
    /// The label of the front's durations; `None` where answers are not timed.
    pub(crate) timed: Option<&'static str>,
}

/// The counters of a front.
#[derive(Debug)]
pub(crate) struct FrontCounts {
    family: FrontFamily,
    /// For each that can be asked, and then for all others, a counter for each end.
    counts: Box<[AtomicU64]>,
    durations: Latency,
}

impl FrontCounts {
    pub(super) fn new(family: FrontFamily) -> Self {
        let size = (family.asked.len() + 1) * family.ended.len();
        let counts = (0..size).map(|_| AtomicU64::new(0)).collect();
        Self { family, counts, durations: Latency::default() }
    }

    pub(super) fn family(&self) -> &FrontFamily {
        &self.family
    }

    /// Counts this number of answers, by the places of the operation and of the outcome.
    #[inline]
    pub(crate) fn add(&self, asked: Option<usize>, ended: usize, answers: u64) {
        let FrontFamily { asked: names, ended: ends, .. } = &self.family;
        let place = asked.unwrap_or(names.len()) * ends.len() + ended;
        if let Some(count) = self.counts.get(place).filter(|_| ended < ends.len()) {
            count.fetch_add(answers, Ordering::Relaxed);
        }
    }

    /// Counts the duration of an answer.
    #[inline]
    pub(crate) fn took(&self, duration: Duration) {
        self.durations.add(duration, 1);
    }

    /// The durations of answers, with their label, where they are timed.
    pub(super) fn durations(&self) -> Option<(&'static str, &Latency)> {
        Some((self.family.timed?, &self.durations))
    }

    /// All nonzero counters: the operation, the outcome, and the count.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let FrontFamily { asked, ended, .. } = &self.family;
        let names = asked.iter().copied().chain([OTHER]);
        let places = names.flat_map(|name| ended.iter().map(move |end| (name, *end)));
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let all = places.zip(counts).map(|((name, end), count)| (name, end, count));
        all.filter(|(.., count)| *count > 0)
    }

    /// The sum of all answers.
    #[cfg(feature = "resp")]
    pub(crate) fn total(&self) -> u64 {
        self.iter().map(|(.., count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_counters_and_the_rest_is_other() {
        let counts = FrontCounts::new(FrontFamily {
            name: "tollgate_calls",
            help: "Calls.",
            labels: ["call", "result"],
            asked: vec!["look", "take"],
            ended: &["ok", "error"],
            is_always_there: false,
            timed: None,
        });
        assert_eq!(counts.iter().count(), 0);
        for (asked, ended, answers) in
            [(Some(1), 0, 3), (Some(0), 1, 1), (None, 1, 2), (None, 1, 2), (None, 2, 9)]
        {
            counts.add(asked, ended, answers);
        }
        counts.add(Some(0), 2, 9);
        counts.add(Some(3), 0, 9);
        counts.add(Some(0), usize::MAX - 9, 9);
        let all: Vec<_> = counts.iter().collect();
        assert_eq!(all, [("look", "error", 1), ("take", "ok", 3), (OTHER, "error", 4)]);
    }
}
