//! The service's own metrics, for `/metrics`.
//!
//! The counters of the gate, the store and the connections exist already, and are read on each
//! scrape (`page.rs`). This module counts the rest: decisions by limit and their durations,
//! reloads, and requests by endpoint.

mod by_limit;
#[cfg(feature = "grpc")]
mod by_rule;
mod by_threshold;
mod family;
mod front;
mod latency;
mod page;
mod process;
#[cfg(feature = "grpc")]
mod reference;
mod text;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;
use tokio::sync::mpsc::Receiver;
use tollgate::{ParseError, Subject};
use tollgate_policy::{Authority, Counters, Crossing, Event, Gate, Observer, Outcome, Policies};
use tollgate_stores::AnyStore;

use crate::check_log::{CheckLog, CheckQueue};
use crate::denials::{Denials, SubjectForm, Subjects};
use crate::service::Deliveries;
use crate::thresholds::{Crossings, ThresholdCounts};
use crate::top::{self, Top};
use crate::topology::Servers;
use crate::traces::Traces;
use by_limit::ByLimit;
#[cfg(feature = "grpc")]
use by_rule::ByRule;
use latency::{Counts, Latency};

#[cfg(feature = "grpc")]
pub(crate) use by_rule::{Failure, Reached, RuleCounts};
pub(crate) use front::{FrontCounts, FrontFamily, OTHER};
pub(crate) use page::Page;
#[cfg(feature = "grpc")]
pub(crate) use reference::GRPC_CALLS;

/// The durations of answers: by the store, by the failure rule, by the share of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct DurationCounts(pub(crate) [Counts; 3]);

impl DurationCounts {
    /// The authorities of the three.
    pub(crate) const AUTHORITIES: [Authority; 3] =
        [Authority::Store, Authority::FailureRule, Authority::LocalShare];

    /// The difference to an earlier snapshot.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let ([store, rule, share], [old_store, old_rule, old_share]) = (&self.0, &before.0);
        Self([store.since(old_store), rule.since(old_rule), share.since(old_share)])
    }
}

/// The counters of a service. Cheap to clone: clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: SystemTime,
    limits: ByLimit,
    /// The answers that no limit took part in.
    without_limit: Counters,
    /// The durations of answers by the store.
    store: Latency,
    /// The durations of answers by the failure rule.
    failure_rule: Latency,
    /// The durations of answers by the share of this process.
    local_share: Latency,
    reloads: Reloads,
    /// The counts of the fronts, in the order in which they came.
    fronts: Mutex<Vec<Arc<FrontCounts>>>,
    deliveries: Arc<Deliveries>,
    servers: Arc<Servers>,
    envoy_reloads: Reloads,
    /// Whether the control plane is connected, where there is one.
    control_plane: OnceLock<AtomicBool>,
    /// Only where they are asked for.
    #[cfg(feature = "grpc")]
    rules: OnceLock<ByRule>,
    /// Only where administrators can read it.
    top: OnceLock<Top>,
    /// Only where checks are logged.
    checks: OnceLock<CheckQueue>,
    thresholds: Arc<ThresholdCounts>,
    /// Only while a service reports them.
    crossings: OnceLock<Crossings>,
    denials: Option<Denials>,
    traces: Option<Traces>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            started: SystemTime::now(),
            limits: ByLimit::default(),
            without_limit: Counters::default(),
            store: Latency::default(),
            failure_rule: Latency::default(),
            local_share: Latency::default(),
            reloads: Reloads::default(),
            fronts: Mutex::default(),
            deliveries: Arc::default(),
            servers: Arc::default(),
            envoy_reloads: Reloads::default(),
            control_plane: OnceLock::new(),
            #[cfg(feature = "grpc")]
            rules: OnceLock::new(),
            top: OnceLock::new(),
            checks: OnceLock::new(),
            thresholds: Arc::default(),
            crossings: OnceLock::new(),
            denials: None,
            traces: None,
        }
    }
}

impl Metrics {
    /// Counters at zero; the service's start time is now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with a log of denials and traces of decisions.
    #[must_use]
    pub fn with(denials: Option<Denials>, traces: Option<Traces>) -> Self {
        Self(Arc::new(Inner { denials, traces, ..Inner::default() }))
    }

    /// Begins to log checks into this log, the first that is given.
    pub fn log_checks(&self, log: &CheckLog) {
        self.0.checks.get_or_init(|| log.queue());
    }

    /// Builds a gate whose decisions are counted here, by limit and with their durations. For
    /// another gate only its own counters are available: by policy, outcome and authority.
    ///
    /// # Errors
    /// The errors of [`Gate::new`].
    pub fn gate(&self, policies: Policies, store: AnyStore) -> Result<Gate<AnyStore>, ParseError> {
        Gate::observed(policies, store, self.clone())
    }

    pub(crate) fn reloads(&self) -> &Reloads {
        &self.0.reloads
    }

    /// A subject in the form of the log of denials; `None` without such a log.
    pub(crate) fn written(&self, subject: &Subject) -> Option<String> {
        self.0.denials.as_ref().map(|denials| denials.form().written(subject.as_str()))
    }

    /// Calls `tell` for each limit with counters: its policy, its identity, the counters.
    pub(crate) fn each_limit<E>(
        &self,
        tell: impl FnMut(&str, &str, &Counters) -> Result<(), E>,
    ) -> Result<(), E> {
        self.0.limits.each(tell)
    }

    /// The answers that no limit took part in: no policy applied, a ban, a failure rule.
    pub(crate) fn without_limit(&self) -> &Counters {
        &self.0.without_limit
    }

    /// The counters of thresholds.
    pub(crate) fn thresholds(&self) -> Arc<ThresholdCounts> {
        Arc::clone(&self.0.thresholds)
    }

    /// The thresholds that charges reach from now on; `None` if somebody else receives them.
    pub(crate) fn crossings(&self) -> Option<Receiver<Crossing>> {
        let (crossings, received) = Crossings::new();
        self.0.crossings.set(crossings).ok().map(|()| received)
    }

    /// The durations of answers until now.
    pub(crate) fn durations(&self) -> DurationCounts {
        let Inner { store, failure_rule, local_share, .. } = &*self.0;
        DurationCounts([store.counts(), failure_rule.counts(), local_share.counts()])
    }

    /// When the service started.
    pub(crate) fn started(&self) -> SystemTime {
        self.0.started
    }

    pub(crate) fn traces(&self) -> Option<&Traces> {
        self.0.traces.as_ref()
    }

    /// The counters of a front. Services that share these metrics share them, too.
    pub(crate) fn front(&self, family: FrontFamily) -> Arc<FrontCounts> {
        let mut fronts = self.0.fronts.lock();
        let known = fronts.iter().find(|known| known.family().name == family.name);
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let new = Arc::new(FrontCounts::new(family));
        fronts.push(Arc::clone(&new));
        new
    }

    /// The counters of all fronts.
    fn fronts(&self) -> Vec<Arc<FrontCounts>> {
        self.0.fronts.lock().clone()
    }

    /// The state of several Redis servers.
    pub(crate) fn servers(&self) -> Arc<Servers> {
        Arc::clone(&self.0.servers)
    }

    /// The holds whose answers were not delivered.
    pub(crate) fn deliveries(&self) -> Arc<Deliveries> {
        Arc::clone(&self.0.deliveries)
    }

    /// The reloads of Envoy's rules.
    pub(crate) fn envoy_reloads(&self) -> &Reloads {
        &self.0.envoy_reloads
    }

    /// Notes whether the control plane of Envoy's rules is connected.
    #[cfg(feature = "grpc")]
    pub(crate) fn set_control_plane(&self, is_connected: bool) {
        let known = self.0.control_plane.get_or_init(AtomicBool::default);
        known.store(is_connected, Ordering::Relaxed);
    }

    /// Whether the control plane is connected, where there is one.
    pub(crate) fn control_plane(&self) -> Option<bool> {
        self.0.control_plane.get().map(|is_connected| is_connected.load(Ordering::Relaxed))
    }

    /// Begins to count by the rules of Envoy's service, under the names of envoyproxy/ratelimit.
    #[cfg(feature = "grpc")]
    pub(crate) fn count_rules(&self) {
        self.0.rules.get_or_init(ByRule::default);
    }

    /// The counters by rule, if they are asked for.
    #[cfg(feature = "grpc")]
    pub(crate) fn rules(&self) -> Option<&ByRule> {
        self.0.rules.get()
    }

    /// Begins to count by subject. Without a log of denials, subjects are hashed with this key,
    /// else with a random one.
    ///
    /// # Errors
    /// None in practice: a key of any length is accepted.
    pub(crate) fn count_subjects(&self, key: Option<&[u8]>) -> Result<(), ParseError> {
        let form = match &self.0.denials {
            Some(denials) => denials.form().clone(),
            None => SubjectForm::new(Subjects::Hashed, key)?,
        };
        self.0.top.get_or_init(|| Top::new(form, Instant::now()));
        Ok(())
    }

    /// The counts by subject, if they are asked for.
    pub(crate) fn top(&self) -> Option<&Top> {
        self.0.top.get()
    }

    /// Begins a new minute of the counts by subject after each one, until it is dropped.
    pub(crate) async fn follow_top(self) {
        loop {
            tokio::time::sleep(top::MINUTE).await;
            if let Some(top) = self.top() {
                top.rotate(Instant::now());
            }
        }
    }
}

impl Observer for Metrics {
    #[inline]
    fn observe(&self, event: &Event<'_>) {
        // An answer over several policies emits several events, but its duration counts once.
        if event.decides {
            match event.authority {
                Authority::Store => self.0.store.add(event.duration, event.answers),
                Authority::FailureRule => self.0.failure_rule.add(event.duration, event.answers),
                Authority::LocalShare => self.0.local_share.add(event.duration, event.answers),
                _ => {}
            }
        }
        if let Some(limit) = event.limit {
            let what = (event.outcome, event.authority, event.answers);
            self.0.limits.add(event.policy, limit.identity(), what);
        } else if event.decides {
            self.0.without_limit.add_many(event.outcome, event.authority, event.answers);
        }
        // One answer, whatever their number: the others may be about other subjects, and are
        // reported one by one.
        if event.decides
            && let Some((top, subject)) = self.0.top.get().zip(event.subject)
        {
            top.add(event.policy, subject, !event.outcome.admits());
        }
        // One line for a check; one about which no limit decided has no subject.
        if event.is_recorded
            && let Some((checks, subject)) = self.0.checks.get().zip(event.subject)
        {
            checks.put(event.policy, subject, event.outcome);
        }
        if let Some(denials) = &self.0.denials {
            denials.observe(event);
        }
        if let Some(traces) = &self.0.traces {
            traces.decided(event);
        }
    }

    fn crossed(&self, crossing: Crossing) {
        if !self.0.crossings.get().is_some_and(|crossings| crossings.put(crossing)) {
            self.0.thresholds.lost();
        }
    }

    #[inline]
    fn wants_further(&self) -> bool {
        self.0.top.get().is_some() || self.0.checks.get().is_some()
    }

    #[inline]
    fn observe_further(&self, subject: &str, outcome: Outcome) {
        if let Some(top) = self.0.top.get() {
            top.add(None, subject, !outcome.admits());
        }
        if let Some(checks) = self.0.checks.get() {
            checks.put(None, subject, outcome);
        }
    }
}

/// The number of policy reloads, whatever caused them.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    counts: [AtomicU64; Reloaded::ALL.len()],
    /// True while the last reload failed.
    broken: AtomicBool,
}

/// The outcome of a reload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reloaded {
    /// The new policies are in force.
    Taken,
    /// The file had not changed.
    Unchanged,
    /// The file is invalid, and the old policies stay in force.
    Broken,
}

impl Reloaded {
    pub(crate) const ALL: [Self; 3] = [Self::Taken, Self::Unchanged, Self::Broken];

    /// The outcome in lower case, for labels.
    pub(crate) fn name(self) -> &'static str {
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

    /// Whether the last reload did not fail.
    fn is_sound(&self) -> bool {
        !self.broken.load(Ordering::Relaxed)
    }

    /// How often it came to this.
    pub(crate) fn get(&self, result: Reloaded) -> u64 {
        self.counts.get(result as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}
