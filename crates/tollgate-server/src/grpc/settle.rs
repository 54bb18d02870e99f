//! Descriptors that settle holds. Envoy sends them when a stream is done, with the hits as the
//! units that were used.

use tollgate::{Error, HoldKind};
use tollgate_envoy_proto::descriptor::RateLimitDescriptor;
use tollgate_envoy_proto::service::RateLimitRequest;
use tollgate_envoy_proto::service::rate_limit_response::{Code, DescriptorStatus};
use tonic::Status;

use super::question::{Hits, entries};
use crate::service::Service;

/// The key of an entry whose value is a hold. It is the only entry of its descriptor.
const KEY: &str = "tollgate-hold";

/// The hold that a descriptor names.
fn hold_of(descriptor: &RateLimitDescriptor) -> Option<&str> {
    let mut entries = entries(descriptor);
    let only = entries.next().filter(|_| entries.len() == 0);
    only.and_then(|(key, value)| (key == KEY).then_some(value))
}

/// Whether any descriptor names a hold.
pub(super) fn is_any(request: &RateLimitRequest) -> bool {
    request.descriptors.iter().any(|descriptor| hold_of(descriptor).is_some())
}

/// Settles the holds that descriptors name, and takes those descriptors out of the request, with
/// their hits. Answers where they were.
///
/// # Errors
/// A text that this service did not sign, hits that are given back, a hold that is not open, or a
/// store that cannot answer. Holds before it have been settled.
pub(super) async fn settle(
    service: &Service,
    request: &mut RateLimitRequest,
    hits: &mut Vec<Hits>,
) -> Result<Vec<usize>, Status> {
    let mut places = Vec::new();
    let each = request.descriptors.iter().zip(&*hits).enumerate();
    for (place, (descriptor, hits)) in each {
        let Some(text) = hold_of(descriptor) else { continue };
        let bad = |what: &str| Status::invalid_argument(format!("descriptors[{place}]: {what}"));
        let hold = service.hold_of(text).ok_or_else(|| {
            bad("its hold was not signed by this service, or by another under the same secret")
        })?;
        let actual = match hits {
            Hits::Look => 0,
            Hits::Charge(units) => *units,
            Hits::GiveBack(_) => {
                return Err(bad("a hold is settled with what was used: hits cannot be negative"));
            }
        };
        let settled = match hold.kind() {
            HoldKind::Acquire => service.gate.release(&hold).await.map(drop),
            _ => service.gate.commit(&hold, actual).await.map(drop),
        };
        settled.map_err(|error| match error {
            Error::Store(error) => Status::unavailable(format!("the store: {error}")),
            Error::NotOpen(_) | Error::Conflict(_) => {
                Status::failed_precondition(error.to_string())
            }
            other => bad(&other.to_string()),
        })?;
        places.push(place);
    }
    let mut place = 0..;
    hits.retain(|_| place.next().is_none_or(|place| !places.contains(&place)));
    request.descriptors.retain(|descriptor| hold_of(descriptor).is_none());
    Ok(places)
}

/// The status of a descriptor that settled a hold.
pub(super) fn settled() -> DescriptorStatus {
    DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() }
}
