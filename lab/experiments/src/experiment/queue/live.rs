//! The measures of a queue in real time.

use tollgate_queue::{Counts, Stats};

use super::case::QueueCase;
use super::measure::QueueMeasures;
use crate::experiment::Experiment;
use crate::experiment::results::QueueResult;

/// A queue in real time. Its events arrive in about the order of their times: a worker may report a
/// job before its producer hears that it was accepted.
pub(in crate::experiment) struct LiveQueue<'e> {
    setting: &'e QueueCase,
    measures: QueueMeasures,
    /// Below zero for a moment, where a report overtakes another.
    waiting: i64,
    in_flight: i64,
}

impl<'e> LiveQueue<'e> {
    pub(in crate::experiment) fn new(experiment: &Experiment, setting: &'e QueueCase) -> Self {
        Self { setting, measures: QueueMeasures::new(experiment), waiting: 0, in_flight: 0 }
    }

    pub(in crate::experiment) fn offered(&mut self, now_us: u64, is_accepted: bool) {
        self.measures.offered(now_us, is_accepted);
        self.change(now_us, i64::from(is_accepted), 0);
    }

    pub(in crate::experiment) fn delivered(&mut self, now_us: u64, waited_us: u64) {
        self.measures.delivered(now_us, waited_us);
        self.change(now_us, -1, 1);
    }

    pub(in crate::experiment) fn done(&mut self, now_us: u64) {
        self.measures.done(now_us, 1);
        self.change(now_us, 0, -1);
    }

    fn change(&mut self, now_us: u64, waiting: i64, in_flight: i64) {
        self.waiting += waiting;
        self.in_flight += in_flight;
        let out = if self.setting.counts == Counts::All { self.in_flight } else { 0 };
        self.measures.pass(now_us);
        let depth = u64::try_from(self.waiting + out).unwrap_or(0);
        // A queue holds no more; an offer that is reported before an earlier delivery looks so.
        self.measures.depth(depth.min(self.setting.bound));
    }

    /// The results, with the queue's own counts at this time.
    pub(in crate::experiment) fn finish(mut self, now_us: u64, stats: &Stats) -> QueueResult {
        self.measures.pass(now_us);
        self.measures.finish(now_us, self.setting, stats)
    }
}
