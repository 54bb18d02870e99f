//! Checks of the units of costs against those of limits.

use std::collections::BTreeSet;

use tollgate::{LimitSet, Unit};

use super::compare::{Work, are_disjoint};
use crate::cost::Amount;
use crate::model::{Combine, Entry, Policy, Rule};
use crate::problem::{Problem, Span};
use crate::reserve::{Commit, Estimate, Reserve};
use crate::spans::{FileSpans, PolicySpans};
use crate::sum::Factor;

/// The units that limits count and that costs have.
#[derive(PartialEq, Eq, Default)]
struct Units<'p> {
    counted: BTreeSet<&'p Unit>,
    priced: BTreeSet<&'p Unit>,
}

impl<'p> Units<'p> {
    fn add(&mut self, policy: &'p Policy) {
        let limits = policy.entries.iter().flat_map(Entry::sets).flat_map(LimitSet::limits);
        // A plain cost is slots, too.
        let is_plain = policy.cost.plain().is_some();
        let counted = limits.filter(|limit| limit.has_capacity()).flat_map(|limit| {
            let slots = (is_plain && limit.needs_hold()).then_some(&Unit::REQUESTS);
            core::iter::once(limit.unit()).chain(slots)
        });
        self.counted.extend(counted);
        self.priced.extend(policy.cost.amounts().map(|(unit, _)| unit));
    }
}

/// Reports amounts that no limit counts, limits of which no cost has an amount, and prices that
/// round.
pub(super) fn check(
    combine: Combine,
    policies: &[Policy],
    places: &FileSpans,
    problems: &mut Vec<Problem>,
) {
    let enforced: Vec<&Policy> = policies.iter().filter(|it| !it.shadow).collect();
    let mut every = Units::default();
    enforced.iter().for_each(|policy| every.add(policy));
    let mut work = Work::new();
    for (policy, place) in policies.iter().zip(&places.policies).filter(|(it, _)| !it.unlimited) {
        let mut units = Units::default();
        units.add(policy);
        if combine == Combine::All && !policy.shadow && units != every {
            // Where there are too many to compare, all may apply together.
            let mut may_apply = |other: &&&Policy| {
                !work.allows(&policy.when, &other.when) || !are_disjoint(policy, other)
            };
            enforced.iter().filter(|it| may_apply(it)).for_each(|other| units.add(other));
        }
        uncounted(policy, place, &units, problems);
        unpriced(policy, place, &units, problems);
        coarse(policy, place, problems);
    }
}

fn uncounted(policy: &Policy, place: &PolicySpans, units: &Units<'_>, problems: &mut Vec<Problem>) {
    let mut missing = policy.cost.amounts().map(|(unit, _)| unit);
    let is_counted = |unit: &&Unit| units.counted.contains(unit);
    // Without limits it has an error of its own; a cost of 1 may be nobody's choice.
    if policy.entries.is_empty() || policy.cost.is_default() {
        return;
    }
    if let Some(unit) = missing.find(|unit| !is_counted(unit)) {
        let known: Vec<&str> = units.counted.iter().map(|unit| unit.name()).collect();
        problems.push(Problem::error(
            place.cost.or(place.whole),
            format!("no limit of `{}` counts `{unit}`", policy.name),
            format!(
                "leave this amount out, or write a limit such as `1000/m of {unit}`; the limits \
                 count {}",
                known.join(", ")
            ),
        ));
    }
}

fn unpriced(policy: &Policy, place: &PolicySpans, units: &Units<'_>, problems: &mut Vec<Problem>) {
    let mut warn = |set: &LimitSet, places: &[Option<Span>]| {
        for (number, limit) in set.limits().iter().enumerate() {
            let unit = limit.unit();
            if !limit.has_capacity() || limit.needs_hold() || units.priced.contains(unit) {
                continue;
            }
            problems.push(Problem::warning(
                places.get(number).copied().flatten(),
                format!("`{limit}` counts nothing: the cost has no amount of `{unit}`"),
                format!(
                    "write it, e.g. `cost = {{ {unit} = {{ from = \"field.{unit}\", max = 1000, \
                     otherwise = 1 }} }}`, unless callers give it"
                ),
            ));
        }
    };
    for (entry, at) in policy.entries.iter().zip(&place.entries) {
        warn(&entry.limits, &at.limits);
        for (other, at) in entry.overrides.iter().zip(&at.overrides) {
            if let Rule::Limits(set) = &other.rule {
                warn(set, &at.limits);
            }
        }
    }
}

/// Warns of a factor that is small for its unit: each request would pay for more than it takes.
fn coarse(policy: &Policy, place: &PolicySpans, problems: &mut Vec<Problem>) {
    let factors = policy.cost.amounts().flat_map(|(unit, amount)| {
        factors_of(amount).into_iter().map(move |factor| (unit, factor))
    });
    if let Some((unit, factor)) = factors.into_iter().find(|(_, factor)| factor.is_coarse()) {
        problems.push(Problem::warning(
            place.cost,
            format!("a price of {factor} `{unit}` rounds by more than 1 % even for 1,000"),
            "a cost is a whole number: count a smaller unit, such as millionths, and multiply the \
             factors and the limit",
        ));
    }
}

fn factors_of(amount: &Amount) -> Vec<Factor> {
    match amount {
        Amount::Fixed(_) => Vec::new(),
        Amount::From { sum, .. } => sum.factors().collect(),
        Amount::Reserve(Reserve { estimate, commit, .. }) => {
            let estimate = match estimate {
                Estimate::From { sum, .. } => sum.factors().collect(),
                Estimate::Units(_) | Estimate::Quantile { .. } => Vec::new(),
            };
            let commit = match commit {
                Some(Commit::Headers(sum)) => sum.factors().collect(),
                Some(Commit::Bytes) | None => Vec::new(),
            };
            [estimate, commit].concat()
        }
    }
}
