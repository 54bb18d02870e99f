//! Checks of parsed policies: names that clash, subjects that cannot be built.

use std::collections::HashMap;

use tollgate::{LimitSet, MAX_LIMITS, MAX_PARTS};

use crate::field::Field;
use crate::model::{Combine, Dimension, Entry, MAX_DEADLINE, MIN_DEADLINE, Policy, Shard};
use crate::pattern::{Condition, Pattern};
use crate::problem::Problem;
use crate::read::MAX_POLICIES;
use crate::spans::{EntrySpans, FileSpans, PolicySpans};

mod compare;
mod costs;
mod lint;
mod local;
mod subjects;
mod tiers;
mod times;
mod together;

use compare::Work;

/// Reports what is wrong, and joins the entries of a policy that have the same subject.
pub(crate) fn check(
    (combine, nodes): (Combine, Option<u32>),
    policies: &mut [Policy],
    places: &mut FileSpans,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    if policies.is_empty() || policies.len() > MAX_POLICIES {
        problems.push(Problem::error(
            None,
            format!("there are {} policies", policies.len()),
            format!("give 1 to {MAX_POLICIES}"),
        ));
    }
    names(policies, places, &mut problems);
    shadows(combine, policies, places, &mut problems);
    let mut work = Work::new();
    for (policy, place) in policies.iter_mut().zip(&mut places.policies) {
        numbers(policy, place, &mut problems);
        tiers::check(policy, place, &mut problems);
        times::zones(policy, place, &mut problems);
        if place.whole.is_none() {
            written(policy, &mut problems);
        }
        join(policy, place, &mut problems);
        subjects::check(policy, place, &mut problems);
        overrides(policy, place, &mut work, &mut problems);
        shard(policy, place, &mut problems);
        lint::limits(policy, place, &mut work, &mut problems);
        times::overrides(policy, place, &mut problems);
        lint::slots(policy, place, &mut problems);
        local::check(policy, place, nodes, &mut problems);
    }
    if places.combine_is_unknown {
        return problems;
    }
    costs::check(combine, policies, places, &mut problems);
    if combine == Combine::All {
        together::check(policies, places, &mut problems);
    }
    lint::policies(combine, policies, places, &mut problems);
    times::policies(combine, policies, places, &mut problems);
    problems
}

fn names(policies: &[Policy], places: &FileSpans, problems: &mut Vec<Problem>) {
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (number, (policy, place)) in policies.iter().zip(&places.policies).enumerate() {
        // For a file, the reader has already checked this, where the positions are known.
        let probe = "1/s".parse::<LimitSet>().and_then(|set| set.in_policy(&policy.name));
        if let (Err(error), None) = (probe, place.name) {
            problems.push(Problem::error(None, error.what(), error.remedy()));
        }
        if let Some(first) = known.insert(&policy.name, number) {
            let at = places.policies.get(first).and_then(|place| place.name);
            let also = if at.is_some() { " above" } else { "" };
            problems.push(Problem::error(
                place.name,
                format!("a policy{also} is named `{}` too", policy.name),
                "counts belong to the name: give each policy its own",
            ));
        }
    }
}

/// Finds overrides for requests that their policy never applies to.
fn overrides(policy: &Policy, place: &PolicySpans, work: &mut Work, problems: &mut Vec<Problem>) {
    let all = policy.entries.iter().zip(&place.entries);
    for (other, at) in all.flat_map(|(entry, at)| entry.overrides.iter().zip(&at.overrides)) {
        if !work.allows(&policy.when, &other.when) {
            return;
        }
        let excluding = |theirs: &Condition| policy.when.iter().find(|mine| mine.excludes(theirs));
        if let Some(mine) = other.when.iter().find_map(excluding) {
            problems.push(Problem::error(
                at.whole,
                "this override can never hold",
                format!("its policy applies only where `{mine}`: change one of them"),
            ));
        }
    }
}

/// The maximum number of shadow policies when all that apply are checked: each is a separate check.
const MAX_SHADOWS: usize = 16;

fn shadows(combine: Combine, policies: &[Policy], places: &FileSpans, problems: &mut Vec<Problem>) {
    let mut shadows = policies.iter().zip(&places.policies).filter(|(policy, _)| policy.shadow);
    if combine == Combine::All
        && let Some((_, place)) = shadows.nth(MAX_SHADOWS)
    {
        problems.push(Problem::error(
            place.name,
            format!("more than {MAX_SHADOWS} policies are in shadow"),
            "each that applies is one more question to the store: try fewer at a time",
        ));
    }
}

/// Checks numbers that a program may set to any value.
fn numbers(policy: &Policy, place: &PolicySpans, problems: &mut Vec<Problem>) {
    let name = &policy.name;
    let mut error = |at, what: String, remedy: &str| {
        problems.push(Problem::error(at, what, remedy));
    };
    if policy.deadline.is_some_and(|it| !(MIN_DEADLINE..=MAX_DEADLINE).contains(&it)) {
        error(place.whole, format!("`{name}` has no sound deadline"), "give 1ms to 1m");
    }
    if !policy.cost.is_sound() {
        let remedy = "a cost is 1 to 2^40; one from a field has its `otherwise` within its `max`; \
                      estimates have one `hold` and one `at_end`";
        error(place.cost.or(place.whole), format!("`{name}` has no sound cost"), remedy);
    }
    if policy.cost.reserves().next().is_some() && policy.on_failure.share().is_some() {
        error(
            place.on_failure.or(place.whole),
            format!("`{name}` reserves, and a local share holds nothing"),
            "write `on_failure = \"allow\"` or `\"deny\"`",
        );
    }
    match (policy.unlimited, policy.entries.is_empty()) {
        (false, true) => {
            let remedy = "say whose counts are kept, under which limits";
            error(place.whole, format!("`{name}` limits nothing"), remedy);
        }
        (true, false) => {
            let remedy = "leave out the one or the other";
            error(place.whole, format!("`{name}` is unlimited, and has limits"), remedy);
        }
        _ => {}
    }
    let overrides = policy.entries.iter().flat_map(|entry| &entry.overrides);
    let each = overrides.clone().map(|other| &other.when).chain([&policy.when]);
    if each.flatten().any(|condition| condition.any_of.is_empty()) {
        let remedy = "write what the field may be";
        error(place.when, format!("a condition of `{name}` can never hold"), remedy);
    }
    if overrides.clone().any(|other| other.when.is_empty()) {
        let remedy = "without a condition it is not an override: make it the limit of the entry";
        error(place.whole, format!("an override of `{name}` has no condition"), remedy);
    }
}

/// Checks that conditions and constants built by a program mean the same as when written in a file.
/// A constant with the name of a field, or a header in capital letters, would count or match
/// unexpectedly.
fn written(policy: &Policy, problems: &mut Vec<Problem>) {
    let name = &policy.name;
    let mut refuse = |what: String, remedy: &str| {
        problems.push(Problem::error(None, format!("`{name}`: {what}"), remedy));
    };
    let mut fields: Vec<&Field> = Vec::new();
    let overrides = policy.entries.iter().flat_map(|entry| &entry.overrides);
    for condition in overrides.flat_map(|other| &other.when).chain(&policy.when) {
        fields.push(&condition.field);
        let is_listed = |pattern: &&Pattern| matches!(pattern, Pattern::Listed(_));
        let is_of_other = |pattern: &Pattern| {
            let is_ip = condition.field == Field::Ip;
            matches!(pattern, Pattern::Listed(list) if list.is_of_networks() != is_ip)
        };
        if condition.any_of.iter().any(is_of_other) {
            let remedy = "read it with `ValueList::parse` for this field";
            refuse(format!("`{condition}` is a list for another field"), remedy);
        }
        for pattern in condition.any_of.iter().filter(|it| !is_listed(it)) {
            match Pattern::parse(&condition.field, &pattern.to_string()) {
                Ok(read) if read == *pattern => {}
                _ => refuse(
                    format!("`{condition}` is not a condition as it would be written"),
                    "make patterns with `Pattern::parse`",
                ),
            }
        }
    }
    for entry in &policy.entries {
        let stand_in = entry.absent.values().filter_map(|what| match what {
            crate::model::Absent::Instead(dimension) => Some(dimension),
            _ => None,
        });
        for dimension in entry.subject.iter().chain(stand_in) {
            match Dimension::parse(&dimension.to_string()) {
                Ok(read) if read == *dimension => {}
                Ok(_) => refuse(
                    format!("`{dimension}` is not a dimension as it would be written"),
                    "make dimensions with `Dimension::parse`",
                ),
                Err(error) => refuse(error.what().to_owned(), error.remedy()),
            }
        }
        fields.extend(entry.absent.keys());
    }
    fields.extend(policy.cost.fields());
    if let Shard::By(field) = &policy.shard {
        fields.push(field);
    }
    for field in fields {
        if Field::parse_condition(&field.to_string()).as_ref() != Ok(field) {
            let remedy = "make fields with `Field::parse`: names of headers are in lower case";
            refuse(format!("`{field}` is not a field as it would be written"), remedy);
        }
    }
}

/// Joins entries with the same subject into one set of limits, which is one state in the store.
fn join(policy: &mut Policy, place: &mut PolicySpans, problems: &mut Vec<Problem>) {
    // For a file, the reader has already reported this. Joining compares every pair of entries.
    if policy.entries.len() > MAX_PARTS {
        let what = format!("`{}` has {} entries", policy.name, policy.entries.len());
        let remedy = format!("at most {MAX_PARTS}: make it several policies");
        problems.push(Problem::error(place.whole, what, remedy));
        policy.entries.clear();
        place.entries.clear();
        return;
    }
    let mut kept: Vec<(Entry, EntrySpans)> = Vec::new();
    let places = std::mem::take(&mut place.entries);
    for (entry, at) in std::mem::take(&mut policy.entries).into_iter().zip(places) {
        let same = |kept: &&mut (Entry, EntrySpans)| same_subject(&kept.0.subject, &entry.subject);
        let Some((first, first_at)) = kept.iter_mut().find(same) else {
            kept.push((entry, at));
            continue;
        };
        if first.absent != entry.absent {
            problems.push(Problem::error(
                at.absent.or(at.subject),
                "an entry with the same subject has another `absent`",
                "they are one set of limits: say the same in both",
            ));
        }
        if !first.overrides.is_empty() && !entry.overrides.is_empty() {
            problems.push(Problem::error(
                at.subject,
                "an entry with the same subject has overrides too",
                "they are one set of limits, which an override takes the place of: write all \
                 overrides in one of them",
            ));
        }
        match LimitSet::of_all(&[first.limits.clone(), entry.limits.clone()]) {
            Ok(set) => {
                first.limits = set;
                first_at.limits.extend(at.limits);
            }
            Err(error) => {
                let what = format!("{}: another entry has the same subject", error.what());
                let many = first.limits.limits().len() + entry.limits.limits().len() > MAX_LIMITS;
                let known = |limit: &tollgate::Limit| {
                    let mut others = first.limits.limits().iter();
                    others.any(|other| other.identity() == limit.identity())
                };
                let number = entry.limits.limits().iter().position(known).unwrap_or(0);
                let limit = at.limits.get(number).copied().flatten();
                let at = if many { at.subject } else { limit.or(at.subject) };
                problems.push(Problem::error(at, what, error.remedy()));
            }
        }
        first.notify.extend(entry.notify);
        first.overrides.extend(entry.overrides);
        first_at.overrides.extend(at.overrides);
    }
    (policy.entries, place.entries) = kept.into_iter().unzip();
}

fn same_subject(one: &[Dimension], other: &[Dimension]) -> bool {
    one.len() == other.len() && one.iter().all(|dimension| other.contains(dimension))
}

fn shard(policy: &Policy, place: &PolicySpans, problems: &mut Vec<Problem>) {
    let Shard::By(field) = &policy.shard else { return };
    for (entry, at) in policy.entries.iter().zip(&place.entries) {
        if !entry.subject.contains(&Dimension::Field(field.clone())) {
            problems.push(Problem::error(
                at.subject.or(place.shard),
                format!("this subject has no `{field}`, by which the policy is sharded"),
                format!("add `{field}` to the subject, or shard by what all subjects have"),
            ));
        } else if let Some(crate::model::Absent::Instead(other)) = entry.absent.get(field) {
            problems.push(Problem::error(
                at.absent.or(place.shard),
                format!("`{other}` stands in for `{field}`, by which the policy is sharded"),
                "without it there is no shard: it is `skip` or `deny`",
            ));
        }
    }
}
