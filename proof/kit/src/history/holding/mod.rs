//! Holds: whether some order of the calls explains all answers.

mod record;
mod search;
mod text;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use tollgate::Limit;

use crate::conformance::rule_of;
use crate::oracle::{HeldLimit, HoldOracle, Kind, Oracle};

use super::record::{Bounds, Call, CallOutcome, FaultKind, History, RecordedCount};
use super::report::{Promise, Report, Verdict};

pub use record::{HoldCall, HoldStep, Place, Renewing, Settling};
use search::{Asked, Found, Operation};
pub(super) use text::read;

/// A count: a subject, and the identity of its limits.
type CountKey<'h> = (&'h str, &'h str);

fn keys(parts: &[RecordedCount]) -> impl Iterator<Item = CountKey<'_>> {
    parts.iter().map(|part| (part.subject.as_str(), part.limits.identity()))
}

fn placed(call: &HoldCall) -> Option<&Place> {
    match &call.step {
        HoldStep::Place(place) => Some(place),
        HoldStep::Settle { .. } | HoldStep::Renew { .. } => None,
    }
}

/// The calls of counts with holds, and the rest of a history.
pub(super) fn split(history: &History) -> (History, Cow<'_, History>) {
    if history.holds.is_empty() {
        return (History::default(), Cow::Borrowed(history));
    }
    let places = history.holds.iter().filter_map(placed);
    let held: BTreeSet<CountKey<'_>> = places.flat_map(|place| keys(&place.parts)).collect();
    let is_held = |call: &&Call| keys(&call.parts).any(|key| held.contains(&key));
    let (with, without): (Vec<&Call>, Vec<&Call>) = history.calls.iter().partition(is_held);
    let part = |calls: Vec<&Call>| History {
        calls: calls.into_iter().cloned().collect(),
        faults: history.faults.clone(),
        ..History::default()
    };
    let with = History { holds: history.holds.clone(), ..part(with) };
    let without = History { queue: history.queue.clone(), ..part(without) };
    (with, Cow::Owned(without))
}

/// Checks the calls of all counts with holds.
pub(super) fn check(history: &History, bounds: &Bounds, report: &mut Report) {
    for group in groups(history) {
        let places = (group.holds.len() + group.calls.len()) as u64;
        let found = decide(&group, bounds);
        let checked = if matches!(found, Found::Open(_)) { 0 } else { places };
        report.count(Promise::Holds, checked, places);
        match found {
            Found::Explained => {}
            Found::Open(reason) => {
                report.worsen(Promise::Holds, Verdict::Unknown, &reason, History::default);
            }
            Found::Impossible { reason, calls } => {
                report.worsen(Promise::Holds, Verdict::Broken, &reason, || part(&group, &calls));
            }
        }
    }
}

/// The part of a history with these calls, and with all faults.
fn part(history: &History, ids: &BTreeSet<u64>) -> History {
    let calls = history.calls.iter().filter(|call| ids.contains(&call.id)).cloned();
    let holds = history.holds.iter().filter(|call| ids.contains(&call.id)).cloned();
    let faults = history.faults.clone();
    History { calls: calls.collect(), holds: holds.collect(), faults, ..History::default() }
}

/// Histories that share no count with each other. A call about a hold that no call placed counts
/// alone.
fn groups(history: &History) -> Vec<History> {
    let mut of_hold: BTreeMap<&str, Vec<CountKey<'_>>> = BTreeMap::new();
    for call in &history.holds {
        if let Some(place) = placed(call) {
            of_hold.entry(&call.hold).or_default().extend(keys(&place.parts));
        }
    }
    let mut group_of: BTreeMap<CountKey<'_>, usize> = BTreeMap::new();
    for keys in of_hold.values() {
        join(&mut group_of, keys);
    }
    let checks: Vec<Vec<CountKey<'_>>> =
        history.calls.iter().map(|call| keys(&call.parts).collect()).collect();
    checks.iter().for_each(|keys| join(&mut group_of, keys));
    let mut groups: BTreeMap<Option<usize>, History> = BTreeMap::new();
    let fresh = || History { faults: history.faults.clone(), ..History::default() };
    let group_of = |keys: &[CountKey<'_>]| keys.first().and_then(|key| group_of.get(key).copied());
    for call in &history.holds {
        let group = of_hold.get(&*call.hold).and_then(|keys| group_of(keys));
        groups.entry(group).or_insert_with(fresh).holds.push(call.clone());
    }
    for (call, keys) in history.calls.iter().zip(&checks) {
        groups.entry(group_of(keys)).or_insert_with(fresh).calls.push(call.clone());
    }
    groups.into_values().collect()
}

/// A count belongs to the group of the first count that it shares a call with.
fn join<'h>(group_of: &mut BTreeMap<CountKey<'h>, usize>, keys: &[CountKey<'h>]) {
    let known: Vec<usize> = keys.iter().filter_map(|key| group_of.get(key).copied()).collect();
    let group = known.iter().copied().min().unwrap_or(group_of.len());
    group_of.values_mut().filter(|other| known.contains(other)).for_each(|other| *other = group);
    group_of.extend(keys.iter().map(|key| (*key, group)));
}

/// Decides about calls that share counts.
fn decide(history: &History, bounds: &Bounds) -> Found {
    if let Some(found) = certain(history) {
        return found;
    }
    let is_step = |kind| kind == FaultKind::ClockStep;
    if history.faults.iter().any(|fault| is_step(fault.kind) || fault.lost_states > 0) {
        return Found::Open("a clock was set, or state was lost, while holds were open".to_owned());
    }
    match operations(history) {
        Err(found) => found,
        Ok((counts, operations)) => search::search(counts, &operations, bounds),
    }
}

/// A limit of slots: subject, identity of the set, identity of the limit, and the slots.
type SlotsKey<'h> = (&'h str, &'h str, &'h str, u64);

/// When slots are surely held from, or until: the time, whether it begins, how many, and the call.
type Edge = (u64, bool, u64, u64);

/// The slots that each hold of a limit surely had, whatever the order: more slots than there are.
fn certain(history: &History) -> Option<Found> {
    let mut ends: BTreeMap<SlotsKey<'_>, Vec<Edge>> = BTreeMap::new();
    for call in &history.holds {
        let Some(place) = placed(call).filter(|place| place.outcome.is_allowed()) else { continue };
        let Some(from_us) = place.decided_us.or(call.returned_us) else { continue };
        let mut until_us = place.decided_us.unwrap_or(call.invoked_us) + place.ttl_us;
        let (mut is_shorter, mut settled_us) = (false, u64::MAX);
        for other in history.holds.iter().filter(|other| other.hold == call.hold) {
            match other.step {
                HoldStep::Settle { .. } => settled_us = settled_us.min(other.invoked_us),
                HoldStep::Renew { answer: Renewing::Until(end_us), .. } => {
                    is_shorter |= end_us < until_us;
                    until_us = if is_shorter { end_us.min(until_us) } else { end_us };
                }
                HoldStep::Renew { answer: Renewing::Unknown, .. } => is_shorter = true,
                HoldStep::Renew { .. } | HoldStep::Place(_) => {}
            }
        }
        let until_us = until_us.min(settled_us);
        if until_us <= from_us {
            continue;
        }
        for part in &place.parts {
            for limit in part.limits.limits().iter().filter(|limit| limit.needs_hold()) {
                let slots = if place.kind == Kind::Acquire { place.cost } else { 1 };
                let (subject, set) = (part.subject.as_str(), part.limits.identity());
                let key = (subject, set, limit.identity(), limit.capacity());
                let ends = ends.entry(key).or_default();
                ends.push((from_us, true, slots, call.id));
                ends.push((until_us, false, slots, call.id));
            }
        }
    }
    for ((subject, .., most), mut ends) in ends {
        ends.sort_unstable();
        let mut holders: BTreeMap<u64, u64> = BTreeMap::new();
        for (at_us, begins, slots, id) in ends {
            if begins {
                holders.insert(id, slots);
            } else {
                holders.remove(&id);
            }
            let taken: u64 = holders.values().sum();
            if taken > most {
                let reason = format!("{taken} slots of {subject} are held at {at_us}: {most} are");
                let calls = holders.into_keys().collect();
                return Some(Found::Impossible { reason: format!("{reason} all"), calls });
            }
        }
    }
    None
}

fn held_limit(limit: &Limit) -> Option<HeldLimit> {
    if limit.needs_hold() {
        return Some(HeldLimit::Slots(limit.capacity()));
    }
    let oracle = Oracle::grouped(rule_of(limit)?).ok()?.with_debt(limit.debt()).ok()?;
    Some(HeldLimit::Rate(Box::new(oracle)))
}

/// The fresh counts of calls that share some, and the calls as operations on them.
fn operations(history: &History) -> Result<(Vec<HoldOracle>, Vec<Operation>), Found> {
    let open = |reason: &str| Found::Open(reason.to_owned());
    let mut places: BTreeMap<(String, String), (usize, String)> = BTreeMap::new();
    let mut counts: Vec<HoldOracle> = Vec::new();
    let mut of_parts = |parts: &[RecordedCount]| -> Result<Vec<usize>, Found> {
        let each = parts.iter().map(|part| {
            let key = (part.subject.clone(), part.limits.identity().to_owned());
            let written = part.limits.to_string();
            if let Some((place, before)) = places.get(&key) {
                let same = *before == written;
                return if same { Ok(*place) } else { Err(open("the numbers of a limit changed")) };
            }
            let limits = part.limits.limits().iter().map(held_limit).collect::<Option<_>>();
            let limits = limits.ok_or_else(|| open("the oracle does not know a strategy"))?;
            counts.push(HoldOracle::new(limits));
            places.insert(key, (counts.len() - 1, written));
            Ok(counts.len() - 1)
        });
        each.collect()
    };
    let mut found: Vec<Operation> = Vec::new();
    let mut names: BTreeMap<&str, (u64, Vec<usize>)> = BTreeMap::new();
    for call in &history.holds {
        if let Some(place) = placed(call) {
            let name = (call.id, of_parts(&place.parts)?);
            if names.insert(&call.hold, name).is_some() {
                return Err(open("two calls place the same hold"));
            }
        }
    }
    for call in &history.holds {
        let (name, of_hold) = names.get(&*call.hold).cloned().unwrap_or((call.id, Vec::new()));
        let (decided_us, what) = match &call.step {
            HoldStep::Place(place) => {
                let hold = Some((name, place.kind, place.ttl_us));
                let (cost, outcome, fence) = (place.cost, place.outcome, place.fence);
                (place.decided_us, Asked::Ask { hold, cost, outcome, fence })
            }
            HoldStep::Settle { actual, answer } => {
                (None, Asked::Settle { name, actual: *actual, answer: *answer })
            }
            HoldStep::Renew { ttl_us, answer } => {
                let decided_us = match answer {
                    Renewing::Until(end_us) => Some(end_us.saturating_sub(*ttl_us)),
                    Renewing::NotOpen | Renewing::Unknown => None,
                };
                (decided_us, Asked::Renew { name, ttl_us: *ttl_us, answer: *answer })
            }
        };
        found.push(Operation {
            id: call.id,
            invoked_us: call.invoked_us,
            returned_us: call.returned_us.unwrap_or(u64::MAX),
            is_answered: call.step.is_answered(),
            decided_us,
            counts: of_hold,
            what,
        });
    }
    for call in &history.calls {
        let (cost, outcome) = (call.cost, call.outcome);
        if call.request.is_some() {
            return Err(open("a check of a count with holds has a request id"));
        }
        found.push(Operation {
            id: call.id,
            invoked_us: call.invoked_us,
            returned_us: call.returned_us.unwrap_or(u64::MAX),
            is_answered: outcome != CallOutcome::Unknown,
            decided_us: call.decided_us,
            counts: of_parts(&call.parts)?,
            what: Asked::Ask { hold: None, cost, outcome, fence: None },
        });
    }
    // An error after which nothing was charged shows nothing.
    found.retain(|operation| {
        !matches!(operation.what, Asked::Ask { outcome: CallOutcome::NotCharged, .. })
    });
    found.sort_by_key(|operation| (operation.invoked_us, operation.id));
    Ok((counts, found))
}
