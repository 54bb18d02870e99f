//! What is asked of a limiter: whose, how much, under which limits.

use std::borrow::Cow;
use std::net::IpAddr;

use crate::error::{Error, ParseError};
use crate::limit::{LimitSet, MAX_COST};
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
    pub(crate) limits: Option<&'a LimitSet>,
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
        let first = AskPart { subject: subject.into(), limits: None };
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
        self.more.push(AskPart { subject: subject.into(), limits: None });
        self
    }

    /// Adds another subject under limits of its own.
    #[must_use]
    pub fn and_under(mut self, subject: impl Into<SubjectText<'a>>, limits: &'a LimitSet) -> Self {
        self.more.push(AskPart { subject: subject.into(), limits: Some(limits) });
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
}

/// Refuses a shard that is none. An empty one would be no shard at all to a cluster, which divides
/// by what stands in the braces of a key.
#[inline]
pub(crate) fn check_shard(shard: Option<&str>) -> Result<(), Error> {
    match shard {
        None => Ok(()),
        Some(shard) if !shard.is_empty() && shard.len() <= MAX_SUBJECT_BYTES => Ok(()),
        Some(shard) => Err(no_shard(shard)),
    }
}

#[cold]
fn no_shard(shard: &str) -> Error {
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
    if (1..=MAX_COST).contains(&cost) { Ok(()) } else { Err(no_cost(cost)) }
}

#[cold]
fn no_cost(cost: u64) -> Error {
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
        of_parts(parts)
    }
}

impl<'a, S: Into<SubjectText<'a>>> From<Vec<(S, &'a LimitSet)>> for Ask<'a> {
    fn from(parts: Vec<(S, &'a LimitSet)>) -> Self {
        of_parts(parts)
    }
}

fn of_parts<'a, S: Into<SubjectText<'a>>>(
    parts: impl IntoIterator<Item = (S, &'a LimitSet)>,
) -> Ask<'a> {
    let mut parts = parts
        .into_iter()
        .map(|(subject, limits)| AskPart { subject: subject.into(), limits: Some(limits) });
    Ask { first: parts.next(), more: parts.collect(), cost: 1, partial: false, shard: None }
}
