//! Where state lives and whose clock counts.

use core::future::Future;
use core::time::Duration;

use smallvec::SmallVec;

use crate::decision::{Receipt, Refund};
use crate::engine::{Mode, Outcome};
use crate::error::StoreError;
use crate::limit::LimitSet;
use crate::notice::{Notice, Notices};
use crate::subject::Subject;
use crate::time::Time;

/// One count: whose, and under which limits.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Counted<'a> {
    /// Whose count.
    pub subject: &'a Subject,
    /// Under which limits.
    pub limits: &'a LimitSet,
    /// Where a store that is divided keeps it: with all counts of this shard. The same for every
    /// part of a question. A store that is not divided does not look at it.
    pub shard: Option<&'a str>,
}

impl<'a> Counted<'a> {
    /// The count of `subject` under `limits`, in a place of its own.
    #[must_use]
    #[inline]
    pub const fn new(subject: &'a Subject, limits: &'a LimitSet) -> Self {
        Self { subject, limits, shard: None }
    }

    /// The same, kept with all counts of `shard` where there is one.
    #[must_use]
    #[inline]
    pub const fn in_shard(self, shard: Option<&'a str>) -> Self {
        Self { shard, ..self }
    }
}

/// What a store is asked: every part at one time, all or nothing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Question<'a> {
    /// The subjects and their limits; no two of them are the same count.
    pub parts: SmallVec<[Counted<'a>; 1]>,
    /// The units, from 1 to 2^40.
    pub cost: u64,
    /// All or nothing, partial, or a peek.
    pub mode: Mode,
    /// Under which id the caller may ask again without being charged again.
    pub request: Option<&'a str>,
    /// How long to wait for an answer; none for as long as the store does by itself. A store that
    /// never waits does not look at it.
    pub deadline: Option<Duration>,
}

impl<'a> Question<'a> {
    /// A question.
    #[must_use]
    pub fn new(parts: SmallVec<[Counted<'a>; 1]>, cost: u64, mode: Mode) -> Self {
        Self { parts, cost, mode, request: None, deadline: None }
    }

    /// The same question under a request id.
    #[must_use]
    pub fn once(self, request: &'a str) -> Self {
        Self { request: Some(request), ..self }
    }

    /// The same question, to be answered within this time.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// With whose counts a divided store keeps these: every part has the same shard, or none.
    #[must_use]
    pub fn shard(&self) -> Option<&'a str> {
        self.parts.first().and_then(|part| part.shard)
    }

    /// For stores that remember no request ids: refuses a question that has one.
    ///
    /// # Errors
    /// When it has one.
    pub fn without_request(&self) -> Result<(), StoreError> {
        match self.request {
            None => Ok(()),
            Some(_) => Err(StoreError::misuse(
                "this store remembers no request ids: ask without one, or use a store that does, \
                 as Redis",
            )),
        }
    }
}

/// What a store holds for one subject under one set.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The full form of the limits that the state was written under.
    pub written_under: String,
    /// The words of all limits.
    pub words: Vec<u64>,
    /// The events of every log: time in microseconds since the epoch, and cost.
    pub logs: Vec<Vec<(u64, u64)>>,
    /// When the state means the same as a fresh one.
    pub fresh_at: Time,
    /// True when the subject has no state of its own because the store is full, and what is
    /// shown is the one it shares with others.
    pub shared: bool,
}

impl Inspection {
    /// What a store shows.
    #[must_use]
    pub fn new(
        written_under: String,
        words: Vec<u64>,
        logs: Vec<Vec<(u64, u64)>>,
        fresh_at: Time,
        shared: bool,
    ) -> Self {
        Self { written_under, words, logs, fresh_at, shared }
    }
}

/// Where state lives. A store owns the time, finds states, and runs [`crate::engine`] over them
/// in one atomic step; the conformance kit of `tollgate-proof` says whether it does.
pub trait Store: Send + Sync {
    /// A number that tells this store's receipts from another's.
    fn identity(&self) -> u64;

    /// True for a receipt of a charge that is counted here: one of this store, which is what a
    /// store answers that does not write this, or one of a store whose counts it took over, as a
    /// memory store does that was restored from a snapshot. A store around another asks that one.
    fn issued(&self, receipt: &Receipt) -> bool {
        receipt.store == self.identity()
    }

    /// How long a question may take that does not say so itself: what was said where the store was
    /// opened, as in its URL; none where nothing was.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Told by whoever asks regularly, as a gate does for its policies, how long its callers wait
    /// for an answer at most. A store over a network then does not take its server for gone while
    /// that can still answer them in time. Does nothing unless a store says otherwise.
    fn will_wait(&self, longest: Duration) {
        let _ = longest;
    }

    /// True when the futures of [`Store::check`] and [`Store::refund`] are ready the first time
    /// they are polled, as those of a store in memory: then a caller need not be async. False
    /// unless a store says otherwise.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Answers a question.
    fn check(
        &self,
        question: &Question<'_>,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// Answers for one subject at once, as [`Store::check`] would, when the store can; with
    /// nothing, which is what a store answers that does not write this, `check` is
    /// asked. No request id and no deadline: it waits for nothing.
    ///
    /// A future that is ready would say the same, and take longer to build than a count in memory
    /// takes to look up.
    #[inline]
    fn check_at_once(&self, counted: Counted<'_>, cost: u64, mode: Mode) -> Option<Outcome> {
        let _ = (counted, cost, mode);
        None
    }

    /// Gives back what still counts of `units` of a charge, or of what is left of it where that is
    /// less: all refunds of it together never give back more than was charged.
    fn refund(
        &self,
        receipt: &Receipt,
        units: u64,
    ) -> impl Future<Output = Result<Refund, StoreError>> + Send;

    /// Gives `delta` units back, or takes them when negative. Answers the change of `remaining`
    /// per limit.
    fn adjust(
        &self,
        counted: Counted<'_>,
        delta: i64,
    ) -> impl Future<Output = Result<Vec<i64>, StoreError>> + Send;

    /// Forgets a count. True when there was one.
    fn reset(&self, counted: Counted<'_>) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Shows what is held, or nothing.
    fn inspect(
        &self,
        counted: Counted<'_>,
    ) -> impl Future<Output = Result<Option<Inspection>, StoreError>> + Send;

    /// The notices that lie in the store; none where they are those of version `seen` still. A
    /// store that does not write this keeps none.
    fn notices(
        &self,
        seen: Option<u64>,
    ) -> impl Future<Output = Result<Option<Notices>, StoreError>> + Send {
        core::future::ready(Ok((seen != Some(0)).then(Notices::default)))
    }

    /// Posts a notice, in place of one of its name.
    fn post(&self, notice: &Notice) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = notice;
        core::future::ready(Err(StoreError::permanent("this store keeps no notices")))
    }

    /// Takes a notice away before its end. True when there was one.
    fn withdraw(&self, name: &str) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let _ = name;
        core::future::ready(Ok(false))
    }
}
