//! Calendars: `month in Europe/Berlin from 15th 06:00`.

use core::iter::Peekable;
use core::str::FromStr;

use super::hints::did_you_mean;
use super::reader::{Reader, Token};
use crate::error::ParseError;
use crate::limit::{Calendar, CalendarUnit, Edge, MONTHS, Quota, WEEKDAYS, ordinal};

/// The unit of a word that is always a calendar's, or is one with a zone or an edge.
pub(super) fn unit(word: &str) -> Option<CalendarUnit> {
    Some(match word {
        "d" | "day" => CalendarUnit::Day,
        "w" | "week" => CalendarUnit::Week,
        "month" => CalendarUnit::Month,
        "year" => CalendarUnit::Year,
        _ => return None,
    })
}

/// The calendar of a word that is always one.
pub(super) fn always(word: &str) -> Option<Calendar> {
    let months = |unit: &CalendarUnit| matches!(unit, CalendarUnit::Month | CalendarUnit::Year);
    unit(word).filter(months).map(Calendar::new)
}

/// The remedy for an edge that does not fit.
const fn shape(unit: CalendarUnit) -> &'static str {
    match unit {
        CalendarUnit::Day => "a day begins at a time, as in `from 06:00`",
        CalendarUnit::Week => {
            "a week begins on a day of the week, as in `from Monday` or `from Monday 06:00`"
        }
        CalendarUnit::Month => {
            "a month begins on a day of the month, as in `from 15th` or `from 15th 06:00`"
        }
        CalendarUnit::Year => {
            "a year begins on a date, as in `from 1st April` or `from 1st April 06:00`"
        }
    }
}

impl<'a> Reader<'a> {
    /// The calendar that `word` (`in` or `from`) says more about. `period` is the text of the
    /// quota's period.
    pub(super) fn calendar_of(
        &self,
        quota: &Quota,
        period: &str,
        word: Token<'_>,
    ) -> Result<Calendar, ParseError> {
        let given = quota.calendar.clone().or_else(|| unit(period).map(Calendar::new));
        given.map_or_else(
            || {
                self.fail(
                    word.span(),
                    format!(
                        "`{}` is about windows of a calendar, and `{period}` is a duration",
                        word.text
                    ),
                    "write `day`, `week`, `month` or `year`, as in `5/day in Europe/Berlin`",
                )
            },
            Ok,
        )
    }

    /// The same in the zone of this name.
    pub(super) fn zone(&self, calendar: Calendar, name: Token<'_>) -> Result<Calendar, ParseError> {
        calendar.in_zone(name.text).map_or_else(
            || {
                let zones = Calendar::zones();
                if zones.is_empty() {
                    return self.fail(
                        name.span(),
                        "this program was built without time zones".to_owned(),
                        "write `in UTC`, or build it with the feature `zones`".to_owned(),
                    );
                }
                let same = zones.iter().find(|zone| zone.eq_ignore_ascii_case(name.text));
                let city = |zone: &&String| {
                    let end = zone.rsplit('/').next();
                    end.is_some_and(|city| city.eq_ignore_ascii_case(name.text))
                };
                let hint = same.or_else(|| zones.iter().find(city)).map_or_else(
                    || did_you_mean(name.text, zones.iter().map(String::as_str)),
                    |zone| format!("did you mean `{zone}`? "),
                );
                self.fail(
                    name.span(),
                    format!("there is no time zone `{}`", name.text.escape_default()),
                    format!("{hint}zones have the names of the IANA database, as `Europe/Berlin`"),
                )
            },
            Ok,
        )
    }

    /// The same from the edge of `first` and the words after it, up to an option.
    pub(super) fn edge(
        &self,
        calendar: Calendar,
        first: Token<'a>,
        tokens: &mut Peekable<impl Iterator<Item = Token<'a>>>,
        is_option: impl Fn(&Token<'a>) -> bool,
    ) -> Result<Calendar, ParseError> {
        let mut words = vec![first];
        while let Some(word) = tokens.next_if(|word| !is_option(word)) {
            words.push(word);
        }
        let end = words.last().map_or(first.span().end, |last| last.span().end);
        let all = first.start..end;
        let unit = calendar.unit();
        let minute_of_day = match words.last().filter(|last| last.text.contains(':')) {
            Some(time) => {
                let minute = self.time_of_day(*time)?;
                words.pop();
                minute
            }
            None => 0,
        };
        let (month, day) = match (unit, &words[..]) {
            // A time alone.
            (CalendarUnit::Day, []) => (1, 1),
            (CalendarUnit::Week, [day]) => (1, self.named(*day, &WEEKDAYS, unit)?),
            (CalendarUnit::Month, [day]) => (1, self.ordinal(*day, unit)?),
            (CalendarUnit::Year, [day, month]) => {
                (self.named(*month, &MONTHS, unit)?, self.ordinal(*day, unit)?)
            }
            _ => {
                let what = format!("a {} does not begin so", unit.name());
                return self.fail(all, what, shape(unit));
            }
        };
        let longest = match month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if day > longest {
            let name = words.get(1).map_or("a month", |month| month.text);
            return self.fail(
                words[0].span(),
                format!("{name} has at most {longest} days"),
                format!("`{}` is the last day, also in shorter ones", ordinal(longest)),
            );
        }
        Ok(calendar.with_edge(Edge { month, day, minute_of_day }))
    }

    fn time_of_day(&self, time: Token<'_>) -> Result<i16, ParseError> {
        let number = |text: &str| match text.as_bytes() {
            [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
                Some(i16::from(tens - b'0') * 10 + i16::from(ones - b'0'))
            }
            _ => None,
        };
        let parts = time.text.split_once(':');
        match parts.and_then(|(hour, minute)| Some((number(hour)?, number(minute)?))) {
            Some((hour @ 0..24, minute @ 0..60)) => Ok(hour * 60 + minute),
            Some((24, 0)) => self.fail(
                time.span(),
                "a day ends before `24:00`",
                "write `00:00`, and the day after",
            ),
            _ => self.fail(
                time.span(),
                format!("there is no time `{}`", time.text.escape_default()),
                "times have two digits each, from `00:00` to `23:59`",
            ),
        }
    }

    /// The place of a name, from 1.
    fn named(
        &self,
        word: Token<'_>,
        names: &'static [&'static str],
        unit: CalendarUnit,
    ) -> Result<i8, ParseError> {
        let place = names.iter().position(|name| *name == word.text);
        place.and_then(|place| i8::try_from(place + 1).ok()).map_or_else(
            || {
                let lower = word.text.to_ascii_lowercase();
                let begins =
                    |name: &&&str| lower.len() > 1 && name.to_ascii_lowercase().starts_with(&lower);
                let hint = names.iter().find(begins).map_or_else(
                    || did_you_mean(word.text, names.iter().copied()),
                    |name| format!("did you mean `{name}`? "),
                );
                self.fail(
                    word.span(),
                    format!("a {} does not begin on `{}`", unit.name(), word.text.escape_default()),
                    format!("{hint}{}", shape(unit)),
                )
            },
            Ok,
        )
    }

    /// A day such as `15th`.
    fn ordinal(&self, word: Token<'_>, unit: CalendarUnit) -> Result<i8, ParseError> {
        let digits = word.text.trim_end_matches(|c: char| c.is_ascii_lowercase());
        match digits.parse::<i8>() {
            Ok(day @ 1..) if ordinal(day) == word.text => Ok(day),
            Ok(day @ 1..=31) => self.fail(
                word.span(),
                format!("`{}` is no day of a month", word.text.escape_default()),
                format!("write `{}`", ordinal(day)),
            ),
            _ => self.fail(
                word.span(),
                format!("a {} does not begin on `{}`", unit.name(), word.text.escape_default()),
                shape(unit),
            ),
        }
    }
}

impl FromStr for Calendar {
    type Err = ParseError;

    /// Parses `month`, `week in Asia/Tokyo from Sunday 06:00`.
    ///
    /// # Errors
    /// An unknown unit or zone, or an edge that the unit does not have.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let reader = Reader { text, range: 0..text.len() };
        let mut tokens = reader.tokens().into_iter().peekable();
        let given = tokens.next().and_then(|word| unit(word.text));
        let Some(mut calendar) = given.map(Self::new) else {
            let remedy = "it begins with `day`, `week`, `month` or `year`";
            return Err(ParseError::whole(text, "this is not a calendar", remedy));
        };
        let is_option = |word: &Token<'_>| matches!(word.text, "in" | "from");
        while let Some(word) = tokens.next() {
            let Some(value) = tokens.next().filter(|_| is_option(&word)) else {
                let remedy = "write it as `month in Europe/Berlin from 15th`";
                return reader.fail(word.span(), "a calendar does not go on so", remedy);
            };
            calendar = match word.text {
                "in" => reader.zone(calendar, value)?,
                _ => reader.edge(calendar, value, &mut tokens, is_option)?,
            };
        }
        Ok(calendar)
    }
}
