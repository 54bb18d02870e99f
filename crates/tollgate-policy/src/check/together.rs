//! Checks of policies that one check asks together.

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
    let units: BTreeSet<&Unit> = enforced
        .iter()
        .flat_map(|(policy, _)| policy.cost.amounts())
        .map(|(unit, _)| unit)
        .collect();
    if units.len() > MAX_COST_UNITS {
        problems.push(Problem::error(
            places.policies.first().and_then(|place| place.cost.or(place.whole)),
            format!("the costs of the policies have {} units together", units.len()),
            format!("one check has at most {MAX_COST_UNITS}: use fewer, or `match = \"first\"`"),
        ));
    }
    let Some((first, _)) = enforced.first() else { return };
    if enforced.iter().all(|(policy, _)| policy.cost == first.cost) {
        return;
    }
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
