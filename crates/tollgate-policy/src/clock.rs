//! Times of day and days of the week in conditions, by the wall clock of the process.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use std::borrow::Cow;
use std::net::IpAddr;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use tollgate::{ParseError, Time};

use crate::field::{Field, Fields, advice};

/// The days of a week in order.
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

const MINUTES_OF_DAY: u16 = 24 * 60;

/// The minutes of a week in local time.
pub(crate) const MINUTES_OF_WEEK: u16 = 7 * MINUTES_OF_DAY;

/// A part of each day, or days of each week, in a zone: `22:00-06:00 Europe/Berlin`, `Mon-Fri`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Recurrence {
    cycle: Cycle,
    /// The first minute of the day, or the first day of the week.
    from: u16,
    /// How many of them, at least one.
    len: u16,
    /// `None` until the conditions beside it have been read: they may name the zone.
    zone: Option<Zone>,
}

/// The span after which a condition on the time holds again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Cycle {
    /// A day, counted in minutes.
    Day,
    /// A week, counted in days.
    Week,
}

/// A time zone of the bundled database.
#[derive(Clone)]
pub(crate) struct Zone(TimeZone);

/// A minute of the week in local time, from Monday 00:00.
pub(crate) type LocalMinute = u16;

impl Cycle {
    /// The number of units in it.
    const fn units(self) -> u16 {
        match self {
            Self::Day => MINUTES_OF_DAY,
            Self::Week => 7,
        }
    }
}

impl Recurrence {
    /// Parses a time of day, if the field is [`Field::Time`], or else days of the week.
    ///
    /// # Errors
    /// A time that no clock shows, an unknown day or zone, a span of no minutes.
    pub(crate) fn parse(field: &Field, text: &str) -> Result<Self, ParseError> {
        let (span, zone) = text.split_once(' ').map_or((text, None), |(a, b)| (a, Some(b)));
        let zone = zone.map(|name| Zone::parse(text, name)).transpose()?;
        let (cycle, from, until) = match field {
            Field::Time => {
                let Some((from, until)) = span.split_once('-') else {
                    return Err(ParseError::at(
                        text,
                        0..span.len(),
                        format!("`{span}` is not a span of time"),
                        "write where it begins and ends, e.g. `22:00-06:00 Europe/Berlin`",
                    ));
                };
                let begin = minute(text, 0, from)?;
                let end = minute(text, from.len() + 1, until)?;
                if begin == end {
                    return Err(ParseError::at(
                        text,
                        0..span.len(),
                        format!("the span `{span}` is empty: its end is not part of it"),
                        "write another end, or leave `time` out for the whole day",
                    ));
                }
                (Cycle::Day, begin, end)
            }
            _ => {
                let (from, until) = span.split_once('-').unwrap_or((span, span));
                let first = day(text, 0, from)?;
                let last = if from == span { first } else { day(text, from.len() + 1, until)? };
                (Cycle::Week, first, last + 1)
            }
        };
        // A span may pass midnight, and days may pass Sunday.
        let len = match (until + cycle.units() - from) % cycle.units() {
            0 => cycle.units(),
            len => len,
        };
        Ok(Self { cycle, from, len, zone })
    }

    /// The zone, if it is known.
    pub(crate) fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    /// Sets the zone.
    pub(crate) fn set_zone(&mut self, zone: Zone) {
        self.zone = Some(zone);
    }

    /// The minute of the week at this time.
    pub(crate) fn local(&self, time: Time) -> LocalMinute {
        self.zone.as_ref().map_or_else(|| Zone::utc().local(time), |zone| zone.local(time))
    }

    /// True at this minute of the week.
    pub(crate) fn holds(&self, minute: LocalMinute) -> bool {
        let at = match self.cycle {
            Cycle::Day => minute % MINUTES_OF_DAY,
            Cycle::Week => minute / MINUTES_OF_DAY,
        };
        self.distance(at) < self.len
    }

    /// The units from its beginning to `at`.
    fn distance(&self, at: u16) -> u16 {
        (at + self.cycle.units() - self.from) % self.cycle.units()
    }

    /// True when both go by one zone and one cycle, so that their spans can be compared.
    fn is_like(&self, other: &Self) -> bool {
        self.cycle == other.cycle && self.zone == other.zone
    }

    /// True when it holds whenever `other` does.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.is_like(other)
            && (self.len == self.cycle.units() || self.distance(other.from) + other.len <= self.len)
    }

    /// True when it never holds while `other` does.
    pub(crate) fn is_disjoint(&self, other: &Self) -> bool {
        self.is_like(other)
            && self.distance(other.from) >= self.len
            && other.distance(self.from) >= other.len
    }
}

impl fmt::Display for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = (self.from + self.len - 1) % self.cycle.units();
        match self.cycle {
            Cycle::Day => {
                let until = (last + 1) % MINUTES_OF_DAY;
                write!(f, "{}-{}", ClockTime(self.from), ClockTime(until))?;
            }
            Cycle::Week if self.len == 1 => f.write_str(name_of(self.from))?,
            Cycle::Week => write!(f, "{}-{}", name_of(self.from), name_of(last))?,
        }
        match &self.zone {
            Some(zone) => write!(f, " {zone}"),
            None => Ok(()),
        }
    }
}

/// A minute of the day as a clock shows it.
pub(crate) struct ClockTime(pub(crate) u16);

impl fmt::Display for ClockTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minute = self.0 % MINUTES_OF_DAY;
        write!(f, "{:02}:{:02}", minute / 60, minute % 60)
    }
}

/// A minute of the week as text: `Mon 06:00`.
pub(crate) fn local_text(minute: LocalMinute) -> String {
    format!("{} {}", name_of(minute / MINUTES_OF_DAY), ClockTime(minute))
}

fn name_of(day: u16) -> &'static str {
    DAYS.get(usize::from(day) % DAYS.len()).copied().unwrap_or_default()
}

/// The minute of the day in a part of `text` that begins at `at`.
fn minute(text: &str, at: usize, part: &str) -> Result<u16, ParseError> {
    let refuse = |remedy: &str| {
        let what = format!("`{part}` is not a time of day");
        Err(ParseError::at(text, at..at + part.len(), what, remedy))
    };
    let digits = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|_| is_number)
    };
    let both = part.split_once(':').and_then(|(hour, minute)| digits(hour).zip(digits(minute)));
    match both {
        Some((hour @ ..24, minute @ ..60)) => Ok(hour * 60 + minute),
        Some((24, 0)) => refuse("the end of a day is the beginning of the next: write `00:00`"),
        Some(_) => refuse("it is from `00:00` to `23:59`"),
        None => refuse("write hours and minutes in two digits each, e.g. `06:00`"),
    }
}

/// The day in a part of `text` that begins at `at`.
fn day(text: &str, at: usize, part: &str) -> Result<u16, ParseError> {
    if let Some(number) = (0..).zip(DAYS).find(|(_, name)| *name == part).map(|(at, _)| at) {
        return Ok(number);
    }
    let what = format!("`{part}` is not a day of the week");
    let short: String = part.chars().take(3).collect();
    let remedy = advice(&short, DAYS, "the days are Mon, Tue, Wed, Thu, Fri, Sat and Sun");
    Err(ParseError::at(text, at..at + part.len(), what, remedy))
}

impl Zone {
    pub(crate) fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The zone of this name, which is the end of `text`.
    fn parse(text: &str, name: &str) -> Result<Self, ParseError> {
        let zones = TimeZoneDatabase::bundled();
        if let Ok(zone) = zones.get(name)
            && zone.iana_name().is_some()
        {
            return Ok(Self(zone));
        }
        let names: Vec<String> = zones.available().map(|name| name.to_string()).collect();
        let right = "write a name of the IANA database, e.g. `Europe/Berlin`, or `UTC`";
        let remedy = advice(name, names.iter().map(String::as_str), right);
        let at = text.len() - name.len()..text.len();
        Err(ParseError::at(text, at, format!("`{name}` is not a time zone"), remedy))
    }

    fn local(&self, time: Time) -> LocalMinute {
        let us = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        // Cannot fail: the last time of a store is in the year 2184.
        let time = Timestamp::from_microsecond(us).unwrap_or(Timestamp::MAX);
        let local = self.0.to_datetime(time);
        let day = u16::try_from(local.weekday().to_monday_zero_offset()).unwrap_or(0);
        let number = |of_day: i8| u16::try_from(of_day).unwrap_or(0);
        day * MINUTES_OF_DAY + number(local.hour()) * 60 + number(local.minute())
    }

    fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({self})")
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl PartialOrd for Zone {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Zone {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// A request at one moment. Without it, two conditions of one request could be tested on both sides
/// of an edge, and neither of two policies that share the day would hold.
pub(crate) struct Moment<'f> {
    fields: &'f dyn Fields,
    now: Time,
}

impl<'f> Moment<'f> {
    pub(crate) fn new(fields: &'f dyn Fields) -> Self {
        Self { fields, now: fields.now() }
    }
}

impl Fields for Moment<'_> {
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        self.fields.field(field)
    }

    fn address(&self) -> Option<IpAddr> {
        self.fields.address()
    }

    fn now(&self) -> Time {
        self.now
    }
}
