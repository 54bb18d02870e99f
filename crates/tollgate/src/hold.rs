//! Holds: units that are kept for a caller until it settles them, or until their time ends.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::ask::{check_parts, check_shard};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::engine::{LONGEST_TICKET_US, SHORTEST_TICKET_US};
use crate::error::ParseError;
use crate::limit::LimitSet;
use crate::subject::Subject;
use crate::time::{Period, Time, parse_duration_us};

mod id;
mod kind;
mod name;
mod settled;

pub use id::HoldId;
pub use kind::HoldKind;
pub(crate) use kind::{MAX_TTL_US, MIN_TTL_US};
pub use name::{HoldName, MAX_NAME_BYTES, MIN_NAME_BYTES};
pub use settled::{ChargedLimit, Settled};

/// The terms of a hold in place of a charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HoldTerms {
    /// The id of the hold to place. It also says the kind.
    pub id: HoldId,
    /// How long the hold lasts unless it is settled or renewed, in microseconds, at least 1.
    pub ttl_us: u64,
    /// Whether the caller waits where it is denied.
    pub patience: Patience,
}

/// Whether the caller of a hold waits, and asks again where it is denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Patience {
    /// It does not wait. A denial counts for the bans of the count.
    #[default]
    None,
    /// It waits. A denial counts for no ban: a poll is not abuse.
    Waiting,
    /// It waits in line: it is admitted behind those who came before. Its hold has a name, by which
    /// it keeps its place.
    InLine,
}

impl FromStr for Patience {
    type Err = ParseError;

    /// Reads how a caller waits: `again` to ask again, or `in_line` to wait in line.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "again" => Ok(Self::Waiting),
            "in_line" => Ok(Self::InLine),
            _ => {
                let remedy = "say `again` to ask again, or `in_line` to stand in line";
                Err(ParseError::whole(text, "this is not a way to wait", remedy))
            }
        }
    }
}

impl HoldTerms {
    /// Terms with a new id, of a caller that does not wait.
    #[must_use]
    pub fn new(kind: HoldKind, ttl_us: u64) -> Self {
        Self { id: HoldId::random(kind, ttl_us), ttl_us, patience: Patience::None }
    }

    /// The same terms of a caller with this patience.
    #[must_use]
    pub const fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// Reads how long a hold lasts, as in `60s`.
    ///
    /// ```
    /// use tollgate::HoldTerms;
    /// assert_eq!(HoldTerms::read_ttl("1m")?.as_secs(), 60);
    /// let error = HoldTerms::read_ttl("10us").unwrap_err();
    /// assert_eq!(error.remedy(), "a hold lasts 1ms to 366d");
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// No duration, or one outside of 1 ms to 366 days.
    pub fn read_ttl(text: &str) -> Result<Duration, ParseError> {
        let us = parse_duration_us(text, false).map_err(|fault| {
            let (what, remedy) = fault.explain();
            ParseError::whole(text, what, remedy)
        })?;
        let what = match us {
            MIN_TTL_US..=MAX_TTL_US => return Ok(Duration::from_micros(us)),
            0 => "this is not a time",
            1..MIN_TTL_US => "this is too short for a hold",
            _ => "this is longer than 366 days",
        };
        Err(ParseError::whole(text, what, "a hold lasts 1ms to 366d"))
    }

    /// The terms by which a peek judges as a hold of this kind: no hold is placed under their id.
    pub(crate) fn of_peek(kind: HoldKind) -> &'static Self {
        const fn terms(kind: HoldKind) -> HoldTerms {
            let (id, patience) = (HoldId::of_peek(kind), Patience::None);
            HoldTerms { id, ttl_us: MIN_TTL_US, patience }
        }
        // Lent for as long as anybody asks: a future of a check that kept them would be larger.
        static ACQUIRE: HoldTerms = terms(HoldKind::Acquire);
        static RESERVE: HoldTerms = terms(HoldKind::Reserve);
        match kind {
            HoldKind::Acquire => &ACQUIRE,
            HoldKind::Reserve | HoldKind::Charging | HoldKind::Credit => &RESERVE,
        }
    }

    /// True when the rate limits are charged at the start, as those beside slots are, so that the
    /// charge has a receipt.
    pub(crate) fn charges(&self) -> bool {
        self.id.kind() == HoldKind::Acquire
    }
}

/// An open hold, as its holder keeps it: to settle it, to renew it, and to fence what it writes
/// elsewhere.
///
/// Displays as a text that parses to the same hold. Anybody with the text can settle the hold. Sign
/// it before it leaves your control, as a [`crate::Receipt`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[doc(alias("reservation", "permit"))]
pub struct Hold {
    /// Its id.
    pub id: HoldId,
    /// A number that rises with every hold of a count. A resource that remembers the largest one
    /// can refuse a holder whose hold has ended.
    pub fence: u64,
    /// The cost that it was placed with.
    pub cost: Cost,
    /// When it ends by itself, by the store's clock.
    pub end: Time,
    /// The counts that it is open on.
    pub counts: Vec<(Subject, LimitSet)>,
    /// The shard of the ask ([`crate::Ask::shard`]).
    pub shard: Option<String>,
    /// Which answer to an ask with this name it is: 1 for the first, which placed it. 0 for a hold
    /// without a name, or one that was read from a text. Where a store keeps its parts apart, it is
    /// the minimum over them.
    pub answer: u64,
    /// True when the answer reached nobody: to settle the hold then does nothing if it was answered
    /// again since, and leaves no mark that it is over.
    pub is_undelivered: bool,
}

impl Hold {
    /// A hold for a store that settles its own holds.
    #[must_use]
    pub fn new(
        id: HoldId,
        fence: u64,
        cost: impl Into<Cost>,
        end: Time,
        counts: impl IntoIterator<Item = (Subject, LimitSet)>,
    ) -> Self {
        let (cost, counts) = (cost.into(), counts.into_iter().collect());
        let (shard, answer, is_undelivered) = (None, 0, false);
        Self { id, fence, cost, end, counts, shard, answer, is_undelivered }
    }

    /// The same hold, when its answer reached nobody: it is given back where a caller is gone. A
    /// later answer under the same name keeps its hold.
    #[must_use]
    pub fn undelivered(self) -> Self {
        Self { is_undelivered: true, ..self }
    }

    /// The kind of units that it keeps, and the effect of its end.
    #[must_use]
    pub const fn kind(&self) -> HoldKind {
        self.id.kind()
    }

    /// How long a place in line for it is kept after an ask ([`crate::Ask::in_line`]), where it
    /// lasts as long as its limits say. Ask again at a third of it.
    #[must_use]
    pub fn place_kept(&self) -> Duration {
        let lasts = self.counts.iter().filter_map(|(_, limits)| limits.hold()).min();
        let lasts_us = lasts.map_or(LONGEST_TICKET_US, Period::as_micros);
        Duration::from_micros(lasts_us.clamp(SHORTEST_TICKET_US, LONGEST_TICKET_US))
    }
}

/// The first line of the text: the version of the format.
const VERSION: &str = "tgh1";

/// The separator before the shard: a line that cannot be a subject, a policy or limits.
const SHARD: &str = "\n%\n";

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, fence, cost, end, counts, shard, .. } = self;
        write!(f, "{VERSION}\n{id} {fence} {cost} {}", end.as_micros())?;
        for (subject, limits) in counts {
            write!(f, "\n{subject}\n{}\n{limits}", limits.policy().unwrap_or_default())?;
        }
        match shard {
            Some(shard) => write!(f, "{SHARD}{shard}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Hold {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let damaged = |what: &str| {
            let what = format!("{what} of a hold is not what it should be");
            ParseError::whole("", what, "give it back as it was given out, whole and unchanged")
        };
        let (body, shard) = match text.split_once(SHARD) {
            Some((body, shard)) => (body, Some(shard.to_owned())),
            None => (text, None),
        };
        let mut lines = body.lines();
        if lines.next() != Some(VERSION) {
            return Err(damaged("the first line"));
        }
        let (id, numbers) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
        let id: HoldId = id.parse()?;
        let words: Vec<&str> = numbers.split(' ').collect();
        let numbers = match &words[..] {
            [fence, cost, end_us] => fence.parse().ok().zip(end_us.parse().ok()).zip(Some(cost)),
            _ => None,
        };
        let Some(((fence, end_us), cost)) = numbers else {
            return Err(damaged("the second line"));
        };
        let cost: Cost = cost.parse().map_err(|_| damaged("a number"))?;
        let mut counts = Vec::new();
        while let Some(subject) = lines.next() {
            let (Some(policy), Some(limits)) = (lines.next(), lines.next()) else {
                return Err(damaged("a count"));
            };
            let mut limits: LimitSet = limits.parse()?;
            if !policy.is_empty() {
                limits = limits.in_policy(policy)?;
            }
            counts.push((Subject::parse(subject)?, limits));
        }
        let sound = check_parts(counts.len()).is_ok() && check_shard(shard.as_deref()).is_ok();
        if !sound {
            return Err(damaged("a number"));
        }
        Ok(Self { shard, ..Self::new(id, fence, cost, Time::from_micros(end_us), counts) })
    }
}

/// The answer to a [`crate::Limiter::hold`]: the decision and, where it was admitted, the hold.
#[derive(Clone, Debug)]
#[must_use = "a hold that nobody settles stays open until its time ends"]
#[non_exhaustive]
pub struct Holding<'l> {
    /// The decision. Its numbers are those after the hold was placed.
    pub decision: Decision<'l>,
    /// The hold; `None` on a denial.
    pub hold: Option<Hold>,
    /// How many wait in line ahead of an ask that is in the line ([`crate::Ask::in_line`]).
    pub ahead: usize,
}

/// How long a hold lasts, and the effect of its end, for [`crate::Ask::reserve`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Reserve {
    /// How long it lasts unless it is settled or renewed.
    pub ttl: Duration,
    /// Whether its end charges the estimate.
    pub charge_at_end: bool,
}

impl From<Duration> for Reserve {
    /// Holds for `ttl`, whose end charges nothing.
    fn from(ttl: Duration) -> Self {
        Self { ttl, charge_at_end: false }
    }
}

impl Reserve {
    /// The end of the hold charges its estimate.
    #[must_use]
    pub const fn charging(self) -> Self {
        Self { charge_at_end: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_reads_back_as_it_was_written() {
        let limiter = crate::Limiter::memory("5/h, 3 at once".parse().unwrap());
        let own: LimitSet = "9/h".parse().unwrap();
        let own = own.in_policy("p-1").unwrap();
        let ask = || crate::Ask::new("user:a,b%\n").cost(2).and_under("ip:::1", &own);
        for ask in [ask(), ask().shard("x\n%\ny")] {
            let reserve = Duration::from_secs(3);
            let hold = limiter.hold(ask.reserve(reserve)).now().unwrap().hold.unwrap();
            let text = hold.to_string();
            assert_eq!(text.parse::<Hold>().unwrap(), hold, "{text}");
            let body = text.split_once(SHARD).map_or(&text[..], |(body, _)| body);
            for end in (0..body.len()).filter(|end| body.is_char_boundary(*end)) {
                if let Ok(read) = body[..end].parse::<Hold>() {
                    assert!(read.counts.len() < 2 || body[..end].lines().count() == 8, "{end}");
                }
            }
        }
    }

    #[test]
    fn an_id_says_how_long_its_hold_was_asked_for() {
        let powers = (0..45).flat_map(|digits| [1 << digits, (1 << digits) + 1, (2 << digits) - 1]);
        for ttl_us in powers.filter(|ttl_us| *ttl_us <= MAX_TTL_US).chain([MAX_TTL_US]) {
            for kind in [HoldKind::Acquire, HoldKind::Reserve, HoldKind::Charging] {
                let [one, two] = [HoldId::random(kind, ttl_us), HoldId::random(kind, ttl_us)];
                assert_ne!(one, two, "{ttl_us}");
                assert_eq!((one.kind(), one.asked_us()), (kind, Some(ttl_us)));
            }
        }
        // One that was asked for longer than a hold may last has the id of nobody.
        assert_eq!(HoldId::random(HoldKind::Reserve, MAX_TTL_US + 1).asked_us(), None);
        assert_eq!(HoldId::random(HoldKind::Reserve, u64::MAX).asked_us(), None);
        // Names, and ids of earlier versions.
        let named = HoldId::named(HoldKind::Acquire, HoldName([0x61; 15]));
        assert_eq!(named.asked_us(), None);
        let id: HoldId = "728355719f52d7a3f1fda498c4ac22ec".parse().unwrap();
        assert_eq!(id.asked_us(), None);
        assert_eq!(HoldTerms::of_peek(HoldKind::Acquire).id.asked_us(), None);
    }

    #[test]
    fn ids_differ_and_read_back() {
        for kind in [HoldKind::Acquire, HoldKind::Reserve, HoldKind::Charging] {
            let (one, two) = (HoldId::random(kind, 7), HoldId::random(kind, 7));
            assert_ne!(one, two);
            assert_eq!((one.kind(), two.to_string().parse()), (kind, Ok(two)));
        }
        for text in ["", "72", "zz", &"7".repeat(32), &"7".repeat(33), &"é".repeat(16)] {
            let error = text.parse::<HoldId>().unwrap_err().to_string();
            assert!(error.contains("not the id of a hold"), "{text}: {error}");
        }
    }
}
