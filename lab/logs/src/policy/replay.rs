//! The effect that one policy file would have had.

use serde::Serialize;
use tollgate_policy::Policies;

use super::Go;
use super::read::Requests;
use super::side::Side;
use crate::error::Error;
use crate::replay::top_denied;

/// Requests between two calls of the progress function, and between two sweeps.
pub(super) const BATCH: usize = 8_192;

/// The effect that policies would have had on a log: the object of `replay --policy FILE --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PolicyReport {
    /// All requests.
    pub events: u64,
    /// Those with an earlier timestamp than the one before them in the file.
    pub out_of_order: u64,
    /// Lines that are not requests.
    pub unparsed: u64,
    /// The clients of `--by`.
    pub clients: u64,
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Requests to which no policy applies; they are admitted.
    pub no_policy: u64,
    /// Clients that were denied at least once.
    pub clients_denied: u64,
    /// The most denied clients, with their denials.
    pub top_denied: Vec<(String, u64)>,
    /// One for each policy, in their order.
    pub policies: Vec<PolicyCounts>,
}

/// The decisions of one policy: on a denial the policy that denied, else the one with the smallest
/// `remaining`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PolicyCounts {
    /// Its name.
    pub policy: String,
    /// Requests that it decided and admitted.
    pub admitted: u64,
    /// Requests that it denied.
    pub denied: u64,
}

/// The decision on one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decided<'a> {
    /// The number of its line, from 1.
    pub line: u32,
    /// Microseconds since the Unix epoch.
    pub at_us: u64,
    /// The client as in the log, byte for byte.
    pub client: &'a [u8],
    /// Whether it was admitted.
    pub is_admitted: bool,
    /// The policy that decided; `None` when none applies.
    pub policy: Option<&'a str>,
}

/// Decides every request in order, and reports each to `each`.
///
/// # Errors
/// [`Error::Policies`] when a request gets no decision; [`Error::Temporary`] when sorted requests
/// cannot be read; what `each` and `go` return.
pub fn replay(
    requests: &Requests,
    policies: &Policies,
    each: &mut dyn FnMut(Decided<'_>) -> Result<(), Error>,
    go: &mut Go<'_>,
) -> Result<PolicyReport, Error> {
    let side = Side::new(policies)?;
    let mut denied_by_client = vec![0; requests.clients().len()];
    let counts = |name: &String| PolicyCounts { policy: name.clone(), admitted: 0, denied: 0 };
    let mut report = PolicyReport {
        events: requests.summary.events,
        out_of_order: requests.summary.out_of_order,
        unparsed: requests.summary.unparsed,
        clients: requests.clients().len() as u64,
        admitted: 0,
        denied: 0,
        no_policy: 0,
        clients_denied: 0,
        top_denied: Vec::new(),
        policies: side.names.iter().map(counts).collect(),
    };
    let total = requests.len();
    for (event, done) in requests.iter()?.zip(1_u64..) {
        let event = event?;
        let decision = side.decide(event.at_us, &requests.request(&event))?;
        let client = requests.client(&event);
        let counts = decision.policy.and_then(|place| report.policies.get_mut(place));
        report.no_policy += u64::from(counts.is_none());
        if decision.is_admitted {
            report.admitted += 1;
            counts.into_iter().for_each(|it| it.admitted += 1);
        } else {
            report.denied += 1;
            counts.into_iter().for_each(|it| it.denied += 1);
            if let Some(denied) = denied_by_client.get_mut(client.index() as usize) {
                *denied += 1;
            }
        }
        each(Decided {
            line: event.line,
            at_us: event.at_us,
            client: requests.clients().name(client).unwrap_or_default(),
            is_admitted: decision.is_admitted,
            policy: side.name(decision.policy),
        })?;
        if done % BATCH as u64 == 0 || done == total {
            side.sweep();
            go((done, total))?;
        }
    }
    report.clients_denied = denied_by_client.iter().filter(|denied| **denied > 0).count() as u64;
    report.top_denied = top_denied(requests.clients(), &denied_by_client);
    Ok(report)
}
