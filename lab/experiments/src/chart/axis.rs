//! The ticks of an axis, and their labels.

use jiff::Timestamp;

use crate::experiment::results::Results;
use crate::figure::{real, span};
use tollgate_logs::time::show;

/// The ticks of an axis from 0 to at least `top`: at most `most` + 1 of them. Their distance is 1,
/// 2 or 5 times a power of ten, and at least 1.
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

/// The unit of a time axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unit {
    /// Its name on the axis.
    pub(super) name: &'static str,
    /// Its length in microseconds.
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

    /// The largest unit that has enough multiples for an axis of this length.
    pub(super) fn for_length(end_us: u64) -> Self {
        // Short axes of a few minutes are easier to read in seconds.
        let enough = |unit: &&Self| end_us / unit.us >= if unit.us > 1_000_000 { 10 } else { 4 };
        let smallest = Self { name: "microseconds", us: 1 };
        Self::ALL.iter().find(enough).copied().unwrap_or(smallest)
    }
}

/// The calendar time at which an axis begins, in microseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Calendar {
    pub(super) start_us: u64,
}

const DAY_US: u64 = 86_400_000_000;

impl Calendar {
    /// The distance of ticks, so that there are at most `most` of them.
    fn step(end_us: u64, most: u8) -> u64 {
        let minutes = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720];
        let days = [1, 2, 7, 14, 28, 56, 91, 182, 364];
        let steps = minutes.map(|n| n * 60_000_000).into_iter().chain(days.map(|n| n * DAY_US));
        let fits = |step: &u64| end_us / step <= u64::from(most);
        steps.into_iter().find(fits).unwrap_or_else(|| end_us.div_ceil(u64::from(most.max(1))))
    }

    /// The label of a tick: the day, the time of day, or both if the axis covers several days.
    fn says(self, at_us: u64, end_us: u64, step_us: u64) -> String {
        let form = match () {
            () if step_us >= DAY_US => "%b %-d",
            () if end_us > DAY_US => "%-d, %H:%M",
            () => "%H:%M",
        };
        let at_us = self.start_us.saturating_add(at_us);
        let time = i64::try_from(at_us).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
        time.map_or_else(String::new, |time| time.strftime(form).to_string())
    }

    /// Ticks at whole steps of the calendar.
    fn marks(self, end_us: u64, most: u8) -> Vec<(u64, String)> {
        let step = Self::step(end_us, most);
        let first = self.start_us.next_multiple_of(step) - self.start_us;
        let times = core::iter::successors(Some(first), |at| at.checked_add(step));
        let times = times.take_while(|at| *at <= end_us);
        times.map(|at| (at, self.says(at, end_us, step))).collect()
    }
}

/// The quantity on the horizontal axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Across {
    /// Time since the start, up to `end_us`.
    Time { end_us: u64, calendar: Option<Calendar> },
    /// Time around an edge, up to `reach_us` before and after it.
    Around { reach_us: u64 },
    /// Durations on a logarithmic scale, between powers of ten.
    Durations { least_us: u64, most_us: u64 },
    /// Numbers from 1 to a power of ten, on a logarithmic scale.
    Numbers { name: &'static str, most: u64 },
}

/// The largest end of a logarithmic axis, itself a power of ten.
const MOST_US: u64 = 10_000_000_000_000_000_000;

impl Across {
    /// A time axis for an experiment: of the calendar if its traffic is from a log.
    pub(super) fn time(end_us: u64, results: &Results) -> Self {
        Self::Time { end_us, calendar: results.start_us.map(|start_us| Calendar { start_us }) }
    }

    /// An axis for durations between these.
    pub(super) fn took(least_us: u64, most_us: u64) -> Self {
        let least_us = 10_u64.pow(least_us.clamp(1, MOST_US / 10).ilog10());
        let mut end_us = least_us.saturating_mul(10);
        while end_us < most_us.min(MOST_US) {
            end_us = end_us.saturating_mul(10).min(MOST_US);
        }
        Self::Durations { least_us, most_us: end_us }
    }

    /// An axis for numbers up to this one.
    pub(super) fn numbers(name: &'static str, most: u64) -> Self {
        let mut end = 10_u64;
        while end < most.min(MOST_US) {
            end = end.saturating_mul(10).min(MOST_US);
        }
        Self::Numbers { name, most: end }
    }

    /// The position of a time: 0 at the left, 1 at the right.
    pub(super) fn place(self, us: u64) -> f64 {
        match self {
            Self::Time { end_us, .. } => real(us.min(end_us)) / real(end_us.max(1)),
            Self::Around { reach_us } => {
                let end_us = reach_us.saturating_mul(2);
                Self::Time { end_us, calendar: None }.place(us)
            }
            Self::Durations { least_us, most_us } => {
                let decades = |us: u64| libm::log10(real(us) / real(least_us));
                decades(us.clamp(least_us, most_us)) / decades(most_us)
            }
            Self::Numbers { most, .. } => {
                libm::log10(real(us.clamp(1, most))) / libm::log10(real(most))
            }
        }
    }

    /// Whether it is logarithmic: the length of a bar means nothing on it.
    #[cfg(test)]
    pub(super) fn is_logarithmic(self) -> bool {
        !matches!(self, Self::Time { .. })
    }

    /// The axis title.
    pub(super) fn name(self) -> String {
        match self {
            Self::Time { calendar: Some(Calendar { start_us }), .. } => {
                format!("UTC, from {}", show(start_us / 1_000_000 * 1_000_000))
            }
            Self::Time { end_us, .. } => Unit::for_length(end_us).name.into(),
            Self::Around { reach_us } => {
                format!("{} from the edge", Unit::for_length(reach_us.saturating_mul(2)).name)
            }
            Self::Durations { .. } => "latency, on a logarithmic scale".into(),
            Self::Numbers { name, .. } => format!("{name}, on a logarithmic scale"),
        }
    }

    /// The text of the last label, which needs half of its width beyond the axis.
    pub(super) fn end(self) -> String {
        match self {
            Self::Time { calendar: Some(_), .. } => "28, 00:00".into(),
            Self::Time { end_us, .. } => (end_us / Unit::for_length(end_us).us).to_string(),
            Self::Around { reach_us } => {
                let unit = Unit::for_length(reach_us.saturating_mul(2));
                format!("-{}", reach_us / unit.us)
            }
            Self::Durations { most_us, .. } => span(most_us),
            Self::Numbers { most, .. } => most.to_string(),
        }
    }

    /// The ticks as times with labels: about `most` of them, and no more.
    pub(super) fn marks(self, most: u8) -> Vec<(u64, String)> {
        match self {
            Self::Time { end_us, calendar: Some(calendar) } => calendar.marks(end_us, most),
            Self::Time { end_us, .. } => {
                let unit = Unit::for_length(end_us);
                let end = end_us / unit.us;
                let ticks = ticks(end, most).into_iter().filter(|at| *at <= end);
                ticks.map(|at| (at * unit.us, at.to_string())).collect()
            }
            Self::Around { reach_us } => {
                let unit = Unit::for_length(reach_us.saturating_mul(2));
                let ticks = ticks(reach_us / unit.us, most / 2).into_iter();
                let ticks: Vec<u64> = ticks.filter(|at| at * unit.us <= reach_us).collect();
                let before = ticks.iter().rev().filter(|at| **at > 0);
                let before = before.map(|at| (reach_us - at * unit.us, format!("-{at}")));
                let after = ticks.iter().map(|at| (reach_us + at * unit.us, at.to_string()));
                before.chain(after).collect()
            }
            Self::Durations { least_us, most_us } => powers_of_ten(least_us, most_us, most, span),
            Self::Numbers { most: end, .. } => powers_of_ten(1, end, most, |it| it.to_string()),
        }
    }
}

/// The powers of ten of a vertical axis on a logarithmic scale, with labels: from the largest that
/// is at most `least` to the smallest that is at least `top`.
pub(super) fn decades(least: u64, top: u64, says: impl Fn(u64) -> String) -> Vec<(u64, String)> {
    let least = 10_u64.pow(least.clamp(1, MOST_US / 10).ilog10());
    let mut end = least.saturating_mul(10);
    while end < top.min(MOST_US) {
        end = end.saturating_mul(10);
    }
    powers_of_ten(least, end, u8::MAX, says)
}

/// The label of a share in parts of a whole, which is a power of ten, as is the share.
pub(super) fn percent(share: u64, whole: u64) -> String {
    match whole.checked_div(share).unwrap_or(1) {
        1 => "100%".into(),
        10 => "10%".into(),
        100 => "1%".into(),
        of => format!("0.{}1%", "0".repeat(usize::try_from(of.ilog10()).unwrap_or(0) - 3)),
    }
}

/// Powers of ten with labels: at most `most` of them.
fn powers_of_ten(
    least: u64,
    end: u64,
    most: u8,
    says: impl Fn(u64) -> String,
) -> Vec<(u64, String)> {
    let powers = core::iter::successors(Some(least), |it| it.checked_mul(10));
    let powers: Vec<u64> = powers.take_while(|it| *it <= end).collect();
    let every = powers.len().div_ceil(usize::from(most.max(1)));
    powers.into_iter().step_by(every).map(|it| (it, says(it))).collect()
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
    fn what_took_long_lies_between_powers_of_ten() {
        assert_eq!(Across::took(0, 0), Across::Durations { least_us: 1, most_us: 10 });
        assert_eq!(Across::took(99, 1_000), Across::Durations { least_us: 10, most_us: 1_000 });
        let axis = Across::took(100, 1_001);
        assert_eq!(axis, Across::Durations { least_us: 100, most_us: 10_000 });
        assert!((axis.place(1_000) - 0.5).abs() < 1e-9 && axis.place(1) < 1e-9);
        let says = |most| axis.marks(most).into_iter().map(|(_, says)| says).collect::<Vec<_>>();
        assert_eq!(says(9), ["100 us", "1 ms", "10 ms"]);
        assert_eq!(says(2), ["100 us", "10 ms"]);
        let longest = Across::took(u64::MAX, u64::MAX);
        assert!(longest.place(u64::MAX) > 0.99 && longest.marks(9).len() == 2);
    }

    #[test]
    fn a_logarithmic_axis_is_of_whole_decades() {
        let says = |least, top| {
            let decades = decades(least, top, |it| it.to_string());
            decades.into_iter().map(|(_, says)| says).collect::<Vec<_>>()
        };
        assert_eq!(says(0, 0), ["1", "10"]);
        assert_eq!(says(1, 10), ["1", "10"]);
        assert_eq!(says(1, 11), ["1", "10", "100"]);
        assert_eq!(says(40_000, 2_000_000), ["10000", "100000", "1000000", "10000000"]);
        assert_eq!(says(u64::MAX, u64::MAX).len(), 2);
    }

    #[test]
    fn powers_of_ten_of_a_whole_are_percent() {
        let says = [1_000, 100, 10, 1].map(|share| percent(share, 1_000));
        assert_eq!(says, ["100%", "10%", "1%", "0.1%"]);
        assert_eq!(percent(1, 1_000_000_000), "0.0000001%");
    }

    #[test]
    fn a_log_has_the_time_of_the_calendar() {
        // 17 May 2015, 10:05:03.
        let calendar = Some(Calendar { start_us: 1_431_857_103_000_000 });
        let says = |end_us, most| {
            let axis = Across::Time { end_us, calendar };
            axis.marks(most).into_iter().map(|(_, says)| says).collect::<Vec<_>>()
        };
        assert_eq!(says(3 * DAY_US + DAY_US / 2, 5), ["May 18", "May 19", "May 20"]);
        let noons = ["17, 12:00", "18, 00:00", "18, 12:00", "19, 00:00"];
        assert_eq!(says(2 * DAY_US - 1, 5), noons);
        assert_eq!(says(3_600_000_000, 3), ["10:30", "11:00"]);
        assert_eq!(says(60_000_000, 9), ["10:06"]);
        let long = says(u64::MAX / 4, 4);
        assert!((1..=5).contains(&long.len()), "{long:?}");
        let axis = Across::Time { end_us: 1, calendar };
        assert_eq!(axis.name(), "UTC, from 2015-05-17T10:05:03Z");
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
            assert_eq!(Unit::for_length(end_us).name, name, "{end_us}");
        }
    }
}
