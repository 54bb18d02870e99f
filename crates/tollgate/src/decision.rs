//! What a limiter answers.

use core::fmt;
use core::time::Duration;
use std::borrow::Cow;

use crate::engine::{Carried, Fields, Outcome, Single};
use crate::limit::{Limit, LimitSet};
use crate::strategy::NEVER_US;
use crate::subject::Subject;
use crate::time::Time;

mod receipt;

pub use receipt::{Charges, Receipt, Refund};

/// Who decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Authority {
    /// The store that keeps the counts.
    Store,
}

/// The answer in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums)] // there is no fourth answer
pub enum Verdict {
    /// Admitted and charged.
    Allow,
    /// Not now; the same question is admitted after this wait, if nothing else happens.
    NotYet(Duration),
    /// The cost is above the capacity of a limit: waiting does not help.
    Never,
}

/// What a limiter answers: Allow with a [`Receipt`], or Deny: not yet or never.
///
/// Fields are exact as `docs/definitions.md` defines them. It borrows the limits;
/// [`Decision::into_owned`] makes it last.
///
/// ```
/// use tollgate::{Limiter, Verdict};
/// let limiter = Limiter::memory("1/10s via uniform".parse()?);
/// let first = limiter.check_now("bob")?;
/// assert_eq!((first.is_allowed(), first.remaining()), (true, 0));
/// let second = limiter.check_now("bob")?;
/// assert!(matches!(second.verdict(), Verdict::NotYet(_)));
/// assert_eq!(second.binding().limit().to_string(), "1/10s via uniform");
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct Decision<'l> {
    /// The first subject, in its written form, with its limits; none where they are in `more`.
    first: Option<(&'l str, &'l LimitSet)>,
    /// What the usual decision has none of. Behind one pointer, all that is owned: with another
    /// field to drop, the compiler keeps a decision in memory and moves it there, which takes 3 ns
    /// and more of the 35 of a check that borrows.
    more: Option<Box<More>>,
    /// How many limits were judged.
    limits: u32,
    /// The numbers of the first two of them.
    numbers: [Numbers; INLINE],
    granted: u64,
    receipt: u64,
    now: Time,
    store: u64,
}

/// A decision over so many limits of a subject that somebody lends allocates nothing.
const INLINE: usize = 2;

/// A limit's fields as they nearly always are: charged at the time of the decision, and not carried
/// over from other numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    remaining: u64,
    /// `NEVER_US` for never.
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
        }
    }
}

/// A subject of a decision: its written form where the caller keeps it, or the subject itself.
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

/// The first subject where nobody lends it, the subjects after it, the fields of all limits, the
/// shard, and whether the store is full.
#[derive(Clone, Debug, Default)]
struct More {
    first: Option<(Subject, LimitSet)>,
    rest: Vec<(Subject, LimitSet)>,
    /// Empty where the decision's own numbers are all there is.
    fields: Vec<Fields>,
    shard: Option<Box<str>>,
    shared: bool,
}

impl<'l> Decision<'l> {
    /// The answer of a store to a question over `first` and `rest`. The outcome is read where it
    /// lies: it was written just now, and moving it stalls the processor.
    #[inline(always)]
    pub(crate) fn new(
        (subject, limits): (Named<'l>, &'l LimitSet),
        rest: Vec<(Subject, LimitSet)>,
        shard: Option<Cow<'l, str>>,
        outcome: &Outcome,
        store: u64,
    ) -> Self {
        let Outcome { granted, ref fields, receipt, now, shared, .. } = *outcome;
        let mut numbers = [Numbers::default(); INLINE];
        for (numbers, fields) in numbers.iter_mut().zip(fields) {
            *numbers = Numbers::new(fields);
        }
        let fits = fields.len() <= INLINE && fields.iter().all(|fields| is_plain(fields, now));
        let (first, owned) = match subject {
            Named::Lent(text) => (Some((text, limits)), None),
            Named::Owned(subject) => (None, Some((subject, limits.clone()))),
        };
        let more = match fits && owned.is_none() && rest.is_empty() && shard.is_none() && !shared {
            true => None,
            false => Some(keep_more(owned, rest, if fits { &[] } else { fields }, shard, shared)),
        };
        // A check has at most 16 subjects of 32 limits each.
        let limits = u32::try_from(fields.len()).unwrap_or(u32::MAX);
        Self { first, more, limits, numbers, granted, receipt, now, store }
    }

    /// The answer over one limit, for a subject whose text is its own written form.
    #[inline(always)]
    pub(crate) fn single(text: &'l str, limits: &'l LimitSet, single: Single, store: u64) -> Self {
        let Single { granted, fields, receipt, now, .. } = single;
        Self {
            first: Some((text, limits)),
            more: if is_plain(&fields, now) { None } else { Some(keep(fields)) },
            limits: 1,
            numbers: [Numbers::new(&fields), Numbers::default()],
            granted,
            receipt,
            now,
            store,
        }
    }

    /// Every subject with its limits.
    fn parts(&self) -> impl Iterator<Item = (&str, &LimitSet)> {
        let more = self.more.as_deref().into_iter();
        let kept = more.flat_map(|more| more.first.iter().chain(&more.rest));
        let lent = self.first.into_iter();
        lent.chain(kept.map(|(subject, limits)| (subject.as_str(), limits)))
    }

    /// The fields of limit `index`.
    #[inline]
    fn field(&self, index: usize) -> Fields {
        if let Some(fields) = self.more.as_deref().and_then(|more| more.fields.get(index)) {
            return *fields;
        }
        self.numbers[index].fields(self.now)
    }

    /// The fields of every limit.
    fn fields(&self) -> impl Iterator<Item = Fields> {
        (0..self.limits as usize).map(|index| self.field(index))
    }

    /// The answer in one word.
    #[must_use]
    #[inline]
    pub fn verdict(&self) -> Verdict {
        if self.is_allowed() {
            return Verdict::Allow;
        }
        self.retry_after().map_or(Verdict::Never, Verdict::NotYet)
    }

    /// True when the cost was admitted (for a peek: would be).
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

    /// The units admitted: the cost, or less for a partial ask; 0 on a denial.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// The wait after which the same question is admitted, if nothing else happens. None when it
    /// was admitted, and none when it never will be.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.is_allowed() {
            return None;
        }
        self.binding().retry_after()
    }

    /// The largest cost that every limit would admit now.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> u64 {
        if self.limits == 1 {
            return self.numbers[0].remaining;
        }
        self.fields().map(|fields| fields.remaining).min().unwrap_or(0)
    }

    /// The capacity of the binding limit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.binding().limit().capacity()
    }

    /// The least wait until the binding limit is fresh.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.binding().reset_after()
    }

    /// The limit that binds: on a denial the one with the longest wait, on an Allow the one with
    /// the least remaining; ties go to the first declared.
    #[must_use]
    #[inline]
    pub fn binding(&self) -> Report<'_> {
        if self.limits == 1 {
            return self.report(0);
        }
        self.binding_of_all()
    }

    #[inline(never)]
    fn binding_of_all(&self) -> Report<'_> {
        let mut best = (0, self.field(0));
        for (index, field) in self.fields().enumerate().skip(1) {
            let better = if self.is_allowed() {
                field.remaining < best.1.remaining
            } else {
                // None is never, and wins over every wait.
                field.retry_after_us.unwrap_or(NEVER_US) > best.1.retry_after_us.unwrap_or(NEVER_US)
            };
            if better {
                best = (index, field);
            }
        }
        self.report(best.0)
    }

    /// Every limit's own fields, in the order of the subjects and of their limits.
    pub fn reports(&self) -> impl Iterator<Item = Report<'_>> {
        (0..self.limits as usize).map(|index| self.report(index))
    }

    fn report(&self, index: usize) -> Report<'_> {
        let fields = self.field(index);
        // Most are over one subject that somebody lends.
        if let Some((subject, limits)) = self.first
            && let Some(limit) = limits.limits().get(index)
        {
            return Report { subject, limit, part: 0, fields };
        }
        let mut first = 0;
        for (part, (subject, limits)) in self.parts().enumerate() {
            let limits = limits.limits();
            if let Some(limit) = limits.get(index - first) {
                return Report { subject, limit, part, fields };
            }
            first += limits.len();
        }
        unreachable!("a decision has one report per limit")
    }

    /// What was charged, to be given back; none on a denial and for a peek.
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
            cost: self.granted,
            at: self.now,
            charges,
            shard: self.more.as_deref().and_then(|more| more.shard.as_deref()).map(str::to_owned),
        })
    }

    /// True when a memory store is full, and had no room for a count of a subject's own. It was
    /// judged by one that it shares with other newcomers, which may deny who did nothing. Where
    /// there was no room even for that, as for limits that are new to the store, it was denied.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.more.as_deref().is_some_and(|more| more.shared)
    }

    /// The store's time of the decision.
    #[must_use]
    #[inline]
    pub fn at(&self) -> Time {
        self.now
    }

    /// Who decided.
    #[must_use]
    pub fn authority(&self) -> Authority {
        Authority::Store
    }

    /// The same, no longer borrowing from the limiter.
    #[inline]
    pub fn into_owned(self) -> Decision<'static> {
        let Self { first, more, limits, numbers, granted, receipt, now, store } = self;
        let mut more = more.unwrap_or_default();
        if let Some((text, set)) = first {
            more.first = Some((Subject::from_written(text), set.clone()));
        }
        Decision { first: None, more: Some(more), limits, numbers, granted, receipt, now, store }
    }
}

/// True for fields that are what [`Numbers`] say.
#[inline(always)]
fn is_plain(fields: &Fields, now: Time) -> bool {
    fields.charged_at_us == now.as_micros() && fields.carried == Carried::Same
}

/// Keeps what a decision over many limits has, or one whose subject nobody lends.
#[inline(never)]
fn keep_more(
    first: Option<(Subject, LimitSet)>,
    rest: Vec<(Subject, LimitSet)>,
    fields: &[Fields],
    shard: Option<Cow<'_, str>>,
    shared: bool,
) -> Box<More> {
    let shard = shard.map(|shard| shard.into_owned().into());
    Box::new(More { first, rest, fields: fields.to_vec(), shard, shared })
}

/// Keeps the fields that seldom differ from what the rest says.
#[cold]
fn keep(fields: Fields) -> Box<More> {
    Box::new(More { fields: vec![fields], ..More::default() })
}

/// One limit's part in a decision.
#[derive(Clone, Copy, Debug)]
pub struct Report<'d> {
    subject: &'d str,
    limit: &'d Limit,
    part: usize,
    fields: Fields,
}

impl<'d> Report<'d> {
    /// Whose count, in the written form of [`Subject`].
    #[must_use]
    pub fn subject(&self) -> &'d str {
        self.subject
    }

    /// Which limit.
    #[must_use]
    pub fn limit(&self) -> &'d Limit {
        self.limit
    }

    /// Which of the subjects that were asked for together: 0 for the first. One subject may be
    /// asked for several times, each time under other limits.
    #[must_use]
    pub fn part(&self) -> usize {
        self.part
    }

    /// True when this limit would admit the cost.
    #[must_use]
    #[inline]
    pub fn admits(&self) -> bool {
        self.fields.retry_after_us == Some(0)
    }

    /// The largest cost this limit would admit now.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.fields.remaining
    }

    /// The least wait until this limit admits the cost: zero now, none never.
    #[must_use]
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        self.fields.retry_after_us.map(Duration::from_micros)
    }

    /// The least wait until this limit is fresh.
    #[must_use]
    #[inline]
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.fields.reset_after_us)
    }

    /// What became of the count, when the limit's numbers had changed.
    #[must_use]
    #[inline]
    pub fn carried(&self) -> Carried {
        self.fields.carried
    }
}

impl fmt::Display for Decision<'_> {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binding = self.binding();
        let (subject, limit) = (binding.subject(), binding.limit());
        match self.verdict() {
            Verdict::Allow => {
                write!(
                    f,
                    "allow {subject}: {} of {} left ({limit})",
                    self.remaining(),
                    self.limit()
                )
            }
            Verdict::NotYet(wait) => {
                write!(f, "deny {subject}: retry in {} ({limit})", Seconds(wait))
            }
            Verdict::Never => {
                write!(f, "deny {subject}: never, the cost is above {} ({limit})", self.limit())
            }
        }
    }
}

/// A wait in seconds without rounding, as `1.5s`.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, micros) = (self.0.as_secs(), self.0.subsec_micros());
        if micros == 0 {
            return write!(f, "{whole}s");
        }
        let digits = format!("{micros:06}");
        write!(f, "{whole}.{}s", digits.trim_end_matches('0'))
    }
}
