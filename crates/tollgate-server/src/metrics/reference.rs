//! The numbers of Envoy's rate limit service under the names that envoyproxy/ratelimit gives them,
//! where they are asked for. They have no `_total`, so their type is unknown.

use core::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;

use super::by_rule::Stat;
use super::{Metrics, Reloaded};

/// The family of the calls over gRPC.
pub(crate) const GRPC_CALLS: &str = "tollgate_grpc_calls";

/// Writes the hits by rule, the loads of rules and the calls.
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
    // The service has not started without rules.
    let loads = [
        ("success", "Loads of rules, the first one with them.", reloads.get(Reloaded::Taken) + 1),
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
    let mut family = unknown(encoder, name)?;
    let labels = [("grpc_method", "ShouldRateLimit")];
    family.encode_family(&labels)?.encode_gauge(&asked)
}

fn unknown<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    (name, help): (&'e str, &str),
) -> Result<MetricEncoder<'e>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Unknown)
}
