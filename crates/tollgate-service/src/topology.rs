//! Logs what changes among the servers of a Redis: another primary, slots that nobody serves, and
//! sentinels that are away. Counters and gauges are beside it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_stores::{AnyStore, Topology};

use crate::service::{Kind, Refusal};

/// How long after an answer the servers are asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// How often in a row something must be missing before it is reported: under load one answer may
/// come late.
const MISSED: u32 = 3;

/// The known state of the servers. Nothing where there is one server alone.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    takeovers: AtomicU64,
    slots_down: AtomicU64,
    answering: AtomicU64,
    /// How many sentinels the options name.
    named: AtomicU64,
}

/// The last reported state of the servers.
#[derive(Default)]
struct Reported {
    last: Option<Topology>,
    slots_down: u64,
    sentinels_away: Settled,
}

/// A number of missing parts: a higher one counts once it was seen some times in a row.
#[derive(Default)]
struct Settled {
    value: u64,
    seen: u32,
}

impl Settled {
    /// Whether the number has changed.
    fn has_changed(&mut self, to: u64) -> bool {
        self.seen = if to > self.value { self.seen + 1 } else { 0 };
        let changes = to < self.value || self.seen >= MISSED;
        if changes {
            (self.value, self.seen) = (to, 0);
        }
        changes
    }
}

impl Servers {
    /// Asks the servers again and again. It ends where there is one alone.
    pub(crate) async fn follow(&self, store: AnyStore) {
        let mut reported = Reported::default();
        loop {
            match store.topology().await {
                Ok(Some(now)) => self.report(&mut reported, now),
                Ok(None) => return,
                // That none answers, the calls themselves say.
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn report(&self, reported: &mut Reported, now: Topology) {
        self.report_slots(reported, u64::from(now.slots_down));
        if let Some((answering, named)) = now.sentinels {
            self.report_sentinels(reported, answering as u64, named as u64);
        }
        // One that has not heard of the last failover yet, or does not know its epoch.
        if reported.last.as_ref().is_some_and(|last| now.epoch < last.epoch) {
            return;
        }
        for takeover in reported.last.iter().flat_map(|last| now.takeovers_since(last)) {
            tracing::warn!(
                target: "tollgate",
                from = takeover.from,
                to = takeover.to,
                epoch = now.epoch,
                slots = takeover.slots,
                "another Redis is the primary"
            );
            self.takeovers.fetch_add(1, Ordering::Relaxed);
        }
        reported.last = Some(now);
    }

    fn report_slots(&self, reported: &mut Reported, down: u64) {
        let before = std::mem::replace(&mut reported.slots_down, down);
        match down {
            0 if before > 0 => {
                tracing::info!(target: "tollgate", "all slots have a primary again");
            }
            slots if slots > before => {
                tracing::warn!(target: "tollgate", slots, "slots of the cluster have no primary");
            }
            _ => {}
        }
        self.slots_down.store(down, Ordering::Relaxed);
    }

    fn report_sentinels(&self, reported: &mut Reported, answering: u64, named: u64) {
        let before = reported.sentinels_away.value;
        let away = named.saturating_sub(answering);
        if reported.sentinels_away.has_changed(away) {
            if away < before {
                tracing::info!(target: "tollgate", answering, named, "sentinels are back");
            } else {
                tracing::warn!(
                    target: "tollgate",
                    answering,
                    named,
                    "sentinels do not answer; without any, a failover goes unnoticed"
                );
            }
        }
        let away = reported.sentinels_away.value;
        self.answering.store(named.saturating_sub(away), Ordering::Relaxed);
        self.named.store(named, Ordering::Relaxed);
    }

    /// How often a primary was replaced.
    pub(crate) fn takeovers(&self) -> u64 {
        self.takeovers.load(Ordering::Relaxed)
    }

    /// How many slots of a cluster have no primary.
    pub(crate) fn slots_down(&self) -> u64 {
        self.slots_down.load(Ordering::Relaxed)
    }

    /// How many sentinels answer, of how many. None are named where there are none.
    pub(crate) fn sentinels(&self) -> (u64, u64) {
        (self.answering.load(Ordering::Relaxed), self.named.load(Ordering::Relaxed))
    }
}

/// Refuses a store that serves some subjects only: a cluster with slots without a primary.
pub(crate) async fn all_is_served(store: &AnyStore) -> Result<(), Refusal> {
    match store.topology().await.map_err(tollgate::Error::from)? {
        Some(topology) if topology.slots_down > 0 => {
            let slots = topology.slots_down;
            let detail = format!("the store: {slots} slots of the cluster have no primary");
            Err(Refusal::new(Kind::Unavailable, detail))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_counts_when_it_stays_and_what_is_back_at_once() {
        let mut settled = Settled::default();
        let changes: Vec<bool> =
            [0, 2, 0, 2, 2, 2, 2, 1, 1, 3, 3, 3, 0].map(|now| settled.has_changed(now)).into();
        let all: Vec<usize> = (0..changes.len()).filter(|place| changes[*place]).collect();
        assert_eq!(all, [5, 7, 11, 12]);
    }
}
