//! The store that decides the events of a replay and the attempts of an experiment; its clock is
//! set to the time of each.

use tollgate::{Ask, LimitSet, Limiter, ManualClock, MemoryStore, Time};

use crate::error::Error;
use crate::event::Event;
use crate::event_unit::EventUnit;

/// The subject of a limit on all clients together. No client has this name, since those are
/// numbers.
const RESOURCE: &str = "resource";

/// Limits, and the subject that they count.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PerLimits {
    /// The counted subject.
    pub per: Per,
    /// The limits.
    pub limits: LimitSet,
}

impl PerLimits {
    /// These limits with this subject.
    #[must_use]
    pub fn new(per: Per, limits: LimitSet) -> Self {
        Self { per, limits }
    }
}

/// The subject that a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::exhaustive_enums)] // there is no third: one of the clients, or all of them
pub enum Per {
    /// All clients together.
    Resource,
    /// Each client separately.
    Client,
}

impl Per {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Resource, Self::Client];

    /// The name in lower case, as in files and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Client => "client",
        }
    }

    /// The counted subject for the client with this number.
    #[must_use]
    pub fn subject(self, client: &str) -> &str {
        match self {
            Self::Resource => RESOURCE,
            Self::Client => client,
        }
    }
}

/// The ask of these parts for the client with this number, for a limiter with the limits of the
/// first part; `None` without a part.
#[must_use]
pub fn ask<'a>(parts: &'a [PerLimits], client: &'a str) -> Option<Ask<'a>> {
    let (first, rest) = parts.split_first()?;
    let ask = Ask::new(first.per.subject(client));
    Some(rest.iter().fold(ask, |ask, part| ask.and_under(part.per.subject(client), &part.limits)))
}

/// The decision on an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// Whether the event was admitted.
    pub is_admitted: bool,
    /// For a denied event, the time in microseconds until it would be admitted; `None` for never.
    pub retry_after_us: Option<u64>,
}

impl Verdict {
    /// A verdict with these values.
    #[must_use]
    pub fn new(is_admitted: bool, retry_after_us: Option<u64>) -> Self {
        Self { is_admitted, retry_after_us }
    }

    /// The verdict of a decision.
    #[must_use]
    pub fn from_decision(decision: &tollgate::Decision<'_>) -> Self {
        let is_admitted = decision.is_allowed();
        let wait = if is_admitted { None } else { decision.retry_after() };
        let retry_after_us = wait.and_then(|wait| u64::try_from(wait.as_micros()).ok());
        Self { is_admitted, retry_after_us }
    }
}

/// Decides events: a store whose clock is set to each event's time.
pub trait Decider {
    /// Prepares a case with these parts. It starts without the counts of earlier cases.
    ///
    /// # Errors
    /// The store cannot be used.
    fn begin(&mut self, parts: &[PerLimits]) -> Result<(), Error>;

    /// Decides the next events, which are in order, each with its cost, and appends the verdict on
    /// each to `verdicts`.
    ///
    /// # Errors
    /// An event got no decision; the run ends then.
    fn decide(&mut self, events: &[Event], verdicts: &mut Vec<Verdict>) -> Result<(), Error>;

    /// Whether to continue. It is called occasionally while another component, such as a queue,
    /// decides a case.
    ///
    /// # Errors
    /// [`Error::Stopped`] when it was asked to stop.
    fn go_on(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// The bytes and keys that the store uses for the current case, where it can report them.
    fn held(&self) -> Option<(usize, usize)> {
        None
    }
}

/// Decides in memory.
#[derive(Debug, Default)]
pub struct InMemory {
    clock: ManualClock,
    limiter: Option<Limiter>,
    parts: Vec<PerLimits>,
    /// The unit of the costs under these parts.
    unit: EventUnit,
}

/// A store for measurements.
#[must_use]
pub fn new_store(clock: &ManualClock) -> MemoryStore {
    // Fixed seeds: the bytes in use are a measure, so they must be the same each time.
    let store = MemoryStore::builder().hash_seeds([1, 2]).max_bytes(usize::MAX);
    store.clock(clock.clone()).build()
}

impl Decider for InMemory {
    fn begin(&mut self, parts: &[PerLimits]) -> Result<(), Error> {
        self.clock = ManualClock::at_micros(0);
        let store = new_store(&self.clock);
        self.unit = EventUnit::of(parts.iter().map(|part| &part.limits))?;
        self.parts = parts.to_vec();
        self.limiter = self.parts.first().map(|first| Limiter::new(first.limits.clone(), store));
        Ok(())
    }

    fn decide(&mut self, events: &[Event], verdicts: &mut Vec<Verdict>) -> Result<(), Error> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let mut digits = itoa::Buffer::new();
        for event in events {
            self.clock.set(Time::from_micros(event.at_us));
            let client = digits.format(event.client.index());
            let Some(ask) = ask(&self.parts, client) else { return Ok(()) };
            let ask = ask.cost(self.unit.cost(event.cost));
            verdicts.push(Verdict::from_decision(&limiter.check(ask).now()?));
        }
        limiter.store().sweep_some();
        Ok(())
    }

    fn held(&self) -> Option<(usize, usize)> {
        self.limiter.as_ref().map(|limiter| (limiter.store().bytes(), limiter.store().subjects()))
    }
}
