//! Warnings about what is certainly unintended. Unusual policies cause no warning.

use std::collections::HashMap;

use tollgate::strategy::Shape;
use tollgate::{Limit, LimitSet};

use super::compare::{Work, are_disjoint};
use crate::cost::{Amount, CostRule};
use crate::field::Field;
use crate::model::{Combine, Dimension, Entry, Override, Policy, Rule, Shard};
use crate::pattern::{Condition, Pattern};
use crate::problem::{Problem, Span};
use crate::spans::{FileSpans, PolicySpans};

pub(super) fn limits(
    policy: &Policy,
    place: &PolicySpans,
    work: &mut Work,
    problems: &mut Vec<Problem>,
) {
    for (entry, at) in policy.entries.iter().zip(&place.entries) {
        set(&policy.cost, &entry.limits, &at.limits, problems);
        for (other, at) in entry.overrides.iter().zip(&at.overrides) {
            if let Rule::Limits(limits) = &other.rule {
                set(&policy.cost, limits, &at.limits, problems);
                anchors(entry, other, limits, &at.limits, problems);
            }
        }
        // Overrides after one that holds whenever a later one does.
        for (i, (other, at)) in entry.overrides.iter().zip(&at.overrides).enumerate() {
            let earlier = &entry.overrides[..i];
            if !earlier.iter().all(|earlier| work.allows(&earlier.when, &other.when)) {
                break;
            }
            let covers = |earlier: &Override| {
                earlier.when.iter().all(|mine| other.when.iter().any(|theirs| mine.covers(theirs)))
            };
            if earlier.iter().any(covers) {
                problems.push(Problem::warning(
                    at.whole,
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
            "name the field that all its subjects share, e.g. `shard = \"field.resource\"`, so that a \
             check is one call; or write `shard = \"never\"` when several calls will do",
        ).of_cluster());
    }
}

/// Checks one set of limits, with the position of each.
fn set(cost: &CostRule, set: &LimitSet, places: &[Option<Span>], problems: &mut Vec<Problem>) {
    let limits = set.limits();
    for (i, limit) in limits.iter().enumerate() {
        let at = places.get(i).copied().flatten();
        let implied = |(j, other): &(usize, &Limit)| {
            // Of two limits that imply each other, the first is kept.
            *j != i && implies(other, limit) && (*j < i || !implies(limit, other))
        };
        if let Some((_, other)) = limits.iter().enumerate().find(implied) {
            let per = limit.quota().period;
            problems.push(Problem::warning(
                at,
                format!("`{limit}` never binds"),
                format!(
                    "`{other}` alone admits at most {} in any {per}: leave one out, or change a \
                     number",
                    most_in(other, limit)
                ),
            ));
        }
        let amount = cost.of(limit.unit());
        let Some(least) = amount.and_then(Amount::least) else { continue };
        let what = match amount.and_then(|amount| amount.fields().next()) {
            None => format!("no request is ever admitted: each costs {least}"),
            Some(field) => {
                format!("no request without `{field}` is ever admitted: it costs {least}")
            }
        };
        // A reservation takes one slot, whatever its cost.
        if let Some(most) = limit.largest_reservation().filter(|most| least > *most) {
            let remedy = format!("`{limit}` has room for {most}: lower the cost");
            problems.push(Problem::warning(at, what, remedy));
        }
    }
}

/// Warns of one count under both anchors of its windows. A window that opens with a request begins
/// again, with all that was counted, each time that the other anchor was asked in between.
fn anchors(
    entry: &Entry,
    other: &Override,
    limits: &LimitSet,
    places: &[Option<Span>],
    problems: &mut Vec<Problem>,
) {
    // Where the subject has all that the override looks at, no subject meets both.
    let is_of_subject = |field: &Field| entry.subject.contains(&Dimension::Field(field.clone()));
    if other.when.iter().all(|condition| is_of_subject(&condition.field)) {
        return;
    }
    for (limit, at) in limits.limits().iter().zip(places) {
        let clashes = |usual: &&Limit| {
            let (usual, own) = (usual.quota(), limit.quota());
            usual.anchor.is_some() && own.anchor.is_some() && usual.anchor != own.anchor
        };
        let same = |usual: &&Limit| usual.identity() == limit.identity();
        let usual = entry.limits.limits().iter().find(|usual| same(usual) && clashes(usual));
        let Some(usual) = usual else { continue };
        problems.push(Problem::warning(
            *at,
            format!("`{limit}` and `{usual}` are one count, whose windows open differently"),
            "a subject that meets both in turn waits longer each time: give both one `anchor`, or \
             one of them a name",
        ));
    }
}

/// The most units that `shorter` admits in the window of `limit`.
fn most_in(shorter: &Limit, limit: &Limit) -> u128 {
    let (own, whole) = (shorter.quota().period.as_micros(), limit.quota().period.as_micros());
    let worst = shorter.strategy().traits(shorter.quota()).worst_window;
    u128::from(whole.div_ceil(own)) * u128::from(worst)
}

/// True when `limit` admits whatever `other` of its unit admits. Decided only for a log: it denies
/// for no other reason than too many units in its window.
fn implies(other: &Limit, limit: &Limit) -> bool {
    other.unit() == limit.unit()
        && limit.shape() == Shape::Log
        && most_in(other, limit) <= u128::from(limit.quota().units)
}

/// Warns of slots that nothing can take.
pub(super) fn slots(policy: &Policy, place: &PolicySpans, problems: &mut Vec<Problem>) {
    let all = policy.entries.iter().flat_map(Entry::sets).flat_map(LimitSet::limits);
    let Some(limit) = all.into_iter().find(|limit| limit.needs_hold()) else { return };
    let name = &policy.name;
    if policy.shadow {
        problems.push(Problem::warning(
            place.name,
            format!("`{name}` is in shadow, where `{limit}` is never asked"),
            "a slot in shadow would never be released: leave the limit out, or `shadow`",
        ));
    } else if policy.when.is_empty() {
        problems.push(Problem::warning(
            place.name,
            format!("`{name}` applies to every request, and denies those that are only checked"),
            format!(
                "`{limit}` is for requests that acquire and release: add a condition, e.g. \
                 `when = {{ field.kind = \"job\" }}`"
            ),
        ));
    }
}

pub(super) fn policies(
    combine: Combine,
    policies: &[Policy],
    places: &FileSpans,
    problems: &mut Vec<Problem>,
) {
    match combine {
        Combine::First => unreached(policies, places, problems),
        Combine::All => across(policies, places, problems),
    }
}

/// Finds policies behind one that applies whenever they do.
fn unreached(policies: &[Policy], places: &FileSpans, problems: &mut Vec<Problem>) {
    // A policy that may cover others is found by an exact value in its conditions, or is always
    // compared.
    let mut by_value: HashMap<(&Field, &str), Vec<usize>> = HashMap::new();
    let mut broad: Vec<usize> = Vec::new();
    let mut work = Work::new();
    for (number, (policy, place)) in policies.iter().zip(&places.policies).enumerate() {
        let exact = |pattern: &'_ Pattern| matches!(pattern, Pattern::Exact(_));
        let demanded = policy.when.iter().filter(|it| !it.negated).flat_map(|condition| {
            condition.any_of.iter().filter_map(move |pattern| match pattern {
                Pattern::Exact(text) => Some((&condition.field, &**text)),
                _ => None,
            })
        });
        let near: Vec<&[usize]> =
            demanded.filter_map(|key| by_value.get(&key)).map(Vec::as_slice).collect();
        let mut earlier = near.iter().copied().flatten().chain(&broad);
        if !earlier.all(|at| work.allows(&policies[*at].when, &policy.when)) {
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
        let is_exact = |it: &&Condition| !it.negated && it.any_of.iter().all(exact);
        let anchor = policy.when.iter().find(is_exact);
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

/// Finds policies of one check whose counts no shard keeps together.
fn across(policies: &[Policy], places: &FileSpans, problems: &mut Vec<Problem>) {
    let enforced: Vec<(&Policy, &PolicySpans)> = policies
        .iter()
        .zip(&places.policies)
        .filter(|(policy, _)| !policy.shadow && !policy.unlimited && policy.shard != Shard::Never)
        .collect();
    let mut work = Work::new();
    for (i, (policy, place)) in enforced.iter().enumerate() {
        for (other, _) in &enforced[..i] {
            if !work.allows(&policy.when, &other.when) {
                return;
            }
            let same = policy.shard == other.shard && policy.shard != Shard::Unsaid;
            // Two of one name are an error, which this would only repeat.
            if same || policy.name == other.name || are_disjoint(policy, other) {
                continue;
            }
            // One warning is enough.
            return problems.push(
                Problem::warning(
                    place.name,
                    format!(
                        "a check of `{}` and `{}` may cross slots on a cluster",
                        other.name, policy.name
                    ),
                    "give both the same `shard`, so that a check is one call; or write `shard = \
                 \"never\"` when several calls will do",
                )
                .of_cluster(),
            );
        }
    }
}
