//! A simulated run: clients that take turns by a seed, a store's clock, and the recorded history.

use tollgate::LimitSet;
use tollgate_proof::Random;
use tollgate_proof::history::{Call, CallOutcome, Fault, FaultKind, History, RecordedCount};

/// The question of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) client: usize,
    /// The number of the call.
    pub(crate) call: u64,
    /// A position in [`Load::subjects`].
    pub(crate) subject: usize,
    /// A position in [`Load::limits`].
    pub(crate) limits: usize,
    pub(crate) cost: i64,
    pub(crate) request: Option<u64>,
}

/// The clocks of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// The store's.
    pub(crate) now_us: u64,
    /// The one of the machine that the client runs on.
    pub(crate) client_us: u64,
}

/// The answer of a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) allowed: bool,
    pub(crate) remaining: u64,
    /// The wait of a denial; `None` for *never*.
    pub(crate) wait_us: Option<u64>,
}

/// The reply that a client sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) outcome: CallOutcome,
    pub(crate) now_us: Option<u64>,
}

impl Reply {
    pub(crate) fn new(said: Said, now_us: u64) -> Self {
        let remaining = Some(said.remaining);
        let outcome = match said {
            Said { allowed: true, .. } => CallOutcome::Allowed { remaining },
            Said { wait_us: None, .. } => CallOutcome::Never,
            Said { wait_us, .. } => CallOutcome::Denied { retry_after_us: wait_us, remaining },
        };
        Self { outcome, now_us: Some(now_us) }
    }

    /// Only whether it is allowed, as caches and fallbacks say it.
    pub(crate) fn bare(outcome: CallOutcome) -> Self {
        Self { outcome, now_us: None }
    }

    pub(crate) const LOST: Self = Self { outcome: CallOutcome::Unknown, now_us: None };
    pub(crate) const REFUSED: Self = Self { outcome: CallOutcome::NotCharged, now_us: None };
}

/// A limiter as its clients reach it. A call that takes several round trips takes several steps;
/// other clients come in between.
pub(crate) trait Limiter {
    /// One step of a call; `None` when another one follows.
    fn step(&mut self, at: At, ask: &Ask, step: usize) -> Option<Reply>;
}

/// The load of the clients.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) limits: &'static [&'static str],
    pub(crate) subjects: &'static [&'static str],
    pub(crate) calls: u64,
    pub(crate) costs: &'static [i64],
    /// The time between two steps is below one of these.
    pub(crate) gaps_us: &'static [u64],
    /// Now and then time goes on to exactly a multiple of this.
    pub(crate) edge_us: u64,
    /// After how many calls the store's clock is set, and by how much.
    pub(crate) clock_steps: &'static [(u64, i64)],
    /// After how many calls state is lost; until the number of the second call.
    pub(crate) failover: Option<(u64, u64)>,
    /// Whether calls have request ids, and are repeated under them.
    pub(crate) repeats: bool,
}

/// 2025-06-15: from here on a double of seconds does not hold microseconds.
pub(crate) const START_US: u64 = 1_750_000_000_000_000;

impl Load {
    pub(crate) const DEFAULT: Self = Self {
        limits: &["5/10s via gcra"],
        subjects: &["ann"],
        calls: 120,
        costs: &[1],
        gaps_us: &[10, 1_000, 3_000_000],
        edge_us: 0,
        clock_steps: &[],
        failover: None,
        repeats: false,
    };
}

/// A call under way.
struct Flight {
    ask: Ask,
    invoked_us: u64,
    step: usize,
}

const CLIENTS: usize = 3;

/// Runs a load and records what the clients see.
pub(crate) fn run(limiter: &mut dyn Limiter, load: &Load, seed: u64) -> History {
    let mut random = Random::new(seed);
    let sets: Vec<LimitSet> = load.limits.iter().map(|text| text.parse().unwrap()).collect();
    let mut history = History::default();
    let (mut real_us, mut offset_us, mut next) = (START_US, 0_i64, 0);
    let mut flights: [Option<Flight>; CLIENTS] = [None, None, None];
    let mut steps = load.clock_steps.iter().peekable();
    let (mut failed_us, mut again) = (0, None);
    while next < load.calls || flights.iter().any(Option::is_some) {
        real_us += 1 + random.below(random_gap(load, &mut Random::new(seed ^ real_us)));
        if load.edge_us > 0 && random.below(3) == 0 {
            real_us = real_us.next_multiple_of(load.edge_us);
        }
        let due = steps.peek().is_some_and(|(after, _)| next >= *after);
        if due
            && flights.iter().all(Option::is_none)
            && let Some((_, by_us)) = steps.next()
        {
            offset_us += by_us;
            history.faults.push(fault(FaultKind::ClockStep, real_us, real_us, 0));
            real_us += 10;
        }
        let blocked = steps.peek().is_some_and(|(after, _)| next >= *after);
        let client = usize::try_from(random.below(CLIENTS as u64)).unwrap();
        if flights[client].is_none() {
            if next >= load.calls || blocked {
                continue;
            }
            if load.failover.is_some_and(|(from, _)| from == next) {
                failed_us = real_us;
            }
            let ask = again.take().unwrap_or_else(|| ask(load, &mut random, client, next));
            let ask = Ask { client, call: next, ..ask };
            // A client that got no good answer asks again under the same id.
            again = (load.repeats && random.below(3) == 0).then_some(ask);
            flights[client] = Some(Flight { ask, invoked_us: real_us, step: 0 });
            if load.failover.is_some_and(|(_, to)| to == next) {
                history.faults.push(fault(FaultKind::Failover, failed_us, real_us, 1));
            }
            next += 1;
            continue;
        }
        let flight = flights[client].as_mut().unwrap();
        let now_us = real_us.checked_add_signed(offset_us).unwrap();
        let client_us = now_us - 40_000_000 * client as u64;
        let ask = flight.ask;
        let reply = limiter.step(At { now_us, client_us }, &ask, flight.step);
        flight.step += 1;
        let Some(reply) = reply else { continue };
        let invoked_us = flight.invoked_us;
        flights[client] = None;
        real_us += 1 + random.below(20);
        // A cost of 0 or less is not a check, and charges nothing.
        let Ok(cost @ 1..) = u64::try_from(ask.cost) else { continue };
        let limits = sets[ask.limits].clone();
        history.calls.push(Call {
            id: ask.call,
            client: format!("c{client}"),
            invoked_us,
            returned_us: Some(real_us),
            parts: vec![RecordedCount { subject: load.subjects[ask.subject].to_owned(), limits }],
            cost,
            request: ask.request.map(|request| request.to_string()),
            decided_us: reply.now_us,
            outcome: reply.outcome,
        });
    }
    history
}

fn random_gap(load: &Load, random: &mut Random) -> u64 {
    random.pick(load.gaps_us)
}

fn fault(kind: FaultKind, began_us: u64, ended_us: u64, lost_states: u32) -> Fault {
    Fault { kind, began_us, ended_us, target: "store".to_owned(), lost_states }
}

fn ask(load: &Load, random: &mut Random, client: usize, call: u64) -> Ask {
    Ask {
        client,
        call,
        subject: usize::try_from(random.below(load.subjects.len() as u64)).unwrap(),
        limits: usize::try_from(random.below(load.limits.len() as u64)).unwrap(),
        cost: random.pick(load.costs),
        request: load.repeats.then_some(call),
    }
}
