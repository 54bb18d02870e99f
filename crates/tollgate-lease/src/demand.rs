//! How much of a count a node needs.

/// The units that were asked for in the current window of time and in the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demand {
    began_us: u64,
    units: u64,
    before: u64,
}

impl Demand {
    /// Counts `units` that are asked for at `now_us`, in windows of `window_us`.
    #[inline]
    pub(crate) fn note(&mut self, units: u64, now_us: u64, window_us: u64) {
        let passed = now_us.saturating_sub(self.began_us);
        if passed >= window_us {
            self.before = if passed < 2 * window_us { self.units } else { 0 };
            (self.began_us, self.units) = (now_us, 0);
        }
        self.units = self.units.saturating_add(units);
    }

    /// The units needed in a window, from the demand in this one or the last.
    #[inline]
    pub(crate) fn units(&self) -> u64 {
        self.units.max(self.before)
    }

    /// Whether there was no check in the window before.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.before == 0
    }

    /// How much it is asked for now, to compare with others: 0 after two windows without a check.
    pub(crate) fn worth(&self, now_us: u64, window_us: u64) -> u64 {
        let is_old = now_us.saturating_sub(self.began_us) >= 2 * window_us;
        if is_old { 0 } else { self.units() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_what_is_asked_for() {
        let mut demand = Demand::default();
        for at in 0..10 {
            demand.note(2, 5_000 + at, 100);
        }
        assert_eq!(demand.units(), 20);
        assert!(demand.is_new());
        demand.note(1, 5_100, 100);
        assert!(!demand.is_new());
        assert_eq!(demand.units(), 20, "that of the window before");
        demand.note(1, 5_200, 100);
        assert_eq!(demand.units(), 1);
        demand.note(3, 5_400, 100);
        assert_eq!(demand.units(), 3, "a window without a check lay between");
        assert_eq!((demand.worth(5_599, 100), demand.worth(5_600, 100)), (3, 0));
    }
}
