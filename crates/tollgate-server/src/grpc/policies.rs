//! A domain without rules, by the policies: each descriptor is a request, whose fields are its
//! entries.

use core::time::Duration;
use std::borrow::Cow;

use tollgate_envoy::Unit;
use tollgate_envoy_proto::descriptor::RateLimitDescriptor;
use tollgate_envoy_proto::service::rate_limit_response::RateLimit;
use tollgate_policy::Answer;
use tonic::Status;

use super::question::{Hits, entries};
use crate::service::{DescribedFields, Description, Service};

/// The answer of the policies to one descriptor.
///
/// # Errors
/// An entry that is no field, or hits that policies do not take.
pub(super) async fn ask(
    service: &Service,
    domain: &str,
    (place, descriptor): (usize, &RateLimitDescriptor),
    hits: Hits,
    deadline: Duration,
) -> Result<Answer<'static>, Status> {
    let at = |why: String| Status::invalid_argument(format!("descriptors[{place}]: {why}"));
    if descriptor.limit.is_some() {
        return Err(at(format!("the domain `{domain}` has policies, which take no `limit`")));
    }
    let fields = fields(service, domain, descriptor).map_err(at)?;
    let mut prepared = service.gate.prepare(&fields).within(deadline);
    match hits {
        Hits::Look => return Ok(service.gate.peek(prepared).await),
        Hits::GiveBack(_) => {
            return Err(at(format!("the domain `{domain}` has policies, which take no hits back")));
        }
        Hits::Charge(1) => {}
        Hits::Charge(hits) => prepared.cost(hits).map_err(|policy| {
            at(format!("the policy `{}` says its own cost: leave out `hits_addend`", policy.name))
        })?,
    }
    Ok(service.gate.ask(prepared).await)
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
    described.read(service.paths)
}

/// The limit that binds, as Envoy has limits.
pub(super) fn reported(answer: &Answer<'_>) -> Option<RateLimit> {
    let decision = answer.decision()?;
    let limit = decision.binding().limit();
    // A ban has no units for each unit of time.
    let quota = if limit.counts_denials() { return None } else { limit.quota().clone() };
    Some(RateLimit {
        requests_per_unit: u32::try_from(quota.units).unwrap_or(u32::MAX),
        unit: Unit::from_length(quota.period.as_duration()).map_or(0, Unit::number),
        name: answer.policy().map_or(String::new(), |policy| policy.name.clone()),
    })
}
