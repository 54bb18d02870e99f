//! A count with holds moved in time, and written down: for a search that merges what is alike.

use super::{HeldLimit, HoldOracle, Open};

impl HoldOracle {
    /// Moves all that is held by `by_us`, as [`crate::oracle::Oracle::shift`] does, and numbers the
    /// open holds from 1 in the order of their ends. Of those that were settled only the last is
    /// remembered, under the number 0.
    ///
    /// Ages of holds are forgotten, and the time seen where no hold is open. So is when a settled
    /// hold is forgotten, a minute from now: searches are over before that.
    pub(crate) fn shift(&mut self, now_us: u64, by_us: i64) {
        let by = i128::from(by_us);
        for limit in &mut self.limits {
            match limit {
                HeldLimit::Rate(oracle) => oracle.shift(now_us, by_us),
                HeldLimit::Slots(_) | HeldLimit::Ban(_) => {}
            }
        }
        // As the engine does, whose ids begin with the letter of the kind.
        self.open.sort_by_key(|hold| (hold.end, hold.units > 0, !hold.charging, hold.name));
        for (name, hold) in (1..).zip(&mut self.open) {
            *hold = Open { name, placed: 0, end: hold.end + by, ..*hold };
        }
        self.seen = if self.open.is_empty() { 0 } else { self.seen + by };
        let last = self.settled.last().map(|(_, actual, _)| *actual);
        let until = i128::from(now_us) + by + super::REMEMBERED_US;
        self.settled = last.map(|actual| (0, actual, until)).into_iter().collect();
    }

    /// Writes down all that is held: two of the same rules that write the same are the same.
    pub(crate) fn write_down(&self, out: &mut Vec<i128>) {
        for limit in &self.limits {
            if let HeldLimit::Rate(oracle) = limit {
                oracle.write_down(out);
            }
        }
        for hold in &self.open {
            let [units, slots] = [hold.units, hold.slots].map(i128::from);
            out.extend([hold.end, units, slots, i128::from(hold.charging)]);
        }
        out.extend([i128::MIN, self.seen]);
        out.extend(self.settled.iter().map(|(_, actual, _)| i128::from(*actual)));
    }

    /// How many holds are open, with the kind of each: whether it keeps units.
    pub(crate) fn keeps_units(&self) -> impl Iterator<Item = bool> {
        self.open.iter().map(|hold| hold.units > 0)
    }
}
