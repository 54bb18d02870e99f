//! The kinds of holds, and how long one lasts.

use crate::cost::Amounts;
use crate::error::ParseError;
use crate::limit::Unit;
use crate::time::MAX_PERIOD_US;

/// The units that a hold keeps, and the effect of its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HoldKind {
    /// The cost in slots of every concurrency limit. Rate limits are charged when it is placed, and
    /// keep the charge.
    Acquire,
    /// The cost in units of every rate limit, and one slot of every concurrency limit. Where it
    /// ends by itself, nothing is charged.
    Reserve,
    /// As `Reserve`; where it ends by itself, its units are charged at that time.
    Charging,
    /// A credit, which keeps nothing: it gives its cost once to the one subject of the ask, until
    /// its end. Charges take it where the limits have no more left. It is never denied, and
    /// [`Limiter::release`](crate::Limiter::release) takes back what is left.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Ask, HoldKind, Limiter};
    /// let limiter = Limiter::memory("10/h via fixed_window".parse()?);
    /// limiter.check(Ask::new("bob").cost(10)).now()?;
    /// let month = Some(Duration::from_secs(30 * 86_400));
    /// let credit = limiter.hold(Ask::new("bob").cost(5).holding(HoldKind::Credit, month)).now()?;
    /// assert_eq!(limiter.check(Ask::new("bob").cost(3)).now()?.remaining(), 2);
    /// assert!(limiter.release(&credit.hold.expect("it is never denied")).now()?);
    /// assert!(!limiter.check("bob").now()?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Credit,
}

impl HoldKind {
    /// The letter for it, the first byte of an id.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Acquire => b'a',
            Self::Reserve => b'r',
            Self::Charging => b'c',
            Self::Credit => b'k',
        }
    }

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Reserve => "reserve",
            Self::Charging => "charging",
            Self::Credit => "credit",
        }
    }

    /// Whether it keeps its cost from rate limits.
    #[must_use]
    pub const fn keeps_units(self) -> bool {
        matches!(self, Self::Reserve | Self::Charging)
    }

    /// The kind of cost that a peek judges, by its name: `check`, which is `None`, `reserve` or
    /// `acquire`.
    ///
    /// ```
    /// use tollgate::HoldKind;
    /// assert_eq!(HoldKind::of_peek("acquire")?, Some(HoldKind::Acquire));
    /// assert_eq!(HoldKind::of_peek("check")?, None);
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// Another name.
    pub fn of_peek(name: &str) -> Result<Option<Self>, ParseError> {
        match name {
            "check" => Ok(None),
            "reserve" => Ok(Some(Self::Reserve)),
            "acquire" => Ok(Some(Self::Acquire)),
            _ => {
                let what = "this is nothing that a peek looks ahead to";
                Err(ParseError::whole(name, what, "a kind is `check`, `reserve` or `acquire`"))
            }
        }
    }

    /// The slots that a hold of this cost takes of concurrency limits. Of a cost of several units
    /// it is one unless that names `slots`.
    #[must_use]
    pub fn slots(self, cost: Amounts<'_>) -> u64 {
        match (self, cost.plain()) {
            (Self::Credit, _) => 0,
            (Self::Acquire, Some(cost)) => cost,
            (_, Some(_)) => 1,
            (_, None) => cost.named(&Unit::SLOTS).unwrap_or(1),
        }
    }
}

/// The shortest and the longest time of a hold, in microseconds.
pub(crate) const MIN_TTL_US: u64 = 1_000;
pub(crate) const MAX_TTL_US: u64 = MAX_PERIOD_US;
