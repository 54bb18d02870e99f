//! Calendars: windows that begin at dates and times of day of a time zone.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::time::{Period, Time};

/// Seconds of a day of 24 hours.
const DAY_S: u64 = 86_400;

/// The bits of a [`Window`] in one word that hold its length in minutes.
const LENGTH_BITS: u32 = 20;

/// The time zones of this build. Those of the system can be of any version, and a test could not
/// tell which.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The date that the windows of a calendar begin at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(clippy::exhaustive_enums)] // what a limit can be written with is all of it
pub enum CalendarUnit {
    /// Each day.
    Day,
    /// One day of the week.
    Week,
    /// One day of the month, or the last of a shorter month.
    Month,
    /// One day of the year, or the last of its month in a year without it.
    Year,
}

impl CalendarUnit {
    /// Its word in the notation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The length of the shortest one in a zone without clock changes: the period of its quota.
    #[must_use]
    pub const fn least(self) -> Period {
        const fn days(days: u64) -> Period {
            match Period::from_micros(days * DAY_S * 1_000_000) {
                Some(period) => period,
                None => unreachable!(),
            }
        }
        match self {
            Self::Day => days(1),
            Self::Week => days(7),
            Self::Month => days(28),
            Self::Year => days(365),
        }
    }

    /// A length that no window exceeds, in microseconds, whatever the clocks of its zone do.
    pub(crate) const fn most_us(self) -> u64 {
        let day_us = DAY_S * 1_000_000;
        match self {
            Self::Day | Self::Week | Self::Year => self.least().as_micros() + 2 * day_us,
            Self::Month => 33 * day_us,
        }
    }

    /// The unit whose least length this is.
    #[must_use]
    pub fn of_least(least: Period) -> Option<Self> {
        let all = [Self::Day, Self::Week, Self::Month, Self::Year];
        all.into_iter().find(|unit| unit.least() == least)
    }
}

/// The date and time of day at which windows begin, by the clocks of the zone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Edge {
    /// From 1, of a year only.
    pub(crate) month: i8,
    /// From 1: of the month, or of the week from Monday.
    pub(crate) day: i8,
    pub(crate) minute_of_day: i16,
}

impl Edge {
    /// Where windows begin unless it is said: at midnight of the first day.
    pub(crate) const FIRST: Self = Self { month: 1, day: 1, minute_of_day: 0 };
}

/// A calendar: the windows of a `fixed_window` that begin at dates of a time zone.
///
/// It parses from and prints as `month in Europe/Berlin from 15th 06:00`.
///
/// ```
/// use tollgate::{Calendar, Quota, Limit, Strategy, Time};
/// let calendar: Calendar = "month in Europe/Berlin".parse()?;
/// let window = calendar.window(Time::from_micros(1_711_900_000_000_000)); // 2024-03-31
/// assert_eq!(window.start, Time::from_micros(1_709_247_600_000_000));
/// assert_eq!(window.end, Time::from_micros(1_711_922_400_000_000));
/// let limit = Limit::new(Quota::in_calendar(1_000, calendar), Strategy::FixedWindow)?;
/// assert_eq!(limit.to_string(), "1000/month in Europe/Berlin via fixed_window");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone)]
pub struct Calendar {
    unit: CalendarUnit,
    zone: TimeZone,
    edge: Edge,
    /// The window that was asked for last, as a word: most checks ask for the same.
    last: LastWindow,
    lengths: OnceLock<Range<u64>>,
}

#[derive(Debug, Default)]
struct LastWindow(AtomicU64);

impl Clone for LastWindow {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

/// One window: whole seconds, and a length of whole minutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Window {
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
}

impl Window {
    /// A length of a part of a minute counts as the whole: Liberia had one, in 1972.
    pub(crate) fn new(start_s: u64, end_s: u64) -> Self {
        let minutes = end_s.saturating_sub(start_s).div_ceil(60);
        Self { start_us: start_s * 1_000_000, end_us: (start_s + minutes * 60) * 1_000_000 }
    }

    /// The window as one word below 2^53: its start in seconds, which are below 2^33, and its
    /// length in minutes.
    #[inline]
    pub(crate) const fn to_word(self) -> u64 {
        let minutes = (self.end_us - self.start_us) / 60_000_000;
        ((self.start_us / 1_000_000) << LENGTH_BITS) | minutes
    }

    /// The window of a word.
    #[inline]
    pub(crate) const fn from_word(word: u64) -> Self {
        let start_us = (word >> LENGTH_BITS) * 1_000_000;
        let minutes = word & ((1 << LENGTH_BITS) - 1);
        Self { start_us, end_us: start_us + minutes * 60_000_000 }
    }

    /// Whether it holds this time.
    #[inline]
    pub(crate) const fn holds(self, us: u64) -> bool {
        self.start_us <= us && us < self.end_us
    }
}

impl Calendar {
    /// The windows that begin at `unit`, by UTC.
    #[must_use]
    pub fn new(unit: CalendarUnit) -> Self {
        let (last, lengths) = <_>::default();
        Self { unit, zone: TimeZone::UTC, edge: Edge::FIRST, last, lengths }
    }

    /// The same in the time zone of this name. `None` if the bundled database has no such name.
    pub(crate) fn in_zone(self, name: &str) -> Option<Self> {
        let zone = if name == "UTC" { TimeZone::UTC } else { ZONES.get(name).ok()? };
        let lengths = OnceLock::new();
        let is_written = zone.iana_name() == Some(name);
        is_written.then(|| Self { zone, lengths, last: LastWindow::default(), ..self })
    }

    /// The same with windows that begin at this edge.
    pub(crate) fn with_edge(self, edge: Edge) -> Self {
        Self { edge, lengths: OnceLock::new(), last: LastWindow::default(), ..self }
    }

    /// The names of all time zones.
    pub(crate) fn zones() -> Vec<String> {
        ZONES.available().map(|name| name.to_string()).collect()
    }

    /// The date that windows begin at.
    #[must_use]
    pub const fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// The name of the time zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The window that holds this time. It begins no earlier than 1970.
    #[must_use]
    pub fn window(&self, at: Time) -> Range<Time> {
        let Window { start_us, end_us } = self.holding(at.as_micros());
        Time::from_micros(start_us)..Time::from_micros(end_us)
    }

    /// The window that holds this time.
    #[inline]
    pub(crate) fn holding(&self, us: u64) -> Window {
        let last = Window::from_word(self.last.0.load(Ordering::Relaxed));
        if last.holds(us) { last } else { self.find(us) }
    }

    #[cold]
    fn find(&self, us: u64) -> Window {
        let [_, start_s, end_s, _] = self.edges(us);
        let window = Window::new(start_s, end_s);
        self.last.0.store(window.to_word(), Ordering::Relaxed);
        window
    }

    /// The edges around this time in seconds: the start of the window before, the start and the end
    /// of the one that holds it, and the end of the window after.
    pub(crate) fn edges(&self, us: u64) -> [u64; 4] {
        let now_s = i64::try_from(us / 1_000_000).unwrap_or(i64::MAX);
        let near = jiff::Timestamp::from_second(now_s).unwrap_or(jiff::Timestamp::MAX);
        let near = self.zone.to_datetime(near).date();
        // A zone that skips a day has two edges at one time.
        let mut edges: Vec<i64> = (-4..=4).filter_map(|step| self.edge_at(near, step)).collect();
        edges.sort_unstable();
        edges.dedup();
        let later = edges.partition_point(|edge| *edge <= now_s);
        let at = |place: usize| {
            let edge = edges.get(place).or(edges.last()).copied().unwrap_or_default();
            u64::try_from(edge).unwrap_or(0)
        };
        let before = later.saturating_sub(2);
        [at(before), at(before + 1), at(before + 2), at(before + 3)]
    }

    /// The edge of the unit that holds this date, or of one so many units later, in seconds.
    fn edge_at(&self, near: Date, step: i32) -> Option<i64> {
        let Edge { month, day, minute_of_day } = self.edge;
        let in_month = |first: Date| first.with().day(day.min(first.days_in_month())).build();
        let date = match self.unit {
            CalendarUnit::Day => near.checked_add(step.days()),
            CalendarUnit::Week => {
                let since = near.weekday().to_monday_one_offset() - day;
                near.checked_add((7 * step - i32::from(since)).days())
            }
            CalendarUnit::Month => {
                near.first_of_month().checked_add(step.months()).and_then(in_month)
            }
            CalendarUnit::Year => {
                let first = near.first_of_year().checked_add(step.years()).ok()?;
                first.with().month(month).build().and_then(in_month)
            }
        };
        let (hour, minute) = (minute_of_day / 60, minute_of_day % 60);
        let civil = date.ok()?.at(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0);
        // A time that clocks skip is as much later as they are set forward; of one that they show
        // twice the first counts.
        Some(self.zone.to_ambiguous_timestamp(civil).compatible().ok()?.as_second())
    }

    /// The lengths of the shortest and the longest window of the years 2000 to 2037, in
    /// microseconds. From then on the zones that are known today repeat.
    fn lengths(&self) -> &Range<u64> {
        self.lengths.get_or_init(|| {
            let first = jiff::civil::date(2000, 1, 1);
            let units = 38 * 366 * DAY_S * 1_000_000 / self.unit.least().as_micros();
            let units = i32::try_from(units).unwrap_or_default();
            let mut edges: Vec<i64> =
                (0..units).filter_map(|step| self.edge_at(first, step)).collect();
            edges.dedup();
            let lengths = edges.windows(2).map(|pair| pair[1].abs_diff(pair[0]) * 1_000_000);
            let least = self.unit.least().as_micros();
            lengths.fold(least..least, |all, us| all.start.min(us)..all.end.max(us))
        })
    }

    /// The length of the shortest window, in microseconds.
    pub(crate) fn shortest_us(&self) -> u64 {
        self.lengths().start
    }

    /// The length of the longest window, in microseconds.
    pub(crate) fn longest_us(&self) -> u64 {
        self.lengths().end
    }

    fn key(&self) -> (CalendarUnit, &str, Edge) {
        (self.unit, self.zone(), self.edge)
    }
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Calendar {}

impl Hash for Calendar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// Names of the days of a week.
pub(crate) const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Names of the months.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// `15th`, `1st`.
pub(crate) fn ordinal(day: i8) -> String {
    let end = match day {
        1 | 21 | 31 => "st",
        2 | 22 => "nd",
        3 | 23 => "rd",
        _ => "th",
    };
    format!("{day}{end}")
}

/// `month in UTC`, `week in Asia/Tokyo from Sunday 06:00`. An edge is written where it is not the
/// first midnight.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.unit.name(), self.place())
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Calendar {
    /// ` in Europe/Berlin from 15th 06:00`: all but the unit.
    pub(crate) fn place(&self) -> String {
        let Edge { month, day, minute_of_day } = self.edge;
        let name = |names: &'static [&str], number: i8| {
            let place = usize::try_from(number - 1).unwrap_or_default();
            names.get(place).copied().unwrap_or_default()
        };
        let mut text = format!(" in {}", self.zone());
        if self.edge == Edge::FIRST {
            return text;
        }
        text += " from";
        text += &match self.unit {
            CalendarUnit::Day => String::new(),
            CalendarUnit::Week => format!(" {}", name(&WEEKDAYS, day)),
            CalendarUnit::Month => format!(" {}", ordinal(day)),
            CalendarUnit::Year => format!(" {} {}", ordinal(day), name(&MONTHS, month)),
        };
        if minute_of_day > 0 {
            text += &format!(" {:02}:{:02}", minute_of_day / 60, minute_of_day % 60);
        }
        text
    }
}
