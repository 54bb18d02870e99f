//! The kinds of clients under the recommended limit.

use serde::Serialize;

use super::outliers::Why;
use super::scan::Profile;
use crate::describe::Kind;

/// The clients of one kind under the recommended limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// Why they are outliers; `None` for the ordinary clients, of which the limit is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// How many they are.
    pub clients: u64,
    /// Their requests.
    pub requests: u64,
    /// The least burst that never denies any of them.
    pub burst: u64,
    /// How many of them a replay denies at least once.
    pub clients_denied: u64,
    /// How many of their requests it denies.
    pub requests_denied: u64,
}

/// The groups with a client, the ordinary one first. `least` are the bursts, `denied` the denied
/// requests of each client.
pub(super) fn groups(
    profiles: &[Profile],
    (is_outlier, kinds): (&[bool], &[Option<Kind>]),
    (least, denied): (&[u64], &[u32]),
) -> Vec<Group> {
    let all = [None, Some(Why::Busy), Some(Why::Scanner), Some(Why::Robot)];
    let of = |why: Option<Why>| {
        let mut group =
            Group { why, clients: 0, requests: 0, burst: 0, clients_denied: 0, requests_denied: 0 };
        let each = profiles.iter().zip(is_outlier.iter().zip(kinds)).zip(least.iter().zip(denied));
        for ((profile, (is_outlier, kind)), (least, denied)) in each {
            if is_outlier.then(|| Why::of(*kind)) == why {
                group.clients += 1;
                group.requests += profile.requests;
                group.burst = group.burst.max(*least);
                group.clients_denied += u64::from(*denied > 0);
                group.requests_denied += u64::from(*denied);
            }
        }
        group
    };
    all.into_iter().map(of).filter(|group| group.clients > 0).collect()
}
