//! Checks of local shares: that each limit has one, and its size.

use tollgate::{LimitSet, Share};

use crate::cost::CostRule;
use crate::model::{Policy, Rule};
use crate::problem::{Problem, Span};
use crate::spans::PolicySpans;

pub(super) fn check(
    policy: &Policy,
    place: &PolicySpans,
    nodes: Option<u32>,
    problems: &mut Vec<Problem>,
) {
    let Some(share) = policy.on_failure.share() else { return };
    let at = place.on_failure.or(place.whole);
    let (part, whole) = share.fraction();
    if let Some(nodes) = nodes.filter(|nodes| u64::from(*nodes) * u64::from(part) > whole.into()) {
        problems.push(Problem::warning(
            at,
            format!("{nodes} nodes with a share of {share} each admit more than the limits"),
            format!("write \"local\", which is a share of 1/{nodes}, or a smaller share"),
        ));
    }
    for (entry, places) in policy.entries.iter().zip(&place.entries) {
        limits((&policy.cost, share, at), &entry.limits, &places.limits, problems);
        for (other, places) in entry.overrides.iter().zip(&places.overrides) {
            if let Rule::Limits(set) = &other.rule {
                limits((&policy.cost, share, at), set, &places.limits, problems);
            }
        }
    }
}

fn limits(
    (cost, share, rule): (&CostRule, Share, Option<Span>),
    set: &LimitSet,
    places: &[Option<Span>],
    problems: &mut Vec<Problem>,
) {
    for (limit, place) in set.limits().iter().zip(places) {
        let at = place.or(rule);
        let shared = match limit.share(share) {
            Ok(shared) => shared,
            Err(error) => {
                problems.push(Problem::error(at, error.what(), error.remedy()));
                continue;
            }
        };
        let amount = cost.of(limit.unit());
        let least = amount.map_or(0, |amount| amount.least().unwrap_or(1));
        // A limit that never admits anything has a different warning.
        if least > shared.capacity() && least <= limit.capacity() {
            problems.push(Problem::warning(
                at,
                format!("no request that costs {least} is admitted while the store is away"),
                format!("a share of {share} has room for {}: `{shared}`", shared.capacity()),
            ));
        }
    }
}
