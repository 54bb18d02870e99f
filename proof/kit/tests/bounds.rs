//! No step overflows for any accepted quota: each number that a step calculates, as the interval of
//! all its values, fits into its type. The engine is asked at the ends of these intervals, too.

use tollgate::engine::{Mode, Part, VecStates, decide};
use tollgate::{LimitSet, MAX_COST, MAX_PERIOD_US, MAX_UNITS, Time};
use tollgate_proof::steps::edges;

/// All values from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span(u128, u128);

impl Span {
    fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0, self.1 + other.1)
    }

    fn times(self, other: Self) -> Self {
        Self(self.0 * other.0, self.1 * other.1)
    }

    /// The other one is never larger: `known` says why.
    fn less(self, other: Self, known: &str) -> Self {
        assert!(!known.is_empty());
        Self(self.0.saturating_sub(other.1), self.1.saturating_sub(other.0))
    }

    fn divided(self, by: Self) -> Self {
        Self(self.0 / by.1, self.1 / by.0)
    }

    fn divided_up(self, by: Self) -> Self {
        Self(self.0.div_ceil(by.1), self.1.div_ceil(by.0))
    }

    /// Known to be at most so much, by another rule than those of its parts.
    fn at_most(self, most: u128, known: &str) -> Self {
        assert!(!known.is_empty() && self.0 <= most);
        Self(self.0, self.1.min(most))
    }
}

/// The numbers of one strategy, by name.
struct Book(&'static str, Vec<(&'static str, Span)>);

impl Book {
    /// A number in 64 bits.
    fn word(&mut self, name: &'static str, span: Span) -> Span {
        assert!(span.1 <= u64::MAX.into(), "{}: {name} is {span:?}", self.0);
        self.1.push((name, span));
        span
    }

    /// A number that the step in Lua calculates as well, in a double.
    fn exact(&mut self, name: &'static str, span: Span) -> Span {
        assert!(span.1 <= EXACT, "{}: {name} is not exact in a double: {span:?}", self.0);
        self.word(name, span)
    }
}

/// A double holds every integer up to this one.
const EXACT: u128 = 1 << 53;
/// The longest wait of a step, for which limits are refused that would take longer.
const LONGEST: u128 = 1 << 51;
const UNITS: Span = Span(1, MAX_UNITS as u128);
const COST: Span = Span(1, MAX_COST as u128);
const PERIOD: Span = Span(1, MAX_PERIOD_US as u128);
const ONE: Span = Span(1, 1);

fn now() -> Span {
    Span(0, Time::MAX.as_micros().into())
}

/// `uniform`, `gcra` and the greedy `token_bucket`. With `T = numerator / denominator` in lowest
/// terms a limit is refused unless `most * denominator < 2^53` and `most * T <= 2^51`.
#[test]
fn greedy() {
    let mut book = Book("greedy", Vec::new());
    let (denominator, most) = (UNITS, UNITS);
    book.exact("numerator", PERIOD);
    let part = denominator.less(ONE, "a remainder of it");
    // The multiples of T, of as many units as can be used at most.
    let whole = book.exact("units * whole_us", Span(0, LONGEST));
    let parts = Span(0, most.times(part).1).at_most(EXACT - 1, "most * denominator < 2^53");
    let parts = book.exact("units * part", parts);
    let time = whole.plus(parts.divided(denominator)).at_most(LONGEST, "it is most * T");
    book.exact("us + parts / denominator", time);
    book.exact("num of both", part.plus(part));
    book.exact("us of both", time.plus(time).plus(ONE));
    book.exact("borrowed", part.plus(denominator));
    // A backlog is at most that of `most`: more is cut to it.
    let tat = book.exact("now + backlog", now().plus(time));
    book.exact("ceil_us", tat.at_most(EXACT - 1, "a fraction is below most * T").plus(ONE));
    // The units in a span are counted in parts of a microsecond, in 128 bits.
    let in_parts = time.times(denominator).plus(part);
    assert!(in_parts.1 < u128::MAX >> 1);
    let estimate = in_parts.at_most(u64::MAX.into(), "else it is divided in 128 bits");
    book.word("estimate * numerator", estimate);
    // A part of a unit that is scaled to another T: below the numerator of the old one.
    let rest = Span(0, PERIOD.1);
    book.exact("parts of the rest", rest);
    assert!(rest.times(PERIOD).1 < u128::MAX >> 1, "mul_div_up works in 128 bits");
    book.exact("at + cost * T", now().plus(time));
    println!("{}: {} numbers", book.0, book.1.len());
}

/// `token_bucket` with `refill interval`: refused unless `ceil(most / N) * D <= 2^51`.
#[test]
fn interval() {
    let mut book = Book("interval", Vec::new());
    let most = UNITS;
    let current = book.exact("now - now % D", now());
    let refills = book.exact("passed / D", now().divided(PERIOD));
    assert!(refills.times(UNITS).1 < u128::MAX, "saturating in 64 bits: more than can be missing");
    let missing = book.exact("missing + cost", Span(0, most.1));
    book.exact("missing + cost, judged", missing.plus(COST));
    let wait = Span(0, LONGEST);
    let refilled = current;
    book.exact("refilled + refills * D", refilled.plus(wait));
    book.exact("that, less now", refilled.plus(wait).less(now(), "one refill is after now"));
    book.exact("the end of an interval", now().plus(PERIOD));
    println!("{}: {} numbers", book.0, book.1.len());
}

/// `fixed_window`: a window begins no later than a second from now.
#[test]
fn fixed() {
    let mut book = Book("fixed", Vec::new());
    let start = book.exact("start", now());
    let end = book.exact("start + D", start.plus(PERIOD));
    book.exact("end - now", end.less(now(), "a window that counts ends after now"));
    let count = book.exact("count", Span(0, UNITS.1));
    book.exact("count + cost, judged", count.plus(COST));
    book.exact("count + cost, charged", count.plus(COST).at_most(UNITS.1, "count + cost <= most"));
    println!("{}: {} numbers", book.0, book.1.len());
}

/// `sliding_log`: totals wrap, and are only ever subtracted.
#[test]
fn log() {
    let mut book = Book("log", Vec::new());
    let at = book.exact("at", now());
    book.exact("at + D", at.plus(PERIOD));
    let used = book.exact("used", Span(0, UNITS.1));
    let freed = book.exact("used + cost - N", used.plus(COST).less(UNITS, "else it is admitted"));
    assert!(freed.1 < u64::MAX.into(), "a difference of two totals is below 2^64, so it is exact");
    println!("{}: {} numbers", book.0, book.1.len());
}

/// `sliding_window`: at most a thousand buckets, each of at most 2^40 units.
#[test]
fn sliding() {
    let mut book = Book("sliding", Vec::new());
    let (precision, buckets) = (PERIOD, Span(1, 1_000));
    let bucket = book.exact("now / P", now().divided(precision));
    let start = book.exact("bucket * P", now());
    let window = PERIOD.plus(precision);
    book.exact("(newest + lifetime) * P", start.plus(window));
    book.exact("bucket + b", bucket.plus(buckets));
    let count = book.exact("a bucket", Span(0, UNITS.1));
    let inside = book.exact("inside", count.times(buckets));
    let used = book.exact("used", inside.plus(count));
    book.exact("used + cost", used.plus(COST));
    assert!(count.times(precision).1 < u128::MAX >> 1, "mul_div works in 128 bits");
    let surplus = used.plus(COST).less(UNITS, "else it is admitted").at_most(UNITS.1, "fits");
    let into = surplus.times(precision).divided_up(Span(1, UNITS.1));
    let into = into.at_most(precision.1, "no more than the bucket has is in the way");
    book.exact("start + the part of a bucket", start.plus(window).plus(into));
    println!("{}: {} numbers", book.0, book.1.len());
}

/// The assumption above about accepted limits: one that needs more is refused, and one that needs
/// as much is not.
#[test]
fn limits_beyond_the_intervals_are_refused() {
    let accepts = |text: &str| text.parse::<LimitSet>().is_ok();
    for (accepted, refused) in [
        ("1099511627776/366d via sliding_log", "1099511627777/366d via sliding_log"),
        ("1/366d via sliding_log", "1/31622400000001us via sliding_log"),
        // most * denominator: 2^26 * (2^27 - 1) < 2^53.
        (
            "134217727/134217728us burst 67108864 debt 0 via gcra",
            "134217729/134217728us burst 67108864 debt 0 via gcra",
        ),
        // most * T <= 2^51.
        ("1/1us burst 1099511627776 via gcra", "1/2049us burst 1099511627776 via gcra"),
        ("1/2048us burst 1099511627776 debt 0 via gcra", "1/2049us burst 1099511627776 via gcra"),
        (
            "1/2048us burst 1099511627776 refill interval via token_bucket",
            "1/2049us burst 1099511627776 refill interval via token_bucket",
        ),
        ("9/1000us precision 1us via sliding_window", "9/1001us precision 1us via sliding_window"),
    ] {
        assert!(accepts(accepted), "{accepted}");
        assert!(!accepts(refused), "{refused}");
    }
}

/// Every two operations at the ends of all numbers and times equal the oracle.
#[test]
fn the_engine_holds_at_the_ends() {
    let (limits, steps) = edges().unwrap_or_else(|differs| panic!("{differs}"));
    println!("{limits} limits, {steps} operations");
    assert!(limits > 100 && steps > 1_000_000, "{limits} {steps}");
}

/// The longest wait of all is reported at the end of time.
#[test]
fn the_longest_wait_at_the_end_of_time_has_a_number() {
    let limits: LimitSet = match "1/2048us burst 1099511627776 debt 0 via gcra".parse() {
        Ok(limits) => limits,
        Err(error) => panic!("{error}"),
    };
    let mut states = VecStates::fresh(&limits);
    for (granted, wait_us) in [(MAX_COST, 0), (0, 1 << 51)] {
        let mut parts = [Part::new(&limits, &mut states)];
        let outcome = decide(&mut parts, Time::MAX, MAX_COST.into(), Mode::Whole, None);
        let Ok(outcome) = outcome else { panic!("{outcome:?}") };
        assert_eq!(outcome.granted, granted);
        assert_eq!(outcome.fields[0].retry_after_us, Some(wait_us));
    }
}
