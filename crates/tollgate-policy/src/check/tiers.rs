//! Checks of tiers: that each tier of the file has limits, and each condition on a tier a file.

use crate::field::{Field, advice};
use crate::model::Policy;
use crate::pattern::{Condition, Pattern};
use crate::problem::Problem;
use crate::read::keys::list;
use crate::spans::PolicySpans;

pub(super) fn check(policy: &Policy, place: &PolicySpans, problems: &mut Vec<Problem>) {
    let is_tier = |condition: &&Condition| condition.field == Field::Tier;
    let name = &policy.name;
    if policy.when.iter().any(|condition| is_tier(&condition)) {
        problems.push(Problem::error(
            place.when.or(place.whole),
            format!("`{name}` has a condition on `tier`, which only overrides can have"),
            "write an override with it: the file of tiers belongs to the policy",
        ));
    }
    let overrides = policy.entries.iter().flat_map(|entry| &entry.overrides);
    let conditions: Vec<&Condition> =
        overrides.flat_map(|other| &other.when).filter(is_tier).collect();
    let Some(tiers) = &policy.tiers else {
        if !conditions.is_empty() {
            problems.push(Problem::error(
                place.whole,
                format!(
                    "an override of `{name}` has a condition on `tier`, and there are no tiers"
                ),
                "name their file: `tiers = { file = \"tiers.csv\", by = \"field.tenant\" }`",
            ));
        }
        return;
    };
    let at = place.tiers.or(place.whole);
    if conditions.is_empty() {
        problems.push(Problem::error(
            at,
            format!("no override of `{name}` has a condition on `tier`"),
            "say what each tier may, e.g. `overrides = [{ when = { tier = \"gold\" }, limit = \
             \"1000/s\" }]`",
        ));
        return;
    }
    let patterns = conditions.iter().flat_map(|condition| &condition.any_of);
    let mut known: Vec<&str> = patterns
        .filter_map(|pattern| match pattern {
            Pattern::Exact(tier) => Some(&**tier),
            _ => None,
        })
        .chain(tiers.default_tier())
        .collect();
    known.sort_unstable();
    known.dedup();
    let remedy = |tier: &str| {
        advice(tier, known.iter().copied(), &format!("the tiers here are {}", list(&known)))
    };
    for (tier, line) in tiers.named().iter().filter(|(tier, _)| !known.contains(&&**tier)) {
        problems.push(Problem::error(
            at,
            format!(
                "{}, line {line}: no override of `{name}` is for the tier `{tier}`",
                tiers.file()
            ),
            remedy(tier),
        ));
    }
}
