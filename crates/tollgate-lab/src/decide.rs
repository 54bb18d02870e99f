//! What decides the events of a replay and the attempts of an experiment: a store under a clock
//! that is set to the time of each.

use tollgate::{Ask, LimitSet, Limiter, ManualClock, MemoryStore, Time};

use crate::digits::Digits;
use crate::error::Error;
use crate::event::Event;

/// The subject of a limit on all clients together: no client's, for those are numbers.
const RESOURCE: &str = "resource";

/// Limits, and whose count they have.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Part {
    /// Whose count.
    pub per: Per,
    /// The limits.
    pub limits: LimitSet,
}

impl Part {
    /// These limits, counted so.
    #[must_use]
    pub fn new(per: Per, limits: LimitSet) -> Self {
        Self { per, limits }
    }
}

/// Whose count a limit has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Per {
    /// One of all clients together.
    Resource,
    /// One of each client.
    Client,
}

impl Per {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Resource, Self::Client];

    /// In small letters, as files and results have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Client => "client",
        }
    }

    /// The subject that is counted, of a client that is named by its number.
    #[must_use]
    pub fn subject(self, client: &str) -> &str {
        match self {
            Self::Resource => RESOURCE,
            Self::Client => client,
        }
    }
}

/// The question of these parts about a client that is named by its number, for a limiter that has
/// the limits of the first; none without a part.
#[must_use]
pub fn ask<'a>(parts: &'a [Part], client: &'a str) -> Option<Ask<'a>> {
    let (first, rest) = parts.split_first()?;
    let ask = Ask::new(first.per.subject(client));
    Some(rest.iter().fold(ask, |ask, part| ask.and_under(part.per.subject(client), &part.limits)))
}

/// What became of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// Whether it was let through.
    pub is_admitted: bool,
    /// After how many microseconds it would be, when it was not; none for never.
    pub retry_after_us: Option<u64>,
}

impl Verdict {
    /// This one.
    #[must_use]
    pub fn new(is_admitted: bool, retry_after_us: Option<u64>) -> Self {
        Self { is_admitted, retry_after_us }
    }

    /// What a decision says.
    #[must_use]
    pub fn from_decision(decision: &tollgate::Decision<'_>) -> Self {
        let is_admitted = decision.is_allowed();
        let wait = if is_admitted { None } else { decision.retry_after() };
        let retry_after_us = wait.and_then(|wait| u64::try_from(wait.as_micros()).ok());
        Self { is_admitted, retry_after_us }
    }
}

/// What decides: a store under a clock that is set to each event's time.
pub trait Decider {
    /// Makes ready for a case with these parts; without the counts of a case before, unless it
    /// `keeps` them.
    ///
    /// # Errors
    /// A store that cannot be used.
    fn begin(&mut self, parts: &[Part], keeps: bool) -> Result<(), Error>;

    /// Decides the next events, which come in order, each with a cost of 1, and adds to `verdicts`
    /// what became of each.
    ///
    /// # Errors
    /// Some event got no decision; then the run ends.
    fn decide(&mut self, events: &[Event], verdicts: &mut Vec<Verdict>) -> Result<(), Error>;

    /// Whether to go on: called now and then while a case runs that others decide, as a queue does.
    ///
    /// # Errors
    /// [`Error::Stopped`] when it was told to stop.
    fn go_on(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// The bytes and the keys that are held now for the case at work, where the store can tell.
    fn held(&self) -> Option<(usize, usize)> {
        None
    }
}

/// Decides in memory.
#[derive(Debug, Default)]
pub struct InMemory {
    clock: ManualClock,
    limiter: Option<Limiter>,
    parts: Vec<Part>,
    /// Where cases go on with the counts of those before: what is counted apart is held apart, so
    /// that the bytes of a case are its own.
    separate: Vec<SeparateStore>,
}

/// A store, and what it has counts of: whose, and under the limits of which identities.
#[derive(Debug)]
struct SeparateStore {
    counts: Vec<(Per, String)>,
    store: MemoryStore,
}

impl InMemory {
    /// The store for a case with these parts: the one that has counts of any of them, else a new
    /// one.
    fn store(&mut self, parts: &[Part]) -> MemoryStore {
        let counts: Vec<_> =
            parts.iter().map(|part| (part.per, part.limits.identity().to_owned())).collect();
        let has_some =
            |separate: &&SeparateStore| separate.counts.iter().any(|it| counts.contains(it));
        if let Some(separate) = self.separate.iter().find(has_some) {
            return separate.store.clone();
        }
        let store = new_store(&self.clock);
        self.separate.push(SeparateStore { counts, store: store.clone() });
        store
    }
}

fn new_store(clock: &ManualClock) -> MemoryStore {
    // Seeds of its own: the bytes that it takes are a measure, the same each time.
    let store = MemoryStore::builder().hash_seeds([1, 2]).max_bytes(usize::MAX);
    store.clock(clock.clone()).build()
}

impl Decider for InMemory {
    fn begin(&mut self, parts: &[Part], keeps: bool) -> Result<(), Error> {
        if !keeps {
            self.clock = ManualClock::at_micros(0);
            self.separate.clear();
        }
        let store = self.store(parts);
        self.parts = parts.to_vec();
        self.limiter = self.parts.first().map(|first| Limiter::new(first.limits.clone(), store));
        Ok(())
    }

    fn decide(&mut self, events: &[Event], verdicts: &mut Vec<Verdict>) -> Result<(), Error> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let mut digits = Digits::default();
        for event in events {
            self.clock.set(Time::from_micros(event.at_us));
            let client = digits.format(event.client.index());
            let Some(ask) = ask(&self.parts, client) else { return Ok(()) };
            verdicts.push(Verdict::from_decision(&limiter.check_now(ask)?));
        }
        limiter.store().sweep_some();
        Ok(())
    }

    fn held(&self) -> Option<(usize, usize)> {
        self.limiter.as_ref().map(|limiter| (limiter.store().bytes(), limiter.store().subjects()))
    }
}
