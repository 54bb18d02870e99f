//! Replays one limit, and counts whom it denies.

use tollgate::{LimitSet, Strategy};

use super::scan::Sample;
use super::{Go, Progress, Step};
use crate::decide::{Decider as _, InMemory, Per, PerLimits, Verdict};
use crate::error::Error;
use crate::event::Event;
use crate::read::Traffic;

/// Events in one call of the engine.
const BATCH_EVENTS: usize = 8_192;

/// The clients that a limit denies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Denied {
    /// The denied requests of each client, by dense numbers.
    pub(super) by_client: Vec<u32>,
    pub(super) clients: u64,
    pub(super) requests: u64,
    pub(super) outliers: u64,
    pub(super) outliers_requests: u64,
    /// The longest wait of a denied request.
    pub(super) longest_wait_us: u64,
}

/// The clients of a simulation, by their dense numbers.
#[derive(Clone, Copy)]
pub(super) struct Who<'s> {
    pub(super) sample: &'s Sample,
    pub(super) is_outlier: &'s [bool],
    /// Whether the limit ever denies the client. The others are not asked about: they are admitted.
    pub(super) is_denied: &'s [bool],
}

/// Replays this limit over the clients of the sample. `None` once more than `most` requests of
/// normal clients are denied.
pub(super) fn simulate(
    traffic: &Traffic,
    who: Who<'_>,
    (limits, strategy): (&LimitSet, Strategy),
    most: u64,
    go: &mut Go<'_>,
) -> Result<Option<Denied>, Error> {
    let Who { sample, is_outlier, is_denied } = who;
    let mut decider = InMemory::default();
    decider.begin(&[PerLimits::new(Per::Client, limits.clone())])?;
    let mut denied = Denied { by_client: vec![0; sample.len()], ..Denied::default() };
    let mut events = traffic.ordered.iter()?;
    let total_events = traffic.ordered.len();
    let (mut batch, mut verdicts) = (Vec::with_capacity(BATCH_EVENTS), Vec::<Verdict>::new());
    let mut done = 0;
    loop {
        batch.clear();
        verdicts.clear();
        let mut taken = 0_usize;
        for event in events.by_ref().take(BATCH_EVENTS) {
            let event: Event = event?;
            taken += 1;
            let place = sample.place(&event);
            if place.and_then(|place| is_denied.get(place)).copied().unwrap_or(false) {
                batch.push(event);
            }
        }
        decider.decide(&batch, &mut verdicts)?;
        for (event, verdict) in batch.iter().zip(&verdicts).filter(|(_, it)| !it.is_admitted) {
            let Some(place) = sample.place(event) else { continue };
            let wait_us = verdict.retry_after_us.unwrap_or_default();
            denied.longest_wait_us = denied.longest_wait_us.max(wait_us);
            let is_outlier = is_outlier.get(place).copied().unwrap_or(false);
            let Some(of_client) = denied.by_client.get_mut(place) else { continue };
            let is_first = *of_client == 0;
            *of_client = of_client.saturating_add(1);
            let (clients, requests) = if is_outlier {
                (&mut denied.outliers, &mut denied.outliers_requests)
            } else {
                (&mut denied.clients, &mut denied.requests)
            };
            *requests += 1;
            *clients += u64::from(is_first);
        }
        done += taken as u64;
        go(Progress { step: Step::Replay(strategy), events: done, total_events })?;
        if denied.requests > most {
            return Ok(None);
        }
        if taken < BATCH_EVENTS {
            return Ok(Some(denied));
        }
    }
}
