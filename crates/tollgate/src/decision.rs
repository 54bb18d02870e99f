//! The result of a check.

use core::time::Duration;
use std::borrow::Cow;

use crate::cost::{Amounts, Units};
use crate::engine::{Carried, Fields, Outcome, Single, is_until_hold};
use crate::limit::LimitSet;
use crate::strategy::NEVER_US;
use crate::subject::Subject;
use crate::time::Time;

mod authority;
mod binding;
mod receipt;
mod report;
mod text;

pub use authority::Authority;
pub use receipt::{Charges, PAID_BY_CREDITS, Receipt, ReceiptPart, Refund};
pub use report::Report;

/// The outcome of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums)] // there is no fourth answer
pub enum Verdict {
    /// Admitted and charged.
    Allow,
    /// Denied for now. The same check is admitted after this wait, if nothing else is charged.
    NotYet(Duration),
    /// Denied for good: the cost is above the capacity of a limit, so waiting does not help.
    Never,
}

impl Verdict {
    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allowed",
            Self::NotYet(_) => "denied",
            Self::Never => "never",
        }
    }
}

/// The result of a check: allowed, with a [`Receipt`], or denied, for now or for good.
///
/// The fields are exact, as `docs/definitions.md` defines them. A decision borrows the limits;
/// [`Decision::into_owned`] makes it independent of them.
///
/// ```
/// use tollgate::{Limiter, Verdict};
/// let limiter = Limiter::memory("1/10s via uniform".parse()?);
/// let first = limiter.check("bob").now()?;
/// assert_eq!((first.is_allowed(), first.remaining()), (true, 0));
/// let second = limiter.check("bob").now()?;
/// assert!(matches!(second.verdict(), Verdict::NotYet(_)));
/// assert_eq!(second.binding().limit().to_string(), "1/10s via uniform");
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct Decision<'l> {
    /// The first subject, in its written form, with its limits; `None` if both are in `more`.
    first: Option<(&'l str, &'l LimitSet)>,
    /// Owned data that most decisions do not have, behind one pointer. With a second field to drop,
    /// the compiler builds a decision in memory and copies it. That takes 3 ns or more, of the 35
    /// ns of a check that borrows.
    more: Option<Box<More>>,
    /// The number of limits judged: at most 16 subjects of 32 limits each.
    limits: u16,
    authority: Authority,
    /// The numbers of the first two limits.
    numbers: [Numbers; INLINE],
    granted: u64,
    receipt: u64,
    now: Time,
    store: u64,
}

/// A decision over up to this many limits of one borrowed subject does not allocate.
const INLINE: usize = 2;

/// A limit's fields in the usual case: charged at the time of the decision, and not carried over
/// from other numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    remaining: u64,
    /// Microseconds; `NEVER_US` for never.
    retry_after_us: u64,
    reset_after_us: u64,
}

impl Numbers {
    #[inline(always)]
    fn new(fields: &Fields) -> Self {
        Self {
            remaining: fields.remaining,
            retry_after_us: fields.retry_after_us.unwrap_or(NEVER_US),
            reset_after_us: fields.reset_after_us,
        }
    }

    #[inline]
    fn fields(self, now: Time) -> Fields {
        let Self { remaining, retry_after_us, reset_after_us } = self;
        Fields {
            remaining,
            retry_after_us: (retry_after_us != NEVER_US).then_some(retry_after_us),
            reset_after_us,
            charged_at_us: now.as_micros(),
            carried: Carried::Same,
            until_hold: false,
        }
    }
}

/// A subject of a decision: its written form, borrowed from the caller, or the subject itself.
pub(crate) enum Named<'a> {
    Lent(&'a str),
    Owned(Subject),
}

impl Named<'_> {
    pub(crate) fn into_subject(self) -> Subject {
        match self {
            Self::Lent(text) => Subject::from_written(text),
            Self::Owned(subject) => subject,
        }
    }
}

/// The first subject if it is not borrowed, the subjects after it, the fields of all limits, the
/// shard, whether the store is full, and whether several servers decided.
#[derive(Clone, Debug, Default)]
struct More {
    first: Option<(Subject, LimitSet)>,
    rest: Vec<(Subject, LimitSet)>,
    /// Empty if the decision's `numbers` hold all fields.
    fields: Vec<Fields>,
    shard: Option<Box<str>>,
    shared: bool,
    /// The units of a cost that is not plain.
    units: Option<Box<Units>>,
    /// True for subjects on several servers.
    is_split: bool,
    /// True for the answer to an earlier check under the same request id.
    is_repeated: bool,
    /// True for an id that was repeated too often.
    is_id_overused: bool,
}

impl<'l> Decision<'l> {
    /// The decision from a store's answer to a question over `first` and `rest`. The outcome is
    /// read in place: it was written just now, and moving it stalls the processor.
    #[inline(always)]
    pub(crate) fn new(
        (subject, limits): (Named<'l>, &'l LimitSet),
        rest: Vec<(Subject, LimitSet)>,
        shard: Option<Cow<'l, str>>,
        outcome: &Outcome,
        store: u64,
    ) -> Self {
        let Outcome { granted, ref fields, receipt, now, shared, isolated, .. } = *outcome;
        let Outcome { repeated, overused, authority, .. } = *outcome;
        let mut numbers = [Numbers::default(); INLINE];
        for (numbers, fields) in numbers.iter_mut().zip(fields) {
            *numbers = Numbers::new(fields);
        }
        let fits = fields.len() <= INLINE && fields.iter().all(|fields| is_plain(fields, now));
        let (first, owned) = match subject {
            Named::Lent(text) => (Some((text, limits)), None),
            Named::Owned(subject) => (None, Some((subject, limits.clone()))),
        };
        let is_usual = isolated && !shared && !repeated && !overused;
        let more = match fits && owned.is_none() && rest.is_empty() && shard.is_none() && is_usual {
            true => None,
            false => {
                let mut more = keep_more(owned, rest, if fits { &[] } else { fields }, shard);
                (more.shared, more.is_split) = (shared, !isolated);
                (more.is_repeated, more.is_id_overused) = (repeated, overused);
                Some(more)
            }
        };
        let limits = u16::try_from(fields.len()).unwrap_or(u16::MAX);
        Self { first, more, limits, authority, numbers, granted, receipt, now, store }
    }

    /// The decision over one limit, for a subject whose text is its own written form.
    #[inline(always)]
    pub(crate) fn single(text: &'l str, limits: &'l LimitSet, single: Single, store: u64) -> Self {
        let Single { granted, fields, receipt, now, .. } = single;
        Self {
            first: Some((text, limits)),
            more: if is_plain(&fields, now) { None } else { Some(keep(fields)) },
            limits: 1,
            authority: Authority::Store,
            numbers: [Numbers::new(&fields), Numbers::default()],
            granted,
            receipt,
            now,
            store,
        }
    }

    /// The same decision about a cost of these units.
    #[inline]
    pub(crate) fn with_units(mut self, units: Option<Box<Units>>) -> Self {
        if units.is_some() {
            self.more.get_or_insert_default().units = units;
        }
        self
    }

    /// The amounts that were admitted. On a denial that of the first unit is 0.
    #[must_use]
    pub fn amounts(&self) -> Amounts<'_> {
        let units = self.more.as_deref().and_then(|more| more.units.as_deref());
        Amounts { amount: self.granted, units }
    }

    /// Every subject with its limits.
    fn parts(&self) -> impl Iterator<Item = (&str, &LimitSet)> {
        let more = self.more.as_deref().into_iter();
        let kept = more.flat_map(|more| more.first.iter().chain(&more.rest));
        let lent = self.first.into_iter();
        lent.chain(kept.map(|(subject, limits)| (subject.as_str(), limits)))
    }

    /// The limits of each subject, in the order of the subjects.
    pub fn limit_sets(&self) -> impl Iterator<Item = &LimitSet> {
        self.parts().map(|(_, limits)| limits)
    }

    #[inline]
    fn field(&self, index: usize) -> Fields {
        if let Some(fields) = self.more.as_deref().and_then(|more| more.fields.get(index)) {
            return *fields;
        }
        self.numbers[index].fields(self.now)
    }

    fn fields(&self) -> impl Iterator<Item = Fields> {
        (0..usize::from(self.limits)).map(|index| self.field(index))
    }

    /// The outcome of the check.
    #[must_use]
    #[inline]
    pub fn verdict(&self) -> Verdict {
        if self.is_allowed() {
            return Verdict::Allow;
        }
        self.retry_after().map_or(Verdict::Never, Verdict::NotYet)
    }

    /// True when the cost was admitted, or for a peek, would be admitted.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.granted > 0
    }

    /// True when the cost is above a limit's capacity, so that waiting does not help.
    #[must_use]
    pub fn is_never(&self) -> bool {
        self.verdict() == Verdict::Never
    }

    /// The requests admitted: the cost, or less for a partial ask; 0 on a denial. For a cost
    /// without requests, it is the amount of its first unit.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// The wait after which the same check is admitted, if nothing else is charged. `None` when it
    /// was admitted, and when it never will be.
    #[must_use]
    #[doc(alias("backoff", "Retry-After", "cooldown"))]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.is_allowed() {
            return None;
        }
        self.binding().retry_after()
    }

    /// True when [`Decision::retry_after`] is an upper bound: it would be shorter if every open
    /// hold were settled now with 0, so that whoever settles one may let others in earlier.
    #[must_use]
    pub fn is_until_hold(&self) -> bool {
        !self.is_allowed() && is_until_hold(self.fields())
    }

    /// The report of every limit, in the order of the subjects and of their limits.
    pub fn reports(&self) -> impl Iterator<Item = Report<'_>> {
        (0..usize::from(self.limits)).map(|index| self.report(index))
    }

    fn report(&self, index: usize) -> Report<'_> {
        let fields = self.field(index);
        // The usual case: one borrowed subject.
        if let Some((subject, limits)) = self.first
            && let Some(limit) = limits.limits().get(index)
        {
            return Report { subject, limits, limit, part: 0, fields };
        }
        let mut first = 0;
        for (part, (subject, limits)) in self.parts().enumerate() {
            if let Some(limit) = limits.limits().get(index - first) {
                return Report { subject, limits, limit, part, fields };
            }
            first += limits.limits().len();
        }
        unreachable!("a decision has one report per limit")
    }

    /// The receipt of the charge, for a refund. `None` on a denial and for a peek.
    #[must_use]
    pub fn receipt(&self) -> Option<Receipt> {
        if self.receipt == 0 {
            return None;
        }
        let mut times = self.fields().map(|fields| fields.charged_at_us);
        let charges = self
            .parts()
            .map(|(subject, limits)| Charges {
                subject: Subject::from_written(subject),
                limits: limits.clone(),
                at_us: times.by_ref().take(limits.limits().len()).collect(),
            })
            .collect();
        Some(Receipt {
            store: self.store,
            number: self.receipt,
            cost: self.amounts().into(),
            at: self.now,
            charges,
            shard: self.more.as_deref().and_then(|more| more.shard.as_deref()).map(str::to_owned),
        })
    }

    /// True when the memory store is full and had no room for a separate count of the subject. The
    /// subject was then judged by a count that it shares with other new subjects, so it may be
    /// denied although it has used nothing. If there was no room even for a shared count, as for
    /// limits new to the store, the check was denied.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.more.as_deref().is_some_and(|more| more.shared)
    }

    /// False when the subjects lie on several nodes of a cluster. The check is then still all or
    /// nothing, but not at one time: until a denial has given back what it had charged, others may
    /// be denied because of it. `docs/cluster.md` has the bounds.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        !self.more.as_deref().is_some_and(|more| more.is_split)
    }

    /// True when an earlier check under the same request id ([`crate::Ask::request`]) got this
    /// answer: nothing was charged now, and the receipt is that of the first answer.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.more.as_deref().is_some_and(|more| more.is_repeated)
    }

    /// True when the first answer under this request id was repeated
    /// [`MAX_REPEATS`](crate::engine::MAX_REPEATS) times before, so that this check was judged and
    /// charged as one without an id: some caller, such as a proxy with a constant, gives one id to
    /// many requests.
    #[must_use]
    pub fn is_id_overused(&self) -> bool {
        self.more.as_deref().is_some_and(|more| more.is_id_overused)
    }

    /// The store's time at the decision. Of several nodes it is the latest.
    #[must_use]
    #[inline]
    pub fn at(&self) -> Time {
        self.now
    }

    /// The authority that made the decision.
    #[must_use]
    pub fn authority(&self) -> Authority {
        self.authority
    }

    /// The same decision, no longer borrowing from the limiter.
    #[inline]
    pub fn into_owned(self) -> Decision<'static> {
        let Self { first, more, limits, authority, numbers, granted, receipt, now, store } = self;
        let mut more = more.unwrap_or_default();
        if let Some((text, set)) = first {
            more.first = Some((Subject::from_written(text), set.clone()));
        }
        let (first, more) = (None, Some(more));
        Decision { first, more, limits, authority, numbers, granted, receipt, now, store }
    }
}

/// True for fields that [`Numbers`] can hold without loss.
#[inline(always)]
fn is_plain(fields: &Fields, now: Time) -> bool {
    fields.charged_at_us == now.as_micros() && fields.carried == Carried::Same && !fields.until_hold
}

/// Stores the owned data of a decision over many limits, or over a subject that is not borrowed.
#[inline(never)]
fn keep_more(
    first: Option<(Subject, LimitSet)>,
    rest: Vec<(Subject, LimitSet)>,
    fields: &[Fields],
    shard: Option<Cow<'_, str>>,
) -> Box<More> {
    let shard = shard.map(|shard| shard.into_owned().into());
    Box::new(More { first, rest, fields: fields.to_vec(), shard, ..More::default() })
}

/// Stores fields that [`Numbers`] cannot hold.
#[cold]
fn keep(fields: Fields) -> Box<More> {
    Box::new(More { fields: vec![fields], ..More::default() })
}
