//! Runs on a machine that others share: what a hypervisor takes away meanwhile, the kernel knows.

use std::cell::Cell;

use anyhow::Result;

use crate::show::note;

/// Of the processors' time, in a run that counts.
const AT_MOST: f64 = 0.01;

/// How often a run is taken again before it counts as it is.
const TRIES: u32 = 10;

/// The ticks of all processors since the system began: those that went to others, and all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    stolen: u64,
    all: u64,
}

/// Takes runs again while others have the processors: nothing that is compared is at fault then.
#[derive(Debug, Default)]
pub(super) struct Stolen {
    again: Cell<u32>,
    counted_all_the_same: Cell<u32>,
}

impl Stolen {
    /// A run in which at most [`AT_MOST`] of the time went to others, or the last of [`TRIES`].
    pub(super) fn undisturbed<T>(&self, run: impl Fn() -> Result<T>) -> Result<T> {
        let mut tries = 1;
        loop {
            let before = Ticks::now();
            let done = run()?;
            let share = before.zip(Ticks::now()).map_or(0.0, |(before, now)| now.share(before));
            if share <= AT_MOST {
                return Ok(done);
            }
            if tries == TRIES {
                self.counted_all_the_same.set(self.counted_all_the_same.get() + 1);
                return Ok(done);
            }
            self.again.set(self.again.get() + 1);
            tries += 1;
        }
    }

    /// How many runs were taken again.
    pub(super) fn again(&self) -> u32 {
        self.again.get()
    }

    /// Says that figures are of a machine that others used; how many runs are.
    pub(super) fn warn(&self) -> u32 {
        let runs = self.counted_all_the_same.get();
        if runs > 0 {
            note(&format!(
                "others had more than {} % of the processors' time in {runs} runs that count, each \
                 the last of {TRIES} tries: measure again when the machine is quieter",
                AT_MOST * 100.0
            ));
        }
        runs
    }
}

impl Ticks {
    /// None where the system does not say.
    fn now() -> Option<Self> {
        Self::of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// From the first line: user, nice, system, idle, iowait, irq, softirq, steal; what follows is
    /// part of user and nice (proc_stat(5)).
    fn of(stat: &str) -> Option<Self> {
        let all = stat.lines().next()?.strip_prefix("cpu ")?;
        let each = all.split_whitespace().take(8).map(str::parse);
        let each = each.collect::<Result<Vec<u64>, _>>().ok()?;
        Some(Self { stolen: *each.get(7)?, all: each.iter().sum() })
    }

    fn share(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.stolen.saturating_sub(before.stolen) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_all_processors() {
        let before = Ticks::of("cpu  10 20 30 40 50 60 70 80 5 6\ncpu0 1 2 3\n").unwrap();
        assert_eq!(before, Ticks { stolen: 80, all: 360 });
        let now = Ticks::of("cpu  60 20 30 80 50 60 70 90 50 6\n").unwrap();
        assert!((now.share(before) - 0.1).abs() < 1e-9);
        assert!(now.share(now).abs() < 1e-9);
        for text in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(Ticks::of(text), None, "{text}");
        }
    }

    #[test]
    fn a_run_that_counts_is_the_last() {
        let (stolen, runs) = (Stolen::default(), Cell::new(0));
        let last = stolen.undisturbed(|| {
            runs.set(runs.get() + 1);
            Ok(runs.get())
        });
        assert_eq!(last.unwrap(), runs.get());
        assert_eq!(stolen.again() + 1, runs.get());
    }
}
