//! The `/metrics` page, built from the counters on each scrape.

use core::fmt;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tollgate::{HoldKind, Store as _};
use tollgate_policy::{Authority, Counters, Gate, Outcome};
use tollgate_queue::Stats;
use tollgate_stores::{AnyStore, BreakerState, Figures};

use super::by_threshold::thresholds;
use super::family::{counter, family, gauge, info, units};
use super::{FrontFamily, Metrics, OTHER, Reloaded, process, text};
use crate::listen::{Closed, Registry as Connections};
use crate::queues::{self, Queues};
use crate::service::{Fate, InlineLimits};
use crate::timeseries::{Lost, Tally};

/// The most policies with separate series; the others share one. A file has at most 20,000.
const MAX_POLICIES: usize = 1_000;

/// Builds the page.
#[derive(Debug)]
pub(crate) struct Page(Registry);

impl Page {
    pub(crate) fn new(
        metrics: Metrics,
        gate: Gate<AnyStore>,
        limits: Arc<InlineLimits>,
        connections: [Arc<Connections>; 2],
        timeseries: Option<Arc<Tally>>,
        queues: Queues,
    ) -> Self {
        let named = Mutex::default();
        let numbers = Numbers { metrics, gate, limits, connections, timeseries, queues, named };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(numbers));
        Self(registry)
    }

    /// The page, in the format that the request headers accept.
    pub(crate) fn respond(&self, headers: &HeaderMap) -> Response<Full<Bytes>> {
        let mut page = String::new();
        let written = prometheus_client::encoding::text::encode(&mut page, &self.0);
        let mut response = Response::new(Full::default());
        if written.is_err() {
            // A partial page would look as if counters had decreased.
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            return response;
        }
        let mut wanted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let kind = if wanted.any(|types| types.contains(text::OPEN_TYPE)) {
            text::OPEN
        } else {
            page = text::plain(&page);
            text::PLAIN
        };
        *response.body_mut() = Full::new(Bytes::from(page));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VARY, HeaderValue::from_static("accept"));
        response
    }
}

/// The sources of the numbers.
#[derive(Debug)]
struct Numbers {
    metrics: Metrics,
    gate: Gate<AnyStore>,
    /// The cache of inline limits.
    limits: Arc<InlineLimits>,
    /// The connections of clients, then those of administrators.
    connections: [Arc<Connections>; 2],
    /// The counters of the writer to time series.
    timeseries: Option<Arc<Tally>>,
    queues: Queues,
    /// The policies with separate series. A policy stays in this set, since moving it would make
    /// two counters jump.
    named: Mutex<BTreeSet<String>>,
}

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.decisions(encoder)?;
        self.holds(encoder)?;
        thresholds(&self.metrics.thresholds(), encoder)?;
        self.durations(encoder)?;
        self.policies(encoder)?;
        self.store(encoder)?;
        self.timeseries(encoder)?;
        self.queues(encoder)?;
        self.front(encoder)?;
        self.process(encoder)?;
        process::write(encoder)
    }
}

/// The counters of a used policy that appear from the start, even at zero.
const USUAL: [(Outcome, Authority); 2] =
    [(Outcome::Allowed, Authority::Store), (Outcome::Denied, Authority::Store)];

/// The same for a policy that has only run in shadow mode.
const USUAL_IN_SHADOW: [(Outcome, Authority); 2] =
    [(Outcome::Allowed, Authority::Shadow), (Outcome::Denied, Authority::Shadow)];

impl Numbers {
    fn decisions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Decisions by policy, outcome and authority.";
        let mut decisions = counter(encoder, "tollgate_decisions", help)?;
        let mut named = self.named.lock();
        let other = Counters::default();
        for (policy, counters) in self.gate.counters().policies() {
            if !named.contains(&policy) {
                if counters.iter().next().is_none() {
                    continue;
                }
                if named.len() >= MAX_POLICIES || policy == OTHER {
                    other.add_all(&counters);
                    continue;
                }
                named.insert(policy.clone());
            }
            // A policy in shadow mode has other counters at zero than an enforced one.
            let shadow =
                |(_, authority, _): (Outcome, Authority, u64)| authority == Authority::Shadow;
            let always: &[_] = match counters.iter().all(shadow) {
                true => &USUAL_IN_SHADOW,
                false => &USUAL,
            };
            decisions.counters([("policy", &policy)], &counters, always)?;
        }
        decisions.counters([("policy", OTHER)], &other, &[])?;
        drop(named);

        let help = "Decisions about requests to which no policy applied.";
        let mut unmatched = counter(encoder, "tollgate_unmatched_decisions", help)?;
        let always = [(Outcome::NoPolicy, Authority::Policy)];
        unmatched.counters([], self.gate.counters().unmatched, &always)?;

        let help = "Decisions under inline limits.";
        let mut inline = counter(encoder, "tollgate_inline_decisions", help)?;
        inline.counters([], self.gate.counters().inline_limits, &USUAL)?;

        let help = "Decisions by the limit that binds.";
        let mut limits = counter(encoder, "tollgate_limit_decisions", help)?;
        self.metrics.0.limits.each(|policy, limit, counters| {
            limits.counters([("policy", policy), ("limit", limit)], counters, &[])
        })
    }

    fn holds(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let holds = self.gate.counters().holds;
        let help = "Holds that were placed, by kind.";
        let mut placed = counter(encoder, "tollgate_holds_placed", help)?;
        placed.count([("kind", "acquire")], holds.placed(HoldKind::Acquire))?;
        placed.count([("kind", "reserve")], holds.placed(HoldKind::Reserve))?;
        let help = "Holds that were placed here, are not settled, and have not expired.";
        gauge(encoder, ("tollgate_holds_open", help), None, holds.open())?;
        let help = "Commits, releases and renewals of holds, by result.";
        let mut done = counter(encoder, "tollgate_hold_calls", help)?;
        done.count([("result", "settled")], holds.settled())?;
        done.count([("result", "repeated")], holds.repeated())?;
        done.count([("result", "renewed")], holds.renewed())?;
        done.count([("result", "not_open")], holds.not_open())?;
        let help = "Holds whose answers were not delivered, by outcome.";
        let mut undelivered = counter(encoder, "tollgate_holds_undelivered", help)?;
        let deliveries = self.metrics.deliveries();
        for fate in Fate::ALL {
            undelivered.count([("result", fate.name())], deliveries.get(fate))?;
        }
        let help = "Asks and releases of holds by an id of the caller, by result.";
        let mut named = counter(encoder, "tollgate_named_holds", help)?;
        named.count([("result", "placed")], holds.named())?;
        named.count([("result", "repeated")], holds.answered_again())?;
        named.count([("result", "refused")], holds.conflicts())?;
        named.count([("result", "marked")], holds.marks())?;
        let help = "Commits of more units than were reserved.";
        counter(encoder, "tollgate_hold_overruns", help)?.count([], holds.over())?;
        let help = "Units of commits beyond their reservation: the bound of the debt.";
        units(counter(encoder, "tollgate_hold_overrun_units", help)?, holds.units_over())?;
        let help = "Units that commits had beyond the max of their policies: nobody was charged.";
        units(counter(encoder, "tollgate_hold_cut_units", help)?, holds.units_cut())
    }

    fn durations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "tollgate_decision_duration";
        let help = "The time of decisions that asked the store, by authority.";
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        let mut durations = family(encoder, (name, help), unit, kind)?;
        let authority = |authority: Authority| [("authority", authority.name())];
        durations.histogram(authority(Authority::Store), &self.metrics.0.store)?;
        durations.histogram(authority(Authority::FailureRule), &self.metrics.0.failure_rule)?;
        durations.histogram(authority(Authority::LocalShare), &self.metrics.0.local_share)?;
        let name = "tollgate_request_duration";
        let help = "The time of answers by front, without those that monitor the service.";
        let mut durations = family(encoder, (name, help), unit, kind)?;
        let fronts = self.metrics.fronts();
        fronts
            .iter()
            .filter_map(|counts| counts.durations())
            .try_for_each(|(front, latency)| durations.histogram([("front", front)], latency))
    }

    fn policies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "The current policies: the number of their replacements, and their hash.";
        let revision = self.gate.current().revision().to_string();
        info(encoder, ("tollgate_revision", help), ("revision", &revision))?;
        let number = self.gate.current().policies().policies().len();
        let help = "The number of current policies.";
        gauge(encoder, ("tollgate_policies", help), None, number as u64)?;

        let help = "Reloads of the policies, by result.";
        let mut family = counter(encoder, "tollgate_reloads", help)?;
        let reloads = self.metrics.reloads();
        for result in Reloaded::ALL {
            family.count([("result", result.name())], reloads.get(result))?;
        }
        let help = "1, or 0 after a failed reload: the old policies stay in force.";
        let name = ("tollgate_last_reload_successful", help);
        gauge(encoder, name, None, u64::from(reloads.is_sound()))
    }

    fn store(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let store = self.gate.store();
        let help = "The kind of store that keeps the counts.";
        info(encoder, ("tollgate_store", help), ("kind", store.kind()))?;
        let help = "Memory used by the cache of inline limits.";
        let (name, unit) = ("tollgate_limits_cache", Some(&Unit::Bytes));
        gauge(encoder, (name, help), unit, self.limits.bytes())?;
        if let Some(leases) = store.leases() {
            let help = "Charges made ahead, for leases.";
            counter(encoder, "tollgate_lease_renewals", help)?.count([], leases.renewals)?;
            let help = "Units of leases: charged ahead, given back unspent, and wasted.";
            let mut units = counter(encoder, "tollgate_lease_units", help)?;
            units.count([("state", "charged")], leases.charged)?;
            units.count([("state", "returned")], leases.returned)?;
            units.count([("state", "wasted")], leases.wasted)?;
        }
        let help = "Answers that were repeated under a request id. They are in no other counter.";
        counter(encoder, "tollgate_repeated_answers", help)?
            .count([], self.gate.counters().repeats)?;
        let help = "Checks under a request id that was repeated too often: each was charged.";
        counter(encoder, "tollgate_overused_request_ids", help)?
            .count([], self.gate.counters().overused_ids)?;
        let help = "Request ids that the store forgot before their time, for lack of room.";
        counter(encoder, "tollgate_requests_forgotten", help)?
            .count([], store.facts().forgotten_requests)?;
        match store.figures() {
            Figures::Memory { subjects, limit_sets, bytes, max_bytes, shared, refused, .. } => {
                let help = "Subjects with their own entry in the memory store.";
                gauge(encoder, ("tollgate_memory_subjects", help), None, subjects)?;
                let help = "Limit sets that the memory store has counts for.";
                gauge(encoder, ("tollgate_memory_limit_sets", help), None, limit_sets)?;
                let help = "Memory used by the memory store.";
                gauge(encoder, ("tollgate_memory", help), unit, bytes)?;
                let help = "The memory limit of the memory store.";
                gauge(encoder, ("tollgate_memory_max", help), unit, max_bytes)?;
                let help = "Decisions about subjects for which the full store had no room.";
                let mut full = counter(encoder, "tollgate_memory_full_decisions", help)?;
                full.count([("state", "shared")], shared)?;
                full.count([("state", "none")], refused)
            }
            Figures::Servers { breaker, script_loads, .. } => {
                let help = "The circuit breaker: 0 closed, 1 open, 2 half-open.";
                let state = match breaker {
                    BreakerState::Closed => 0,
                    BreakerState::HalfOpen => 2,
                    _ => 1,
                };
                gauge(encoder, ("tollgate_redis_breaker_state", help), None, state)?;
                let help = "Scripts loaded into the server.";
                counter(encoder, "tollgate_redis_script_loads", help)?.count([], script_loads)?;
                self.servers(encoder)
            }
            _ => Ok(()),
        }
    }

    /// Encodes the state of several servers; for a single server nothing changes.
    fn servers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let servers = self.metrics.servers();
        let help = "How often another Redis became the primary, in a cluster or under sentinels.";
        counter(encoder, "tollgate_redis_takeovers", help)?.count([], servers.takeovers())?;
        let help = "Slots of a cluster that no primary serves.";
        gauge(encoder, ("tollgate_redis_slots_down", help), None, servers.slots_down())?;
        let (answering, named) = servers.sentinels();
        let help = "The sentinels that the URL names.";
        gauge(encoder, ("tollgate_redis_sentinels", help), None, named)?;
        let help = "The sentinels that answer.";
        gauge(encoder, ("tollgate_redis_sentinels_answering", help), None, answering)
    }

    fn queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.queues.is_empty() {
            return Ok(());
        }
        let help = "Jobs offered here, by queue and outcome.";
        let mut offers = counter(encoder, "tollgate_queue_offers", help)?;
        for (name, door) in self.queues.iter() {
            for outcome in queues::Reception::ALL {
                offers
                    .count([("queue", name), ("outcome", outcome.name())], door.count(outcome))?;
            }
        }
        let help = "Jobs whose answers were not delivered to their workers, by outcome.";
        let mut undelivered = counter(encoder, "tollgate_queue_undelivered", help)?;
        for (name, queue) in self.queues.iter() {
            for fate in Fate::ALL {
                let labels = [("queue", name), ("result", fate.name())];
                undelivered.count(labels, queue.undelivered_jobs(fate))?;
            }
        }
        // Every service reports the same queue, so aggregate with `max`, not `sum`. When a queue
        // cannot be read, it has no value instead of a stale one.
        type Figure = fn(&Stats) -> u64;
        let gauges: [(&str, &str, Figure); 3] = [
            ("waiting", "Waiting jobs, at most one second old.", |it| it.waiting),
            ("in_flight", "Jobs in flight or awaiting redelivery.", |it| it.in_flight),
            ("dead", "Dead letters that are kept.", |it| it.dead),
        ];
        for (what, help, of) in gauges {
            let name = format!("tollgate_queue_{what}_jobs");
            let mut jobs = family(encoder, (&name, help), None, MetricType::Gauge)?;
            for (queue, stats) in self.seen() {
                jobs.gauge(("queue", queue), of(&stats))?;
            }
        }
        let (name, help) = ("tollgate_queue_oldest_age", "The age of the oldest waiting job.");
        let seconds = Some(&Unit::Seconds);
        let mut oldest = family(encoder, (name, help), seconds, MetricType::Gauge)?;
        for (queue, stats) in self.seen() {
            oldest.gauge(("queue", queue), stats.oldest.unwrap_or_default().as_secs_f64())?;
        }
        Ok(())
    }

    fn seen(&self) -> impl Iterator<Item = (&str, Stats)> {
        self.queues.iter().filter_map(|(name, door)| Some((name, door.seen()?)))
    }

    fn timeseries(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(tally) = &self.timeseries else { return Ok(()) };
        let help = "Samples written to the time series on Redis, one for each series and second.";
        counter(encoder, "tollgate_timeseries_samples", help)?.count([], tally.taken())?;
        let help = "Samples that are certainly or possibly lost, by reason.";
        let mut lost = counter(encoder, "tollgate_timeseries_lost_samples", help)?;
        for why in Lost::ALL {
            lost.count([("reason", why.name())], tally.lost(why))?;
        }
        let help = "Samples that wait or are being written.";
        gauge(encoder, ("tollgate_timeseries_waiting_samples", help), None, tally.waiting())
    }

    fn front(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Open connections.";
        let sum =
            |of: &dyn Fn(&Connections) -> u64| self.connections.iter().map(|all| of(all)).sum();
        let open: u64 = sum(&|all| all.open() as u64);
        gauge(encoder, ("tollgate_connections", help), None, open)?;
        let help = "The most open connections.";
        let most = sum(&|all| all.most() as u64);
        gauge(encoder, ("tollgate_connections_max", help), None, most)?;
        let help = "Memory used by bodies being received, by calls of gRPC and by long answers.";
        let held = sum(&|all| all.budget().held() as u64);
        gauge(encoder, ("tollgate_connection_buffers", help), Some(&Unit::Bytes), held)?;
        let help = "Accepted connections.";
        let accepted = sum(&Connections::accepted);
        counter(encoder, "tollgate_connections_accepted", help)?.count([], accepted)?;
        let help = "Connections that the service closed, by reason.";
        let mut closed = counter(encoder, "tollgate_connections_closed", help)?;
        for why in Closed::ALL {
            closed.count([("reason", why.name())], sum(&|all| all.closed(why)))?;
        }
        for counts in self.metrics.fronts() {
            let FrontFamily { name, help, labels: [asked, ended], is_always_there, .. } =
                counts.family();
            if *is_always_there || counts.iter().next().is_some() {
                let mut answers = counter(encoder, name, help)?;
                for (name, end, count) in counts.iter() {
                    answers.count([(*asked, name), (*ended, end)], count)?;
                }
            }
        }
        let reloads = self.metrics.envoy_reloads();
        let counted = Reloaded::ALL.map(|result| (result, reloads.get(result)));
        if counted.iter().any(|(_, count)| *count > 0) {
            let help = "Reloads of Envoy's rules, by result.";
            let mut family = counter(encoder, "tollgate_envoy_reloads", help)?;
            for (result, count) in counted {
                family.count([("result", result.name())], count)?;
            }
            let help = "1, or 0 after a failed reload of Envoy's rules: the old ones stay.";
            let name = ("tollgate_envoy_last_reload_successful", help);
            gauge(encoder, name, None, u64::from(reloads.is_sound()))?;
        }
        if let Some(is_connected) = self.metrics.control_plane() {
            let help = "Whether the control plane that sends Envoy's rules is connected.";
            let name = ("tollgate_envoy_control_plane_connected", help);
            gauge(encoder, name, None, u64::from(is_connected))?;
        }
        #[cfg(feature = "grpc")]
        super::reference::rules(encoder, &self.metrics)?;
        Ok(())
    }

    fn process(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "The start time of the service, in seconds since 1970.";
        let started = self.metrics.0.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (name, unit) = ("process_start_time", Some(&Unit::Seconds));
        family(encoder, (name, help), unit, MetricType::Gauge)?.value(started.as_secs_f64())?;
        let help = "The version of the service.";
        info(encoder, ("tollgate_build", help), ("version", env!("CARGO_PKG_VERSION")))
    }
}
