//! The outliers by name.

use super::advice::{Outlier, WindowAdvice};
use super::scan::Profile;
use crate::event::ClientId;
use crate::read::Traffic;

/// The outliers, with what each asked for at its busiest.
pub(super) fn named(
    traffic: &Traffic,
    ids: &[ClientId],
    (demand, profiles, is_outlier): (&[u64], &[Profile], &[bool]),
) -> Vec<Outlier> {
    let each = ids.iter().zip(demand).zip(profiles).zip(is_outlier);
    let mut all: Vec<(u64, u64, ClientId)> = each
        .filter(|(_, is_outlier)| **is_outlier)
        .map(|(((id, demand), profile), _)| (*demand, profile.requests, *id))
        .collect();
    all.sort_unstable_by(|one, other| (other.0, other.1, one.2).cmp(&(one.0, one.1, other.2)));
    all.truncate(WindowAdvice::NAMED);
    let outlier = |(busiest, requests, id)| Outlier {
        client: traffic.clients.printable(id).unwrap_or_default(),
        busiest,
        requests,
    };
    all.into_iter().map(outlier).collect()
}
