//! Units of time, as Envoy names and numbers them.

use core::time::Duration;

use tollgate::Quota;

/// A unit of time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::exhaustive_enums)] // the protocol has these
pub enum Unit {
    /// A second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

/// Every unit: its name, its number in the protocol, its length in seconds.
const ALL: [(Unit, &str, i32, u64); 7] = [
    (Unit::Second, "SECOND", 1, 1),
    (Unit::Minute, "MINUTE", 2, 60),
    (Unit::Hour, "HOUR", 3, 3_600),
    (Unit::Day, "DAY", 4, 86_400),
    (Unit::Week, "WEEK", 7, 7 * 86_400),
    (Unit::Month, "MONTH", 5, 30 * 86_400),
    (Unit::Year, "YEAR", 6, 365 * 86_400),
];

impl Unit {
    /// The unit of this name, in any case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        ALL.iter().find(|(_, known, ..)| known.eq_ignore_ascii_case(name)).map(|(unit, ..)| *unit)
    }

    /// The unit of this number in the protocol.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        ALL.iter().find(|(_, _, known, _)| *known == number).map(|(unit, ..)| *unit)
    }

    /// The unit of this length.
    #[must_use]
    pub fn from_length(length: Duration) -> Option<Self> {
        let found = ALL.iter().find(|(.., seconds)| Duration::from_secs(*seconds) == length);
        found.map(|(unit, ..)| *unit)
    }

    /// The unit of a quota. One of a calendar has none: Envoy's month is 30 days, and its day is
    /// one of UTC.
    #[must_use]
    pub fn of(quota: &Quota) -> Option<Self> {
        let length = quota.calendar.is_none().then(|| quota.period.as_duration());
        length.and_then(Self::from_length)
    }

    /// Its number in the protocol.
    #[must_use]
    pub fn number(self) -> i32 {
        self.row().2
    }

    /// Its name in the protocol, in upper case.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Its length in seconds.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.row().3
    }

    fn row(self) -> (Self, &'static str, i32, u64) {
        let second = ALL[0];
        ALL.into_iter().find(|(unit, ..)| *unit == self).unwrap_or(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_found_by_all_that_it_has() {
        for (unit, name, number, seconds) in ALL {
            assert_eq!(Unit::parse(&name.to_lowercase()), Some(unit));
            assert_eq!(Unit::from_number(number), Some(unit));
            assert_eq!(Unit::from_length(Duration::from_secs(seconds)), Some(unit));
            assert_eq!((unit.name(), unit.number(), unit.seconds()), (name, number, seconds));
        }
        assert_eq!(Unit::parse("unknown"), None);
        assert_eq!(Unit::from_number(0), None);
        assert_eq!(Unit::from_length(Duration::from_secs(10)), None);
    }
}
