//! Checks of policies that one check asks together.

use core::ops::ControlFlow;
use std::collections::BTreeSet;

use tollgate::{MAX_COST_UNITS, MAX_PARTS, Unit};

use super::compare::{Work, are_disjoint};
use crate::cost::CostRule;
use crate::model::Policy;
use crate::problem::Problem;
use crate::spans::{FileSpans, PolicySpans};

/// With all matches in one check, each unit has one amount, and there is a bound on the subjects
/// and the units.
pub(super) fn check(policies: &[Policy], places: &FileSpans, problems: &mut Vec<Problem>) {
    let enforced: Vec<(&Policy, &PolicySpans)> = policies
        .iter()
        .zip(&places.policies)
        .filter(|(it, _)| !it.shadow && !it.unlimited)
        .collect();
    let every: usize = enforced
        .iter()
        .filter(|(policy, _)| policy.when.is_empty())
        .map(|(policy, _)| policy.entries.len())
        .sum();
    if every > MAX_PARTS {
        problems.push(Problem::error(
            None.or(places.policies.first().and_then(|place| place.whole)),
            format!("the policies without conditions count {every} subjects together"),
            format!(
                "one check has at most {MAX_PARTS}: give them conditions, or `match = \"first\"`"
            ),
        ));
    }
    let Some((first, _)) = enforced.first() else { return };
    if enforced.iter().all(|(policy, _)| policy.cost == first.cost) {
        return;
    }
    units(&enforced, problems);
    let mut work = Work::new();
    for (i, (policy, place)) in enforced.iter().enumerate() {
        for (other, _) in &enforced[..i] {
            if !work.allows(&policy.when, &other.when) {
                return problems.push(Problem::error(
                    place.whole,
                    "there are too many policies to see which have their costs in common",
                    "give all of them the same `cost`, or `match = \"first\"`",
                ));
            }
            let Some(what) = difference(&policy.cost, &other.cost) else { continue };
            if are_disjoint(policy, other) {
                continue;
            }
            problems.push(Problem::error(
                place.cost.or(place.name),
                format!(
                    "`{}` and `{}` can apply together and differ in {what}",
                    other.name, policy.name
                ),
                "one check has one cost: give both the same, conditions that exclude each other, \
                 or \
                 `match = \"first\"`",
            ));
            break;
        }
    }
}

/// A policy and its place.
type Placed<'p> = (&'p Policy, &'p PolicySpans);

/// Reports policies that may apply together, and have more units together than one check.
fn units(enforced: &[Placed<'_>], problems: &mut Vec<Problem>) {
    let all = enforced.iter().flat_map(|(policy, _)| policy.cost.amounts());
    if all.map(|(unit, _)| unit).collect::<BTreeSet<&Unit>>().len() <= MAX_COST_UNITS {
        return;
    }
    let mut chosen = Vec::new();
    let found = too_many(enforced, (&mut chosen, &BTreeSet::new()), &mut Work::new());
    let ControlFlow::Break(units) = found else { return };
    let names: Vec<&str> = chosen.iter().map(|(policy, _)| policy.name.as_str()).collect();
    let what = match units {
        Some(units) => format!("the costs of `{}` have {units} units together", names.join("`, `")),
        None => "there are too many policies to see how many units their costs have".to_owned(),
    };
    problems.push(Problem::error(
        chosen.last().and_then(|(_, place)| place.cost.or(place.whole)),
        what,
        format!("one check has at most {MAX_COST_UNITS}: use fewer, or `match = \"first\"`"),
    ));
}

/// Breaks with the number of units of policies that may all apply to one request, if it is too
/// large; these are `chosen` then. It breaks without one where there are too many to compare. Each
/// policy that is chosen adds a unit, so few are compared at a time.
fn too_many<'p>(
    left: &[Placed<'p>],
    (chosen, units): (&mut Vec<Placed<'p>>, &BTreeSet<&'p Unit>),
    work: &mut Work,
) -> ControlFlow<Option<usize>> {
    if units.len() > MAX_COST_UNITS {
        return ControlFlow::Break(Some(units.len()));
    }
    for (number, (policy, place)) in left.iter().enumerate() {
        let own = policy.cost.amounts().map(|(unit, _)| unit);
        if own.clone().all(|unit| units.contains(unit)) {
            continue;
        }
        if !work.allows(&[], &[])
            || chosen.iter().any(|(other, _)| !work.allows(&policy.when, &other.when))
        {
            return ControlFlow::Break(None);
        }
        if chosen.iter().any(|(other, _)| are_disjoint(policy, other)) {
            continue;
        }
        chosen.push((policy, place));
        let all = own.chain(units.iter().copied()).collect();
        too_many(left.get(number + 1..).unwrap_or_default(), (chosen, &all), work)?;
        chosen.pop();
    }
    ControlFlow::Continue(())
}

/// In which part of the cost two policies cannot share a check.
fn difference(one: &CostRule, other: &CostRule) -> Option<String> {
    let terms = |rule: &CostRule| rule.reserves().next().map(|(_, reserve)| reserve.terms());
    let differs = |unit: &Unit| other.of(unit).is_some_and(|amount| Some(amount) != one.of(unit));
    match one.amounts().map(|(unit, _)| unit).find(|unit| differs(unit)) {
        Some(&Unit::REQUESTS) => Some("cost".to_owned()),
        Some(unit) => Some(format!("their cost of `{unit}`")),
        None if terms(one).zip(terms(other)).is_some_and(|(one, other)| one != other) => {
            Some("the `hold` or the `at_end` of their estimates".to_owned())
        }
        None => None,
    }
}
