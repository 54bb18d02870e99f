//! The input of a store for one check: which counts, and what is asked of them.

use core::time::Duration;

use smallvec::SmallVec;

use crate::ask::RequestId;
use crate::cost::Amounts;
use crate::engine::{Fingerprint, Mode};
use crate::error::StoreError;
use crate::hold::HoldTerms;
use crate::limit::LimitSet;
use crate::subject::Subject;

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

/// The counts of a question, which its asker keeps.
pub(crate) type Parts<'a> = SmallVec<[Counted<'a>; 1]>;

/// The input of a store for one check: all parts are judged at one time, all or nothing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Question<'a> {
    /// The subjects and their limits. No two parts are the same count.
    pub parts: &'a [Counted<'a>],
    /// The cost: amounts from 1 to 2^40.
    pub cost: Amounts<'a>,
    /// All or nothing, partial, or a peek.
    pub mode: Mode,
    /// The id under which the caller may retry without a second charge, beside the count of the
    /// first part.
    pub request: Option<RequestId<'a>>,
    /// The longest time to wait for an answer; `None` for the store's own deadline. A store that
    /// never waits ignores it.
    pub deadline: Option<Duration>,
    /// How many receipts are made of the charge, at least 1: the store sets numbers aside for as
    /// many ([`Facts::receipt_step`](crate::Facts::receipt_step)).
    pub receipts: u64,
    /// The hold in place of a charge, or beside it. Nearly no question has it.
    pub hold: Option<&'a HoldTerms>,
}

impl<'a> Question<'a> {
    /// Creates a question without a request id and a deadline.
    #[must_use]
    #[inline]
    pub fn new(parts: &'a [Counted<'a>], cost: impl Into<Amounts<'a>>, mode: Mode) -> Self {
        let cost = cost.into();
        Self { parts, cost, mode, request: None, deadline: None, receipts: 1, hold: None }
    }

    /// A check or a peek of these counts.
    ///
    /// # Errors
    /// A check of limits from which only holds take: the first such set.
    #[inline]
    pub fn of_check(
        parts: &'a [Counted<'a>],
        cost: impl Into<Amounts<'a>>,
        mode: Mode,
    ) -> Result<Self, &'a LimitSet> {
        match parts.iter().find(|part| part.limits.needs_hold()) {
            Some(part) if !mode.is_peek() => Err(part.limits),
            _ => Ok(Self::new(parts, cost, mode)),
        }
    }

    /// The same for a cost of which each limit is sure to count what it should; `None` for any
    /// other, which needs a closer look.
    #[inline]
    pub fn of_known_check(parts: &'a [Counted<'a>], cost: Amounts<'a>, mode: Mode) -> Option<Self> {
        let sets = parts.iter().map(|part| part.limits);
        let is_known = match cost.plain() {
            Some(_) => sets.clone().all(LimitSet::is_plain),
            None => cost.check_units(sets).is_ok(),
        };
        if is_known { Self::of_check(parts, cost, mode).ok() } else { None }
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
        for part in self.parts {
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

    /// True when it is decided beside the open holds of its counts, even where none is open: it
    /// places one, or only holds take from one of the limits.
    #[must_use]
    #[inline]
    pub fn is_about_holds(&self) -> bool {
        self.hold.is_some() || self.parts.iter().any(|part| part.limits.needs_hold())
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
