//! The count of a limit at a moment: as spans of time, and as the reason of an answer in words.

use core::time::Duration;

use tollgate::wire::duration;
use tollgate::{
    Anchor, Ask, Limit, LimitKind, LimitSet, Limiter, MemoryStore, Place, Refill, Rounding,
    Strategy, Time,
};

use crate::answer::{Edges, Kind, Span};

/// The most edges of a calendar that are drawn.
const MAX_DATES: usize = 100;

/// The answer of one limit to a question, and what the question was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Fits,
    /// So many of the units.
    Part(u64),
    /// After so many microseconds.
    Later(u64),
    Never,
    /// Without a check.
    Charged,
}

/// One limit at a moment, before or after a question.
#[derive(Debug)]
pub(crate) struct Moment<'l> {
    limit: &'l Limit,
    at_us: u64,
    remaining: u64,
    /// Until one unit is admitted.
    wait_us: u64,
    reset_us: u64,
    /// The state, as `docs/keys.md` describes it; empty where it is fresh.
    words: Vec<u64>,
    log: Vec<(u64, u64)>,
}

/// Every limit of a set at this time of its clock, for one subject.
///
/// # Errors
/// The limiter's, as text.
pub(crate) fn moments<'l>(
    limiter: &'l Limiter<MemoryStore>,
    subject: &str,
    at_us: u64,
) -> Result<Vec<Moment<'l>>, String> {
    let failed = |error: tollgate::Error| error.to_string();
    let peek = limiter.check(Ask::new(subject).peek()).now().map_err(failed)?;
    let stored = limiter.admin().inspect(subject).now().map_err(failed)?;
    let set: &LimitSet = limiter.limits();
    let parts = set.limits().iter().zip(set.places()).zip(peek.reports());
    let moment = |((limit, place), report): ((&'l Limit, &Place), tollgate::Report<'_>)| {
        let (mut words, mut log) = (Vec::new(), Vec::new());
        if let Some(stored) = &stored {
            words = stored.words.get(place.words()).unwrap_or_default().to_vec();
            if let Place::Log(number) = place {
                log = stored.logs.get(*number).cloned().unwrap_or_default();
            }
        }
        let (remaining, reset_us) = (report.remaining(), micros(report.reset_after()));
        let wait_us = report.retry_after().map_or(0, micros);
        Moment { limit, at_us, remaining, wait_us, reset_us, words, log }
    };
    Ok(parts.map(moment).collect())
}

impl Moment<'_> {
    /// The spans of time that count; of units that come back one by one, the time until all have.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let full = |start_us, end_us, units| Span { start_us, end_us, units, counted: units * 100 };
        match kind(self.limit) {
            Kind::Windows => {
                self.window().map(|(from, to, units)| full(from, to, units)).into_iter().collect()
            }
            Kind::Log => {
                let period_us = self.limit.quota().period.as_micros();
                let entries = self.log.iter().map(|(at, units)| full(*at, at + period_us, *units));
                entries.filter(|span| span.end_us > self.at_us).collect()
            }
            Kind::SubBuckets => self.sub_buckets(),
            Kind::Backlog | Kind::Ban if self.reset_us == 0 => Vec::new(),
            Kind::Backlog => {
                vec![full(self.at_us, self.at_us + self.reset_us, self.used().div_ceil(100))]
            }
            // A ban is over before it is forgotten.
            Kind::Ban if self.wait_us == 0 => Vec::new(),
            Kind::Ban => vec![full(self.at_us, self.at_us + self.wait_us, 1)],
        }
    }

    /// The window or interval, with the units that are used in it; `None` where none is open.
    fn window(&self) -> Option<(u64, u64, u64)> {
        let quota = self.limit.quota();
        let period_us = quota.period.as_micros();
        let is_fixed = self.limit.strategy() == Strategy::FixedWindow;
        let [start_us, count] = *self.words.first_chunk().unwrap_or(&[0, 0]);
        let begins = self.at_us - self.at_us % period_us;
        if !is_fixed {
            let refills = begins.saturating_sub(start_us) / period_us;
            let missing = count.saturating_sub(refills.saturating_mul(quota.units));
            return Some((begins, begins + period_us, missing));
        }
        let is_open = self.reset_us > 0;
        let units = if is_open { count } else { 0 };
        if let Some(calendar) = &quota.calendar {
            let window = calendar.window(Time::from_micros(self.at_us));
            return Some((window.start.as_micros(), window.end.as_micros(), units));
        }
        match (is_open, quota.anchor.unwrap_or_default()) {
            (true, _) => {
                let end_us = self.at_us + self.reset_us;
                Some((end_us.saturating_sub(period_us), end_us, units))
            }
            (false, Anchor::FirstHit) => None,
            (false, _) => Some((begins, begins + period_us, units)),
        }
    }

    /// The sub-buckets of the window that have units, the oldest first.
    fn sub_buckets(&self) -> Vec<Span> {
        let Some((&newest, counts)) = self.words.split_first() else { return Vec::new() };
        let (precision_us, buckets) = sub_buckets(self.limit);
        let now = (self.at_us / precision_us).max(newest);
        let oldest = now.saturating_sub(buckets);
        let stored = newest.saturating_sub(buckets)..=newest;
        let mut spans = Vec::new();
        for bucket in (oldest..=now).filter(|bucket| stored.contains(bucket)) {
            let slot = usize::try_from(bucket % (buckets + 1)).unwrap_or(usize::MAX);
            let units = counts.get(slot).copied().unwrap_or(0);
            let start_us = bucket * precision_us;
            let whole = units * 100;
            let counted = match self.limit.quota().rounding.unwrap_or_default() {
                _ if bucket + buckets != now => whole,
                Rounding::Truncate => 0,
                Rounding::Interpolate => {
                    let left_us = precision_us - self.at_us.max(now * precision_us) % precision_us;
                    let part = u128::from(whole) * u128::from(left_us);
                    u64::try_from(part.div_ceil(precision_us.into())).unwrap_or(whole)
                }
                _ => whole,
            };
            if units > 0 {
                spans.push(Span { start_us, end_us: start_us + precision_us, units, counted });
            }
        }
        spans
    }

    /// The units used, in hundredths, rounded up. After a step of the clock the stored state is not
    /// yet what counts (docs/definitions.md, section 3): then the whole units are known.
    fn used(&self) -> u64 {
        let counted = self.counted();
        if self.is_current(counted) {
            return counted;
        }
        self.limit.capacity().saturating_sub(self.remaining) * 100
    }

    /// The same by the stored state.
    fn counted(&self) -> u64 {
        match kind(self.limit) {
            Kind::Backlog => {
                let quota = self.limit.quota();
                let us = u128::from(self.reset_us) * u128::from(quota.units) * 100;
                u64::try_from(us.div_ceil(quota.period.as_micros().into())).unwrap_or(u64::MAX)
            }
            Kind::Ban => 0,
            _ => self.spans().iter().map(|span| span.counted).sum(),
        }
    }

    /// Whether so many used units leave what the engine says remains.
    fn is_current(&self, used: u64) -> bool {
        (self.limit.capacity() * 100).saturating_sub(used) / 100 == self.remaining
    }

    /// Why the limit answers a question of this cost as it does.
    pub(crate) fn why(&self, cost: u64, verdict: Verdict) -> String {
        let capacity = self.limit.capacity();
        if self.limit.kind() == LimitKind::Ban {
            return match verdict {
                Verdict::Later(wait_us) => {
                    format!("A ban runs until {}.", self.clock(self.at_us + wait_us))
                }
                _ => "No ban runs.".to_owned(),
            };
        }
        let fit = if cost == 1 { "fits" } else { "fit" };
        let end = match verdict {
            Verdict::Fits => format!("{cost} more {fit} now"),
            Verdict::Part(0) => format!("none of the {cost} fit now"),
            Verdict::Part(granted) => format!("{granted} of the {cost} fit now"),
            Verdict::Charged => format!("{cost} more, without a check"),
            Verdict::Never => {
                return format!("A cost of {cost} is above the capacity of {capacity}: never.");
            }
            Verdict::Later(wait_us) => {
                let at_us = self.at_us + wait_us;
                format!("{cost} more {fit} at {}{}", self.clock(at_us), self.until(at_us))
            }
        };
        let used = self.used();
        let (whole, rest) = (used / 100, used % 100);
        let fraction = if rest == 0 { String::new() } else { format!(".{rest:02}") };
        let used = format!("{whole}{}", fraction.trim_end_matches('0'));
        format!("{used} of {capacity} used{}: {end}.", self.place())
    }

    /// Where the used units are counted.
    fn place(&self) -> String {
        let quota = self.limit.quota();
        match kind(self.limit) {
            Kind::Windows => match self.window() {
                Some((from, to, _)) => format!(" from {} to {}", self.clock(from), self.clock(to)),
                None => ", no window is open".to_owned(),
            },
            Kind::Log => {
                let after = self.at_us.checked_sub(quota.period.as_micros());
                let after = after.map(|us| format!(", after {}", self.clock(us)));
                format!(" in the last {}{}", quota.period, after.unwrap_or_default())
            }
            Kind::SubBuckets => {
                let (precision_us, buckets) = sub_buckets(self.limit);
                let now = self.at_us / precision_us;
                let is_cut = quota.rounding == Some(Rounding::Truncate);
                let first = (now + u64::from(is_cut)).saturating_sub(buckets);
                let [from, to] = [first, now + 1].map(|bucket| self.clock(bucket * precision_us));
                format!(" in the sub-buckets from {from} to {to}")
            }
            Kind::Backlog | Kind::Ban => {
                format!(", one comes back each {}", gap(quota.period.as_micros(), quota.units))
            }
        }
    }

    /// The event that makes room at that time.
    fn until(&self, at_us: u64) -> String {
        let quota = self.limit.quota();
        match kind(self.limit) {
            Kind::Windows if self.limit.strategy() == Strategy::FixedWindow => {
                ", when the next window begins".to_owned()
            }
            Kind::Windows => format!(", with {} more each {}", quota.units, quota.period),
            Kind::Log => {
                let of_us = at_us.saturating_sub(quota.period.as_micros());
                format!(", when that of {} leaves", self.clock(of_us))
            }
            Kind::SubBuckets => {
                let (precision_us, buckets) = sub_buckets(self.limit);
                let is_cut = quota.rounding == Some(Rounding::Truncate);
                let leaving = at_us.saturating_sub(1) / precision_us + u64::from(is_cut);
                let from_us = leaving.saturating_sub(buckets) * precision_us;
                let [from, to] = [from_us, from_us + precision_us].map(|us| self.clock(us));
                match quota.rounding.unwrap_or_default() {
                    Rounding::Interpolate => format!(", as the one from {from} to {to} leaves"),
                    _ => format!(", when the one from {from} to {to} has left"),
                }
            }
            Kind::Backlog | Kind::Ban => String::new(),
        }
    }

    /// A time, rounded up to a millisecond where the limit is about seconds.
    fn clock(&self, us: u64) -> String {
        let grain = if self.limit.quota().period.as_micros() < 1_000_000 { 1 } else { 1_000 };
        duration(Duration::from_micros(us.div_ceil(grain) * grain))
    }
}

/// How a limit counts.
pub(crate) fn kind(limit: &Limit) -> Kind {
    match limit.strategy() {
        _ if limit.kind() == LimitKind::Ban => Kind::Ban,
        Strategy::FixedWindow => Kind::Windows,
        Strategy::SlidingLog => Kind::Log,
        Strategy::SlidingWindow => Kind::SubBuckets,
        _ if limit.quota().refill == Some(Refill::Interval) => Kind::Windows,
        _ => Kind::Backlog,
    }
}

/// The length of the sub-buckets in microseconds, and how many make a window.
fn sub_buckets(limit: &Limit) -> (u64, u64) {
    let quota = limit.quota();
    let period_us = quota.period.as_micros();
    let precision_us = quota.precision.map_or(period_us / 10, tollgate::Period::as_micros);
    (precision_us.max(1), period_us / precision_us.max(1))
}

/// The times at which the parts of a limit begin.
pub(crate) fn edges(limit: &Limit) -> Option<Edges> {
    let quota = limit.quota();
    let period_us = quota.period.as_micros();
    Some(match kind(limit) {
        Kind::SubBuckets => Edges::Every(sub_buckets(limit).0),
        Kind::Windows => match &quota.calendar {
            Some(calendar) => {
                let window = |us: u64| calendar.window(Time::from_micros(us));
                let next = |window: &core::ops::Range<Time>| {
                    let (start, end) = (window.start.as_micros(), window.end.as_micros());
                    (end > start).then(|| calendar.window(window.end))
                };
                let windows = std::iter::successors(Some(window(0)), next).take(MAX_DATES);
                Edges::Dates(windows.map(|window| window.start.as_micros()).collect())
            }
            None if quota.anchor == Some(Anchor::FirstHit) => Edges::FirstHit(period_us),
            None => Edges::Every(period_us),
        },
        Kind::Log | Kind::Backlog | Kind::Ban => return None,
    })
}

/// The section of a strategy's page on when to choose it, without its marks, by sentence groups.
pub(crate) fn choose(strategy: Strategy) -> Vec<String> {
    let section = strategy.page().split_once("## When to choose it\n").map_or("", |(_, text)| text);
    let section = section.split("\n## ").next().unwrap_or_default().replace('`', "");
    let mut groups: Vec<String> = Vec::new();
    let mut is_new = true;
    for line in section.lines() {
        let text = line.trim();
        is_new |= text.is_empty() || text.starts_with("- ");
        if text.is_empty() {
            continue;
        }
        let text = text.trim_start_matches("- ");
        match groups.last_mut() {
            Some(last) if !is_new => last.extend([" ", text]),
            _ => groups.push(text.to_owned()),
        }
        is_new = false;
    }
    groups
}

/// The time between two units, as the documentation writes it.
fn gap(period_us: u64, units: u64) -> String {
    let text = |us| duration(Duration::from_micros(us));
    match period_us % units {
        0 => text(period_us / units),
        _ => format!("{}/{units}", text(period_us)),
    }
}

/// A wait in whole microseconds.
pub(crate) fn micros(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tollgate::ManualClock;
    use tollgate_proof::vectors::{self, VECTORS};

    use super::*;

    /// A limiter of one limit, after these admitted checks of cost 1.
    fn limiter(text: &str, at_us: &[u64]) -> (Limiter, ManualClock) {
        let clock = ManualClock::at_micros(0);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::new(text.parse().unwrap(), store);
        for us in at_us {
            clock.set(Time::from_micros(*us));
            assert!(limiter.check("a").now().unwrap().is_allowed(), "{text} at {us}");
        }
        (limiter, clock)
    }

    fn moment_of(limiter: &Limiter, clock: &ManualClock, at_us: u64) -> Vec<Span> {
        clock.set(Time::from_micros(at_us));
        moments(limiter, "a", at_us).unwrap()[0].spans()
    }

    const S: u64 = 1_000_000;

    #[test]
    fn the_state_that_is_shown_is_what_the_engine_counts() {
        let mut lines = 0;
        for (name, text) in VECTORS {
            for time_line in vectors::parse(text).unwrap() {
                let Ok(set) = time_line.limit.to_string().parse::<LimitSet>() else { continue };
                let clock = ManualClock::at_micros(0);
                let store = MemoryStore::builder().clock(clock.clone()).build();
                let limiter = Limiter::new(set, store);
                let mut newest = 0;
                for line in &time_line.lines {
                    clock.set(Time::from_micros(line.at_us));
                    let before = moments(&limiter, "a", line.at_us).unwrap();
                    let at = format!("{name}:{}: {before:?}", line.number);
                    if line.at_us >= newest {
                        assert!(before[0].is_current(before[0].counted()), "{at}");
                        lines += 1;
                    }
                    newest = newest.max(line.at_us);
                    let ask = Ask::new("a").cost(line.cost);
                    match line.ask {
                        vectors::Ask::Check => drop(limiter.check(ask).now()),
                        vectors::Ask::Peek => drop(limiter.check(ask.peek()).now()),
                        vectors::Ask::Partial => drop(limiter.check(ask.partial()).now()),
                        vectors::Ask::Charge => drop(limiter.charge(ask).now()),
                    }
                }
            }
        }
        assert!(lines > 200, "{lines}");
    }

    #[test]
    fn windows_and_sub_buckets_have_their_place_and_units() {
        let span = |start: u64, end: u64, units, part| Span {
            start_us: start * S,
            end_us: end * S,
            units,
            counted: units * part,
        };
        let spans = |text: &str, asked: &[u64], at: u64| {
            let asked: Vec<u64> = asked.iter().map(|s| s * S).collect();
            let (limiter, clock) = limiter(text, &asked);
            moment_of(&limiter, &clock, at * S)
        };
        assert_eq!(spans("5/10s via fixed_window", &[11, 12], 13), [span(10, 20, 2, 100)]);
        assert_eq!(spans("5/10s via fixed_window", &[11, 12], 25), [span(20, 30, 0, 100)]);
        let first_hit = "5/10s anchor first-hit via fixed_window";
        assert_eq!(spans(first_hit, &[13, 14], 15), [span(13, 23, 2, 100)]);
        assert_eq!(spans(first_hit, &[13, 14], 23), []);
        let day = 86_400;
        assert_eq!(spans("5/day in UTC", &[day + 5], day + 9), [span(day, 2 * day, 1, 100)]);
        let log = [span(4, 14, 1, 100), span(9, 19, 1, 100)];
        assert_eq!(spans("5/10s via sliding_log", &[3, 4, 9], 13), log);
        // The bucket from 3 s to 4 s straddles the window's far edge at 13.x s.
        let buckets = |part| [span(3, 4, 1, part), span(9, 10, 1, 100)];
        assert_eq!(spans("5/10s via sliding_window", &[2, 3, 9], 13), buckets(100));
        let interpolated = "5/10s rounding interpolate via sliding_window";
        let (limiter, clock) = limiter(interpolated, &[3 * S, 9 * S]);
        assert_eq!(moment_of(&limiter, &clock, 13 * S + S / 4), buckets(75));
        let truncated = "5/10s rounding truncate via sliding_window";
        assert_eq!(spans(truncated, &[3, 9], 13), buckets(0));
        assert_eq!(spans("5/10s via gcra", &[10, 10], 11), [span(11, 14, 2, 100)]);
        let interval = "5/10s refill interval via token_bucket";
        assert_eq!(spans(interval, &[11, 11], 12), [span(10, 20, 2, 100)]);
    }

    #[test]
    fn parts_begin_where_they_are_counted() {
        let edges = |text: &str| edges(&text.parse::<LimitSet>().unwrap().limits()[0]);
        assert_eq!(edges("5/10s via fixed_window"), Some(Edges::Every(10 * S)));
        assert_eq!(edges("5/10s via sliding_window"), Some(Edges::Every(S)));
        let first_hit = "5/10s anchor first-hit via fixed_window";
        assert_eq!(edges(first_hit), Some(Edges::FirstHit(10 * S)));
        assert_eq!(edges("5/10s via gcra"), None);
        let Some(Edges::Dates(dates)) = edges("5/month") else { panic!("a calendar has dates") };
        let days = |days: u64| days * 86_400 * S;
        assert_eq!((dates.len(), &dates[..3]), (MAX_DATES, &[0, days(31), days(59)][..]));
    }

    #[test]
    #[allow(clippy::too_many_lines)] // one table of cases
    fn a_reason_has_the_numbers_of_the_moment() {
        let cases: &[(&str, &[u64], u64, u64, &str)] = &[
            (
                "2/10s via fixed_window",
                &[11, 12],
                13,
                1,
                "2 of 2 used from 10s to 20s: 1 more fits at 20s, when the next window begins.",
            ),
            (
                "2/10s via fixed_window",
                &[11],
                13,
                1,
                "1 of 2 used from 10s to 20s: 1 more fits now.",
            ),
            (
                "2/10s anchor first-hit via fixed_window",
                &[],
                13,
                1,
                "0 of 2 used, no window is open: 1 more fits now.",
            ),
            (
                "3/10s via sliding_log",
                &[11, 12, 13],
                14,
                2,
                "3 of 3 used in the last 10s, after 4s: 2 more fit at 22s, when that of 12s leaves.",
            ),
            (
                "2/10s via sliding_window",
                &[11, 12],
                15,
                1,
                "2 of 2 used in the sub-buckets from 5s to 16s: 1 more fits at 22s, when the one \
                 from 11s to 12s has left.",
            ),
            (
                "2/10s rounding truncate via sliding_window",
                &[11, 12],
                15,
                1,
                "2 of 2 used in the sub-buckets from 6s to 16s: 1 more fits at 21s, when the one \
                 from 11s to 12s has left.",
            ),
            (
                "2/10s rounding interpolate via sliding_window",
                &[11, 12],
                21,
                1,
                "2 of 2 used in the sub-buckets from 11s to 22s: 1 more fits at 22s, as the one \
                 from 11s to 12s leaves.",
            ),
            (
                "2/10s via gcra",
                &[11, 11],
                12,
                1,
                "1.8 of 2 used, one comes back each 5s: 1 more fits at 16s.",
            ),
            (
                "1/10s via uniform",
                &[11],
                12,
                1,
                "0.9 of 1 used, one comes back each 10s: 1 more fits at 21s.",
            ),
            (
                "2/10s refill interval via token_bucket",
                &[11, 11],
                12,
                1,
                "2 of 2 used from 10s to 20s: 1 more fits at 20s, with 2 more each 10s.",
            ),
            ("2/10s via gcra", &[], 12, 3, "A cost of 3 is above the capacity of 2: never."),
        ];
        for (text, asked, at, cost, why) in cases {
            let asked: Vec<u64> = asked.iter().map(|s| s * S).collect();
            let (limiter, clock) = limiter(text, &asked);
            clock.set(Time::from_micros(at * S));
            let before = moments(&limiter, "a", at * S).unwrap();
            let decision = limiter.check(Ask::new("a").cost(*cost).peek()).now().unwrap();
            let verdict = match decision.verdict() {
                tollgate::Verdict::Allow => Verdict::Fits,
                tollgate::Verdict::NotYet(wait) => Verdict::Later(micros(wait)),
                tollgate::Verdict::Never => Verdict::Never,
            };
            assert_eq!(before[0].why(*cost, verdict), *why, "{text}");
        }
    }

    #[test]
    fn every_strategy_has_words_on_when_to_choose_it() {
        for strategy in Strategy::RATES {
            let words = choose(*strategy);
            assert!(words.len() >= 2, "{strategy}: {words:?}");
            for words in words {
                assert!(words.ends_with(['.', ';', ':', ',']), "{strategy}: {words}");
                assert!(!words.contains(['`', '#', '\n']), "{strategy}: {words}");
            }
        }
    }
}
