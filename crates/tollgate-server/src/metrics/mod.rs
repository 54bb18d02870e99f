//! What a service counts of itself, for `/metrics`.
//!
//! What others count already is read when somebody asks (`page.rs`): the gate's counters, the
//! store's, those of the connections. Here is what nobody else counts: decisions by limit and the
//! time that they took, reloads, and requests by endpoint.

mod by_limit;
mod endpoint;
mod latency;
mod page;
mod text;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::SystemTime;

use tollgate::{ParseError, Subject};
use tollgate_policy::{Authority, Counters, Event, Gate, Observer, Policies};
use tollgate_stores::AnyStore;

use crate::denials::Denials;
use crate::traces::Traces;
use by_limit::ByLimit;
use latency::Latency;

pub(crate) use endpoint::{Endpoint, Requests};
pub(crate) use page::Page;

/// What stands in a label for all that has no series of its own. A policy that has this name has
/// none either.
pub(crate) const OTHER: &str = "other";

/// What stands for every inline limit.
const INLINE: &str = "inline";

/// The counters of a service. Cheap to clone: clones are the same counters.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: SystemTime,
    limits: ByLimit,
    /// Answers of the store.
    store: Latency,
    /// Answers in place of the store's.
    failure_rule: Latency,
    reloads: Reloads,
    requests: Requests,
    denials: Option<Denials>,
    traces: Option<Traces>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            started: SystemTime::now(),
            limits: ByLimit::default(),
            store: Latency::default(),
            failure_rule: Latency::default(),
            reloads: Reloads::default(),
            requests: Requests::default(),
            denials: None,
            traces: None,
        }
    }
}

impl Metrics {
    /// Counters at zero; the service began now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, and denials are written into a log, and decisions are spans of traces.
    #[must_use]
    pub fn with(denials: Option<Denials>, traces: Option<Traces>) -> Self {
        Self(Arc::new(Inner { denials, traces, ..Inner::default() }))
    }

    /// A gate whose decisions are counted here by limit and by the time that they took. Those of
    /// another gate are counted only as it does itself: by policy, outcome and authority.
    ///
    /// # Errors
    /// As [`Gate::new`].
    pub fn gate(&self, policies: Policies, store: AnyStore) -> Result<Gate<AnyStore>, ParseError> {
        Gate::observed(policies, store, self.clone())
    }

    pub(crate) fn reloads(&self) -> &Reloads {
        &self.0.reloads
    }

    /// A subject as the log writes it; none where it writes none.
    pub(crate) fn written(&self, subject: &Subject) -> Option<String> {
        self.0.denials.as_ref().map(|denials| denials.written(subject.as_str()))
    }

    /// Tells of each limit that has counters: its policy, its identity, the counters.
    pub(crate) fn each_limit<E>(
        &self,
        tell: impl FnMut(&str, &str, &Counters) -> Result<(), E>,
    ) -> Result<(), E> {
        self.0.limits.each(tell)
    }

    pub(crate) fn traces(&self) -> Option<&Traces> {
        self.0.traces.as_ref()
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.0.requests
    }
}

impl Observer for Metrics {
    #[inline]
    fn observe(&self, event: &Event<'_>) {
        // An answer over several policies is told of several times, and took its time once.
        if event.decides {
            match event.authority {
                Authority::Store => self.0.store.add(event.duration),
                Authority::FailureRule => self.0.failure_rule.add(event.duration),
                _ => {}
            }
        }
        if let Some(limit) = event.limit {
            self.0.limits.add(event.policy, limit.identity(), event.outcome, event.authority);
        }
        if let Some(denials) = &self.0.denials {
            denials.observe(event);
        }
        if let Some(traces) = &self.0.traces {
            traces.decided(event);
        }
    }
}

/// How often the policies were read again, whoever wanted that.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    counts: [AtomicU64; Reloaded::ALL.len()],
    /// True while the newest reading failed.
    broken: AtomicBool,
}

/// What came of reading them again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reloaded {
    /// They count.
    Taken,
    /// They are what they were.
    Unchanged,
    /// The file is broken, and the old ones count on.
    Broken,
}

impl Reloaded {
    const ALL: [Self; 3] = [Self::Taken, Self::Unchanged, Self::Broken];

    /// In small letters, for labels.
    fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Unchanged => "unchanged",
            Self::Broken => "broken",
        }
    }
}

impl Reloads {
    pub(crate) fn add(&self, result: Reloaded) {
        if let Some(count) = self.counts.get(result as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.broken.store(result == Reloaded::Broken, Ordering::Relaxed);
    }

    fn get(&self, result: Reloaded) -> u64 {
        self.counts.get(result as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}
