//! Warnings: what is surely not what was meant. What is only unusual is not warned of.

use std::collections::HashMap;

use tollgate::Limit;
use tollgate::strategy::Shape;

use super::{MAX_PAIRS, apart, sets};
use crate::field::Field;
use crate::model::{Combine, Cost, Policy, Rule, Shard};
use crate::pattern::Pattern;
use crate::place::{Place, Places};
use crate::problem::Problem;

pub(super) fn limits(policy: &Policy, place: &Place, problems: &mut Vec<Problem>) {
    for (entry, at) in policy.entries.iter().zip(&place.entries) {
        for (number, set) in sets(entry).enumerate() {
            let at = if number == 0 {
                at.limit
            } else {
                let limited = |(_, other): &(_, &crate::model::Override)| {
                    matches!(other.rule, Rule::Limits(_))
                };
                let mut others = at.overrides.iter().zip(&entry.overrides).filter(limited);
                others.nth(number - 1).and_then(|(at, _)| *at)
            };
            let limits = set.limits();
            for (i, limit) in limits.iter().enumerate() {
                let implied = |(j, other): &(usize, &Limit)| {
                    // Of two that imply each other, the first stays.
                    *j != i && implies(other, limit) && (*j < i || !implies(limit, other))
                };
                if let Some((_, other)) = limits.iter().enumerate().find(implied) {
                    let per = limit.quota().period;
                    problems.push(Problem::warning(
                        at,
                        format!("`{limit}` never binds"),
                        format!(
                            "`{other}` alone admits at most {} in any {per}: leave one out, or \
                             change a number",
                            most_in(other, limit)
                        ),
                    ));
                }
                let Cost::Fixed(cost) = policy.cost else { continue };
                if cost > limit.capacity() {
                    problems.push(Problem::warning(
                        at,
                        format!("no request is ever admitted: each costs {cost}"),
                        format!("`{limit}` has room for {}: lower the cost", limit.capacity()),
                    ));
                }
            }
        }
        // What comes after an override that holds whenever a later one does.
        for (i, (other, at)) in entry.overrides.iter().zip(&at.overrides).enumerate().take(200) {
            let covers = |earlier: &crate::model::Override| {
                earlier.when.iter().all(|mine| other.when.iter().any(|theirs| mine.covers(theirs)))
            };
            if entry.overrides[..i].iter().any(covers) {
                problems.push(Problem::warning(
                    *at,
                    "this override is never reached",
                    "an earlier one holds whenever it does: put it first, or leave it out",
                ));
            }
        }
    }
    if policy.entries.len() > 1 && policy.shard == Shard::Unsaid {
        problems.push(Problem::warning(
            place.name,
            format!("a check of `{}` may cross slots on a cluster", policy.name),
            "name the field that all its subjects share, as `shard = \"field.resource\"`, or write \
             `shard = \"never\"` when it is not for a cluster",
        ));
    }
}

/// The most that `shorter` admits in the window of `limit`.
fn most_in(shorter: &Limit, limit: &Limit) -> u128 {
    let (own, whole) = (shorter.quota().period.as_micros(), limit.quota().period.as_micros());
    let worst = shorter.strategy().traits(shorter.quota()).worst_window;
    u128::from(whole.div_ceil(own)) * u128::from(worst)
}

/// True when `limit` admits whatever `other` admits. Only said of a log, which denies for nothing
/// but too many units in its window.
fn implies(other: &Limit, limit: &Limit) -> bool {
    limit.shape() == Shape::Log && most_in(other, limit) <= u128::from(limit.quota().units)
}

pub(super) fn policies(
    combine: Combine,
    policies: &[Policy],
    places: &Places,
    problems: &mut Vec<Problem>,
) {
    match combine {
        Combine::First => unreached(policies, places, problems),
        Combine::All => across(policies, places, problems),
    }
}

/// Policies behind one that applies whenever they do.
fn unreached(policies: &[Policy], places: &Places, problems: &mut Vec<Problem>) {
    // One that may cover others is found by an exact value it demands, or looked at always.
    let mut by_value: HashMap<(&Field, &str), Vec<usize>> = HashMap::new();
    let mut broad: Vec<usize> = Vec::new();
    let mut pairs = 0;
    for (number, (policy, place)) in policies.iter().zip(&places.policies).enumerate() {
        let exact = |pattern: &'_ Pattern| matches!(pattern, Pattern::Exact(_));
        let demanded = policy.when.iter().flat_map(|condition| {
            condition.any_of.iter().filter_map(move |pattern| match pattern {
                Pattern::Exact(text) => Some((&condition.field, &**text)),
                _ => None,
            })
        });
        let near: Vec<&[usize]> =
            demanded.filter_map(|key| by_value.get(&key)).map(Vec::as_slice).collect();
        pairs += broad.len() + near.iter().map(|list| list.len()).sum::<usize>();
        if pairs > MAX_PAIRS {
            return;
        }
        let covers = |earlier: &&usize| {
            let before: &Policy = &policies[**earlier];
            before.when.iter().all(|mine| policy.when.iter().any(|theirs| mine.covers(theirs)))
        };
        let earlier = near.into_iter().flatten().chain(&broad);
        let covering = earlier.filter(covers).min().copied();
        if let Some(covering) = covering {
            problems.push(Problem::warning(
                place.name,
                format!("`{}` is never reached", policy.name),
                format!(
                    "`{}` applies whenever it does, and comes first: put it behind, or write \
                     `match = \"all\"`",
                    policies[covering].name
                ),
            ));
        }
        if policy.shadow {
            continue;
        }
        let anchor = policy.when.iter().find(|condition| condition.any_of.iter().all(exact));
        match anchor {
            None => broad.push(number),
            Some(condition) => {
                for pattern in &condition.any_of {
                    if let Pattern::Exact(text) = pattern {
                        by_value.entry((&condition.field, text)).or_default().push(number);
                    }
                }
            }
        }
    }
}

/// Policies of one check that no shard keeps together.
fn across(policies: &[Policy], places: &Places, problems: &mut Vec<Problem>) {
    let enforced: Vec<(&Policy, &Place)> = policies
        .iter()
        .zip(&places.policies)
        .filter(|(policy, _)| !policy.shadow && policy.shard != Shard::Never)
        .collect();
    let mut pairs = 0;
    for (i, (policy, place)) in enforced.iter().enumerate() {
        for (other, _) in &enforced[..i] {
            pairs += 1;
            if pairs > MAX_PAIRS {
                return;
            }
            let same = policy.shard == other.shard && policy.shard != Shard::Unsaid;
            if same || apart(policy, other) {
                continue;
            }
            // One is enough to know of it.
            return problems.push(Problem::warning(
                place.name,
                format!(
                    "a check of `{}` and `{}` may cross slots on a cluster",
                    other.name, policy.name
                ),
                "give both the same `shard`, or write `shard = \"never\"` when they are not for a \
                 cluster",
            ));
        }
    }
}
