//! Descriptors that no limit judges. Envoy sends some of them when a stream is done, with the hits
//! as the units that were used: they settle holds, or charge. One names the request.

use std::borrow::Cow;

use tollgate::{Cost, Error, Hold, HoldKind, MAX_REQUEST_BYTES, ParseError, Subject, Unit};
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::proto::service::rate_limit_response::{Code, DescriptorStatus};
use tollgate_policy::{OnFailure, Terms};
use tonic::Status;

use super::question::{Hits, entries};
use crate::service::{By, Description, HoldToSettle, Kind, Question, Refusal, Service, hold_name};

/// The key of an entry whose value is a hold. The only other entry of its descriptor may be the
/// unit.
const KEY: &str = "tollgate-hold";

/// The key of an entry whose value is the unit of the hits that settle a hold; else `requests`.
const UNIT: &str = "tollgate-unit";

/// The key of an entry whose value is the unit of hits that are charged without a check. It is the
/// first entry of its descriptor. The others are the question, as after [`ID`].
const CHARGE: &str = "tollgate-charge";

/// The key of an entry whose value is the id that a hold was asked for under. It is the first entry
/// of its descriptor. The others are the question: `subject`, `limit` and `shard`, or `policy` and
/// the fields.
pub(super) const ID: &str = "tollgate-hold-id";

/// The key of an entry whose value is the id of the request. It is the only entry of its
/// descriptor.
pub(super) const REQUEST: &str = "tollgate-request-id";

/// The longest id of a request. The place of a descriptor follows it.
const MAX_ID_BYTES: usize = MAX_REQUEST_BYTES - 4;

/// A control descriptor, which no limit judges.
enum Said<'d> {
    /// The id of the request.
    Request(&'d str),
    /// A hold, and the unit of what was used.
    Hold(Named<'d>, Option<&'d str>),
    /// The unit of what is charged, and the entries after it.
    Charge(&'d str, Entries<'d>),
}

type Entries<'d> = Vec<(&'d str, &'d str)>;

/// A hold, as a descriptor names it.
#[derive(PartialEq, Eq)]
enum Named<'d> {
    /// By its text.
    Text(&'d str),
    /// By its id, and the entries after it.
    Id(&'d str, Entries<'d>),
}

/// The control descriptor that this one is; `None` if it is about something else.
fn said_of(descriptor: &RateLimitDescriptor) -> Option<Said<'_>> {
    let mut entries = entries(descriptor);
    match entries.next()? {
        (REQUEST, id) if entries.len() == 0 => Some(Said::Request(id)),
        (CHARGE, unit) => Some(Said::Charge(unit, entries.collect())),
        (KEY, text) => match (entries.next(), entries.len()) {
            (None, _) => Some(Said::Hold(Named::Text(text), None)),
            (Some((UNIT, unit)), 0) => Some(Said::Hold(Named::Text(text), Some(unit))),
            _ => None,
        },
        (ID, id) => {
            let (units, question): (Entries<'_>, _) = entries.partition(|(key, _)| *key == UNIT);
            let unit = units.first().map(|(_, unit)| *unit);
            Some(Said::Hold(Named::Id(id, question), unit))
        }
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

/// Settles the holds that descriptors name, charges what they say was used, and takes those
/// descriptors out of the request, with their hits, and so the one that names the request.
/// Descriptors that name the same hold settle it together.
///
/// # Errors
/// A text that this service did not sign, no id, two ids of the request, hits that are given back,
/// a unit that nothing counts, a hold that is not open, or a store that cannot answer. Descriptors
/// before it have had their effect.
pub(super) async fn settle(
    service: &Service,
    request: &mut RateLimitRequest,
    hits: &mut Vec<Hits>,
) -> Result<Taken, Status> {
    let mut taken = Taken::default();
    let mut holds: Vec<(usize, Named<'_>, Option<Cost>)> = Vec::new();
    let mut charges: Vec<(usize, Entries<'_>, Cost)> = Vec::new();
    let each = request.descriptors.iter().zip(&*hits).enumerate();
    for (place, (descriptor, hits)) in each {
        let Some(said) = said_of(descriptor) else { continue };
        taken.places.push(place);
        match said {
            Said::Request(id) => {
                if taken.request.replace(request_id(place, id)?).is_some_and(|other| other != id) {
                    return Err(bad(place, "the request has another id before: give it one"));
                }
            }
            Said::Hold(named, unit) => {
                let is_given = descriptor.hits_addend.is_some() || request.hits_addend > 0;
                let actual = match (&named, unit, used(place, *hits, unit)?) {
                    // Nobody counted this unit, as where the client has gone.
                    (_, Some(_), _) if !is_given => None,
                    // A release, which leaves a mark if it comes before its acquire.
                    (Named::Id(..), None, _) if !is_given => Some(Cost::from(0)),
                    (_, _, used) => Some(used),
                };
                match holds.iter_mut().find(|(_, known, _)| *known == named) {
                    Some((_, _, known)) => *known = together(known.take(), actual),
                    None => holds.push((place, named, actual)),
                }
            }
            Said::Charge(unit, question) => {
                charges.push((place, question, used(place, *hits, Some(unit))?));
            }
        }
    }
    for (place, named, actual) in holds {
        match named {
            Named::Text(text) => settle_text(service, place, text, actual).await?,
            Named::Id(id, question) => {
                let held = named_hold(service, id, &question).map_err(|why| status(place, why))?;
                let actual = actual.unwrap_or_else(|| as_it_ends(&held.hold));
                service.commit(&held, actual).await.map_err(|why| status(place, why))?;
            }
        }
    }
    for (place, question, cost) in charges.into_iter().filter(|it| !it.2.amounts().is_zero()) {
        let missing = "the count is missing: beside the unit give the question";
        let by = by(service, &question, missing).map_err(|why| status(place, why))?;
        let question = Question { cost: Some(cost), ..Question::new(by) };
        service.charge(question).await.map_err(|why| status(place, why))?;
    }
    let mut place = 0..;
    hits.retain(|_| place.next().is_none_or(|place| !taken.places.contains(&place)));
    request.descriptors.retain(|descriptor| said_of(descriptor).is_none());
    Ok(taken)
}

/// The units that the hits of a descriptor say were used.
fn used(place: usize, hits: Hits, unit: Option<&str>) -> Result<Cost, Status> {
    let units = match hits {
        Hits::Look | Hits::Peek => 0,
        Hits::Charge(units) => units,
        Hits::GiveBack(_) => {
            return Err(bad(place, "these hits are what was used: they cannot be negative"));
        }
    };
    let Some(unit) = unit else { return Ok(Cost::from(units)) };
    let unit: Unit = unit.parse().map_err(|error: ParseError| {
        bad(place, &format!("`{unit}`: {}: {}", error.what(), error.remedy()))
    })?;
    Ok(Cost::from_iter([(unit, units)]))
}

/// The amounts of both, by unit.
fn together(one: Option<Cost>, other: Option<Cost>) -> Option<Cost> {
    let all = [one, other].into_iter().flatten();
    let amounts = |cost: Cost| cost.amounts().iter().map(|(unit, it)| (*unit, it)).collect();
    all.map(amounts).reduce(|one: Vec<_>, other| [one, other].concat()).map(Cost::from_iter)
}

/// The charge at the end of a hold. Of several units it is enough to name one.
fn as_it_ends(hold: &Hold) -> Cost {
    let first = hold.cost.amounts().iter().next();
    match (hold.kind(), first) {
        (HoldKind::Charging, Some((unit, amount))) => Cost::from_iter([(*unit, amount)]),
        _ => Cost::from(0),
    }
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
    actual: Option<Cost>,
) -> Result<(), Status> {
    let hold = service.hold_of(text).ok_or_else(|| {
        let what = "its hold was not signed by this service, or by another under the same secret";
        bad(place, what)
    })?;
    let settled = match hold.kind() {
        HoldKind::Acquire => service.gate.holds().release(&hold).await.map(drop),
        _ => {
            let actual = actual.unwrap_or_else(|| as_it_ends(&hold));
            service.gate.holds().commit(&hold, actual).await.map(drop)
        }
    };
    settled.map_err(|error| match error {
        Error::Store(error) => Status::unavailable(format!("the store: {error}")),
        Error::NotOpen(_) | Error::Conflict(_) => Status::failed_precondition(error.to_string()),
        other => bad(place, &other.to_string()),
    })
}

/// The hold with an id, of the question that these entries are.
fn named_hold(
    service: &Service,
    id: &str,
    entries: &[(&str, &str)],
) -> Result<HoldToSettle, Refusal> {
    let name = hold_name(id)?;
    let missing = "the hold is missing: beside its id give its question";
    service.named(Question::new(by(service, entries, missing)?), name)
}

/// The counts that these entries ask for: those of policies, or of limits.
fn by<'d>(
    service: &Service,
    entries: &[(&'d str, &'d str)],
    missing: &str,
) -> Result<By<'d>, Refusal> {
    let of = |key: &'static str| {
        entries.iter().filter(move |(known, _)| *known == key).map(|(_, value)| *value)
    };
    if let Some(policy) = of("policy").next() {
        let mut described = Description::default();
        for (field, value) in entries.iter().filter(|(key, _)| *key != "policy") {
            described.add(field, Cow::Borrowed(*value)).map_err(Refusal::invalid)?;
        }
        let policy = (policy != "*").then_some(Cow::Borrowed(policy));
        let fields = described.read(&service.reading).map_err(Refusal::invalid)?;
        return Ok(By::Policies { policy, fields });
    }
    let limits = of("limit").collect::<Vec<_>>().join(", ");
    let (Some(subject), false) = (of("subject").next(), limits.is_empty()) else {
        let detail =
            format!("{missing}: the entries `subject` and `limit`, or `policy` and its fields");
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
    Ok(By::Limits { parts, shard, terms: Terms::new(OnFailure::Deny) })
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
