//! A domain without rules, by the policies: each descriptor is a request, whose fields are its
//! entries.

use core::time::Duration;
use std::borrow::Cow;

use tollgate::RequestId;
use tollgate_envoy::Unit;
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::service::rate_limit_response::RateLimit;
use tollgate_policy::{Answer, CostRefused, Prepared};
use tonic::Status;

use super::question::{Hits, entries};
use super::settle::id_at;
use crate::service::{DescribedFields, Description, Service};

/// The answer of the policies to one descriptor.
///
/// # Errors
/// An entry that is not a field, or hits that policies do not take.
pub(super) async fn ask(
    service: &Service,
    domain: &str,
    (place, descriptor): (usize, &RateLimitDescriptor),
    hits: Hits,
    (deadline, id): (Duration, Option<RequestId<'_>>),
) -> Result<Answer<'static>, Status> {
    let prepared = prepared(service, domain, (place, descriptor))?.within(deadline);
    match hits {
        Hits::Look | Hits::Peek => Ok(service.gate.ask(prepared.peek()).await),
        Hits::GiveBack(_) => {
            let why = format!("the domain `{domain}` has policies, which take no hits back");
            Err(at(place, &why))
        }
        Hits::Charge(hits) => {
            let mut prepared = costing(prepared, place, hits)?;
            if let Some(id) = id {
                prepared.request(id.with_text(&id_at(id.text(), place)));
            }
            Ok(service.gate.ask(prepared).await)
        }
    }
}

fn at(place: usize, why: &str) -> Status {
    Status::invalid_argument(format!("descriptors[{place}]: {why}"))
}

/// The policies that apply to one descriptor.
///
/// # Errors
/// An entry that is not a field.
pub(super) fn prepared(
    service: &Service,
    domain: &str,
    (place, descriptor): (usize, &RateLimitDescriptor),
) -> Result<Prepared, Status> {
    if descriptor.limit.is_some() {
        let why = format!("the domain `{domain}` has policies, which take no `limit`");
        return Err(at(place, &why));
    }
    let fields = fields(service, domain, descriptor).map_err(|why| at(place, &why))?;
    Ok(service.gate.prepare(&fields))
}

/// The same, without the rulings of administrators.
///
/// # Errors
/// An entry that is not a field.
pub(super) fn unruled(
    service: &Service,
    domain: &str,
    (place, descriptor): (usize, &RateLimitDescriptor),
) -> Result<Prepared, Status> {
    let fields = fields(service, domain, descriptor).map_err(|why| at(place, &why))?;
    let prepared = service.gate.prepare_unruled(None, &fields);
    Ok(prepared.unwrap_or_else(|| service.gate.prepare(&fields)))
}

/// The same at a cost of this many hits.
///
/// # Errors
/// A policy sets the cost.
pub(super) fn costing(mut prepared: Prepared, place: usize, hits: u64) -> Result<Prepared, Status> {
    if hits != 1 {
        prepared.cost(hits).map_err(|refused| match refused {
            CostRefused::Sets(policy) => {
                let name = &policy.name;
                at(place, &format!("the policy `{name}` sets the cost: leave out `hits_addend`"))
            }
            CostRefused::Unknown(error) => at(place, &error.to_string()),
        })?;
    }
    Ok(prepared)
}

fn fields<'d>(
    service: &Service,
    domain: &'d str,
    descriptor: &'d RateLimitDescriptor,
) -> Result<DescribedFields<'d>, String> {
    let mut described = Description::default();
    described.add("field.domain", Cow::Borrowed(domain))?;
    for (key, value) in entries(descriptor) {
        let name: Cow<'_, str> = match key {
            "remote_address" => "ip".into(),
            "ip" | "host" | "method" | "path" | "route" | "user" | "api_key" => key.into(),
            other => format!("field.{other}").into(),
        };
        // Envoy's `:path` has the query too, which no policy looks at.
        let value = if name == "path" { value.split('?').next().unwrap_or(value) } else { value };
        described.add(&name, Cow::Borrowed(value))?;
    }
    described.read(&service.reading)
}

/// The limit that binds, as Envoy has limits.
pub(super) fn reported(answer: &Answer<'_>) -> Option<RateLimit> {
    let decision = answer.decision()?;
    let limit = decision.binding().limit();
    // A ban has no units for each unit of time.
    let quota = if limit.has_capacity() { limit.quota() } else { return None };
    Some(RateLimit {
        requests_per_unit: u32::try_from(quota.units).unwrap_or(u32::MAX),
        unit: Unit::of(quota).map_or(0, Unit::number),
        name: answer.policy().map_or(String::new(), |policy| policy.name.clone()),
    })
}
