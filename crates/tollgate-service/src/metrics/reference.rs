//! The numbers of Envoy's rate limit service under the names that envoyproxy/ratelimit gives them,
//! where they are asked for. They have no `_total`, so their type is unknown.

use core::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::by_rule::{Failure, Stat};
use super::family::family;
use super::{Metrics, Reloaded};

/// The family of the calls over gRPC.
pub(crate) const GRPC_CALLS: &str = "tollgate_grpc_calls";

/// Writes the hits by rule, the loads of rules, the calls with their durations, and the errors.
pub(super) fn rules(encoder: &mut DescriptorEncoder<'_>, metrics: &Metrics) -> fmt::Result {
    let Some(rules) = metrics.rules() else { return Ok(()) };
    for stat in Stat::ALL {
        let mut family = unknown(encoder, stat.name())?;
        rules.each(stat, |steps, count| {
            // The domain, and the descriptors down to the rule.
            let label = |(place, step)| match place {
                0 => ("domain".to_owned(), step),
                _ => (format!("key{place}"), step),
            };
            let labels: Vec<(String, &String)> = steps.iter().enumerate().map(label).collect();
            family.encode_family(&labels)?.encode_gauge(&count)
        })?;
    }
    let reloads = metrics.envoy_reloads();
    // Without rules of files the service has not started.
    let first = u64::from(metrics.control_plane().is_none());
    let loads = [
        (
            "success",
            "Loads of rules, the first one with them.",
            reloads.get(Reloaded::Taken) + first,
        ),
        ("error", "Loads of broken rules.", reloads.get(Reloaded::Broken)),
    ];
    for (what, help, count) in loads {
        let name = format!("ratelimit_service_config_load_{what}");
        unknown(encoder, (&name, help))?.encode_gauge(&count)?;
    }
    let fronts = metrics.fronts();
    let calls = fronts.iter().filter(|counts| counts.family().name == GRPC_CALLS);
    let calls = calls.flat_map(|counts| counts.iter());
    let asked = calls.filter(|(method, ..)| *method == "ShouldRateLimit");
    let asked: u64 = asked.map(|(.., count)| count).sum();
    let name = ("ratelimit_service_total_requests", "Answered calls, by method.");
    let labels = [("grpc_method", "ShouldRateLimit")];
    unknown(encoder, name)?.encode_family(&labels)?.encode_gauge(&asked)?;
    let name = ("ratelimit_service_response_time", "Durations of answered calls, by method.");
    let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
    family(encoder, name, unit, kind)?.histogram(labels, &rules.answers)?;
    let help = "Requests that were refused, or that the store did not answer.";
    let mut errors = unknown(encoder, ("ratelimit_service_should_rate_limit_error", help))?;
    Failure::ALL.into_iter().try_for_each(|failure| {
        let labels = [("err_type", failure.name())];
        errors.encode_family(&labels)?.encode_gauge(&rules.failures(failure))
    })
}

fn unknown<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    (name, help): (&'e str, &str),
) -> Result<MetricEncoder<'e>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Unknown)
}
