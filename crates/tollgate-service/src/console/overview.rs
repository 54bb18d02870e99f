//! The figures of the console: one answer, at most a second old, for all readers.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tollgate::LimitSet;
use tollgate_policy::{Policies, Rule, StandingRuling};
use tollgate_queue::{ConsumerSettings, ProducerSettings};
use tollgate_stores::{BreakerState, Figures};

use super::{History, Peers};
use crate::clock::since_epoch;
use crate::metrics::{DurationCounts, Metrics, Reloaded};
use crate::queues::{self, Queues};
use crate::recorder::{DURATION_SECONDS, Recent, Recorder, admits};
use crate::service::Service;
use crate::top::By;
use crate::wire::RulingJson;

/// How long an answer is given again, in milliseconds.
const FRESH_MS: u128 = 1_000;

/// The minutes of the last hour; the last one is not over.
const MINUTES: usize = 60;

/// The complete seconds that count as now.
const NOW_SECONDS: usize = 10;

/// The most subjects in each list.
const SUBJECTS: usize = 10;

/// The most rulings that are listed, those that end first.
const RULINGS: usize = 50;

/// The most texts of a limit whose numbers are not the same for all requests.
const TEXTS: usize = 3;

/// The figures, and the last answers.
#[derive(Debug)]
pub(crate) struct Overview {
    sources: Sources,
    peers: Peers,
    /// Locked while an answer is made, so that ten concurrent browsers cost as much as one.
    last: Mutex<Option<(Instant, Bytes)>>,
    /// The same without other instances. Not under one lock: two instances that show one another
    /// would wait for one another.
    alone: Mutex<Option<(Instant, Arc<Value>)>>,
}

/// Where the figures come from.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) service: Arc<Service>,
    pub(crate) metrics: Metrics,
    pub(crate) queues: Queues,
    pub(crate) recorder: Recorder,
    pub(crate) history: Arc<History>,
}

/// The counts of one limit.
#[derive(Debug, Default, Serialize)]
struct OneLimit {
    /// How many were admitted in the last seconds.
    admitted_now: u64,
    denied_now: u64,
    /// How many were admitted in the last hour.
    admitted: u64,
    denied: u64,
    /// The hour by outcome.
    outcomes: BTreeMap<&'static str, u64>,
    /// For each minute how many were admitted, and how many denied.
    minutes: Vec<[u64; 2]>,
}

impl Overview {
    pub(crate) fn new(sources: Sources, peers: Peers) -> Self {
        Self { sources, peers, last: Mutex::default(), alone: Mutex::default() }
    }

    /// The answer, with the other instances or without them: JSON.
    pub(crate) async fn answer(&self, with_peers: bool) -> Bytes {
        if !with_peers {
            return self.alone().await.to_string().into();
        }
        let mut last = self.last.lock().await;
        if let Some(bytes) = fresh(last.as_ref()) {
            return bytes;
        }
        let alone = self.alone().await;
        let bytes = if self.peers.is_empty() {
            Bytes::from(alone.to_string())
        } else {
            let peers = self.peers.beside(&alone).await;
            let mut figures = Value::clone(&alone);
            figures["peers"] = peers.into();
            figures.to_string().into()
        };
        *last = Some((Instant::now(), bytes.clone()));
        bytes
    }

    async fn alone(&self) -> Arc<Value> {
        let mut last = self.alone.lock().await;
        if let Some(figures) = fresh(last.as_ref()) {
            return figures;
        }
        let figures = Arc::new(self.sources.figures().await);
        *last = Some((Instant::now(), Arc::clone(&figures)));
        figures
    }
}

/// An answer that may be given again.
fn fresh<T: Clone>(last: Option<&(Instant, T)>) -> Option<T> {
    let (at, answer) = last?;
    (at.elapsed().as_millis() < FRESH_MS).then(|| answer.clone())
}

impl Sources {
    async fn figures(&self) -> Value {
        let store = store(&self.service).await;
        let now = since_epoch();
        let Self { service, metrics, recorder, .. } = self;
        let gate = &service.gate;
        let (minutes_from_s, recent) = recorder.recent(MINUTES, NOW_SECONDS, now.as_secs());
        let busiest = |by| metrics.top().map(|top| top.busiest(by, SUBJECTS, Instant::now()));
        let started = metrics.started().duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "at_s": now.as_secs(),
            "started_s": started.as_secs(),
            "version": env!("CARGO_PKG_VERSION"),
            "revision": gate.current().revision().to_string(),
            "policies": gate.current().policies().policies().len(),
            "subjects_hashed": metrics.top().is_some_and(crate::top::Top::is_hashed),
            "now_seconds": NOW_SECONDS,
            "minutes_from_s": minutes_from_s,
            "limits": limits(recent, gate.current().policies()),
            "durations": durations(&recorder.durations()),
            "store": store,
            "asked": busiest(By::Asked),
            "denied": busiest(By::Denied),
            "queues": queues(&self.queues),
            "rulings": rulings(gate.admin().standing()),
            "reloads": self.reloads(),
            "peers": [],
        })
    }

    fn reloads(&self) -> Value {
        let reloads = self.metrics.reloads();
        let counts = Reloaded::ALL.map(|result| (result.name(), reloads.get(result)));
        let counts: BTreeMap<_, _> = counts.into_iter().collect();
        json!({ "counts": counts, "last": self.history.list() })
    }
}

/// Each limit with its counts, those that deny most first; those in shadow apart.
fn limits(recent: Vec<Recent>, policies: &Policies) -> Vec<Value> {
    let mut limits = BTreeMap::<_, OneLimit>::new();
    for Recent { policy, limit, outcome, is_shadow, minutes, now } in recent {
        let one = limits.entry((is_shadow, policy.is_none(), policy, limit)).or_default();
        let admits = admits(outcome);
        let total: u64 = minutes.iter().copied().map(u64::from).sum();
        *one.outcomes.entry(outcome).or_default() += total;
        let (of_now, of_hour) = match admits {
            true => (&mut one.admitted_now, &mut one.admitted),
            false => (&mut one.denied_now, &mut one.denied),
        };
        *of_now += now;
        *of_hour += total;
        one.minutes.resize(MINUTES, [0; 2]);
        for ([admitted, denied], count) in one.minutes.iter_mut().zip(minutes) {
            *(if admits { admitted } else { denied }) += u64::from(count);
        }
    }
    let mut limits: Vec<_> = limits.into_iter().collect();
    limits
        .sort_by_key(|((shadow, ..), one)| (*shadow, Reverse(one.denied_now), Reverse(one.denied)));
    let named = limits.iter().filter_map(|((_, _, policy, _), _)| policy.as_deref());
    let numbers = numbers(policies, &named.collect());
    let told = limits.iter().map(|((shadow, _, policy, limit), one)| {
        let mut told = json!(one);
        let known = policy.as_deref().and_then(|policy| numbers.get(&(policy, limit.as_str())));
        told["policy"] = json!(policy);
        told["limit"] = json!(limit);
        told["numbers"] = json!(known.map(|texts| texts.join(" or ")));
        told["shadow"] = json!(shadow);
        told
    });
    told.collect()
}

/// The texts of the limits of these policies, by policy and identity. A limit has several where an
/// override or a tier sets other numbers.
fn numbers<'p>(
    policies: &'p Policies,
    named: &BTreeSet<&str>,
) -> BTreeMap<(&'p str, &'p str), Vec<String>> {
    let mut numbers = BTreeMap::<_, Vec<String>>::new();
    for policy in policies.policies().iter().filter(|it| named.contains(it.name.as_str())) {
        for entry in &policy.entries {
            let others = entry.overrides.iter().filter_map(|other| match &other.rule {
                Rule::Limits(limits) => Some(limits),
                _ => None,
            });
            for limit in [&entry.limits].into_iter().chain(others).flat_map(LimitSet::limits) {
                let texts = numbers.entry((&*policy.name, limit.identity())).or_default();
                let text = limit.to_string();
                match texts.len() {
                    _ if texts.contains(&text) => {}
                    TEXTS => texts.push("others".to_owned()),
                    0..TEXTS => texts.push(text),
                    _ => {}
                }
            }
        }
    }
    numbers
}

/// The rulings in force: how many, and the first to end. This gate knows them from its last look
/// at the store, seconds ago.
fn rulings(mut standing: Vec<StandingRuling>) -> Value {
    standing.sort_by_key(|ruling| ruling.left);
    let first: Vec<_> = standing.iter().take(RULINGS).map(RulingJson::standing).collect();
    json!({ "count": standing.len(), "first": first })
}

/// Percentiles of the last minute by the authority that decided; one without decisions is left out.
fn durations(counts: &DurationCounts) -> Value {
    let each = DurationCounts::AUTHORITIES.iter().zip(&counts.0);
    let each = each.filter(|(_, counts)| counts.answers() > 0).map(|(authority, counts)| {
        let [p50, p99] = [50, 99].map(|percent| counts.percentile(percent));
        json!({
            "authority": authority.name(),
            "answers": counts.answers(),
            "p50_us": p50.map(|it| it.as_micros()),
            "p99_us": p99.map(|it| it.as_micros()),
        })
    });
    json!({ "seconds": DURATION_SECONDS, "by": each.collect::<Vec<_>>() })
}

/// Whether the store counts, asked now, and its own figures.
async fn store(service: &Service) -> Value {
    let store = service.gate.store();
    let began = Instant::now();
    let error = service.probe_store().await.err().map(|refusal| refusal.detail);
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let mut told = json!({
        "kind": store.kind(), "counts": error.is_none(), "error": error, "took_us": took_us
    });
    match store.figures() {
        Figures::Memory { subjects, bytes, max_bytes, shared, refused, .. } => {
            told["subjects"] = json!(subjects);
            told["bytes"] = json!(bytes);
            told["max_bytes"] = json!(max_bytes);
            told["full_decisions"] = json!(shared + refused);
        }
        Figures::Servers { breaker, .. } => {
            told["breaker"] = json!(match breaker {
                BreakerState::Closed => "closed",
                BreakerState::HalfOpen => "half open",
                _ => "open",
            });
        }
        _ => {}
    }
    told
}

/// The queues, with their jobs where the store could be read.
fn queues(queues: &Queues) -> Vec<Value> {
    let each = queues.iter().map(|(name, queue)| {
        let (seen, settings) = (queue.seen(), queue.settings());
        let offers = queues::Reception::ALL.map(|outcome| (outcome.name(), queue.count(outcome)));
        let offers: BTreeMap<_, _> = offers.into_iter().collect();
        json!({
            "queue": name,
            "waiting": seen.as_ref().map(|it| it.waiting),
            "in_flight": seen.as_ref().map(|it| it.in_flight),
            "dead": seen.as_ref().map(|it| it.dead),
            "paused": seen.as_ref().map(|it| it.paused),
            "oldest_ms": seen.as_ref().and_then(|it| it.oldest).map(|it| it.as_millis()),
            "bound": settings.producer.as_ref().map(ProducerSettings::bound),
            "rate": settings.consumer.as_ref().and_then(ConsumerSettings::limits).map(|rate| {
                rate.limits().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }),
            "done": seen.as_ref().map(|it| it.done),
            "offers": offers,
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use tollgate_policy::Format;

    use super::*;

    fn recent(policy: Option<&str>, outcome: &'static str, is_shadow: bool, count: u32) -> Recent {
        let mut minutes = vec![0; MINUTES];
        minutes[3] = count;
        let (policy, limit) = (policy.map(str::to_owned), "sliding_log/1h".to_owned());
        Recent { policy, limit, outcome, is_shadow, minutes, now: 1 }
    }

    #[test]
    fn a_limit_is_one_row_that_which_denies_is_first_and_shadows_are_last() {
        let text = "version = 1\nmatch = \"all\"\n[[policies]]\nname = \"login\"\n\
                    on_failure = \"deny\"\n[[policies.limits]]\nsubject = \"ip\"\nlimit = \"3/h\"\n\
                    overrides = [{ when = { user = \"ann\" }, limit = \"9/h\" }]\n";
        let policies = Policies::parse(text, Format::Toml).unwrap();
        let rows = limits(
            vec![
                recent(None, "allowed", false, 4),
                recent(Some("z"), "denied", true, 2),
                recent(Some("login"), "allowed", false, 10),
                recent(Some("login"), "never", false, 1),
                recent(Some("login"), "denied", false, 5),
                recent(Some("quiet"), "allowed", false, 50),
            ],
            &policies,
        );
        let told = |key| rows.iter().map(|row| row[key].clone()).collect::<Vec<_>>();
        assert_eq!(told("policy"), [json!("login"), json!("quiet"), json!(null), json!("z")]);
        let numbers = "3/h via sliding_log or 9/h via sliding_log";
        assert_eq!(told("numbers")[..2], [json!(numbers), json!(null)]);
        assert_eq!(told("shadow"), [false, false, false, true]);
        assert_eq!(
            (told("admitted"), told("denied")),
            (
                vec![10.into(), 50.into(), 4.into(), 0.into()],
                vec![6.into(), 0.into(), 0.into(), 2.into()]
            )
        );
        assert_eq!(rows[0]["minutes"][3], json!([10, 6]));
        assert_eq!(rows[0]["minutes"][4], json!([0, 0]));
        assert_eq!((&rows[0]["admitted_now"], &rows[0]["denied_now"]), (&json!(1), &json!(2)));
    }
}
