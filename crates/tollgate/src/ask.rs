//! What is asked of a limiter: whose, how much, under which limits.

use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;

use crate::decision::Named;
use crate::engine::Mode;
use crate::error::{Error, ParseError};
use crate::limit::{LimitSet, MAX_COST};
use crate::store::{Counted, Question};
use crate::subject::{MAX_SUBJECT_BYTES, Subject};

/// The most subjects in one check.
pub const MAX_PARTS: usize = 16;

/// One question: one or several subjects, a cost, and limits other than the limiter's own.
///
/// A string converts into an ask of cost 1; so does a list of (subject, limits).
///
/// ```
/// use tollgate::{Ask, LimitSet, Limiter};
///
/// let limiter = Limiter::memory("10/s".parse()?);
/// limiter.check_now("user:42")?;
/// limiter.check_now(Ask::new("user:42").cost(5))?;
///
/// let shared: LimitSet = "5/10s".parse()?;
/// let own: LimitSet = "3/10s".parse()?;
/// limiter.check_now([("resource:12", &shared), ("consumer:1", &own)])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub(crate) first: Option<AskPart<'a>>,
    /// The parts after the first: an empty vector costs nothing.
    pub(crate) more: Vec<AskPart<'a>>,
    pub(crate) cost: u64,
    pub(crate) partial: bool,
    pub(crate) shard: Option<Cow<'a, str>>,
}

#[derive(Clone, Debug)]
pub(crate) struct AskPart<'a> {
    pub(crate) subject: SubjectText<'a>,
    /// The subject that the text means, once a store is to be asked for it.
    read: Option<Subject>,
    pub(crate) limits: Option<&'a LimitSet>,
}

impl<'a> AskPart<'a> {
    #[inline]
    pub(crate) fn new(subject: SubjectText<'a>, limits: Option<&'a LimitSet>) -> Self {
        Self { subject, read: None, limits }
    }

    /// The count that it means, under `usual` where it names no limits.
    #[inline]
    fn counted<'q>(
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

    /// The subject that was read, lent by the caller where that is possible.
    ///
    /// # Errors
    /// As [`SubjectText::resolve`], where it was not read.
    #[inline]
    pub(crate) fn into_named(self) -> Result<Named<'a>, ParseError> {
        Ok(match (self.subject, self.read) {
            (SubjectText::Known(subject), _) => Named::Lent(subject.as_str()),
            (SubjectText::Literal(text), Some(read)) if read.as_str() == text => Named::Lent(text),
            (_, Some(read)) => Named::Owned(read),
            (subject, None) => Named::Owned(subject.resolve()?),
        })
    }
}

/// A subject as a caller gives it: text to be taken literally, or a [`Subject`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SubjectText<'a> {
    /// `user:42`: what follows the first colon is literal.
    Literal(&'a str),
    /// The same, owned.
    Owned(String),
    /// A subject that was already built.
    Built(Subject),
    /// The same, borrowed.
    Known(&'a Subject),
}

impl SubjectText<'_> {
    /// The subject, or what is wrong with the text.
    ///
    /// # Errors
    /// As [`Subject::literal`].
    #[inline]
    pub fn resolve(self) -> Result<Subject, ParseError> {
        match self {
            Self::Literal(text) => Subject::literal(text),
            Self::Owned(text) => Subject::literal(&text),
            Self::Built(subject) => Ok(subject),
            Self::Known(subject) => Ok(subject.clone()),
        }
    }
}

impl<'a> From<&'a str> for SubjectText<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Self::Literal(text)
    }
}

impl<'a> From<&'a String> for SubjectText<'a> {
    #[inline]
    fn from(text: &'a String) -> Self {
        Self::Literal(text)
    }
}

impl From<String> for SubjectText<'_> {
    fn from(text: String) -> Self {
        Self::Owned(text)
    }
}

impl From<Subject> for SubjectText<'_> {
    fn from(subject: Subject) -> Self {
        Self::Built(subject)
    }
}

impl<'a> From<&'a Subject> for SubjectText<'a> {
    #[inline]
    fn from(subject: &'a Subject) -> Self {
        Self::Known(subject)
    }
}

impl From<IpAddr> for SubjectText<'_> {
    fn from(ip: IpAddr) -> Self {
        Self::Built(ip.into())
    }
}

impl<'a> Ask<'a> {
    /// Asks for one unit of the limiter's own limits.
    #[inline]
    pub fn new(subject: impl Into<SubjectText<'a>>) -> Self {
        let first = AskPart::new(subject.into(), None);
        Self { first: Some(first), more: Vec::new(), cost: 1, partial: false, shard: None }
    }

    /// Asks for `cost` units: from 1 to [`MAX_COST`].
    #[must_use]
    pub fn cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    /// Puts the subjects that have no limits of their own so far under `limits`, as a plan does.
    #[must_use]
    pub fn under(mut self, limits: &'a LimitSet) -> Self {
        for part in self.first.iter_mut().chain(&mut self.more) {
            part.limits = part.limits.or(Some(limits));
        }
        self
    }

    /// Adds another subject, under the limiter's own limits: all admit, or nothing is charged.
    #[must_use]
    pub fn and(mut self, subject: impl Into<SubjectText<'a>>) -> Self {
        self.more.push(AskPart::new(subject.into(), None));
        self
    }

    /// Adds another subject under limits of its own.
    #[must_use]
    pub fn and_under(mut self, subject: impl Into<SubjectText<'a>>, limits: &'a LimitSet) -> Self {
        self.more.push(AskPart::new(subject.into(), Some(limits)));
        self
    }

    /// Takes as much of the cost as remains, rather than all or nothing.
    #[must_use]
    pub fn partial(self) -> Self {
        Self { partial: true, ..self }
    }

    /// Says what the subjects share: the value of a dimension that all of them have. A divided
    /// store, as a Redis cluster, keeps all counts of a shard in one place, so that one check can
    /// be over several of its subjects; any other store counts as it does without.
    ///
    /// A subject must always be asked with the same shard, also when its count is reset, adjusted
    /// or inspected: elsewhere a divided store would begin another count. A receipt knows it.
    ///
    /// ```
    /// use tollgate::{Ask, LimitSet, Limiter, Subject};
    ///
    /// let limiter = Limiter::memory("10/s".parse()?);
    /// let (all, one): (LimitSet, LimitSet) = ("100/s".parse()?, "5/s".parse()?);
    /// let tenant = Subject::literal("tenant:12")?;
    /// let user = Subject::parse("tenant:12,user:7")?;
    /// let ask = Ask::from([(tenant, &all), (user, &one)]).shard("12");
    /// assert!(limiter.check_now(ask)?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn shard(self, shard: impl Into<Cow<'a, str>>) -> Self {
        Self { shard: Some(shard.into()), ..self }
    }

    /// The question that a store is asked, lent from here; `usual` are the limits of those
    /// subjects that name none.
    ///
    /// # Errors
    /// A subject that is none, or that is asked twice under the same limits; too many subjects; a
    /// cost that no check can have; a shard that is none.
    #[inline]
    pub(crate) fn question<'q>(
        &'q mut self,
        usual: &'q LimitSet,
        peek: bool,
    ) -> Result<Question<'q>, Error> {
        check_cost(self.cost)?;
        let shard = self.shard.as_deref();
        check_shard(shard)?;
        let mode = match (peek, self.partial) {
            (false, false) => Mode::Whole,
            (false, true) => Mode::Partial,
            (true, false) => Mode::Peek,
            (true, true) => Mode::PeekPartial,
        };
        let mut parts = SmallVec::new();
        if let Some(first) = &mut self.first {
            parts.push(first.counted(usual, shard)?);
        }
        if !self.more.is_empty() || parts.is_empty() {
            count_more(&mut parts, &mut self.more, usual, shard)?;
        }
        Ok(Question::new(parts, self.cost, mode))
    }

    /// The text of the only subject, with its limits, where the ask is for a cost of one subject
    /// whose text nobody has looked at: what most programs write.
    #[inline(always)]
    pub(crate) fn only_literal(&self) -> Option<(&'a str, Option<&'a LimitSet>)> {
        let Self { first: Some(first), more, partial: false, shard: None, .. } = self else {
            return None;
        };
        match &first.subject {
            SubjectText::Literal(text) if more.is_empty() => Some((text, first.limits)),
            _ => None,
        }
    }

    /// The only count of the ask.
    ///
    /// # Errors
    /// As [`Ask::question`], and more than one subject.
    pub(crate) fn only<'q>(&'q mut self, usual: &'q LimitSet) -> Result<Counted<'q>, Error> {
        match self.question(usual, true)?.parts[..] {
            [counted] => Ok(counted),
            _ => Err(Error::Ask("this is done for one subject at a time".to_owned())),
        }
    }
}

/// What only an ask that is not over one subject needs: how many there are, and that no two are
/// the same.
#[inline(never)]
fn count_more<'q>(
    parts: &mut SmallVec<[Counted<'q>; 1]>,
    more: &'q mut [AskPart<'_>],
    usual: &'q LimitSet,
    shard: Option<&'q str>,
) -> Result<(), Error> {
    check_parts(parts.len() + more.len())?;
    for part in more {
        let counted = part.counted(usual, shard)?;
        let Counted { subject, limits, .. } = counted;
        let is_same = |other: &Counted<'_>| {
            other.subject == subject && other.limits.identity() == limits.identity()
        };
        if parts.iter().any(is_same) {
            return Err(Error::Ask(format!(
                "`{subject}` is asked twice under the same limits: ask once, with a larger cost"
            )));
        }
        parts.push(counted);
    }
    Ok(())
}

/// Refuses a shard that is none. An empty one would be no shard at all to a cluster, which divides
/// by what stands in the braces of a key.
#[inline]
pub(crate) fn check_shard(shard: Option<&str>) -> Result<(), Error> {
    match shard {
        None => Ok(()),
        Some(shard) if !shard.is_empty() && shard.len() <= MAX_SUBJECT_BYTES => Ok(()),
        Some(shard) => Err(not_a_shard(shard)),
    }
}

#[cold]
fn not_a_shard(shard: &str) -> Error {
    Error::Ask(format!(
        "a shard has 1 to {MAX_SUBJECT_BYTES} bytes, not {}: give the value that the subjects share",
        shard.len()
    ))
}

/// Refuses a number of subjects that no check can have.
pub(crate) fn check_parts(parts: usize) -> Result<(), Error> {
    if parts == 0 || parts > MAX_PARTS {
        return Err(Error::Ask(format!("a check is over 1 to {MAX_PARTS} subjects, not {parts}")));
    }
    Ok(())
}

/// Refuses a cost that no check can have.
#[inline]
pub(crate) fn check_cost(cost: u64) -> Result<(), Error> {
    if (1..=MAX_COST).contains(&cost) { Ok(()) } else { Err(not_a_cost(cost)) }
}

#[cold]
fn not_a_cost(cost: u64) -> Error {
    Error::Ask(match cost {
        0 => "a check costs at least 1: to look without charging, use `peek`".to_owned(),
        _ => format!("a cost of {cost} is too large: the largest is 2^40 = {MAX_COST}"),
    })
}

impl<'a, S: Into<SubjectText<'a>>> From<S> for Ask<'a> {
    #[inline]
    fn from(subject: S) -> Self {
        Self::new(subject)
    }
}

impl<'a, S: Into<SubjectText<'a>>, const N: usize> From<[(S, &'a LimitSet); N]> for Ask<'a> {
    fn from(parts: [(S, &'a LimitSet); N]) -> Self {
        from_parts(parts)
    }
}

impl<'a, S: Into<SubjectText<'a>>> From<Vec<(S, &'a LimitSet)>> for Ask<'a> {
    fn from(parts: Vec<(S, &'a LimitSet)>) -> Self {
        from_parts(parts)
    }
}

fn from_parts<'a, S: Into<SubjectText<'a>>>(
    parts: impl IntoIterator<Item = (S, &'a LimitSet)>,
) -> Ask<'a> {
    let mut parts =
        parts.into_iter().map(|(subject, limits)| AskPart::new(subject.into(), Some(limits)));
    Ask { first: parts.next(), more: parts.collect(), cost: 1, partial: false, shard: None }
}
