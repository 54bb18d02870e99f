//! The recommendation of a rate with a burst.

use tollgate::LimitSet;

use super::advice::{RateAdvice, Recommended};
use super::burst::Concerned;
use super::confidence::{Confidence, Judged};
use super::groups::groups;
use super::named::named;
use super::policy;
use super::scan::{Sample, Scan};
use super::second::{Second, second};
use super::simulate::{Who, simulate};
use super::{Go, Options};
use crate::describe::Kind;
use crate::error::Error;
use crate::event::ClientId;
use crate::read::Traffic;

/// The clients, in the order of their dense numbers.
pub(super) struct Seen<'s> {
    pub(super) sample: &'s Sample,
    pub(super) scan: &'s Scan,
    pub(super) ids: &'s [ClientId],
    pub(super) kinds: &'s [Option<Kind>],
}

/// Recommends this limit, with the numbers of a replay of it.
pub(super) fn recommend(
    traffic: &Traffic,
    seen: &Seen<'_>,
    options: &Options,
    best: &Concerned<'_>,
    go: &mut Go<'_>,
) -> Result<Recommended, Error> {
    let Seen { sample, scan, ids, kinds } = *seen;
    let Concerned { advice, is_outlier, least } = best;
    // Clients that the pass over the log has shown to be admitted are left out of the replay.
    let mut is_denied: Vec<bool> = least.iter().map(|least| *least > advice.burst).collect();
    let second = second_of(traffic, scan, (advice, is_outlier, &is_denied), options);
    if let Some(second) = &second {
        let each = is_denied.iter_mut().zip(&second.is_denied);
        each.for_each(|(is_denied, by_second)| *is_denied |= by_second);
    }
    let refused = |why: tollgate::ParseError| Error::Advice { why: why.to_string() };
    let text = match &second {
        Some(second) => format!("{}, {}", advice.limit, second.limits),
        None => advice.limit.clone(),
    };
    let limits: LimitSet = text.parse().map_err(refused)?;
    let strategy = options.burst_strategy();
    let who = Who { sample, is_outlier, is_denied: &is_denied };
    let denied = simulate(traffic, who, (&limits, strategy), u64::MAX, go)?.unwrap_or_default();
    let judged = Judged { sample, is_outlier, least, burst: advice.burst, step_us: advice.wait_us };
    let confidence = Confidence::new(traffic, &judged, options, go)?;
    let ordinary = is_outlier.iter().filter(|is| !**is).count();
    let limit = limits.to_string();
    let reason = reason((advice, second.as_ref()), &confidence, ordinary, options);
    Ok(Recommended {
        policy: policy::text(options, (&limit, &reason), ordinary, &scan.profiles),
        limit,
        reason,
        window: advice.rate.clone(),
        strategy: strategy.name(),
        units: advice.burst,
        worst_window: worst_hour(advice, second.as_ref()),
        longest_wait_us: denied.longest_wait_us,
        clients_denied: denied.clients,
        outliers_denied: denied.outliers,
        requests_denied: denied.requests,
        outliers_requests_denied: denied.outliers_requests,
        outliers: named(traffic, ids, (least, &scan.profiles), (is_outlier, kinds)),
        outliers_count: is_outlier.iter().filter(|is| **is).count() as u64,
        groups: groups(&scan.profiles, (is_outlier, kinds), (least, &denied.by_client)),
        doubts: confidence.doubts(traffic, &judged),
        confidence: Some(confidence),
    })
}

/// The window beside the rate, if one is wanted and the log has one.
fn second_of(
    traffic: &Traffic,
    scan: &Scan,
    (advice, is_outlier, is_denied): (&RateAdvice, &[bool], &[bool]),
    options: &Options,
) -> Option<Second> {
    let (first_us, last_us) = traffic.summary.first_last_us.unwrap_or_default();
    let each = is_outlier.iter().zip(is_denied);
    let is_admitted: Vec<bool> = each.map(|(outlier, denied)| !outlier && !denied).collect();
    let rate = (advice.burst, advice.wait_us, last_us - first_us);
    second((&scan.windows, &scan.profiles), &is_admitted, rate, options)
}

/// The most units of one client in an hour, whatever it does.
fn worst_hour(advice: &RateAdvice, second: Option<&Second>) -> u64 {
    const HOUR_US: u64 = 3_600_000_000;
    let longer = second.filter(|second| second.period.as_micros() >= HOUR_US);
    longer.map_or(advice.worst_hour, |second| advice.worst_hour.min(second.worst_window))
}

/// Why this rate and this burst.
fn reason(
    (advice, second): (&RateAdvice, Option<&Second>),
    confidence: &Confidence,
    ordinary: usize,
    options: &Options,
) -> String {
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
    let Confidence { least, low, high, quarters } = confidence;
    let quarters = quarters.map(|burst| burst.to_string());
    reason += &format!(
        " The least burst is {least}; other clients like these would need {low} to {high} (90 %), and \
         each quarter of the log by itself needs {}.",
        quarters.join(", ")
    );
    if let Some(second) = second {
        reason += &format!(
            " {} denies nobody else: it bounds a client that is always at the limit of the rate.",
            second.limits
        );
    } else if options.wants_second {
        reason += " No window would bound it further, of those that the log covers ten times.";
    }
    reason + &format!(" One client gets at most {} in an hour.", worst_hour(advice, second))
}
