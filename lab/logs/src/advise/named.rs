//! The outliers by name.

use super::advice::{Outlier, WindowAdvice};
use super::outliers::Why;
use super::scan::Profile;
use crate::describe::Kind;
use crate::event::ClientId;
use crate::read::Traffic;

/// The outliers, with what each asked for at its busiest.
pub(super) fn named(
    traffic: &Traffic,
    ids: &[ClientId],
    (demand, profiles): (&[u64], &[Profile]),
    (is_outlier, kinds): (&[bool], &[Option<Kind>]),
) -> Vec<Outlier> {
    let each = ids.iter().zip(demand).zip(profiles).zip(is_outlier.iter().zip(kinds));
    let mut all: Vec<(u64, u64, ClientId, Why)> = each
        .filter(|(_, (is_outlier, _))| **is_outlier)
        .map(|(((id, demand), profile), (_, kind))| {
            (*demand, profile.requests, *id, Why::of(*kind))
        })
        .collect();
    all.sort_unstable_by(|one, other| (other.0, other.1, one.2).cmp(&(one.0, one.1, other.2)));
    all.truncate(WindowAdvice::NAMED);
    let outlier = |(busiest, requests, id, why)| Outlier {
        client: traffic.clients.printable(id).unwrap_or_default(),
        why,
        busiest,
        requests,
    };
    all.into_iter().map(outlier).collect()
}
