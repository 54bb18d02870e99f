//! The counters of thresholds and their deliveries.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;

use parking_lot::Mutex;
use tollgate::Share;

/// The most policies with a separate counter; the others share one, without a name.
const MAX_POLICIES: usize = 1_000;

/// The end of a report for the webhook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    Delivered,
    /// It was refused, or every attempt failed.
    Failed,
    /// Too many waited.
    Dropped,
}

impl Delivery {
    pub(crate) const ALL: [Self; 3] = [Self::Delivered, Self::Failed, Self::Dropped];

    /// The name on the page.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

/// A policy, and the fraction that its threshold is.
type Key = (String, (u32, u32));

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct ThresholdCounts {
    reached: Mutex<BTreeMap<Key, u64>>,
    deliveries: [AtomicU64; Delivery::ALL.len()],
    lost: AtomicU64,
}

impl ThresholdCounts {
    pub(crate) fn add(&self, policy: &str, threshold: Share) {
        let mut reached = self.reached.lock();
        let key = (policy.to_owned(), threshold.fraction());
        let is_room = reached.len() < MAX_POLICIES || reached.contains_key(&key);
        let key = if is_room { key } else { (String::new(), key.1) };
        *reached.entry(key).or_default() += 1;
    }

    /// Counts a crossing that is not reported.
    pub(crate) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn deliver(&self, delivery: Delivery) {
        if let Some(count) = self.deliveries.get(delivery as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The policies, their thresholds, and how often each was reached.
    pub(crate) fn reached(&self) -> Vec<(String, Share, u64)> {
        let reached = self.reached.lock();
        let share = |(part, whole)| Share::new(part, whole);
        let each = reached.iter();
        each.filter_map(|((policy, at), count)| Some((policy.clone(), share(*at)?, *count)))
            .collect()
    }

    pub(crate) fn get(&self, delivery: Delivery) -> u64 {
        self.deliveries.get(delivery as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn get_lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
