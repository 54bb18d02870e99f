//! The recommendation of a rate with a burst.

use tollgate::LimitSet;

use super::advice::{RateAdvice, Recommended};
use super::burst::Concerned;
use super::named::named;
use super::policy;
use super::scan::{Sample, Scan};
use super::simulate::{Who, simulate};
use super::{Go, Options};
use crate::error::Error;
use crate::event::ClientId;
use crate::read::Traffic;

/// Recommends this limit, with the numbers of a replay of it.
pub(super) fn recommend(
    traffic: &Traffic,
    (sample, scan, ids): (&Sample, &Scan, &[ClientId]),
    options: &Options,
    best: &Concerned<'_>,
    go: &mut Go<'_>,
) -> Result<Recommended, Error> {
    let Concerned { advice, is_outlier, least } = best;
    let strategy = options.burst_strategy();
    let refused = |why: tollgate::ParseError| Error::Advice { why: why.to_string() };
    let limits: LimitSet = advice.limit.parse().map_err(refused)?;
    // Clients that the pass over the log has shown to be admitted are left out.
    let is_denied: Vec<bool> = least.iter().map(|least| *least > advice.burst).collect();
    let who = Who { sample, is_outlier, is_denied: &is_denied };
    let denied = simulate(traffic, who, (&limits, strategy), u64::MAX, go)?.unwrap_or_default();
    let ordinary = is_outlier.iter().filter(|is| !**is).count();
    let limit = limits.to_string();
    let reason = reason(advice, ordinary, options);
    let outliers = named(traffic, ids, (least, &scan.profiles, is_outlier));
    Ok(Recommended {
        policy: policy::text(options, (&limit, &reason), ordinary, &scan.profiles),
        limit,
        reason,
        window: advice.rate.clone(),
        strategy: strategy.name(),
        units: advice.burst,
        worst_window: advice.worst_hour,
        longest_wait_us: denied.longest_wait_us,
        clients_denied: denied.clients,
        outliers_denied: denied.outliers,
        requests_denied: denied.requests,
        outliers_requests_denied: denied.outliers_requests,
        outliers,
        outliers_count: is_outlier.iter().filter(|is| **is).count() as u64,
    })
}

/// Why this rate and this burst.
fn reason(advice: &RateAdvice, ordinary: usize, options: &Options) -> String {
    let max_wait = options.max_wait.map_or_else(String::new, |wait| wait.to_string());
    let mut reason = format!(
        "Of the rates under which a denied request waits at most {max_wait}, {} has the smallest \
         product of what a client gets at once and in an hour. A burst of {} denies {} of {ordinary} clients",
        advice.rate, advice.burst, advice.clients_denied
    );
    let target = options.target;
    reason += &match target.clients_of(ordinary as u64) {
        0 => format!(
            ": {target} is less than one client, so the busiest client decides. Look at it among the \
             busiest clients: it may be a robot."
        ),
        _ if advice.burst > advice.least => format!(
            "; {} would keep to {target}, and clients that need at most twice as much, or 10, are let \
             in, too.",
            advice.least
        ),
        _ => format!(", which is at most {target}."),
    };
    reason + &format!(" One client gets at most {} in an hour.", advice.worst_hour)
}
