//! Descriptors that settle holds. Envoy sends them when a stream is done, with the hits as the
//! units that were used.

use std::borrow::Cow;

use tollgate::{Error, Hold, HoldKind, Subject};
use tollgate_envoy_proto::descriptor::RateLimitDescriptor;
use tollgate_envoy_proto::service::RateLimitRequest;
use tollgate_envoy_proto::service::rate_limit_response::{Code, DescriptorStatus};
use tollgate_policy::{OnFailure, Terms};
use tonic::Status;

use super::question::{Hits, entries};
use crate::service::{By, Description, Kind, Question, Refusal, Service, hold_name};

/// The key of an entry whose value is a hold. It is the only entry of its descriptor.
const KEY: &str = "tollgate-hold";

/// The key of an entry whose value is the id that a hold was asked for under. It is the first entry
/// of its descriptor. The others are the question: `subject`, `limit` and `shard`, or `policy` and
/// the fields.
pub(super) const ID: &str = "tollgate-hold-id";

/// What a descriptor says of a hold.
enum Said<'d> {
    /// The text of the hold.
    Text(&'d str),
    /// Its id, and the entries after it.
    Id(&'d str, Vec<(&'d str, &'d str)>),
}

/// What a descriptor says of a hold; `None` if it is about something else.
fn said_of(descriptor: &RateLimitDescriptor) -> Option<Said<'_>> {
    let mut entries = entries(descriptor);
    match entries.next()? {
        (KEY, text) if entries.len() == 0 => Some(Said::Text(text)),
        (ID, id) => Some(Said::Id(id, entries.collect())),
        _ => None,
    }
}

/// Whether any descriptor names a hold.
pub(super) fn is_any(request: &RateLimitRequest) -> bool {
    request.descriptors.iter().any(|descriptor| said_of(descriptor).is_some())
}

/// Settles the holds that descriptors name, and takes those descriptors out of the request, with
/// their hits. Answers where they were.
///
/// # Errors
/// A text that this service did not sign, no id, hits that are given back, a hold that is not open,
/// or a store that cannot answer. Holds before it have been settled.
pub(super) async fn settle(
    service: &Service,
    request: &mut RateLimitRequest,
    hits: &mut Vec<Hits>,
) -> Result<Vec<usize>, Status> {
    let mut places = Vec::new();
    let each = request.descriptors.iter().zip(&*hits).enumerate();
    for (place, (descriptor, hits)) in each {
        let Some(said) = said_of(descriptor) else { continue };
        let actual = match hits {
            Hits::Look => 0,
            Hits::Charge(units) => *units,
            Hits::GiveBack(_) => {
                let what = "a hold is settled with what was used: hits cannot be negative";
                return Err(bad(place, what));
            }
        };
        match said {
            Said::Text(text) => settle_text(service, place, text, actual).await?,
            Said::Id(id, question) => {
                // Hits that nobody gave are no units: a release before its acquire leaves a mark.
                let is_given = descriptor.hits_addend.is_some() || request.hits_addend > 0;
                let actual = if is_given { actual } else { 0 };
                let hold = named(service, id, &question).map_err(|why| status(place, why))?;
                service.commit(&hold, actual).await.map_err(|why| status(place, why))?;
            }
        }
        places.push(place);
    }
    let mut place = 0..;
    hits.retain(|_| place.next().is_none_or(|place| !places.contains(&place)));
    request.descriptors.retain(|descriptor| said_of(descriptor).is_none());
    Ok(places)
}

async fn settle_text(
    service: &Service,
    place: usize,
    text: &str,
    actual: u64,
) -> Result<(), Status> {
    let hold = service.hold_of(text).ok_or_else(|| {
        let what = "its hold was not signed by this service, or by another under the same secret";
        bad(place, what)
    })?;
    let settled = match hold.kind() {
        HoldKind::Acquire => service.gate.release(&hold).await.map(drop),
        _ => service.gate.commit(&hold, actual).await.map(drop),
    };
    settled.map_err(|error| match error {
        Error::Store(error) => Status::unavailable(format!("the store: {error}")),
        Error::NotOpen(_) | Error::Conflict(_) => Status::failed_precondition(error.to_string()),
        other => bad(place, &other.to_string()),
    })
}

/// The hold with an id, of the question that these entries are.
fn named(service: &Service, id: &str, entries: &[(&str, &str)]) -> Result<Hold, Refusal> {
    let name = hold_name(id)?;
    let of = |key: &'static str| {
        entries.iter().filter(move |(known, _)| *known == key).map(|(_, value)| *value)
    };
    let by = if let Some(policy) = of("policy").next() {
        let mut described = Description::default();
        for (field, value) in entries.iter().filter(|(key, _)| *key != "policy") {
            described.add(field, Cow::Borrowed(*value)).map_err(Refusal::invalid)?;
        }
        let policy = (policy != "*").then_some(Cow::Borrowed(policy));
        By::Policies { policy, fields: described.read(service).map_err(Refusal::invalid)? }
    } else {
        let limits = of("limit").collect::<Vec<_>>().join(", ");
        let (Some(subject), false) = (of("subject").next(), limits.is_empty()) else {
            let detail = "which hold? Beside its id say what it was asked for by: the entries \
                          `subject` and `limit`, or `policy` and its fields";
            return Err(Refusal::invalid(detail));
        };
        let subject = Subject::literal(subject).map_err(|error| {
            Refusal::invalid(format!("`subject`: {}: {}", error.what(), error.remedy()))
        })?;
        let mut strange = entries.iter().map(|(key, _)| *key);
        if let Some(key) = strange.find(|key| !["subject", "limit", "shard"].contains(key)) {
            let detail = format!("`{key}` is no part of such a question: leave it out");
            return Err(Refusal::invalid(detail));
        }
        let parts = vec![(subject, service.limits(&limits)?)];
        let shard = of("shard").next().map(Cow::Borrowed);
        By::Limits { parts, shard, terms: Terms::new(OnFailure::Deny) }
    };
    service.named(Question { by, cost: None, idempotency_key: None, receipt: false }, name)
}

fn bad(place: usize, what: &str) -> Status {
    Status::invalid_argument(format!("descriptors[{place}]: {what}"))
}

fn status(place: usize, Refusal { kind, detail, .. }: Refusal) -> Status {
    match kind {
        Kind::Conflict => Status::failed_precondition(detail),
        Kind::Unavailable => Status::unavailable(detail),
        Kind::Forbidden => Status::permission_denied(detail),
        Kind::NotFound => Status::not_found(detail),
        Kind::Invalid => bad(place, &detail),
    }
}

/// The status of a descriptor that settled a hold.
pub(super) fn settled() -> DescriptorStatus {
    DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() }
}
