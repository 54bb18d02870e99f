//! Experiments that are built in: those that people ask about first.

use tollgate::{LimitSet, ParseError};

use super::arrivals::BEFORE_EDGE_US;
use super::file::capacity;
use super::{Arrivals, Case, Experiment, Retry, START_US, Workload, bucket_of};
use crate::decide::{Part, Per};

const SECOND_US: u64 = 1_000_000;
const HOUR_US: u64 = 3_600 * SECOND_US;

/// From one call of a shell script to the next: a program is started and connects each time.
const CALL_US: u64 = 10_000;

/// The four tests of the Zoo: a sliding log on the resource and a uniform gate for each caller, and
/// both again, the gates with new callers. Each test is `loops` calls one after the other by twice
/// as many callers as the `allowed` ones of 10 s.
///
/// The tests follow each other in time and go on with the counts of those before.
///
/// # Errors
/// More allowed than a sliding log takes, or none.
pub fn zoo(loops: u64, allowed: u64, seed: u64) -> Result<Experiment, ParseError> {
    let log: LimitSet = format!("{allowed}/10s via sliding_log").parse()?;
    let gate: LimitSet = "1/10s via uniform".parse()?;
    let clients = u32::try_from(allowed.saturating_mul(2)).unwrap_or(u32::MAX).max(1);
    // The mean, and far more than chance adds to it: no test begins before the last has ended.
    let chance_us = CALL_US.saturating_mul(2).saturating_mul(loops.isqrt());
    let each_us = loops.saturating_mul(CALL_US).saturating_add(chance_us) + SECOND_US / 2;
    let tests = [
        ("1 sliding log", Per::Resource, &log),
        ("2 uniform per caller", Per::Client, &gate),
        ("3 sliding log again", Per::Resource, &log),
        ("4 uniform, new callers", Per::Client, &gate),
    ];
    let workloads = (0..4_u64).map(|place| {
        let from_us = place.saturating_mul(each_us);
        Workload {
            name: format!("test {}", place + 1),
            clients: clients.min(u32::try_from(loops.max(1)).unwrap_or(u32::MAX)),
            arrivals: Arrivals::Loop { count: loops, every_us: CALL_US },
            from_us,
            until_us: from_us.saturating_add(each_us),
            retry: Retry::Never,
            zipf: None,
        }
    });
    let cases = tests.into_iter().enumerate().map(|(place, (name, per, limits))| Case {
        name: name.to_owned(),
        parts: vec![Part { per, limits: limits.clone() }],
        workloads: vec![place],
    });
    let duration_us = each_us.saturating_mul(4);
    Ok(Experiment {
        name: format!("The Zoo: {loops} calls, {allowed} allowed in 10 s"),
        seed,
        start_us: START_US,
        duration_us,
        bucket_us: bucket_of(duration_us),
        capacity: capacity(&format!("{allowed}/10s")).ok(),
        operation_us: None,
        workloads: workloads.collect(),
        cases: cases.collect(),
        notes: Vec::new(),
        keeps_counts: true,
    })
}

/// The two sides of an hour: who uses up a limit of 100 an hour just before its end and again just
/// after it, under one fixed window, under several, and under windows that slide.
///
/// # Errors
/// None that happens.
pub fn sides(seed: u64) -> Result<Experiment, ParseError> {
    let cases = [
        ("fixed window", "100/1h via fixed_window"),
        (
            "fixed windows of an hour and a minute",
            "100/1h via fixed_window, 10/1m via fixed_window",
        ),
        ("sliding window", "100/1h via sliding_window"),
        ("sliding log", "100/1h via sliding_log"),
    ];
    let cases = cases.into_iter().map(|(name, limits)| {
        let part = Part { per: Per::Client, limits: limits.parse()? };
        Ok(Case { name: name.to_owned(), parts: vec![part], workloads: vec![0] })
    });
    let duration_us = 4 * HOUR_US;
    Ok(Experiment {
        name: "The two sides of an hour".to_owned(),
        seed,
        start_us: START_US,
        duration_us,
        bucket_us: bucket_of(duration_us),
        capacity: capacity("100/1h").ok(),
        operation_us: None,
        workloads: vec![Workload {
            name: "attacker".to_owned(),
            clients: 1,
            arrivals: Arrivals::Edge { window_us: HOUR_US, size: 100, before_us: BEFORE_EDGE_US },
            from_us: 0,
            until_us: duration_us,
            retry: Retry::Never,
            zipf: None,
        }],
        cases: cases.collect::<Result<_, ParseError>>()?,
        notes: Vec::new(),
        keeps_counts: false,
    })
}
