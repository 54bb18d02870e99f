//! Runs on a machine that others share: the kernel knows the time that a hypervisor takes away
//! meanwhile.

use anyhow::Result;

/// Of the time in which somebody here wanted a processor, in a run that counts.
const AT_MOST: f64 = 0.01;

/// The ticks of all processors since the system began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    /// Somebody here had them.
    used: u64,
    /// Somebody here would have had them, and others did.
    stolen: u64,
}

/// A run that counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken<T> {
    pub(super) run: T,
    /// How many before it did not count.
    pub(super) again: u32,
    /// Whether it counts though others had more than [`AT_MOST`].
    pub(super) disturbed: bool,
}

/// A run while at most [`AT_MOST`] goes to others, taken again while there are `spare` ones, which
/// are used up. Programs that wake each other answer a tenth as many while each of them waits for
/// a processor now and then.
pub(super) fn undisturbed<T>(spare: &mut u32, run: impl FnMut() -> Result<T>) -> Result<Taken<T>> {
    undisturbed_by(Ticks::now, spare, run)
}

fn undisturbed_by<T>(
    mut now: impl FnMut() -> Option<Ticks>,
    spare: &mut u32,
    mut run: impl FnMut() -> Result<T>,
) -> Result<Taken<T>> {
    let mut again = 0;
    loop {
        let before = now();
        let run = run()?;
        let share = before.zip(now()).map_or(0.0, |(before, now)| now.share(before));
        let disturbed = share > AT_MOST;
        if !disturbed || *spare == 0 {
            return Ok(Taken { run, again, disturbed });
        }
        *spare -= 1;
        again += 1;
    }
}

impl Ticks {
    /// None where the system does not say.
    fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// From the first line: user, nice, system, idle, iowait, irq, softirq, steal; the rest is part
    /// of user and nice (proc_stat(5)).
    fn parse(stat: &str) -> Option<Self> {
        let all = stat.lines().next()?.strip_prefix("cpu ")?;
        let each = all.split_whitespace().take(8).map(str::parse);
        let each = each.collect::<Result<Vec<u64>, _>>().ok()?;
        let [user, nice, system, _, _, irq, softirq, stolen] = each[..] else { return None };
        Some(Self { used: user + nice + system + irq + softirq, stolen })
    }

    fn share(self, before: Self) -> f64 {
        let stolen = self.stolen.saturating_sub(before.stolen);
        let wanted = stolen + self.used.saturating_sub(before.used);
        stolen as f64 / wanted.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_what_was_wanted() {
        let before = Ticks::parse("cpu  10 20 30 40 50 60 70 80 5 6\ncpu0 1 2 3\n").unwrap();
        assert_eq!(before, Ticks { used: 190, stolen: 80 });
        let now = Ticks::parse("cpu  60 30 40 80 90 70 80 90 50 6\n").unwrap();
        assert!((now.share(before) - 0.1).abs() < 1e-9);
        assert!(now.share(now).abs() < 1e-9);
        for text in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(Ticks::parse(text), None, "{text}");
        }
    }

    /// Runs numbered from 0; those for which it is true are disturbed.
    fn taken(spare: &mut u32, is_disturbed: impl Fn(u32) -> bool) -> Taken<u32> {
        let (mut ticks, mut looks, mut runs) = (Ticks { used: 0, stolen: 0 }, 0, 0);
        let now = || {
            // Each run is looked at before and after.
            if looks % 2 == 1 {
                ticks.used += 400;
                ticks.stolen += if is_disturbed(looks / 2) { 5 } else { 4 };
            }
            looks += 1;
            Some(ticks)
        };
        let run = || {
            runs += 1;
            Ok(runs - 1)
        };
        undisturbed_by(now, spare, run).unwrap()
    }

    #[test]
    fn a_run_that_was_disturbed_is_taken_again_while_there_are_spare_ones() {
        let spare = &mut 5;
        assert_eq!(taken(spare, |_| false), Taken { run: 0, again: 0, disturbed: false });
        assert_eq!(taken(spare, |run| run < 2), Taken { run: 2, again: 2, disturbed: false });
        assert_eq!(*spare, 3);
        assert_eq!(taken(spare, |_| true), Taken { run: 3, again: 3, disturbed: true });
        assert_eq!(taken(spare, |_| true), Taken { run: 0, again: 0, disturbed: true });
        assert_eq!(taken(spare, |_| false), Taken { run: 0, again: 0, disturbed: false });
    }

    #[test]
    fn a_run_counts_where_the_system_does_not_say() {
        let taken = undisturbed_by(|| None, &mut 1, || Ok(7)).unwrap();
        assert_eq!(taken, Taken { run: 7, again: 0, disturbed: false });
    }
}
