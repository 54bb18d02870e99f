//! How long a hold lasts, and the counts that it is open on.

use core::time::Duration;

use super::kind::no_slots;
use crate::error::Error;
use crate::hold::{MAX_TTL_US, MIN_TTL_US, Patience};
use crate::limit::LimitSet;
use crate::question::Question;
use crate::subject::Subject;
use crate::time::Period;

/// The set with the slots that last the shortest time; `None` where none has slots.
pub(crate) fn shortest_slots<'s>(sets: impl Iterator<Item = &'s LimitSet>) -> Option<&'s LimitSet> {
    sets.filter(|limits| limits.needs_hold()).min_by_key(|limits| limits.hold())
}

/// How long a hold lasts: as asked, or as long as the slots of this set.
pub(crate) fn ttl_us(slots: Option<&LimitSet>, ttl: Option<Duration>) -> Result<u64, Error> {
    match (ttl, slots.and_then(LimitSet::hold)) {
        (Some(ttl), _) => check_ttl(slots, ttl),
        (None, Some(hold)) => Ok(hold.as_micros()),
        (None, None) => Err(no_slots()),
    }
}

/// Rejects a time that a hold on the slots of this set cannot last.
pub(crate) fn check_ttl(slots: Option<&LimitSet>, ttl: Duration) -> Result<u64, Error> {
    let us = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
    let longest = slots.and_then(LimitSet::hold);
    let longest_us = longest.map_or(MAX_TTL_US, Period::as_micros);
    if (MIN_TTL_US..=longest_us).contains(&us) {
        return Ok(us);
    }
    // As people write times.
    let written = |us| Period::from_micros(us).map_or_else(String::new, |time| time.to_string());
    let (least, most) = (written(MIN_TTL_US), written(longest_us));
    let asked = match Period::from_micros(us) {
        Some(ttl) => ttl.to_string(),
        None => format!("{ttl:?}"),
    };
    let mut limits = slots.iter().flat_map(|set| set.limits());
    let shortest = limits.find(|limit| limit.needs_hold() && Some(limit.quota().period) == longest);
    let why = match shortest.filter(|_| us > longest_us) {
        Some(limit) => format!("longer than a slot of `{limit}` lasts"),
        None => "out of range".to_owned(),
    };
    Err(Error::Ask(format!("a hold of {asked} is {why}: give {least} to {most}")))
}

/// Rejects a credit that cannot be given. Returns how long it lasts.
pub(super) fn check_credit(
    question: &Question<'_>,
    ttl: Option<Duration>,
    patience: Patience,
) -> Result<u64, Error> {
    let [part] = question.parts else {
        return Err(Error::Ask("a credit is given to one subject at a time".to_owned()));
    };
    if patience != Patience::None {
        return Err(Error::Ask("a credit is given at once: nobody waits for it".to_owned()));
    }
    for (unit, _) in question.cost.iter() {
        if !part.limits.limits().iter().any(|limit| limit.is_rate_of(unit)) {
            return Err(Error::Ask(format!(
                "a credit of {unit} has no rate limit to stand behind: slots come back by \
                 themselves, so give one of a unit that a limit counts in a time"
            )));
        }
    }
    let Some(ttl) = ttl else {
        return Err(Error::Ask("say how long the credit lasts: give a `ttl`".to_owned()));
    };
    check_ttl(None, ttl)
}

/// The counts of a question, owned.
pub(crate) fn counts_of(question: &Question<'_>) -> Vec<(Subject, LimitSet)> {
    let parts = question.parts.iter();
    parts.map(|part| (part.subject.clone(), part.limits.clone())).collect()
}
