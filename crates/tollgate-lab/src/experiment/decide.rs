//! What decides the attempts of an experiment.

use tollgate::{Ask, Limiter, ManualClock, MemoryStore, Time};

use super::{Case, Part, Per};
use crate::digits::Digits;
use crate::error::Error;

/// The subject of a limit on all clients together: no client's, for these are numbers.
const RESOURCE: &str = "resource";

/// One attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// Microseconds since the Unix epoch.
    pub at_us: u64,
    /// The number of the client.
    pub client: u32,
}

impl Attempt {
    /// An attempt of this client at this time.
    #[must_use]
    pub const fn new(at_us: u64, client: u32) -> Self {
        Self { at_us, client }
    }
}

/// What became of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// Whether it was let through.
    pub is_admitted: bool,
    /// After how many microseconds it would be, when it was not; none for never.
    pub retry_after_us: Option<u64>,
}

impl Verdict {
    /// What a decision says.
    #[must_use]
    pub fn of(decision: &tollgate::Decision<'_>) -> Self {
        let is_admitted = decision.is_allowed();
        let wait = if is_admitted { None } else { decision.retry_after() };
        let retry_after_us = wait.and_then(|wait| u64::try_from(wait.as_micros()).ok());
        Self { is_admitted, retry_after_us }
    }
}

/// A store under a clock that is set to the time of each attempt.
pub trait Decider {
    /// Makes ready for a case; without the counts of a case before, unless it `keeps` them.
    ///
    /// # Errors
    /// A store that cannot be used.
    fn begin(&mut self, case: &Case, keeps: bool) -> Result<(), Error>;

    /// Decides these attempts, which come in the order of time, each with a cost of 1, and adds to
    /// `verdicts` what became of each.
    ///
    /// # Errors
    /// Some attempt got no decision; then the experiment ends.
    fn decide(&mut self, attempts: &[Attempt], verdicts: &mut Vec<Verdict>) -> Result<(), Error>;

    /// The bytes and the subjects that are held now, where the store can tell.
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
}

impl Decider for InMemory {
    fn begin(&mut self, case: &Case, keeps: bool) -> Result<(), Error> {
        let kept = self.limiter.take().filter(|_| keeps).map(|limiter| limiter.store().clone());
        let store = kept.unwrap_or_else(|| {
            self.clock = ManualClock::at_micros(0);
            // Seeds of its own: the bytes that it takes are a measure, the same each time.
            let store = MemoryStore::builder().hash_seeds([1, 2]).max_bytes(usize::MAX);
            store.clock(self.clock.clone()).build()
        });
        self.parts.clone_from(&case.parts);
        self.limiter = self.parts.first().map(|first| Limiter::new(first.limits.clone(), store));
        Ok(())
    }

    fn decide(&mut self, attempts: &[Attempt], verdicts: &mut Vec<Verdict>) -> Result<(), Error> {
        let (Some(limiter), Some((first, rest))) = (&self.limiter, self.parts.split_first()) else {
            return Ok(());
        };
        let mut digits = Digits::default();
        for attempt in attempts {
            self.clock.set(Time::from_micros(attempt.at_us));
            let client = digits.of(attempt.client);
            let mut ask = Ask::new(subject(first.per, client));
            for part in rest {
                ask = ask.and_under(subject(part.per, client), &part.limits);
            }
            verdicts.push(Verdict::of(&limiter.check_now(ask)?));
        }
        limiter.store().sweep_some();
        Ok(())
    }

    fn held(&self) -> Option<(usize, usize)> {
        self.limiter.as_ref().map(|limiter| (limiter.store().bytes(), limiter.store().subjects()))
    }
}

/// The subject that a part counts.
#[must_use]
pub fn subject(per: Per, client: &str) -> &str {
    match per {
        Per::Resource => RESOURCE,
        Per::Client => client,
    }
}
