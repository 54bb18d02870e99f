//! Quotas: how much in what time, and the options of strategies.

use super::{Calendar, Unit};
use crate::time::Period;

/// The largest `N` and the largest burst: 2^40 units.
pub const MAX_UNITS: u64 = 1 << 40;

/// The largest cost of one check: 2^40 units.
pub const MAX_COST: u64 = 1 << 40;

/// How a `sliding_window` counts the sub-bucket that is partly inside the window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Rounding {
    /// In full: never more than N in any D.
    #[default]
    Conservative,
    /// In proportion to the part of it that is still inside the window.
    Interpolate,
    /// Not at all.
    Truncate,
}

/// How a `token_bucket` refills.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Refill {
    /// Continuously: one token each D/N.
    #[default]
    Greedy,
    /// N at once, at every multiple of D since the epoch.
    Interval,
}

/// Where the windows of a `fixed_window` start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Anchor {
    /// At multiples of D since the epoch.
    #[default]
    Epoch,
    /// At the first admitted check after the last window ended.
    FirstHit,
}

/// The quota: `units` per `period`, and the options of the strategy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[doc(alias("rate", "window", "bucket size", "burst"))]
pub struct Quota {
    /// N, from 1 to [`MAX_UNITS`].
    pub units: u64,
    /// D, the period. That of a calendar is the length of its shortest window in a zone without
    /// clock changes.
    pub period: Period,
    /// Where windows begin, if they begin at dates.
    pub calendar: Option<Calendar>,
    /// The unit that it counts. Slots and bans have none of their own: [`Unit::REQUESTS`].
    pub unit: Unit,
    /// The total capacity of a bucket, in units.
    pub burst: Option<u64>,
    /// The length of a sub-bucket.
    pub precision: Option<Period>,
    /// How the sub-bucket that is partly inside the window counts.
    pub rounding: Option<Rounding>,
    /// How a bucket refills.
    pub refill: Option<Refill>,
    /// Where windows start.
    pub anchor: Option<Anchor>,
    /// The maximum units beyond the capacity that charges without a check may take. `None` is as
    /// much as the capacity, where so much can be counted exactly.
    pub debt: Option<u64>,
    /// How long bans last. The units are then denials, and the period is the time in which they are
    /// counted.
    pub ban: Option<BanLength>,
}

/// How long the bans of a subject last, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::exhaustive_structs)] // its numbers are all of it
#[doc(alias("cooldown", "lockout", "penalty"))]
pub struct BanLength {
    /// The length of the first. Each of the next is twice as long.
    pub first: Period,
    /// The length of the longest, at least that of the first.
    pub longest: Period,
}

impl Quota {
    /// `units` per `period`; all options are the strategy's defaults.
    #[must_use]
    pub const fn new(units: u64, period: Period) -> Self {
        Self {
            units,
            period,
            calendar: None,
            unit: Unit::REQUESTS,
            burst: None,
            precision: None,
            rounding: None,
            refill: None,
            anchor: None,
            debt: None,
            ban: None,
        }
    }

    /// `units` in each window of a calendar.
    ///
    /// ```
    /// use tollgate::{Calendar, CalendarUnit, Quota};
    /// let quota = Quota::in_calendar(1_000, Calendar::new(CalendarUnit::Month));
    /// assert_eq!("1000/month".parse(), Ok(quota));
    /// ```
    #[must_use]
    pub fn in_calendar(units: u64, calendar: Calendar) -> Self {
        let period = calendar.unit().least();
        Self { calendar: Some(calendar), ..Self::new(units, period) }
    }

    /// `10 per 1s`, `10 per month`.
    pub(crate) fn rate(&self) -> String {
        format!("{} per {}", self.units, self.window())
    }

    /// The window as in an identity: `10s`, or `month` of a calendar.
    #[must_use]
    pub fn window(&self) -> String {
        match &self.calendar {
            Some(calendar) => calendar.unit().name().to_owned(),
            None => self.period.to_string(),
        }
    }

    /// The time between two units, as text for humans.
    pub(crate) fn gap(&self) -> String {
        let us = self.period.as_micros();
        if us.is_multiple_of(self.units) {
            Period::from_micros(us / self.units).map_or_else(String::new, |gap| gap.to_string())
        } else {
            format!("{}/{}", self.period, self.units)
        }
    }
}

/// The part of a limit's text that an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    Units,
    Period,
    Burst,
    Precision,
    Debt,
    Ban,
}

/// The reason why a quota is invalid: the number, the problem, and the correction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QuotaError {
    pub(crate) element: Element,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl QuotaError {
    pub(crate) fn new(element: Element, what: String, remedy: String) -> Self {
        Self { element, what, remedy }
    }
}
