//! The four commands of one limit whose numbers are in the call. Each has the words, the order and
//! the rounding of the program that it comes from.
//!
//! All of them count under one limit that is named `cell`. So a key whose numbers change keeps its
//! count, and the commands, HTTP and the library count together.

use core::time::Duration;

use tollgate::{Counted, Decision, LimitSet, MAX_COST, MAX_UNITS};
use tollgate_policy::{CheckBatch, OnFailure, Terms};

use super::codec::{Words, whole_number};
use super::key::subject;
use super::reply::Replies;
use super::why::{self, Why, refused};
use crate::service::{Act, By, Question, Service};

/// The program whose words, order and rounding it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// `CL.THROTTLE` of redis-cell.
    Cell,
    /// `RL.THROTTLE`, proposed for Valkey: redis-cell's, with the errors of Redis.
    Valkey,
    /// `GCRA` of Redis.
    Gcra,
    /// `THROTTLE` of throttlecrab.
    Crab,
}

/// The longest period: 366 days, in microseconds.
const MAX_PERIOD_US: u64 = 366 * 86_400_000_000;

/// The error of redis-cell, and of throttlecrab, for a rate that admits nothing.
const ZERO_RATE: &str = "Zero rates are not supported";

/// The question of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Call {
    numbers: Numbers,
    quantity: u64,
}

/// The numbers of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Numbers {
    /// The burst.
    capacity: u64,
    count: u64,
    period_us: u64,
}

/// The limit of the last call, which most calls of a connection repeat.
#[derive(Debug, Default)]
pub(super) struct LastLimit(Option<(Numbers, LimitSet)>);

/// Answers a call.
pub(super) async fn answer(
    dialect: Dialect,
    words: &Words<'_>,
    service: &Service,
    last: &mut LastLimit,
    replies: &mut Replies,
) {
    if let Err(why) = try_answer(dialect, words, service, last, replies).await {
        match dialect {
            Dialect::Cell => replies.error(format_args!("{CELL_ERROR}{}", why.text)),
            _ => replies.error(why),
        }
    }
}

/// Answers a call if the store can answer immediately. It is false for a look, and for each call
/// that is refused or fails, which is then not answered.
#[inline]
pub(super) fn answer_at_once(
    dialect: Dialect,
    words: &Words<'_>,
    (service, together): (&Service, &mut CheckBatch),
    last: &mut LastLimit,
    replies: &mut Replies,
) -> bool {
    let Ok(Call { numbers, quantity }) = read(dialect, words) else { return false };
    let Ok(subject) = subject(words.get(1).copied().unwrap_or_default()) else { return false };
    if quantity == 0 || last.find(service, numbers).is_err() {
        return false;
    }
    let LastLimit(Some((_, limits))) = last else { return false };
    let counted = Counted::new(&subject, limits);
    let write = |decision: &Decision<'_>| dialect.write(numbers, decision, false, replies);
    service.check_at_once(together, counted, quantity, write).is_some()
}

/// The beginning of the errors of redis-cell.
pub(super) const CELL_ERROR: &str = "Cell error: Store error: ";

async fn try_answer(
    dialect: Dialect,
    words: &Words<'_>,
    service: &Service,
    last: &mut LastLimit,
    replies: &mut Replies,
) -> Result<(), Why> {
    let Call { numbers, quantity } = read(dialect, words)?;
    let subject = subject(words.get(1).copied().unwrap_or_default())?;
    let limits = last.find(service, numbers)?.clone();
    // A look has the cost 1 for the library, and charges nothing.
    let act = if quantity == 0 { Act::Peek } else { Act::Check };
    let terms = Terms::new(OnFailure::Deny).deadline(service.gate.current().deadline());
    let by = By::Limits { parts: vec![(subject, limits)], shard: None, terms };
    let question = Question { cost: Some(quantity.max(1).into()), ..Question::new(by) };
    let answer = service.answer(question, act).await.map_err(refused)?;
    let Some(decision) = answer.decision() else {
        let why = answer.error().map_or_else(String::new, |error| format!(": {error}"));
        let text = format!("the store cannot answer, so nothing is admitted{why}");
        return Err(Why { kind: "UNAVAILABLE", text: text.into() });
    };
    dialect.write(numbers, decision, act == Act::Peek, replies);
    Ok(())
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl LastLimit {
    /// The limit with these numbers.
    #[inline]
    fn find(&mut self, service: &Service, numbers: Numbers) -> Result<&LimitSet, Why> {
        let is_last = self.0.as_ref().is_some_and(|(known, _)| *known == numbers);
        if !is_last {
            let Numbers { capacity, count, period_us } = numbers;
            let text = format!("cell: {count}/{period_us}us burst {capacity} via gcra");
            self.0 = Some((numbers, why::limits(service, &text)?));
        }
        self.0.as_ref().map(|(_, limits)| limits).ok_or_else(|| "syntax error".into())
    }
}

impl Dialect {
    /// Writes the numbers of a decision. A look limits nobody.
    #[inline]
    fn write(
        self,
        numbers: Numbers,
        decision: &Decision<'_>,
        is_look: bool,
        replies: &mut Replies,
    ) {
        let is_limited = !is_look && !decision.is_allowed();
        let retry = match decision.retry_after() {
            _ if !is_limited => self.no_wait(),
            Some(wait) => self.seconds(wait),
            None => -1,
        };
        let (limit, remaining) = (number(numbers.capacity), number(decision.remaining()));
        let reset = self.seconds(decision.reset_after());
        replies.integers(match self {
            Self::Crab => [i64::from(!is_limited), limit, remaining, reset, retry],
            _ => [i64::from(is_limited), limit, remaining, retry, reset],
        });
    }

    /// The value for the wait of a call that was admitted.
    fn no_wait(self) -> i64 {
        if self == Self::Crab { 0 } else { -1 }
    }

    /// Whole seconds.
    fn seconds(self, wait: Duration) -> i64 {
        let more = match self {
            // Less than a millisecond does not round up.
            Self::Cell | Self::Valkey => wait.subsec_millis() > 0,
            Self::Gcra => wait.subsec_nanos() > 0,
            Self::Crab => false,
        };
        number(wait.as_secs()) + i64::from(more)
    }
}

/// Reads a call; the command table has counted its words.
fn read(dialect: Dialect, words: &Words<'_>) -> Result<Call, Why> {
    let word = |place: usize| words.get(place).copied();
    let numbers = [2, 3, 4].map(|place| word(place).unwrap_or_default());
    let (call, first) = match dialect {
        Dialect::Cell | Dialect::Valkey => (cell(numbers, word(5))?, 1),
        Dialect::Gcra => (gcra(numbers, word(5), word(6))?, 1),
        Dialect::Crab => (crab(numbers, word(5))?, 0),
    };
    let Call { numbers: Numbers { capacity, count, period_us }, quantity } = call;
    for (name, number, most) in [
        ("max_burst", capacity, MAX_UNITS),
        ("the count", count, MAX_UNITS),
        ("the quantity", quantity, MAX_COST),
    ] {
        if number > most {
            let most = most - if name == "max_burst" { first } else { 0 };
            return Err(format!("{name} is at most {most}").into());
        }
    }
    if period_us > MAX_PERIOD_US {
        return Err(format!("a period is at most {} s", MAX_PERIOD_US / 1_000_000).into());
    }
    Ok(call)
}

/// A number that is not negative.
fn whole(name: &str, number: i64) -> Result<u64, Why> {
    u64::try_from(number).map_err(|_| format!("{name} cannot be negative: {number}").into())
}

fn cell(numbers: [&[u8]; 3], quantity: Option<&[u8]>) -> Result<Call, Why> {
    let integer = |word: &[u8]| {
        let number = core::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
        number.ok_or_else(|| format!("Couldn't parse as integer: {}", short(word)))
    };
    let [burst, count, period] = numbers;
    let burst = whole("max_burst", integer(burst)?)?;
    let count = whole("count per period", integer(count)?)?;
    let period = whole("period", integer(period)?)?;
    let quantity = whole("quantity", quantity.map_or(Ok(1), integer)?)?;
    // redis-cell counts whole nanoseconds for one unit, and none of them is a rate of zero.
    if count == 0 || u128::from(count) > u128::from(period) * 1_000_000_000 {
        return Err(ZERO_RATE.into());
    }
    let period_us = period.saturating_mul(1_000_000);
    let numbers = Numbers { capacity: burst.saturating_add(1), count, period_us };
    Ok(Call { numbers, quantity })
}

fn gcra(numbers: [&[u8]; 3], token: Option<&[u8]>, quantity: Option<&[u8]>) -> Result<Call, Why> {
    const POSITIVE: &str = "value is out of range, must be positive";
    const AT_LEAST_ONE: &str = "value is out of range, value must between 1 and \
                                9223372036854775807";
    let integer = |word: &[u8]| {
        whole_number(word).ok_or_else(|| Why::from("value is not an integer or out of range"))
    };
    let one_or_more = |word: &[u8]| {
        let number = u64::try_from(integer(word)?).ok().filter(|number| *number > 0);
        number.ok_or_else(|| Why::from(AT_LEAST_ONE))
    };
    let [burst, count, period] = numbers;
    let burst = u64::try_from(integer(burst)?).map_err(|_| Why::from(POSITIVE))?;
    let count = one_or_more(count)?;
    let period: Option<f64> = core::str::from_utf8(period).ok().and_then(|text| text.parse().ok());
    let period = period.filter(|period| !period.is_nan()).ok_or("value is not a valid float")?;
    if period <= 0.0 || period >= 1e12 {
        return Err("period must be > 0 and < 1e12".into());
    }
    let quantity = match (token, quantity) {
        (None, _) => 1,
        (Some(token), _) if !token.eq_ignore_ascii_case(b"TOKENS") => {
            return Err("syntax error".into());
        }
        (Some(_), None) => return Err("Missing TOKENS value".into()),
        (Some(_), Some(word)) => one_or_more(word)?,
    };
    let period = Duration::try_from_secs_f64(period).unwrap_or(Duration::MAX);
    let period_us = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
    if period_us == 0 {
        return Err("a period is at least a microsecond".into());
    }
    let numbers = Numbers { capacity: burst.saturating_add(1), count, period_us };
    Ok(Call { numbers, quantity })
}

fn crab(numbers: [&[u8]; 3], quantity: Option<&[u8]>) -> Result<Call, Why> {
    let integer = |name: &str, word: &[u8]| {
        let number = core::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
        number.ok_or_else(|| format!("invalid {name}"))
    };
    let [burst, count, period] = numbers;
    let burst = integer("max_burst", burst)?;
    let count = integer("count_per_period", count)?;
    let period = integer("period", period)?;
    let quantity = quantity.map_or(Ok(1), |word| integer("quantity", word))?;
    let quantity = u64::try_from(quantity).map_err(|_| format!("negative quantity: {quantity}"))?;
    let positive = |number: i64| {
        let number = u64::try_from(number).ok().filter(|number| *number > 0);
        number.ok_or_else(|| Why::from("invalid rate limit parameters"))
    };
    let (capacity, count, period) = (positive(burst)?, positive(count)?, positive(period)?);
    let period_us = period.saturating_mul(1_000_000);
    Ok(Call { numbers: Numbers { capacity, count, period_us }, quantity })
}

/// The beginning of a word, for an error.
fn short(word: &[u8]) -> String {
    String::from_utf8_lossy(word).chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(dialect: Dialect, line: &str) -> Result<Call, String> {
        let words: Words<'_> = line.split(' ').map(str::as_bytes).collect();
        read(dialect, &words).map_err(|why| format!("{} {}", why.kind, why.text))
    }

    fn call(capacity: u64, count: u64, period_us: u64, quantity: u64) -> Result<Call, String> {
        Ok(Call { numbers: Numbers { capacity, count, period_us }, quantity })
    }

    #[test]
    fn each_dialect_has_its_numbers() {
        let second = 1_000_000;
        for (dialect, line, expected) in [
            (Dialect::Cell, "cl.throttle a 15 30 60", call(16, 30, 60 * second, 1)),
            (Dialect::Cell, "cl.throttle a 0 1 2 0", call(1, 1, 2 * second, 0)),
            (Dialect::Valkey, "rl.throttle a 0 +1 2 3", call(1, 1, 2 * second, 3)),
            (Dialect::Gcra, "gcra a 15 30 1.5", call(16, 30, 1_500_000, 1)),
            (Dialect::Gcra, "gcra a 0 1 60 tokens 4", call(1, 1, 60 * second, 4)),
            (Dialect::Crab, "throttle a 15 30 60 2", call(15, 30, 60 * second, 2)),
        ] {
            assert_eq!(asked(dialect, line), expected, "{line}");
        }
    }

    #[test]
    fn each_dialect_has_its_errors() {
        for (dialect, line, says) in [
            (Dialect::Cell, "c a abc 1 1", "Couldn't parse as integer: abc"),
            (Dialect::Cell, "c a 1 1.5 1", "Couldn't parse as integer: 1.5"),
            (Dialect::Cell, "c a 1 1 9223372036854775808", "Couldn't parse as integer"),
            (Dialect::Cell, "c a 1 1 1 NaN", "Couldn't parse as integer: NaN"),
            (Dialect::Cell, "c a 1 0 1", ZERO_RATE),
            (Dialect::Cell, "c a 1 1 0", ZERO_RATE),
            (Dialect::Cell, "c a 1 1000000001 1", "Zero"),
            (Dialect::Cell, "c a -1 1 1", "max_burst cannot be negative: -1"),
            (Dialect::Cell, "c a 1 -1 1", "count per period cannot be negative"),
            (Dialect::Cell, "c a 1 1 -1", "period cannot be negative"),
            (Dialect::Cell, "c a 1 1 1 -1", "quantity cannot be negative"),
            (Dialect::Cell, "c a 1099511627776 1 1", "max_burst is at most 1099511627775"),
            (Dialect::Cell, "c a 9223372036854775807 1 1", "max_burst is at most"),
            (Dialect::Cell, "c a 1 1 31622401", "a period is at most 31622400 s"),
            (Dialect::Cell, "c a 1 1 1 1099511627777", "the quantity is at most 1099511627776"),
            (Dialect::Gcra, "g a x 1 1", "value is not an integer or out of range"),
            (Dialect::Gcra, "g a -1 1 1", "must be positive"),
            (Dialect::Gcra, "g a 1 0 1", "must between 1 and"),
            (Dialect::Gcra, "g a 1 1 x", "not a valid float"),
            (Dialect::Gcra, "g a 1 1 nan", "not a valid float"),
            (Dialect::Gcra, "g a 1 1 inf", "period must be > 0 and < 1e12"),
            (Dialect::Gcra, "g a 1 1 -1", "period must be > 0"),
            (Dialect::Gcra, "g a 1 1 1e-9", "at least a microsecond"),
            (Dialect::Gcra, "g a 1 1 1 2", "syntax error"),
            (Dialect::Gcra, "g a 1 1 1 TOKENS", "Missing TOKENS value"),
            (Dialect::Gcra, "g a 1 1 1 TOKENS 0", "must between 1 and"),
            (Dialect::Crab, "t a x 1 1", "ERR invalid max_burst"),
            (Dialect::Crab, "t a 1 x 1", "ERR invalid count_per_period"),
            (Dialect::Crab, "t a 1 1 x", "ERR invalid period"),
            (Dialect::Crab, "t a 1 1 1 x", "ERR invalid quantity"),
            (Dialect::Crab, "t a 1 1 1 -2", "ERR negative quantity: -2"),
            (Dialect::Crab, "t a 0 1 1", "ERR invalid rate limit parameters"),
        ] {
            let said = asked(dialect, line).unwrap_err();
            assert!(said.contains(says), "{line}: {said}");
        }
    }

    #[test]
    fn each_dialect_rounds_as_its_program() {
        for (us, cell, gcra, crab) in [
            (0, 0, 0, 0),
            (1, 0, 1, 0),
            (500, 0, 1, 0),
            (1_000, 1, 1, 0),
            (1_000_000, 1, 1, 1),
            (1_000_999, 1, 2, 1),
            (1_001_000, 2, 2, 1),
            (1_999_999, 2, 2, 1),
        ] {
            let wait = Duration::from_micros(us);
            for (dialect, expected) in [
                (Dialect::Cell, cell),
                (Dialect::Valkey, cell),
                (Dialect::Gcra, gcra),
                (Dialect::Crab, crab),
            ] {
                assert_eq!(dialect.seconds(wait), expected, "{dialect:?} {us}");
            }
        }
    }
}
