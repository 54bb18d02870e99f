//! The count of each descriptor: by its rule, or by the limit that it brings.

use std::collections::HashSet;

use tollgate::{LimitSet, Subject};
use tollgate_envoy::proto::descriptor::RateLimitDescriptor;
use tollgate_envoy::proto::service::RateLimitRequest;
use tollgate_envoy::proto::service::rate_limit_response::RateLimit;
use tollgate_envoy::{Counting, Domain, Rule, Unit, subject};
use tollgate_policy::RuleName;
use tonic::Status;

use super::question::{Hits, entries};
use super::rules::Live;
use crate::service::Service;

/// The count of a descriptor.
#[derive(Debug)]
pub(super) struct Planned<'c> {
    /// The rule that it met; `None` also where it brought a limit.
    pub(super) rule: Option<&'c Rule>,
    /// The name of what limits it, for the log and for traces.
    pub(super) name: RuleName<'c>,
    pub(super) how: How,
    pub(super) hits: Hits,
    /// The limit that is reported.
    pub(super) reported: Option<RateLimit>,
    /// The window whose end is reported.
    pub(super) window: Option<Unit>,
    /// The labels of its series, where its rule counts by values.
    pub(super) series: Option<Vec<String>>,
}

/// How a descriptor is counted.
#[derive(Debug)]
pub(super) enum How {
    /// Not at all: no rule is about it, or another one replaces its rule.
    Free,
    Unlimited,
    Ban,
    Count(Subject, LimitSet),
}

impl Planned<'_> {
    /// The part of the question for the store, if there is any.
    pub(super) fn count(&self) -> Option<(&Subject, &LimitSet, Hits)> {
        match &self.how {
            How::Count(subject, limits) => Some((subject, limits, self.hits)),
            How::Free | How::Unlimited | How::Ban => None,
        }
    }

    /// Whether it is denied without a count: its rule admits nobody, and it brings hits.
    pub(super) fn is_banned(&self) -> bool {
        matches!((&self.how, self.hits), (How::Ban, Hits::Charge(_)))
    }

    /// Whether it never denies.
    pub(super) fn is_shadow(&self) -> bool {
        self.rule.is_some_and(Rule::is_shadow)
    }

    /// Whether it can neither deny by itself nor keep others from being charged.
    pub(super) fn is_aside(&self) -> bool {
        self.rule.is_some_and(|rule| rule.is_shadow() || rule.is_quota())
    }
}

/// Finds the count of each descriptor of a request.
///
/// # Errors
/// An invalid limit in the request.
pub(super) fn plan<'c>(
    request: &'c RateLimitRequest,
    hits: &[Hits],
    live: &'c Live,
    domain: &'c Domain,
    service: &Service,
) -> Result<Vec<Planned<'c>>, Status> {
    let mut all = Vec::with_capacity(hits.len());
    for (place, (descriptor, hits)) in request.descriptors.iter().zip(hits).enumerate() {
        all.push(if descriptor.limit.is_some() {
            brought(&request.domain, descriptor, *hits, place, service)?
        } else {
            by_rule(&request.domain, descriptor, *hits, (live, domain))?
        });
    }
    if live.has_replaces() {
        let replaced: HashSet<&str> =
            all.iter().filter_map(|planned| planned.rule).flat_map(Rule::replaces).collect();
        for planned in &mut all {
            let name = planned.rule.map_or("", Rule::name);
            if !name.is_empty() && replaced.contains(name) && !matches!(planned.how, How::Unlimited)
            {
                *planned = free(&request.domain, planned.hits);
            }
        }
    }
    Ok(all)
}

fn free(domain: &str, hits: Hits) -> Planned<'_> {
    let name = RuleName::new(domain, None);
    Planned { rule: None, name, how: How::Free, hits, reported: None, window: None, series: None }
}

fn by_rule<'c>(
    of: &'c str,
    descriptor: &RateLimitDescriptor,
    hits: Hits,
    (live, domain): (&'c Live, &'c Domain),
) -> Result<Planned<'c>, Status> {
    let Some(found) = domain.find(entries(descriptor)) else { return Ok(free(of, hits)) };
    let rule = found.rule();
    let (how, is_reported) = match rule.counting() {
        Counting::Unlimited => (How::Unlimited, false),
        Counting::Ban => (How::Ban, true),
        Counting::Limits(limits) => {
            let subject = found.subject(of, entries(descriptor));
            let subject = subject.map_err(|error| Status::internal(error.what()))?;
            (How::Count(subject, limits.clone()), true)
        }
    };
    let reported = is_reported.then(|| RateLimit {
        requests_per_unit: rule.requests_per_unit(),
        unit: rule.unit().map_or(0, Unit::number),
        name: rule.name().to_owned(),
    });
    let series = live.counts(rule).and_then(|_| found.steps(entries(descriptor)));
    let (window, name) = (rule.window(), RuleName::new(of, live.name(rule)));
    Ok(Planned { rule: Some(rule), name, how, hits, reported, window, series })
}

/// The limit that a descriptor brings, in place of its rule.
fn brought<'c>(
    of: &'c str,
    descriptor: &RateLimitDescriptor,
    hits: Hits,
    place: usize,
    service: &Service,
) -> Result<Planned<'c>, Status> {
    let limit = descriptor.limit.unwrap_or_default();
    let Some(unit) = Unit::from_number(limit.unit) else {
        return Err(Status::invalid_argument(format!(
            "descriptors[{place}].limit.unit: unknown unit {}: give SECOND (1) to YEAR (6), or \
             WEEK \
             (7)",
            limit.unit
        )));
    };
    let how = if limit.requests_per_unit == 0 {
        How::Ban
    } else {
        let text = format!("{}/{}s via fixed_window", limit.requests_per_unit, unit.seconds());
        let limits = service.limits(&text).map_err(|refusal| Status::internal(refusal.detail))?;
        let subject = subject(of, entries(descriptor));
        let subject = subject.map_err(|error| Status::internal(error.what()))?;
        let parts = vec![(subject.clone(), limits.clone())];
        service.takes(&parts).map_err(|refusal| Status::permission_denied(refusal.detail))?;
        How::Count(subject, limits)
    };
    let requests_per_unit = limit.requests_per_unit;
    let reported = Some(RateLimit { requests_per_unit, unit: unit.number(), name: String::new() });
    let name = RuleName::new(of, None);
    Ok(Planned { rule: None, name, how, hits, reported, window: Some(unit), series: None })
}
