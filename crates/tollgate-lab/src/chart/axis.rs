//! Where an axis has its marks, and what they say.

/// The marks of an axis from 0 to at least `top`: at most `most` + 1 of them, 1, 2 or 5 times a
/// power of ten apart, and never less than 1.
pub(super) fn ticks(top: u64, most: u8) -> Vec<u64> {
    let step = step(top, most);
    (0..=u128::from(top).div_ceil(step)).filter_map(|n| u64::try_from(n * step).ok()).collect()
}

fn step(top: u64, most: u8) -> u128 {
    let mut power = 1_u128;
    loop {
        for digit in [1, 2, 5] {
            if digit * power * u128::from(most.max(1)) >= u128::from(top) {
                return digit * power;
            }
        }
        power *= 10;
    }
}

/// A unit of time that an axis counts in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unit {
    /// As it stands at the axis.
    pub(super) name: &'static str,
    /// How long it is.
    pub(super) us: u64,
}

impl Unit {
    const ALL: [Self; 5] = [
        Self { name: "days", us: 86_400_000_000 },
        Self { name: "hours", us: 3_600_000_000 },
        Self { name: "minutes", us: 60_000_000 },
        Self { name: "seconds", us: 1_000_000 },
        Self { name: "milliseconds", us: 1_000 },
    ];

    /// The largest of which there are enough for an axis of this length.
    pub(super) fn of(end_us: u64) -> Self {
        // Two minutes and ten are easier to read in seconds.
        let enough = |unit: &&Self| end_us / unit.us >= if unit.us > 1_000_000 { 10 } else { 4 };
        let smallest = Self { name: "microseconds", us: 1 };
        Self::ALL.iter().find(enough).copied().unwrap_or(smallest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_reach_the_top() {
        assert_eq!(ticks(0, 4), [0]);
        assert_eq!(ticks(1, 4), [0, 1]);
        assert_eq!(ticks(3, 4), [0, 1, 2, 3]);
        assert_eq!(ticks(60, 6), [0, 10, 20, 30, 40, 50, 60]);
        assert_eq!(ticks(301, 4), [0, 100, 200, 300, 400]);
        assert_eq!(ticks(900, 4), [0, 500, 1_000]);
        assert!(ticks(u64::MAX, 4).len() >= 3);
    }

    #[test]
    fn time_is_counted_in_what_it_is_made_of() {
        for (end_us, name) in [
            (0, "microseconds"),
            (3_999, "microseconds"),
            (4_000, "milliseconds"),
            (4_000_000, "seconds"),
            (120_000_000, "seconds"),
            (600_000_000, "minutes"),
            (86_400_000_000, "hours"),
            (864_000_000_000, "days"),
        ] {
            assert_eq!(Unit::of(end_us).name, name, "{end_us}");
        }
    }
}
