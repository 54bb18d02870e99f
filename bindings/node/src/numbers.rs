//! A decision as numbers, in an array that Rust and JavaScript share, and back.
//!
//! Objects of JavaScript that are made here take longer than a check. So a decision is written as
//! numbers, and `lib/decision.js` makes an object of them. Its rare details (headers, texts, a
//! refund) are asked for here, with the numbers.

use core::cell::RefCell;

use napi::bindgen_prelude::Buffer;
use tollgate::engine::{Fields, Outcome};
use tollgate::{Authority, Carried, Decision, Time};

use crate::error::{self, Result};

/// The numbers before those of limits.
const HEAD: usize = 9;

/// The numbers of each limit.
const EACH: usize = 5;

/// The number for a wait without an end.
const NEVER: f64 = -1.0;

/// The numbers of several limits together.
#[derive(Clone, Copy, Debug)]
struct Summary {
    remaining: u64,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
    until_hold: bool,
}

impl Summary {
    fn of(decision: &Decision<'_>) -> Self {
        let micros =
            |wait: core::time::Duration| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        Self {
            remaining: decision.remaining(),
            retry_after_us: match decision.is_allowed() {
                true => Some(0),
                false => decision.retry_after().map(micros),
            },
            reset_after_us: micros(decision.reset_after()),
            until_hold: decision.is_until_hold(),
        }
    }

    /// The same of the store's answer alone, without a decision.
    #[inline]
    fn read(outcome: &Outcome) -> Self {
        let is_allowed = outcome.granted > 0;
        let never_last = |fields: &Fields| fields.retry_after_us.unwrap_or(u64::MAX);
        let mut all = outcome.fields.iter();
        let mut binding = all.next();
        for fields in all {
            // The first of equals binds.
            let binds = binding.is_none_or(|found| match is_allowed {
                true => fields.remaining < found.remaining,
                false => never_last(fields) > never_last(found),
            });
            if binds {
                binding = Some(fields);
            }
        }
        let remaining = outcome.fields.iter().map(|fields| fields.remaining).min();
        let retry = binding.and_then(|fields| fields.retry_after_us);
        Self {
            remaining: remaining.unwrap_or(0),
            retry_after_us: if is_allowed { Some(0) } else { retry },
            reset_after_us: binding.map_or(0, |fields| fields.reset_after_us),
            until_hold: outcome.is_until_hold(),
        }
    }
}

/// The numbers of a decision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers(Vec<f64>);

impl Numbers {
    /// The numbers of a decision, and of the store's answer that it was made of.
    pub(crate) fn of(decision: &Decision<'_>, outcome: &Outcome) -> Self {
        let mut numbers = head(Summary::of(decision), outcome).to_vec();
        numbers.extend(outcome.fields.iter().flat_map(each));
        Self(numbers)
    }
}

/// The numbers before those of limits.
#[inline]
fn head(summary: Summary, outcome: &Outcome) -> [f64; HEAD] {
    let authority = match outcome.authority {
        Authority::Lease => 1,
        Authority::DenyCache => 2,
        _ => 0,
    };
    let flags = u32::from(summary.until_hold)
        | authority << 1
        | u32::from(outcome.shared) << 3
        | u32::from(!outcome.isolated) << 4;
    let [high, low] = halves(outcome.receipt);
    [
        number(outcome.granted),
        number(summary.remaining),
        summary.retry_after_us.map_or(NEVER, number),
        number(summary.reset_after_us),
        number(outcome.now.as_micros()),
        f64::from(flags),
        high,
        low,
        number(u64::try_from(outcome.fields.len()).unwrap_or(u64::MAX)),
    ]
}

/// The numbers of a limit.
#[inline]
fn each(fields: &Fields) -> [f64; EACH] {
    let carried = match fields.carried {
        Carried::Over => 1,
        Carried::Fresh => 2,
        _ => 0,
    };
    [
        number(fields.remaining),
        fields.retry_after_us.map_or(NEVER, number),
        number(fields.reset_after_us),
        number(fields.charged_at_us),
        f64::from(carried | u32::from(fields.until_hold) << 2),
    ]
}

/// The answer of a store that is written in numbers.
///
/// # Errors
/// They are not those of a decision.
pub(crate) fn outcome(numbers: &[f64]) -> Result<Outcome> {
    let wrong = || error::other("these are not the numbers of a decision");
    let Some((head, each)) = numbers.split_at_checked(HEAD) else { return Err(wrong()) };
    let &[granted, _, _, _, now, flags, high, low, _] = head else { return Err(wrong()) };
    let fields = each.chunks_exact(EACH).filter_map(|limit| {
        let &[remaining, retry, reset, charged_at, marks] = limit else { return None };
        let carried = match whole(marks) & 3 {
            1 => Carried::Over,
            2 => Carried::Fresh,
            _ => Carried::Same,
        };
        let retry = (retry != NEVER).then(|| whole(retry));
        let mut fields =
            Fields::new(whole(remaining), retry, whole(reset), whole(charged_at), carried);
        fields.until_hold = whole(marks) & 4 != 0;
        Some(fields)
    });
    let receipt = whole(high) << 32 | whole(low);
    let now = Time::from_micros(whole(now));
    let mut outcome = Outcome::new(whole(granted), fields.collect(), receipt, now);
    let flags = whole(flags);
    outcome.authority = match flags >> 1 & 3 {
        1 => Authority::Lease,
        2 => Authority::DenyCache,
        _ => Authority::Store,
    };
    (outcome.shared, outcome.isolated) = (flags & 8 != 0, flags & 16 == 0);
    Ok(outcome)
}

/// A number as JavaScript has it. Units and times of 285 years are exact.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "beyond 2^53 the nearest number is meant")]
pub(crate) fn number(value: u64) -> f64 {
    value as f64
}

fn halves(value: u64) -> [f64; 2] {
    [number(value >> 32), number(value & 0xffff_ffff)]
}

/// A number of JavaScript that is whole. A fraction is rounded, and a number out of range becomes
/// the nearest within it: JavaScript has checked it.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, and NaN is 0"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value as u64
}

thread_local! {
    /// The array of a thread.
    static SHARED: RefCell<Option<Buffer>> = const { RefCell::new(None) };
}

/// Sets the array that this thread of JavaScript reads and writes.
pub(crate) fn share(bytes: Buffer) {
    SHARED.set(Some(bytes));
}

/// Writes the numbers of a decision into the array.
pub(crate) fn show(numbers: &Numbers) {
    SHARED.with_borrow_mut(|shared| {
        write(shared.as_deref_mut().unwrap_or_default(), &numbers.0);
    });
}

/// A question that JavaScript has written into the array: limiter, cost and subject.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    pub(crate) limiter: u32,
    pub(crate) cost: u64,
    pub(crate) subject: &'a str,
}

/// Reads the question that is in the array, and writes the numbers of the store's answer. False
/// where `ask` has none, and without a question.
#[inline]
pub(crate) fn answer_written(
    ask: impl FnOnce(Written<'_>) -> Result<Option<Outcome>>,
) -> Result<bool> {
    SHARED.with_borrow_mut(|shared| {
        let Some(bytes) = shared.as_deref_mut() else { return Ok(false) };
        let Some(question) = read(bytes) else { return Ok(false) };
        let Some(outcome) = ask(question)? else { return Ok(false) };
        let rest = write(bytes, &head(Summary::read(&outcome), &outcome));
        outcome.fields.iter().fold(rest, |rest, fields| write(rest, &each(fields)));
        Ok(true)
    })
}

/// The question: three numbers, and as many bytes of ASCII as the third says.
#[inline]
fn read(bytes: &[u8]) -> Option<Written<'_>> {
    let (head, rest) = bytes.split_first_chunk::<24>()?;
    let (numbers, []) = head.as_chunks::<8>() else { return None };
    let &[limiter, cost, length] = numbers else { return None };
    let of = |number| whole(f64::from_ne_bytes(number));
    let subject = rest.get(..usize::try_from(of(length)).ok()?)?;
    let (limiter, cost) = (u32::try_from(of(limiter)).ok()?, of(cost));
    Some(Written { limiter, cost, subject: core::str::from_utf8(subject).ok()? })
}

/// Writes numbers, and returns the rest of the array: it is as long as the longest decision.
#[inline]
fn write<'a>(bytes: &'a mut [u8], numbers: &[f64]) -> &'a mut [u8] {
    let Some((places, rest)) = bytes.split_at_mut_checked(numbers.len() * 8) else {
        return &mut [];
    };
    for (place, number) in places.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
        *place = number.to_ne_bytes();
    }
    rest
}
