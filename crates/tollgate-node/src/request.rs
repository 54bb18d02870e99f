//! What a limiter is asked, made before it is known how the answer is waited for.

use core::time::Duration;

use napi_derive::napi;
use tollgate::{
    Ask, Decision, Error, Hold, HoldKind, HoldName, LimitSet, Limiter, Patience, Receipt, Reserve,
    Store, Subject,
};

use crate::decision;
use crate::error::{self, Result};
use crate::handles::Handled as _;
use crate::numbers::{Numbers, whole};
use crate::reply::Answer;
use crate::tap::Tap;

/// A question as JavaScript writes it. What a question does not need is empty or 0.
#[napi(object, object_to_js = false)]
#[derive(Debug)]
pub(crate) struct Request {
    /// Which question it is.
    pub ask: String,
    /// The subjects.
    pub subjects: Vec<String>,
    /// For each of them the number of its limits; 0 for the limiter's own.
    pub limits: Vec<u32>,
    /// Units or slots.
    pub units: f64,
    /// Whether as much is charged as remains, or, of a reservation, whether its end charges.
    pub flag: bool,
    /// A time in seconds; 0 for none.
    pub ttl: f64,
    /// The number of a hold; 0 for none.
    pub hold: u32,
    /// The caller's id for a hold.
    pub id: Option<String>,
    /// What a peek judges its cost as.
    pub kind: Option<String>,
    /// How the caller waits.
    pub waiting: Option<String>,
    /// The number of the limiter that made a decision.
    pub maker: u32,
    /// The numbers of the decision.
    pub numbers: Vec<f64>,
}

/// One question to a limiter.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Check {
        parts: Vec<Part>,
        cost: u64,
        partial: bool,
        patience: Patience,
    },
    Peek {
        parts: Vec<Part>,
        cost: u64,
        partial: bool,
        kind: Option<HoldKind>,
    },
    Charge {
        subject: String,
        cost: u64,
    },
    Reset {
        subject: String,
    },
    Refund(Box<Receipt>),
    Reserve {
        subject: String,
        cost: u64,
        reserve: Reserve,
        name: Option<HoldName>,
    },
    Acquire {
        subject: String,
        slots: u64,
        name: Option<HoldName>,
        patience: Patience,
    },
    Commit(HoldRef, u64),
    Release(HoldRef),
    /// Of an answer that nobody waits for any more.
    GiveBack(Box<Hold>),
    Renew(HoldRef, Option<Duration>),
}

/// Which hold is meant.
#[derive(Clone, Debug)]
pub(crate) enum HoldRef {
    Placed(Box<Hold>),
    /// That of a subject which its caller named, whether an answer came or not.
    Named(String, HoldName),
}

impl HoldRef {
    fn of<S: Store>(&self, limiter: &Limiter<S>) -> core::result::Result<Hold, Error> {
        match self {
            Self::Placed(hold) => Ok(Hold::clone(hold)),
            Self::Named(subject, name) => limiter.hold_named(Ask::new(subject).named(*name)),
        }
    }
}

/// An ask for a hold.
fn for_hold(subject: &str, cost: u64, name: Option<HoldName>) -> Ask<'_> {
    let ask = Ask::new(subject).cost(cost);
    match name {
        Some(name) => ask.named(name),
        None => ask,
    }
}

/// The caller's id for a hold. No message repeats it.
fn name_of(id: &str) -> Result<HoldName> {
    id.parse().map_err(|it: tollgate::ParseError| {
        error::argument(format!("id: {}: {}", it.what(), it.remedy()))
    })
}

/// What a peek judges its cost as.
fn kind_of_peek(name: &str) -> Result<Option<HoldKind>> {
    HoldKind::of_peek(name)
        .map_err(|it| error::argument(format!("kind: {}: {}", it.what(), it.remedy())))
}

fn patience_of(waiting: &str) -> Result<Patience> {
    waiting.parse().map_err(|it: tollgate::ParseError| {
        error::argument(format!("waiting: {}: {}", it.what(), it.remedy()))
    })
}

/// A subject, with its limits if they are not the limiter's.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    subject: String,
    limits: Option<LimitSet>,
}

/// Subjects with the numbers of their limits.
///
/// # Errors
/// Limits that were closed.
pub(crate) fn parts(subjects: Vec<String>, limits: &[u32]) -> Result<Vec<Part>> {
    let limits = limits.iter().copied().chain(core::iter::repeat(0));
    let each = subjects.into_iter().zip(limits).map(|(subject, number)| {
        let limits = match number {
            0 => None,
            number => Some(LimitSet::find(number)?.as_ref().clone()),
        };
        Ok(Part { subject, limits })
    });
    each.collect()
}

/// The ask over some subjects; `None` over none.
pub(crate) fn ask(parts: &[Part], cost: u64, partial: bool) -> Option<Ask<'_>> {
    let mut parts = parts.iter();
    let first = parts.next()?;
    let mut ask = Ask::new(first.subject.as_str());
    if let Some(limits) = &first.limits {
        ask = ask.under(limits);
    }
    for Part { subject, limits } in parts {
        ask = match limits {
            Some(limits) => ask.and_under(subject.as_str(), limits),
            None => ask.and(subject.as_str()),
        };
    }
    let ask = ask.cost(cost);
    Some(if partial { ask.partial() } else { ask })
}

impl Kind {
    /// A check of one subject.
    pub(crate) fn check(subject: String, cost: f64) -> Self {
        let parts = vec![Part { subject, limits: None }];
        Self::Check { parts, cost: whole(cost), partial: false, patience: Patience::None }
    }

    /// The question that a request is.
    pub(crate) fn read(request: Request) -> Result<Self> {
        let Request {
            ask,
            subjects,
            limits,
            units,
            flag,
            ttl,
            hold,
            id,
            kind,
            waiting,
            maker,
            numbers,
        } = request;
        let parts = parts(subjects, &limits)?;
        let units = whole(units);
        let subject = || parts.first().map(|part| part.subject.clone()).unwrap_or_default();
        let name = id.as_deref().map(name_of).transpose()?;
        let placed = |hold| Hold::find(hold).map(|it| Box::new(it.as_ref().clone()));
        let settled = || match name {
            Some(name) => Ok(HoldRef::Named(subject(), name)),
            None => placed(hold).map(HoldRef::Placed),
        };
        let patience = || waiting.as_deref().map_or(Ok(Patience::None), patience_of);
        let ttl = (ttl > 0.0).then(|| Duration::try_from_secs_f64(ttl).unwrap_or(Duration::MAX));
        Ok(match ask.as_str() {
            "check" => Self::Check { parts, cost: units, partial: flag, patience: patience()? },
            "peek" => {
                let kind = kind.as_deref().map(kind_of_peek).transpose()?.flatten();
                Self::Peek { parts, cost: units, partial: flag, kind }
            }
            "charge" => Self::Charge { subject: subject(), cost: units },
            "reset" => Self::Reset { subject: subject() },
            "refund" => {
                let maker = crate::limiter::Limiter::find(maker)?;
                let mut receipt = None;
                decision::with(&maker, &parts, &numbers, |it| receipt = it.receipt())?;
                let none = "decision charged nothing, so there is nothing to refund";
                Self::Refund(Box::new(receipt.ok_or_else(|| error::argument(none))?))
            }
            "reserve" => {
                let reserve = Reserve::from(ttl.unwrap_or_default());
                let reserve = if flag { reserve.charging() } else { reserve };
                Self::Reserve { subject: subject(), cost: units, reserve, name }
            }
            "acquire" => {
                Self::Acquire { subject: subject(), slots: units, name, patience: patience()? }
            }
            "commit" => Self::Commit(settled()?, units),
            "release" => Self::Release(settled()?),
            "giveBack" => Self::GiveBack(placed(hold)?),
            "renew" => Self::Renew(settled()?, ttl),
            other => return Err(error::other(format!("there is no question `{other}`"))),
        })
    }

    /// Asks, and makes the answer last.
    pub(crate) async fn perform<S: Store>(
        &self,
        limits: &LimitSet,
        store: &S,
    ) -> core::result::Result<Answer, Error> {
        let limiter = Limiter::new(limits.clone(), Tap::new(store));
        match self {
            Self::Check { parts, cost, partial, patience } => {
                let ask = ask(parts, *cost, *partial).ok_or_else(nothing_asked)?;
                let ask = ask.with_patience(*patience);
                Ok(Answer::Decision(numbers(&limiter, &limiter.check(ask).await?)))
            }
            // Apart, since what is seldom asked must not make each check large.
            other => Box::pin(other.perform_other(&limiter)).await,
        }
    }

    /// The same for all that is no check.
    async fn perform_other<S: Store>(
        &self,
        limiter: &Limiter<Tap<'_, S>>,
    ) -> core::result::Result<Answer, Error> {
        Ok(match self {
            Self::Check { .. } => return Err(nothing_asked()),
            Self::Peek { parts, cost, partial, kind } => {
                let ask = ask(parts, *cost, *partial).ok_or_else(nothing_asked)?;
                let ask = match kind {
                    Some(kind) => ask.kind(*kind),
                    None => ask,
                };
                Answer::Decision(numbers(limiter, &limiter.peek(ask).await?))
            }
            Self::Charge { subject, cost } => {
                let charged = limiter.charge(Ask::new(subject).cost(*cost)).await?;
                Answer::Charged(Subject::literal(subject)?, limiter.limits().clone(), charged)
            }
            Self::Reset { subject } => Answer::Flag(limiter.reset(subject).await?),
            Self::Refund(receipt) => Answer::Refund(limiter.refund(receipt).await?),
            Self::Reserve { subject, cost, reserve, name } => {
                let placed = limiter.reserve(for_hold(subject, *cost, *name), *reserve).await?;
                Answer::Holding(numbers(limiter, &placed.decision), placed.hold.map(Box::new))
            }
            Self::Acquire { subject, slots, name, patience } => {
                let ask = for_hold(subject, *slots, *name).with_patience(*patience);
                let placed = limiter.acquire(ask).await?;
                Answer::Holding(numbers(limiter, &placed.decision), placed.hold.map(Box::new))
            }
            Self::Commit(hold, actual) => {
                let hold = hold.of(limiter)?;
                let settled = limiter.commit(&hold, *actual).await?;
                Answer::Settled(Box::new(hold), settled)
            }
            Self::Release(hold) => Answer::Flag(limiter.release(&hold.of(limiter)?).await?),
            // An answer that was repeated is of a hold that another question placed.
            Self::GiveBack(hold) if hold.answer > 1 => Answer::Flag(false),
            Self::GiveBack(hold) => {
                Answer::Flag(limiter.release(&Hold::clone(hold).undelivered()).await?)
            }
            Self::Renew(hold, ttl) => {
                let mut hold = hold.of(limiter)?;
                Answer::Flag(limiter.renew(&mut hold, *ttl).await?)
            }
        })
    }
}

fn nothing_asked() -> Error {
    Error::Ask("subjects: a check is over 1 to 16 subjects, not 0".to_owned())
}

/// The numbers of a decision. Who has one has the store's answer too.
fn numbers<S: Store>(limiter: &Limiter<Tap<'_, S>>, decision: &Decision<'_>) -> Numbers {
    let outcome = limiter.store().answer();
    outcome.map(|outcome| Numbers::of(decision, &outcome)).unwrap_or_default()
}
