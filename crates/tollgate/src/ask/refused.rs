//! The reasons to refuse an ask.

use crate::cost::Amounts;
use crate::error::Error;
use crate::hold::HoldName;
use crate::limit::{Limit, LimitSet, MAX_COST};
use crate::subject::MAX_SUBJECT_BYTES;

/// The most subjects in one check.
pub const MAX_PARTS: usize = 16;

/// Rejects an invalid shard. A cluster hashes what is in the braces of a key, so an empty shard
/// would not group the keys.
#[inline]
pub(crate) fn check_shard(shard: Option<&str>) -> Result<(), Error> {
    match shard {
        None => Ok(()),
        Some(shard) if !shard.is_empty() && shard.len() <= MAX_SUBJECT_BYTES => Ok(()),
        Some(shard) => Err(not_a_shard(shard)),
    }
}

#[cold]
fn not_a_shard(shard: &str) -> Error {
    Error::Ask(format!(
        "a shard has 1 to {MAX_SUBJECT_BYTES} bytes, not {}: give the value that the subjects share",
        shard.len()
    ))
}

/// Rejects a number of subjects out of range.
pub(crate) fn check_parts(parts: usize) -> Result<(), Error> {
    if parts == 0 || parts > MAX_PARTS {
        return Err(Error::Ask(format!("a check is over 1 to {MAX_PARTS} subjects, not {parts}")));
    }
    Ok(())
}

#[cold]
pub(super) fn names_a_check() -> Error {
    Error::Ask("a check places no hold that could have a name: acquire or reserve".to_owned())
}

#[cold]
pub(super) fn takes_slots(limits: &LimitSet) -> Error {
    let slots = limits.limits().iter().find(|limit| limit.needs_hold());
    let text = slots.map_or("", Limit::full_text);
    Error::Ask(format!(
        "`{text}` counts what is at work: acquire a slot and release it, since a check would never \
         give it back"
    ))
}

/// Rejects a cost out of range.
#[inline]
pub(crate) fn check_cost(cost: u64) -> Result<(), Error> {
    if (1..=MAX_COST).contains(&cost) { Ok(()) } else { Err(not_a_cost(cost)) }
}

#[cold]
fn not_a_cost(cost: u64) -> Error {
    Error::Ask(match cost {
        0 => "a check costs at least 1: to look without charging, use `peek`".to_owned(),
        _ => format!("a cost of {cost} is too large: the largest is 2^40 = {MAX_COST}"),
    })
}

/// Rejects a place in a line that nothing could keep.
pub(super) fn check_line(
    name: Option<HoldName>,
    has_slots: bool,
    cost: Amounts<'_>,
) -> Result<(), Error> {
    if cost.plain().is_none() {
        let what = "who stands in line wants a number of slots or requests, not amounts by unit: \
                    give a plain cost, or wait without a line";
        return Err(Error::Ask(what.to_owned()));
    }
    if name.is_none() {
        let what = "who stands in line keeps its place by an id: give the hold one, and ask again \
                    under the same";
        return Err(Error::Ask(what.to_owned()));
    }
    if !has_slots {
        let what = "these limits have no slots to stand in line for: write one as `20 at once`, or \
                    wait without a line";
        return Err(Error::Ask(what.to_owned()));
    }
    Ok(())
}

/// The refusal of a place in line for an ask that takes no slot.
#[cold]
pub(super) fn lines_up_for_a_check() -> Error {
    let what =
        "a check takes no slot to wait in line for: acquire or reserve, or wait without a line";
    Error::Ask(what.to_owned())
}

/// The refusal of a wait for an ask that is never denied.
#[cold]
pub(super) fn waits_for_a_charge() -> Error {
    Error::Ask("a charge is never denied: there is nothing to wait for".to_owned())
}
