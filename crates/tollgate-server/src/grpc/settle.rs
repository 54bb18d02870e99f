//! Descriptors that count nothing. Some settle holds: Envoy sends them when a stream is done, with
//! the hits as the units that were used. One names the request.

use std::borrow::Cow;

use tollgate::{Error, Hold, HoldKind, MAX_REQUEST_BYTES, Subject};
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::proto::service::rate_limit_response::{Code, DescriptorStatus};
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

/// The key of an entry whose value is the id of the request. It is the only entry of its
/// descriptor.
pub(super) const REQUEST: &str = "tollgate-request-id";

/// The longest id of a request. The place of a descriptor follows it.
const MAX_ID_BYTES: usize = MAX_REQUEST_BYTES - 4;

/// A control descriptor, which counts nothing.
enum Said<'d> {
    /// The id of the request.
    Request(&'d str),
    /// The text of the hold.
    Text(&'d str),
    /// Its id, and the entries after it.
    Id(&'d str, Vec<(&'d str, &'d str)>),
}

/// The control descriptor that this one is; `None` if it is about something else.
fn said_of(descriptor: &RateLimitDescriptor) -> Option<Said<'_>> {
    let mut entries = entries(descriptor);
    match entries.next()? {
        (KEY, text) if entries.len() == 0 => Some(Said::Text(text)),
        (REQUEST, id) if entries.len() == 0 => Some(Said::Request(id)),
        (ID, id) => Some(Said::Id(id, entries.collect())),
        _ => None,
    }
}

/// Whether any descriptor names a hold, or the request.
pub(super) fn is_any(request: &RateLimitRequest) -> bool {
    request.descriptors.iter().any(|descriptor| said_of(descriptor).is_some())
}

/// The control descriptors that were taken out of a request.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Where the descriptors were.
    pub(super) places: Vec<usize>,
    /// The id of the request.
    pub(super) request: Option<String>,
}

/// Settles the holds that descriptors name, and takes those descriptors out of the request, with
/// their hits, and so the one that names the request.
///
/// # Errors
/// A text that this service did not sign, no id, two ids of the request, hits that are given back,
/// a hold that is not open, or a store that cannot answer. Holds before it have been settled.
pub(super) async fn settle(
    service: &Service,
    request: &mut RateLimitRequest,
    hits: &mut Vec<Hits>,
) -> Result<Taken, Status> {
    let mut taken = Taken::default();
    let each = request.descriptors.iter().zip(&*hits).enumerate();
    for (place, (descriptor, hits)) in each {
        let Some(said) = said_of(descriptor) else { continue };
        taken.places.push(place);
        if let Said::Request(id) = said {
            if taken.request.replace(request_id(place, id)?).is_some_and(|other| other != id) {
                return Err(bad(place, "the request has another id before: give it one"));
            }
            continue;
        }
        let actual = match hits {
            Hits::Look => 0,
            Hits::Charge(units) => *units,
            Hits::GiveBack(_) => {
                let what = "a hold is settled with what was used: hits cannot be negative";
                return Err(bad(place, what));
            }
        };
        match said {
            Said::Request(_) => {}
            Said::Text(text) => settle_text(service, place, text, actual).await?,
            Said::Id(id, question) => {
                // Hits that nobody gave are not units: a release before its acquire leaves a mark.
                let is_given = descriptor.hits_addend.is_some() || request.hits_addend > 0;
                let actual = if is_given { actual } else { 0 };
                let hold = named(service, id, &question).map_err(|why| status(place, why))?;
                service.commit(&hold, actual).await.map_err(|why| status(place, why))?;
            }
        }
    }
    let mut place = 0..;
    hits.retain(|_| place.next().is_none_or(|place| !taken.places.contains(&place)));
    request.descriptors.retain(|descriptor| said_of(descriptor).is_none());
    Ok(taken)
}

fn request_id(place: usize, id: &str) -> Result<String, Status> {
    if (1..=MAX_ID_BYTES).contains(&id.len()) {
        return Ok(id.to_owned());
    }
    let bytes = id.len();
    let what = format!("`{REQUEST}` has 1 to {MAX_ID_BYTES} bytes, not {bytes}: a UUID is enough");
    Err(bad(place, &what))
}

/// The id of the question of the descriptor at this place: two of a request may ask the same.
pub(super) fn id_at(request: &str, place: usize) -> String {
    format!("{request} {place}")
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
        HoldKind::Acquire => service.gate.holds().release(&hold).await.map(drop),
        _ => service.gate.holds().commit(&hold, actual).await.map(drop),
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
        By::Policies { policy, fields: described.read(&service.reading).map_err(Refusal::invalid)? }
    } else {
        let limits = of("limit").collect::<Vec<_>>().join(", ");
        let (Some(subject), false) = (of("subject").next(), limits.is_empty()) else {
            let detail = "the hold is missing: beside its id give its question: the entries \
                          `subject` and `limit`, or `policy` and its fields";
            return Err(Refusal::invalid(detail));
        };
        let subject = Subject::literal(subject).map_err(|error| {
            Refusal::invalid(format!("`subject`: {}: {}", error.what(), error.remedy()))
        })?;
        let mut strange = entries.iter().map(|(key, _)| *key);
        if let Some(key) = strange.find(|key| !["subject", "limit", "shard"].contains(key)) {
            let detail = format!("`{key}` is not a part of such a question: leave it out");
            return Err(Refusal::invalid(detail));
        }
        let parts = vec![(subject, service.limits(&limits)?)];
        let shard = of("shard").next().map(Cow::Borrowed);
        By::Limits { parts, shard, terms: Terms::new(OnFailure::Deny) }
    };
    service.named(Question::new(by), name)
}

fn bad(place: usize, what: &str) -> Status {
    Status::invalid_argument(format!("descriptors[{place}]: {what}"))
}

fn status(place: usize, Refusal { kind, detail, .. }: Refusal) -> Status {
    match kind {
        Kind::Conflict => Status::failed_precondition(detail),
        Kind::Full => Status::resource_exhausted(detail),
        Kind::Unavailable => Status::unavailable(detail),
        Kind::Forbidden => Status::permission_denied(detail),
        Kind::NotFound => Status::not_found(detail),
        Kind::Invalid => bad(place, &detail),
    }
}

/// The status of a descriptor that counts nothing.
pub(super) fn settled() -> DescriptorStatus {
    DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() }
}
