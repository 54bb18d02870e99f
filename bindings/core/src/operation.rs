//! A limiter's question, made before it is known how the answer is waited for.

use core::time::Duration;

use tollgate::{
    Ask, Cost, Decision, Error, Hold, HoldKind, HoldName, LimitSet, Limiter, Patience, Receipt,
    Reserve, Store, Subject,
};

use crate::answer::BindingAnswer;

/// One question to a limiter.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Charges the cost where all limits admit.
    Check {
        /// The subjects.
        parts: Vec<SubjectPart>,
        /// The cost.
        cost: Cost,
        /// Whether as much is charged as remains.
        partial: bool,
        /// How the caller waits.
        patience: Patience,
    },
    /// Asks what a check would answer.
    Peek {
        /// The subjects.
        parts: Vec<SubjectPart>,
        /// The cost.
        cost: Cost,
        /// Whether as much would be charged as remains.
        partial: bool,
        /// The kind of cost that is judged.
        kind: Option<HoldKind>,
    },
    /// Charges the cost, whether the limits admit it or not.
    Charge {
        /// The subject.
        subject: String,
        /// The cost.
        cost: Cost,
    },
    /// Forgets a count.
    Reset {
        /// The subject.
        subject: String,
    },
    /// Gives back what a check charged.
    Refund(Box<Receipt>),
    /// Holds units until it is known how many were used.
    Reserve {
        /// The subject.
        subject: String,
        /// The cost.
        cost: Cost,
        /// Until when, and the effect of its end.
        reserve: Reserve,
        /// The caller's id for the hold.
        name: Option<HoldName>,
    },
    /// Holds slots.
    Acquire {
        /// The subject.
        subject: String,
        /// How many.
        slots: u64,
        /// The caller's id for the hold.
        name: Option<HoldName>,
        /// How the caller waits.
        patience: Patience,
    },
    /// Settles a hold at what was used.
    Commit(HoldRef, Cost),
    /// Settles a hold at none.
    Release(HoldRef),
    /// Releases the hold of an answer that nobody waits for any more.
    GiveBack(Box<Hold>),
    /// Moves the end of a hold.
    Renew(HoldRef, Option<Duration>),
}

/// Which hold is meant.
#[derive(Clone, Debug)]
pub enum HoldRef {
    /// That of an answer.
    Placed(Box<Hold>),
    /// That of a subject which its caller named, whether an answer came or not.
    Named(String, HoldName),
}

impl HoldRef {
    fn of<S: Store>(&self, limiter: &Limiter<S>) -> Result<Hold, Error> {
        match self {
            Self::Placed(hold) => Ok(Hold::clone(hold)),
            Self::Named(subject, name) => {
                Ask::new(subject).named(*name).named_hold(limiter.limits())
            }
        }
    }
}

/// An ask for a hold.
fn for_hold(subject: &str, cost: Cost, name: Option<HoldName>) -> Ask<'_> {
    let ask = Ask::new(subject).cost(cost);
    match name {
        Some(name) => ask.named(name),
        None => ask,
    }
}

/// A subject, with its limits if they are not the limiter's.
#[derive(Clone, Debug)]
pub struct SubjectPart {
    /// The subject.
    pub subject: String,
    /// Its own limits.
    pub limits: Option<LimitSet>,
}

impl From<String> for SubjectPart {
    fn from(subject: String) -> Self {
        Self { subject, limits: None }
    }
}

/// The ask over some subjects.
///
/// # Errors
/// There are no parts.
pub fn ask(parts: &[SubjectPart], cost: impl Into<Cost>, partial: bool) -> Result<Ask<'_>, Error> {
    let mut parts = parts.iter();
    let Some(first) = parts.next() else {
        return Err(Error::Ask("subjects: a check is over 1 to 16 subjects, not 0".to_owned()));
    };
    let mut ask = Ask::new(first.subject.as_str());
    if let Some(limits) = &first.limits {
        ask = ask.under(limits);
    }
    for SubjectPart { subject, limits } in parts {
        ask = match limits {
            Some(limits) => ask.and_under(subject.as_str(), limits),
            None => ask.and(subject.as_str()),
        };
    }
    let ask = ask.cost(cost);
    Ok(if partial { ask.partial() } else { ask })
}

impl Operation {
    /// A check of one subject.
    #[must_use]
    pub fn check(subject: String, cost: impl Into<Cost>) -> Self {
        let (parts, cost) = (vec![subject.into()], cost.into());
        Self::Check { parts, cost, partial: false, patience: Patience::None }
    }

    /// Asks, and makes the answer last. `keep` says what is kept of a decision.
    ///
    /// # Errors
    /// As the limiter's.
    pub async fn perform<S: Store, D>(
        &self,
        limiter: &Limiter<S>,
        keep: fn(&Limiter<S>, Decision<'_>) -> D,
    ) -> Result<BindingAnswer<D>, Error> {
        match self {
            Self::Check { parts, cost, partial, patience } => {
                let ask = ask(parts, cost.clone(), *partial)?.with_patience(*patience);
                Ok(BindingAnswer::Decision(keep(limiter, limiter.check(ask).await?)))
            }
            // Apart, since what is seldom asked must not make each check large.
            other => Box::pin(other.perform_other(limiter, keep)).await,
        }
    }

    /// The same for all that is not a check.
    async fn perform_other<S: Store, D>(
        &self,
        limiter: &Limiter<S>,
        keep: fn(&Limiter<S>, Decision<'_>) -> D,
    ) -> Result<BindingAnswer<D>, Error> {
        Ok(match self {
            Self::Check { .. } => return Err(Error::Ask("a check is asked apart".to_owned())),
            Self::Peek { parts, cost, partial, kind } => {
                let ask = ask(parts, cost.clone(), *partial)?;
                let ask = match kind {
                    Some(kind) => ask.holding(*kind, None),
                    None => ask,
                };
                BindingAnswer::Decision(keep(limiter, limiter.check(ask.peek()).await?))
            }
            Self::Charge { subject, cost } => {
                let charged = limiter.charge(Ask::new(subject).cost(cost.clone())).await?;
                BindingAnswer::Charged(
                    Subject::literal(subject)?,
                    limiter.limits().clone(),
                    charged,
                )
            }
            Self::Reset { subject } => BindingAnswer::Flag(limiter.admin().reset(subject).await?),
            Self::Refund(receipt) => BindingAnswer::Refund(limiter.refund(&**receipt).await?),
            Self::Reserve { subject, cost, reserve, name } => {
                let ask = for_hold(subject, cost.clone(), *name).reserve(*reserve);
                let placed = limiter.hold(ask).await?;
                BindingAnswer::Holding(keep(limiter, placed.decision), placed.hold.map(Box::new))
            }
            Self::Acquire { subject, slots, name, patience } => {
                let ask = for_hold(subject, Cost::from(*slots), *name).with_patience(*patience);
                let placed = limiter.hold(ask.acquire()).await?;
                BindingAnswer::Holding(keep(limiter, placed.decision), placed.hold.map(Box::new))
            }
            Self::Commit(hold, actual) => {
                let hold = hold.of(limiter)?;
                let settled = limiter.commit(&hold, actual.clone()).await?;
                BindingAnswer::Settled(Box::new(hold), settled)
            }
            Self::Release(hold) => BindingAnswer::Flag(limiter.release(&hold.of(limiter)?).await?),
            // An answer that was repeated is of a hold that another question placed.
            Self::GiveBack(hold) if hold.answer > 1 => BindingAnswer::Flag(false),
            Self::GiveBack(hold) => {
                BindingAnswer::Flag(limiter.release(&Hold::clone(hold).undelivered()).await?)
            }
            Self::Renew(hold, ttl) => {
                let mut hold = hold.of(limiter)?;
                BindingAnswer::Flag(limiter.renew(&mut hold, *ttl).await?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tollgate::LimitSet;

    use super::*;
    use crate::{Keep as _, ready};

    type Kept = BindingAnswer<Decision<'static>>;

    fn limiter(limits: &str) -> Limiter<tollgate::MemoryStore> {
        Limiter::memory(limits.parse::<LimitSet>().unwrap())
    }

    fn asked<S: Store>(limiter: &Limiter<S>, operation: &Operation) -> Result<Kept, Error> {
        ready(Decision::ask(operation, limiter)).unwrap()
    }

    #[test]
    fn a_part_is_asked_under_its_own_limits() {
        let limiter = limiter("10/s");
        let own = SubjectPart { subject: "b".to_owned(), limits: Some("3/s".parse().unwrap()) };
        let parts = vec!["a".to_owned().into(), own];
        let (partial, patience) = (false, Patience::None);
        let check = Operation::Check { parts, cost: Cost::from(1), partial, patience };
        let Ok(BindingAnswer::Decision(decision)) = asked(&limiter, &check) else {
            panic!("no decision")
        };
        let left = decision.reports().map(|it| it.remaining()).collect::<Vec<_>>();
        assert_eq!(left, [9, 2]);
        let none = Operation::Peek { parts: Vec::new(), cost: Cost::from(1), partial, kind: None };
        let error = asked(&limiter, &none).unwrap_err();
        assert!(matches!(error, Error::Ask(what) if what.contains("not 0")));
    }

    #[test]
    fn a_hold_is_placed_and_settled_once() {
        let limiter = limiter("10/min");
        let reserve = Reserve::from(Duration::from_secs(60));
        let subject = "a".to_owned();
        let place = Operation::Reserve { subject, cost: Cost::from(4), reserve, name: None };
        let Ok(BindingAnswer::Holding(decision, Some(hold))) = asked(&limiter, &place) else {
            panic!("no hold")
        };
        assert_eq!(decision.granted(), 4);
        let commit = Operation::Commit(HoldRef::Placed(hold.clone()), Cost::from(1));
        let Ok(BindingAnswer::Settled(_, settled)) = asked(&limiter, &commit) else {
            panic!("no end")
        };
        assert_eq!((settled.already, settled.actual), (false, 1.into()));
        let release = Operation::Release(HoldRef::Placed(hold));
        assert!(matches!(asked(&limiter, &release), Ok(BindingAnswer::Flag(false)) | Err(_)));
    }

    #[test]
    fn an_answer_that_was_repeated_is_not_given_back() {
        let limiter = limiter("2 at once");
        let acquire = Operation::Acquire {
            subject: "a".to_owned(),
            slots: 1,
            name: None,
            patience: Patience::None,
        };
        let Ok(BindingAnswer::Holding(_, Some(hold))) = asked(&limiter, &acquire) else {
            panic!("no hold")
        };
        let mut repeated = hold.clone();
        repeated.answer = 2;
        assert!(matches!(
            asked(&limiter, &Operation::GiveBack(repeated)),
            Ok(BindingAnswer::Flag(false))
        ));
        assert!(matches!(
            asked(&limiter, &Operation::GiveBack(hold)),
            Ok(BindingAnswer::Flag(true))
        ));
    }
}
