//! The history checker's questions about a subject: the definitions, one question at a time.

use super::count::RateState;
use super::{Oracle, whole};

impl Oracle {
    /// Repairs the state when the clock has stepped back behind it, as each check does.
    pub(crate) fn settle(&mut self, now_us: u64) {
        self.count_mut().settle(i128::from(now_us));
    }

    /// Whether `cost` would be admitted `wait_us` after `now_us`, from a settled state.
    pub(crate) fn admits_after(&self, now_us: u64, wait_us: u64, cost: u64) -> bool {
        let at = self.count().judged(i128::from(now_us) + i128::from(wait_us));
        self.admits(at, cost)
    }

    /// `remaining`, from a settled state.
    pub(crate) fn left(&self, now_us: u64) -> u64 {
        self.remaining(self.count().judged(i128::from(now_us)))
    }

    /// Charges `cost` without asking whether it is admitted. The counted units never exceed the
    /// units that a subject can have used.
    pub(crate) fn charge_anyway(&mut self, now_us: u64, cost: u64) {
        self.charge_beyond(now_us, cost);
        match &mut self.held {
            RateState::Greedy(greedy) => greedy.cut(greedy.burst),
            RateState::Interval(interval) => interval.cut(interval.burst),
            // A count above the limit denies whatever a count at the limit denies.
            RateState::Fixed(_) | RateState::Log(_) | RateState::Sliding(_) => {}
        }
    }

    /// The same without a bound, as a limiter with a mistake may do.
    pub(crate) fn charge_beyond(&mut self, now_us: u64, cost: u64) {
        let at = self.count_mut().settle(i128::from(now_us));
        self.count_mut().charge(at, i128::from(cost));
    }

    /// Whether nothing counts at `now_us`, from a settled state.
    pub(crate) fn is_idle(&self, now_us: u64) -> bool {
        self.is_free(self.count().judged(i128::from(now_us)))
    }

    /// Numbers that are equal for two subjects of one rule exactly when no question from `now_us`
    /// on can tell them apart, while the clock does not step back.
    pub(crate) fn fingerprint(&self, now_us: u64) -> Vec<i128> {
        let now = i128::from(now_us);
        match &self.held {
            RateState::Greedy(_) | RateState::Interval(_) => vec![self.count().used(now).parts],
            RateState::Fixed(fixed) => {
                let used = self.count().used(now).parts;
                // An open window ends at a fixed time, even one that counts nothing yet.
                let open = fixed.written.filter(|(_, end)| now < *end);
                vec![used, open.map_or(-1, |(start, _)| start)]
            }
            RateState::Log(log) => log.events.pairs_after(now - log.d),
            RateState::Sliding(sliding) => {
                let oldest = (sliding.bucket_of(now) - sliding.b) * sliding.p;
                sliding.events.pairs_after(oldest - 1)
            }
        }
    }

    /// The least wait after which `cost` is admitted; `None` when it never is.
    pub(crate) fn wait_for(&self, now_us: u64, cost: u64) -> Option<u64> {
        let now = i128::from(now_us);
        let admitted = |wait| self.admits(self.count().judged(now + wait), cost);
        (cost <= self.limit()).then(|| whole(super::least_wait(0, admitted)))
    }
}
