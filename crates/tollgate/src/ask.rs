//! The input of a check: the subjects, the cost and the limits.

use core::time::Duration;
use std::borrow::Cow;

use crate::cost::{Amounts, Cost};
use crate::decision::Named;
use crate::error::ParseError;
use crate::hold::{HoldKind, HoldName, Patience, Reserve};
use crate::limit::{LimitSet, Unit};
use crate::question::Counted;
use crate::subject::Subject;

mod kind;
mod patience;
mod question;
mod refused;
mod request;
mod subject_text;
mod terms;

pub(crate) use question::text_of;
pub use refused::MAX_PARTS;
pub(crate) use refused::{check_cost, check_parts, check_shard};
pub use request::{MAX_REMEMBERED, MAX_REQUEST_BYTES, RequestId};
pub use subject_text::{IntoSubject, SubjectText};
pub(crate) use terms::{check_ttl, counts_of, shortest_slots, ttl_us};

/// The input of one check: one or several subjects, a cost, and optionally other limits than the
/// limiter's own.
///
/// Any kind of text converts into an ask of cost 1 ([`IntoSubject`]); so does a list of (subject,
/// limits).
///
/// ```
/// use tollgate::{Ask, LimitSet, Limiter};
///
/// let limiter = Limiter::memory("10/s".parse()?);
/// limiter.check("user:42").now()?;
/// limiter.check(Ask::new("user:42").cost(5)).now()?;
///
/// let shared: LimitSet = "5/10s".parse()?;
/// let own: LimitSet = "3/10s".parse()?;
/// limiter.check([("resource:12", &shared), ("consumer:1", &own)]).now()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub(crate) first: Option<AskPart<'a>>,
    /// The parts after the first. An empty vector does not allocate.
    pub(crate) more: Vec<AskPart<'a>>,
    pub(crate) cost: Cost,
    pub(crate) partial: bool,
    /// Boxed, since few asks have one, and futures hold several copies of an ask.
    pub(crate) shard: Option<Box<Cow<'a, str>>>,
    pub(crate) name: Option<HoldName>,
    pub(crate) patience: Patience,
    pub(crate) hold: Option<(HoldKind, Option<Duration>)>,
    pub(crate) request: Option<RequestId<'a>>,
    pub(crate) peek: bool,
    pub(crate) deadline: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(crate) struct AskPart<'a> {
    pub(crate) subject: SubjectText<'a>,
    /// The parsed subject, set once the store has to be called.
    read: Option<Subject>,
    pub(crate) limits: Option<&'a LimitSet>,
}

impl<'a> AskPart<'a> {
    #[inline]
    pub(crate) fn new(subject: SubjectText<'a>, limits: Option<&'a LimitSet>) -> Self {
        Self { subject, read: None, limits }
    }

    /// The text and the limits of a part whose text nobody has parsed; otherwise the part.
    #[inline(always)]
    pub(crate) fn into_literal(self) -> Result<(&'a str, Option<&'a LimitSet>), Self> {
        match self {
            Self { subject: SubjectText::Literal(text), read: None, limits } => Ok((text, limits)),
            other => Err(other),
        }
    }

    /// The count of this part, under `usual` if the part has no limits.
    #[inline]
    pub(crate) fn counted<'q>(
        &'q mut self,
        usual: &'q LimitSet,
        shard: Option<&'q str>,
    ) -> Result<Counted<'q>, ParseError> {
        let limits = self.limits.unwrap_or(usual);
        Ok(Counted::new(self.read()?, limits).in_shard(shard))
    }

    #[inline]
    fn read(&mut self) -> Result<&Subject, ParseError> {
        let text = match &self.subject {
            SubjectText::Literal(text) => text,
            SubjectText::Owned(text) => text.as_str(),
            SubjectText::Built(subject) => return Ok(subject),
            SubjectText::Known(subject) => return Ok(subject),
        };
        match self.read {
            Some(ref read) => Ok(read),
            ref mut none => Ok(none.insert(Subject::literal(text)?)),
        }
    }

    /// The parsed subject, borrowed from the caller where possible.
    ///
    /// # Errors
    /// As [`SubjectText::resolve`], if the text has not been parsed yet.
    // Inlined: as a call it moves the subject twice, 20 ns of a check that lasts.
    #[inline(always)]
    pub(crate) fn into_named(self) -> Result<Named<'a>, ParseError> {
        Ok(match (self.subject, self.read) {
            (SubjectText::Known(subject), _) => Named::Lent(subject.as_str()),
            (SubjectText::Literal(text), Some(read)) if read.as_str() == text => Named::Lent(text),
            (_, Some(read)) => Named::Owned(read),
            (subject, None) => Named::Owned(subject.resolve()?),
        })
    }
}

impl<'a> Ask<'a> {
    /// An ask of cost 1 under the limiter's own limits.
    #[inline]
    pub fn new(subject: impl IntoSubject<'a>) -> Self {
        Self { first: Some(AskPart::new(subject.into_subject(), None)), ..Self::empty() }
    }

    /// An ask of cost 1 without subjects.
    #[inline]
    pub(crate) fn empty() -> Self {
        Self {
            first: None,
            more: Vec::new(),
            cost: Cost::from(1),
            partial: false,
            shard: None,
            name: None,
            patience: Patience::None,
            hold: None,
            request: None,
            peek: false,
            deadline: None,
        }
    }

    /// Sets the cost: requests from 1 to [`MAX_COST`](crate::MAX_COST), or a [`Cost`] of several
    /// units. The default is 1 request.
    #[must_use]
    #[inline(always)]
    #[doc(alias("weight", "tokens", "points"))]
    pub fn cost(self, cost: impl Into<Cost>) -> Self {
        Self { cost: cost.into(), ..self }
    }

    /// Sets `limits` for every subject so far that has no limits, as a plan does.
    #[must_use]
    pub fn under(mut self, limits: &'a LimitSet) -> Self {
        for part in self.first.iter_mut().chain(&mut self.more) {
            part.limits = part.limits.or(Some(limits));
        }
        self
    }

    /// Adds another subject under the limiter's own limits. All limits must admit, or nothing is
    /// charged.
    #[must_use]
    pub fn and(mut self, subject: impl IntoSubject<'a>) -> Self {
        self.more.push(AskPart::new(subject.into_subject(), None));
        self
    }

    /// Adds another subject under its own limits.
    #[must_use]
    pub fn and_under(mut self, subject: impl IntoSubject<'a>, limits: &'a LimitSet) -> Self {
        self.more.push(AskPart::new(subject.into_subject(), Some(limits)));
        self
    }

    /// Charges as much of the cost as remains, rather than all or nothing.
    #[must_use]
    pub fn partial(self) -> Self {
        Self { partial: true, ..self }
    }

    /// Sets the shard: the value of a dimension that all subjects share. A sharded store, such as a
    /// Redis cluster, keeps all counts of a shard on one node, so that one check can cover several
    /// of them. Any other store counts as it does without a shard.
    ///
    /// Always use the same shard for a subject, also to reset, adjust or inspect its count. With
    /// another shard, a sharded store would start another count. A receipt contains its shard.
    ///
    /// ```
    /// use tollgate::{Ask, LimitSet, Limiter, Subject};
    ///
    /// let limiter = Limiter::memory("10/s".parse()?);
    /// let (all, one): (LimitSet, LimitSet) = ("100/s".parse()?, "5/s".parse()?);
    /// let tenant = Subject::literal("tenant:12")?;
    /// let user = Subject::parse("tenant:12,user:7")?;
    /// let ask = Ask::from([(tenant, &all), (user, &one)]).shard("12");
    /// assert!(limiter.check(ask).now()?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn shard(self, shard: impl Into<Cow<'a, str>>) -> Self {
        Self { shard: Some(Box::new(shard.into())), ..self }
    }

    /// Names the hold that the ask places. To ask again under the same name is answered with the
    /// hold that is open, up to [`crate::engine::MAX_REPEATS`] times, and takes nothing more. A
    /// check holds nothing, and refuses a name.
    #[must_use]
    pub fn named(self, name: HoldName) -> Self {
        Self { name: Some(name), ..self }
    }

    /// Judges without changing anything: the decision is the one that the same ask would get now.
    #[must_use]
    #[inline]
    #[doc(alias("dry run", "test"))]
    pub fn peek(self) -> Self {
        Self { peek: true, ..self }
    }

    /// Peeks whether a check that takes nothing would be admitted: all limits judge an amount of 0
    /// (`docs/definitions.md`, section 13). So it is denied while more is used than a limit, or
    /// while a ban runs, and not where a limit is merely used up.
    ///
    /// ```
    /// use tollgate::{Ask, Limiter};
    ///
    /// let limiter = Limiter::memory("1/h debt 5".parse()?);
    /// let [spent, owed] = [1, 2].map(|cost| Ask::new("ann").cost(cost));
    /// limiter.charge(spent).now()?;
    /// assert!(!limiter.check(Ask::new("ann").peek()).now()?.is_allowed());
    /// assert!(limiter.check(Ask::new("ann").peek_at_nothing()).now()?.is_allowed());
    /// limiter.charge(owed).now()?;
    /// assert!(!limiter.check(Ask::new("ann").peek_at_nothing()).now()?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn peek_at_nothing(self) -> Self {
        Self { peek: true, cost: Cost::of_unit(Unit::NOTHING, 1), ..self }
    }

    /// True for a [peek](Ask::peek).
    #[must_use]
    pub fn is_peek(&self) -> bool {
        self.peek
    }

    /// Sets the longest time to wait for the answer, in place of the store's deadline. The call
    /// returns a decision or an error before that. A store in memory never waits.
    #[must_use]
    #[inline]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Reserves the cost for a caller that will know its used units afterwards: pass a
    /// [`Duration`], the longest time that the hold lasts, or a [`Reserve`]. [`Limiter::hold`]
    /// places it.
    ///
    /// Of a concurrency limit it takes one slot, whatever its cost.
    ///
    /// [`Limiter::hold`]: crate::Limiter::hold
    #[must_use]
    pub fn reserve(self, reserve: impl Into<Reserve>) -> Self {
        let Reserve { ttl, charge_at_end } = reserve.into();
        let kind = if charge_at_end { HoldKind::Charging } else { HoldKind::Reserve };
        self.holding(kind, Some(ttl))
    }

    /// Takes as many slots of every concurrency limit as the cost says, and charges the rate limits
    /// beside them as a check does. [`Limiter::hold`](crate::Limiter::hold) takes them, for as long
    /// as the limits say (`20 at once hold 30s`).
    #[must_use]
    #[doc(alias("semaphore", "concurrency", "permit"))]
    pub fn acquire(self) -> Self {
        self.holding(HoldKind::Acquire, None)
    }

    /// [`Ask::reserve`] or [`Ask::acquire`], by `kind`. Without a `ttl` the hold lasts as long as a
    /// concurrency limit says.
    ///
    /// A check with such terms is an error, unless it is a peek. That judges the cost as the hold
    /// would take it, and ignores the `ttl`:
    ///
    /// ```
    /// use tollgate::{Ask, HoldKind, Limiter};
    ///
    /// let limiter = Limiter::memory("20 at once, 1000/m via gcra".parse()?);
    /// let ask = |kind| Ask::new("bob").cost(800).holding(kind, None).peek();
    /// assert!(limiter.check(ask(HoldKind::Reserve)).now()?.is_allowed());
    /// assert!(limiter.check(ask(HoldKind::Acquire)).now()?.is_never());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn holding(self, kind: HoldKind, ttl: Option<Duration>) -> Self {
        Self { hold: Some((kind, ttl)), ..self }
    }

    /// Sets the id of the request: a retry under the same id, after a lost answer, gets the first
    /// decision ([`crate::Decision::is_repeated`]) and charges nothing more. A denial charged
    /// nothing and is not remembered, so a retry is judged again.
    ///
    /// The store remembers it beside the count of the first subject, for [`RequestId::time`]. A
    /// count remembers at least its last 2,048 ids and at most 4,096; beyond that the oldest go
    /// early. The same id for another question (subjects, limits or cost) is an error. A peek
    /// ignores the id.
    ///
    /// ```
    /// use tollgate::{Ask, Limiter};
    ///
    /// let limiter = Limiter::memory("10/h".parse()?);
    /// let ask = || Ask::new("user:42").request("5c9d2b1e-0d1a-4f0e-9d43-6b0a1c6b2f11");
    /// assert_eq!(limiter.check(ask()).now()?.remaining(), 9);
    /// let again = limiter.check(ask()).now()?;
    /// assert_eq!((again.remaining(), again.is_repeated()), (9, true));
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    #[must_use]
    pub fn request(self, id: impl Into<RequestId<'a>>) -> Self {
        Self { request: Some(id.into()), ..self }
    }

    /// The subjects, each with the limits that this ask sets for it.
    pub fn parts(&self) -> impl Iterator<Item = (&SubjectText<'a>, Option<&'a LimitSet>)> {
        let all = self.first.iter().chain(&self.more);
        all.map(|part| (&part.subject, part.limits))
    }

    /// The id of the request, if it has one.
    #[must_use]
    pub fn request_id(&self) -> Option<RequestId<'a>> {
        self.request
    }

    /// The cost.
    #[must_use]
    pub fn amounts(&self) -> Amounts<'_> {
        self.cost.amounts()
    }

    /// True when as much of the cost is charged as remains.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.partial
    }
}

impl<'a, S: IntoSubject<'a>> From<S> for Ask<'a> {
    #[inline]
    fn from(subject: S) -> Self {
        Self::new(subject)
    }
}

impl<'a> From<Counted<'a>> for Ask<'a> {
    #[inline]
    fn from(Counted { subject, limits, shard }: Counted<'a>) -> Self {
        let first = AskPart::new(SubjectText::Known(subject), Some(limits));
        let shard = shard.map(|shard| Box::new(Cow::Borrowed(shard)));
        Self { first: Some(first), shard, ..Self::empty() }
    }
}

impl<'a, S: IntoSubject<'a>, const N: usize> From<[(S, &'a LimitSet); N]> for Ask<'a> {
    fn from(parts: [(S, &'a LimitSet); N]) -> Self {
        from_parts(parts)
    }
}

impl<'a, S: IntoSubject<'a>> From<Vec<(S, &'a LimitSet)>> for Ask<'a> {
    fn from(parts: Vec<(S, &'a LimitSet)>) -> Self {
        from_parts(parts)
    }
}

fn from_parts<'a, S: IntoSubject<'a>>(
    parts: impl IntoIterator<Item = (S, &'a LimitSet)>,
) -> Ask<'a> {
    let mut parts = parts
        .into_iter()
        .map(|(subject, limits)| AskPart::new(subject.into_subject(), Some(limits)));
    Ask { first: parts.next(), more: parts.collect(), ..Ask::empty() }
}
