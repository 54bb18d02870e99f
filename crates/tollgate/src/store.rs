//! The store: it keeps the state, and its clock is the one that counts.

use core::future::Future;
use core::time::Duration;

use smallvec::SmallVec;

use crate::ask::RequestId;
use crate::decision::{Receipt, Refund};
use crate::engine::{Charged, Fingerprint, Mode, Outcome, ShownHold};
use crate::error::StoreError;
use crate::hold::{Hold, HoldTerms, Settled};
use crate::limit::LimitSet;
use crate::notice::{Notice, Notices};
use crate::subject::Subject;
use crate::time::Time;

/// One count: a subject under a limit set.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Counted<'a> {
    /// The subject.
    pub subject: &'a Subject,
    /// The limits.
    pub limits: &'a LimitSet,
    /// The shard, for a sharded store: it keeps this count on the node of the shard's other counts.
    /// All parts of a question have the same shard. Other stores ignore it.
    pub shard: Option<&'a str>,
}

impl<'a> Counted<'a> {
    /// The count of `subject` under `limits`, without a shard.
    #[must_use]
    #[inline]
    pub const fn new(subject: &'a Subject, limits: &'a LimitSet) -> Self {
        Self { subject, limits, shard: None }
    }

    /// The same count in `shard`, if there is one.
    #[must_use]
    #[inline]
    pub const fn in_shard(self, shard: Option<&'a str>) -> Self {
        Self { shard, ..self }
    }
}

/// The input of a store for one check: all parts are judged at one time, all or nothing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Question<'a> {
    /// The subjects and their limits. No two parts are the same count.
    pub parts: SmallVec<[Counted<'a>; 1]>,
    /// The cost in units, from 1 to 2^40.
    pub cost: u64,
    /// All or nothing, partial, or a peek.
    pub mode: Mode,
    /// The id under which the caller may retry without a second charge, beside the count of the
    /// first part.
    pub request: Option<RequestId<'a>>,
    /// The longest time to wait for an answer; `None` for the store's own deadline. A store that
    /// never waits ignores it.
    pub deadline: Option<Duration>,
    /// How many receipts are made of the charge, at least 1: the store sets numbers aside for as
    /// many ([`Store::receipt_step`]).
    pub receipts: u64,
    /// What to hold in place of a charge, or beside it. It is lent, since a question is copied into
    /// futures, and nearly none has it.
    pub hold: Option<&'a HoldTerms>,
}

impl<'a> Question<'a> {
    /// Creates a question without a request id and a deadline.
    #[must_use]
    pub fn new(parts: SmallVec<[Counted<'a>; 1]>, cost: u64, mode: Mode) -> Self {
        Self { parts, cost, mode, request: None, deadline: None, receipts: 1, hold: None }
    }

    /// The same question with a request id.
    #[must_use]
    pub fn once(self, request: RequestId<'a>) -> Self {
        Self { request: Some(request), ..self }
    }

    /// 128 bits each of a request id and of the question under it, for stores that keep no more of
    /// them: the same on every machine and in every version. The second is equal for two questions
    /// about the same subjects, limits, cost and mode.
    #[must_use]
    pub fn fingerprints(&self, request: RequestId<'_>) -> ([u8; 16], [u8; 16]) {
        let question = self.fingerprint();
        let mut print = Fingerprint::new();
        print.add(request.text().as_bytes());
        if request.is_of_each_question() {
            print.add(b"\n");
            print.add(&question);
        }
        (print.finish(), question)
    }

    fn fingerprint(&self) -> [u8; 16] {
        let mut print = Fingerprint::new();
        let mut piece = |bytes: &[u8]| print.add(bytes);
        piece(format!("{} {}", self.cost, self.mode.number()).as_bytes());
        for part in &self.parts {
            // The full form determines the arithmetic, the identity determines the count.
            let limits = part.limits;
            piece(b"\n");
            piece(part.subject.as_str().as_bytes());
            piece(b" ");
            piece(limits.full_text().as_bytes());
            if limits.identity().contains('>') {
                piece(b" ");
                piece(limits.identity().as_bytes());
            }
        }
        print.finish()
    }

    /// The error of a request id that was used for another question.
    #[must_use]
    pub fn of_other_question() -> StoreError {
        StoreError::misuse(
            "this request id was used for another question: give each question its own",
        )
    }

    /// The same question with a deadline.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// The same question, of whose charge this many receipts are made.
    #[must_use]
    pub fn with_receipts(self, receipts: u64) -> Self {
        Self { receipts, ..self }
    }

    /// The same question, which places a hold on every part.
    #[must_use]
    pub fn holding(self, terms: &'a HoldTerms) -> Self {
        Self { hold: Some(terms), ..self }
    }

    /// True when an answer that admits charges, and has a receipt. A peek charges nothing, and
    /// neither does a hold that only reserves.
    #[must_use]
    pub fn charges(&self) -> bool {
        !self.mode.is_peek() && self.hold.is_none_or(HoldTerms::charges)
    }

    /// The shard of all parts, if they have one.
    #[must_use]
    pub fn shard(&self) -> Option<&'a str> {
        self.parts.first().and_then(|part| part.shard)
    }

    /// Rejects a question with a request id, for stores that do not support ids.
    ///
    /// # Errors
    /// The question has a request id.
    pub fn without_request(&self) -> Result<(), StoreError> {
        match self.request {
            None => Ok(()),
            Some(_) => Err(StoreError::misuse(
                "this store remembers no request ids: ask without one, or use memory, SQLite or Redis",
            )),
        }
    }
}

/// The state of one subject under one limit set.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The full text of the limits that the state was written under.
    pub written_under: String,
    /// The words of all limits.
    pub words: Vec<u64>,
    /// The events of every log: the time in microseconds since the Unix epoch, and the cost in
    /// units.
    pub logs: Vec<Vec<(u64, u64)>>,
    /// When the state equals a fresh one.
    pub fresh_at: Time,
    /// True when the subject has no separate state because the store is full. The state shown is
    /// then the one it shares with others.
    pub shared: bool,
    /// How many holds are open on the count.
    pub open: u64,
    /// The first of these to end, at most [`MAX_SHOWN_HOLDS`].
    pub holds: Vec<ShownHold>,
}

/// The most open holds that an inspection shows.
pub const MAX_SHOWN_HOLDS: usize = 100;

impl Inspection {
    /// The result of [`Store::inspect`].
    #[must_use]
    pub fn new(
        written_under: String,
        words: Vec<u64>,
        logs: Vec<Vec<(u64, u64)>>,
        fresh_at: Time,
        shared: bool,
    ) -> Self {
        Self { written_under, words, logs, fresh_at, shared, open: 0, holds: Vec::new() }
    }

    /// The same of a count with so many open holds, of which these end first.
    #[must_use]
    pub fn holding(self, (open, holds): (u64, Vec<ShownHold>)) -> Self {
        Self { open, holds, ..self }
    }
}

/// The refusal of a store without holds.
fn no_holds() -> StoreError {
    StoreError::misuse("this store keeps no holds: use memory, SQLite or Redis")
}

/// Keeps the state of all counts. A store owns the time, loads states, and runs [`crate::engine`]
/// over them in one atomic step. The conformance kit of `tollgate-proof` verifies that.
pub trait Store: Send + Sync {
    /// A number that distinguishes this store's receipts from those of other stores.
    fn identity(&self) -> u64;

    /// True for a receipt of a charge that is counted here. By default, this is a receipt of this
    /// store. A store that took over the counts of another, as a memory store restored from a
    /// snapshot does, also accepts the receipts of that one. A store that wraps another forwards
    /// the call.
    fn issued(&self, receipt: &Receipt) -> bool {
        receipt.store == self.identity()
    }

    /// The step from one number to the next, where a question asked for the numbers of several
    /// receipts ([`Question::with_receipts`]). A store that wraps another forwards the call.
    fn receipt_step(&self) -> u64 {
        1
    }

    /// The default deadline of a question, set when the store was opened, for example in its URL.
    /// `None` if it was not set.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Reports to the store how long its callers wait for an answer at most. A regular caller, such
    /// as a gate with its policies, calls this. A store over a network then does not treat its
    /// server as down while that can still answer in time. The default does nothing.
    fn will_wait(&self, longest: Duration) {
        let _ = longest;
    }

    /// True when the futures of [`Store::check`] and [`Store::refund`] are ready at the first poll,
    /// as those of the memory store are. A caller then need not be async. The default is false.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Answers a question.
    fn check(
        &self,
        question: &Question<'_>,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// The number of request ids so far that were forgotten before their time, for lack of room. A
    /// store that wraps another forwards the call.
    fn forgotten_requests(&self) -> u64 {
        0
    }

    /// Answers for one subject without waiting, as [`Store::check`] would, if the store can. On
    /// `None`, which is the default, the caller uses `check`. There is no request id and no
    /// deadline.
    ///
    /// A future that is ready at once would give the same answer, but takes longer to build than a
    /// count in memory takes to look up.
    #[inline]
    fn check_at_once(&self, counted: Counted<'_>, cost: u64, mode: Mode) -> Option<Outcome> {
        let _ = (counted, cost, mode);
        None
    }

    /// Answers for one subject without waiting, as [`Store::check`] would of a question that asks
    /// for a hold, if the store can. On `None`, which is the default, no hold was placed and the
    /// caller uses `check`. There is no request id and no deadline, and at most one receipt. A
    /// store that counts or records the questions for another one leaves this at the default.
    #[inline]
    fn hold_at_once(&self, counted: Counted<'_>, cost: u64, terms: &HoldTerms) -> Option<Outcome> {
        let _ = (counted, cost, terms);
        None
    }

    /// Refunds what still counts of `units` of a charge, or of what is left of it if that is less.
    /// All refunds of a charge together never exceed it.
    fn refund(
        &self,
        receipt: &Receipt,
        units: u64,
    ) -> impl Future<Output = Result<Refund, StoreError>> + Send;

    /// Returns `delta` units to every limit, or takes them when negative. Returns the change of
    /// `remaining` per limit.
    fn adjust(
        &self,
        counted: Counted<'_>,
        delta: i64,
    ) -> impl Future<Output = Result<Vec<i64>, StoreError>> + Send;

    /// Charges `cost` to every limit without a check, as far as each may owe. Returns what was done
    /// to each limit. A store without this method refuses.
    fn charge(
        &self,
        counted: Counted<'_>,
        cost: u64,
    ) -> impl Future<Output = Result<Vec<Charged>, StoreError>> + Send {
        let _ = (counted, cost);
        core::future::ready(Err(StoreError::permanent(
            "this store charges nothing without a check",
        )))
    }

    /// Settles a hold: takes it away and charges `actual` units to every rate limit of its counts
    /// without a check, in one step. `None` when it is not open and nothing remembers it. A store
    /// without this method refuses.
    fn settle(
        &self,
        hold: &Hold,
        actual: u64,
    ) -> impl Future<Output = Result<Option<Settled>, StoreError>> + Send {
        let _ = (hold, actual);
        core::future::ready(Err(no_holds()))
    }

    /// Renews a hold, which then ends `ttl_us` microseconds from now. Returns its new end; `None`
    /// when it is not open. A store without this method refuses.
    fn renew(
        &self,
        hold: &Hold,
        ttl_us: u64,
    ) -> impl Future<Output = Result<Option<Time>, StoreError>> + Send {
        let _ = (hold, ttl_us);
        core::future::ready(Err(no_holds()))
    }

    /// Deletes a count and its holds. True when there was one.
    fn reset(&self, counted: Counted<'_>) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Returns the stored state of a count; `None` if there is none.
    fn inspect(
        &self,
        counted: Counted<'_>,
    ) -> impl Future<Output = Result<Option<Inspection>, StoreError>> + Send;

    /// Returns the notices of the store; `None` if their version is still `seen`. A store without
    /// this method has no notices.
    fn notices(
        &self,
        seen: Option<u64>,
    ) -> impl Future<Output = Result<Option<Notices>, StoreError>> + Send {
        core::future::ready(Ok((seen != Some(0)).then(Notices::default)))
    }

    /// Posts a notice, replacing one of the same name.
    fn post(&self, notice: &Notice) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = notice;
        core::future::ready(Err(StoreError::permanent("this store keeps no notices")))
    }

    /// Removes a notice before its expiry. True when there was one.
    fn withdraw(&self, name: &str) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let _ = name;
        core::future::ready(Ok(false))
    }
}
