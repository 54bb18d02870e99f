//! The store: it keeps the state, and its clock is the one that counts.

use core::future::Future;
use core::time::Duration;

use crate::decision::Receipt;
use crate::error::StoreError;
#[cfg(doc)]
use crate::operation;
use crate::operation::Operation;
#[cfg(doc)]
use crate::question::Question;

/// A store's facts about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Facts {
    /// The default deadline of a question, set when the store was opened, for example in its URL.
    /// `None` if it was not set.
    pub deadline: Option<Duration>,
    /// The step from one number to the next, where a question asked for the numbers of several
    /// receipts ([`Question::with_receipts`]).
    pub receipt_step: u64,
    /// The number of request ids so far that were forgotten before their time, for lack of room.
    pub forgotten_requests: u64,
    /// True when the futures of [`Store::perform`] are ready at the first poll, as those of the
    /// memory store are. A caller then need not be async.
    pub answers_at_once: bool,
}

impl Facts {
    /// The facts of a store that has to be waited for, and numbers its receipts by ones.
    #[must_use]
    #[inline]
    pub const fn new(deadline: Option<Duration>, forgotten_requests: u64) -> Self {
        Self { deadline, receipt_step: 1, forgotten_requests, answers_at_once: false }
    }

    /// The same with another step between numbers of receipts.
    #[must_use]
    #[inline]
    pub const fn with_receipt_step(self, receipt_step: u64) -> Self {
        Self { receipt_step, ..self }
    }

    /// The same of a store that answers immediately, or does not.
    #[must_use]
    #[inline]
    pub const fn answering_at_once(self, answers_at_once: bool) -> Self {
        Self { answers_at_once, ..self }
    }
}

/// The facilities of a store besides counts. It refuses the others with [`StoreError::misuse`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Keeps {
    /// Open holds.
    pub holds: bool,
    /// Charges without a check.
    pub charges: bool,
    /// Request ids.
    pub requests: bool,
    /// Notices.
    pub notices: bool,
}

impl Keeps {
    /// Counts alone: checks, refunds, adjustments, resets and inspections.
    pub const COUNTS: Self = Self { holds: false, charges: false, requests: false, notices: false };

    /// All of it, as the stores in memory, on SQLite and on Redis.
    pub const ALL: Self = Self { holds: true, charges: true, requests: true, notices: true };

    /// The same with open holds.
    #[must_use]
    pub const fn with_holds(self) -> Self {
        Self { holds: true, ..self }
    }

    /// The same with charges without a check.
    #[must_use]
    pub const fn with_charges(self) -> Self {
        Self { charges: true, ..self }
    }

    /// The same with request ids.
    #[must_use]
    pub const fn with_requests(self) -> Self {
        Self { requests: true, ..self }
    }

    /// The same with notices.
    #[must_use]
    pub const fn with_notices(self) -> Self {
        Self { notices: true, ..self }
    }

    /// True when all that `needed` has is kept.
    #[must_use]
    pub const fn covers(self, needed: Self) -> bool {
        (self.holds || !needed.holds)
            && (self.charges || !needed.charges)
            && (self.requests || !needed.requests)
            && (self.notices || !needed.notices)
    }
}

/// Keeps the state of all counts. A store owns the time, loads states, and runs [`crate::engine`]
/// over them in one atomic step. The conformance kit of `tollgate-proof` verifies that.
///
/// A store implements [`Operations`](operation::Operations) or
/// [`OperationsNow`](operation::OperationsNow), and visits the operation that it is given. One that
/// wraps another is [`Around`](crate::Around) it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    label = "a store is expected here, such as `MemoryStore`",
    note = "a connection is awaited first, and `?` takes it out of its `Result`: \
            `RedisStore::connect(url).await?`",
    note = "the stores of Tollgate are cheap to clone and shared by their clones, without an `Arc` \
            or a lock",
    note = "a store of one's own implements `Store` (docs/stores.md), or `Around` another"
)]
#[doc(alias("backend", "storage"))]
pub trait Store: Send + Sync {
    /// Its facilities besides counts: [`Keeps::COUNTS`] for none. A limiter does not ask the store
    /// for others, and the conformance kit runs only the cases of these.
    const KEEPS: Keeps;

    /// A number that distinguishes this store's receipts from those of other stores.
    fn identity(&self) -> u64;

    /// True for a receipt of a charge that is counted here: usually one with the identity of this
    /// store. A store that took over the counts of another, as a memory store restored from a
    /// snapshot does, also accepts the receipts of that one.
    fn issued(&self, receipt: &Receipt) -> bool {
        receipt.store == self.identity()
    }

    /// This store's facts. By default it has to be waited for, and has no deadline of its own.
    fn facts(&self) -> Facts {
        Facts::new(None, 0)
    }

    /// Reports to the store how long its callers wait for an answer at most. A regular caller, such
    /// as a gate with its policies, calls this. A store over a network then does not treat its
    /// server as down while that can still answer in time. By default nothing depends on it.
    fn will_wait(&self, longest: Duration) {
        let _ = longest;
    }

    /// Performs an operation. Nothing is done before the future is polled.
    fn perform<O: Operation>(
        &self,
        operation: &O,
    ) -> impl Future<Output = Result<O::Answer, StoreError>> + Send;

    /// Performs an operation without waiting, as [`Store::perform`] would. `None` if the store
    /// would have to wait: nothing was done then, and the caller uses `perform`. The deadline of a
    /// question is ignored.
    ///
    /// A future that is ready immediately would give the same answer, but takes longer to build
    /// than a count in memory takes to look up. By default the store has to be waited for.
    fn perform_now<O: Operation>(&self, operation: &O) -> Option<Result<O::Answer, StoreError>> {
        let _ = operation;
        None
    }
}
