//! Limits: a quota under a strategy, with an identity; and sets of them that are checked together.

use core::fmt;
use core::str::FromStr;

use crate::error::ParseError;
use crate::notation;
use crate::strategy::{Compiled, LuaSpec, Shape, Step, Strategy, most_used};
use crate::time::Period;

mod kind;
mod lease;
mod meaning;
mod set;
mod share;

pub use kind::LimitKind;
pub(crate) use lease::LeasePart;
pub use lease::{Lease, LeaseShare, LeaseSize, MIN_LEASE_US};
pub use meaning::Meaning;
pub use set::{LimitSet, Place};
pub use share::Share;

/// The largest `N` and the largest burst: 2^40 units.
pub const MAX_UNITS: u64 = 1 << 40;

/// The largest cost of one check: 2^40 units.
pub const MAX_COST: u64 = 1 << 40;

/// The most limits in one set.
pub const MAX_LIMITS: usize = 32;

/// The largest bare quota (without `via`) that defaults to `sliding_log`, in units.
pub const MAX_BARE_UNITS: u64 = 1_000;

/// How a `sliding_window` counts the sub-bucket that is partly inside the window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Rounding {
    /// In full: never more than N in any D.
    #[default]
    Conservative,
    /// In proportion to the part of it that is still inside the window.
    Interpolate,
    /// Not at all.
    Truncate,
}

/// How a `token_bucket` refills.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Refill {
    /// Continuously: one token each D/N.
    #[default]
    Greedy,
    /// N at once, at every multiple of D since the epoch.
    Interval,
}

/// Where the windows of a `fixed_window` start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Anchor {
    /// At multiples of D since the epoch.
    #[default]
    Epoch,
    /// At the first admitted check after the last window ended.
    FirstHit,
}

/// The quota: `units` per `period`, and the options of the strategy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Quota {
    /// N, from 1 to [`MAX_UNITS`].
    pub units: u64,
    /// D, the period.
    pub period: Period,
    /// The total capacity of a bucket, in units.
    pub burst: Option<u64>,
    /// The length of a sub-bucket.
    pub precision: Option<Period>,
    /// How the sub-bucket that is partly inside the window counts.
    pub rounding: Option<Rounding>,
    /// How a bucket refills.
    pub refill: Option<Refill>,
    /// Where windows start.
    pub anchor: Option<Anchor>,
    /// The most units that charges without a check may owe beyond the capacity. `None` is as much
    /// as the capacity, where so much can be counted exactly.
    pub debt: Option<u64>,
    /// How long bans last. The units are then denials, and the period is the time in which they are
    /// counted.
    pub ban: Option<BanLength>,
}

/// How long the bans of a subject last, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::exhaustive_structs)] // its numbers are all of it
pub struct BanLength {
    /// The length of the first. Each of the next is twice as long.
    pub first: Period,
    /// The length of the longest, at least that of the first.
    pub longest: Period,
}

impl Quota {
    /// `units` per `period`; all options are the strategy's defaults.
    #[must_use]
    pub const fn new(units: u64, period: Period) -> Self {
        Self {
            units,
            period,
            burst: None,
            precision: None,
            rounding: None,
            refill: None,
            anchor: None,
            debt: None,
            ban: None,
        }
    }

    /// `10 per 1s`.
    pub(crate) fn rate(&self) -> String {
        format!("{} per {}", self.units, self.period)
    }

    /// The time between two units, as text for humans.
    pub(crate) fn gap(&self) -> String {
        let us = self.period.as_micros();
        if us.is_multiple_of(self.units) {
            Period::from_micros(us / self.units).map_or_else(String::new, |gap| gap.to_string())
        } else {
            format!("{}/{}", self.period, self.units)
        }
    }
}

/// The part of a limit's text that an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    Units,
    Period,
    Burst,
    Precision,
    Debt,
    Ban,
}

/// Why a quota is invalid: which number, what is wrong, what would be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) element: Element,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Refusal {
    pub(crate) fn new(element: Element, what: String, remedy: String) -> Self {
        Self { element, what, remedy }
    }
}

/// A quota under a strategy. Its identity is its name, or else its strategy and window.
///
/// ```
/// use tollgate::Limit;
/// let limit: Limit = "api: 100/s burst 200 via token_bucket".parse()?;
/// assert_eq!(limit.identity(), "api");
/// assert_eq!(limit.to_string(), "api: 100/s burst 200 refill greedy via token_bucket");
/// let bare: Limit = "5/10s".parse()?;
/// assert_eq!(bare.to_string(), "5/10s via sliding_log");
/// assert_eq!(bare.identity(), "sliding_log/10s");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    name: Option<String>,
    quota: Quota,
    strategy: Strategy,
    identity: String,
    full_text: String,
    step: Compiled,
    most: u64,
}

/// What a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// Requests, or what their cost says.
    Requests,
    /// Holds at a time, of a concurrency limit.
    Slots,
}

impl Unit {
    /// Its name in answers: `requests`, `slots`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Slots => "slots",
        }
    }

    /// Why a cost beyond a limit of so many is never admitted, for people.
    #[must_use]
    pub fn beyond(self, limit: u64) -> String {
        match self {
            Self::Requests => format!("the cost is above {limit}"),
            Self::Slots => format!("more slots are asked for than there are, {limit}"),
        }
    }
}

impl Limit {
    /// A limit of `quota` under `strategy`.
    ///
    /// # Errors
    /// A number out of range, a quota that cannot be counted exactly, or an option that the
    /// strategy does not have. The error names the number to change.
    pub fn new(quota: Quota, strategy: Strategy) -> Result<Self, ParseError> {
        Self::build(None, quota, strategy)
            .map_err(|(text, refusal)| ParseError::whole(&text, refusal.what, refusal.remedy))
    }

    pub(crate) fn build(
        name: Option<String>,
        mut quota: Quota,
        strategy: Strategy,
    ) -> Result<Self, (String, Refusal)> {
        let text = quota.rate();
        check_options(&quota, strategy).map_err(|refusal| (text.clone(), refusal))?;
        check_ranges(&quota).map_err(|refusal| (text.clone(), refusal))?;
        let compile = |quota: &Quota| {
            let step = strategy.compile(quota)?;
            let window = || most_used(quota, step.capacity(), MAX_UNITS);
            let most = step.most().map_or_else(window, Ok)?;
            Ok((step, most))
        };
        let (step, most) = compile(&quota).map_err(|refusal| (text, refusal))?;
        fill_defaults(&mut quota, strategy);
        let usual = compile(&Quota { debt: None, ..quota.clone() });
        if usual.is_ok_and(|(_, usual)| usual == most) {
            quota.debt = None;
        }
        let own = || match strategy.kind() {
            LimitKind::Rate => format!("{strategy}/{}", quota.period),
            // Other numbers keep the count.
            LimitKind::Slots | LimitKind::Ban => strategy.name().to_owned(),
        };
        let mut identity = name.clone().unwrap_or_else(own);
        identity.shrink_to_fit();
        let full_text = full_text(name.as_deref(), &quota, strategy);
        Ok(Self { name, quota, strategy, identity, full_text, step, most })
    }

    /// The same limit with a name.
    ///
    /// # Errors
    /// An invalid name. A name is a letter followed by letters, digits, `_`, `-` or `.`, at most 64
    /// characters.
    pub fn named(self, name: &str) -> Result<Self, ParseError> {
        notation::check_name(name, name, 0..name.len())?;
        let full_text = full_text(Some(name), &self.quota, self.strategy);
        Ok(Self { identity: name.to_owned(), name: Some(name.to_owned()), full_text, ..self })
    }

    /// The full text, with every default written out. It parses to an equal limit.
    #[must_use]
    pub fn full_text(&self) -> &str {
        &self.full_text
    }

    /// The identity of its counts: the name, or else the strategy and the window.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The quota, with the strategy's defaults filled in.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// The strategy.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The most units that a fresh subject can take at once: 1 for `uniform`, the burst for
    /// `token_bucket` and `gcra`, else N.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.step.capacity()
    }

    /// What it bounds.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> LimitKind {
        self.strategy.kind()
    }

    /// What its capacity counts.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self.kind() {
            LimitKind::Rate | LimitKind::Ban => Unit::Requests,
            LimitKind::Slots => Unit::Slots,
        }
    }

    /// True when only holds take from it: a check, which never gives back, is refused.
    #[must_use]
    #[inline]
    pub fn needs_hold(&self) -> bool {
        match self.kind() {
            LimitKind::Slots => true,
            LimitKind::Rate | LimitKind::Ban => false,
        }
    }

    /// True when it refuses costs above its capacity, and an admitted cost is taken from that. A
    /// ban refuses any cost or none.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        match self.kind() {
            LimitKind::Rate | LimitKind::Slots => true,
            LimitKind::Ban => false,
        }
    }

    /// The largest cost that a reservation can have, in units. `None` where it can have any: it
    /// takes one slot, and nothing of a ban.
    #[must_use]
    pub fn largest_reservation(&self) -> Option<u64> {
        match self.kind() {
            LimitKind::Rate => Some(self.capacity()),
            LimitKind::Slots | LimitKind::Ban => None,
        }
    }

    /// True when it counts what the limits beside it deny: then a denial may change the state.
    #[must_use]
    #[inline]
    pub fn hears_denials(&self) -> bool {
        match self.kind() {
            LimitKind::Ban => true,
            LimitKind::Rate | LimitKind::Slots => false,
        }
    }

    /// The most units beyond the capacity that charges without a check may owe.
    #[must_use]
    pub fn debt(&self) -> u64 {
        self.most - self.step.capacity()
    }

    /// The most units that are admitted in any half-open window of this length, on one live store
    /// and without charges beyond the limit.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let limit: Limit = "10/s burst 20 via gcra".parse()?;
    /// assert_eq!((limit.most_in("1s".parse()?), limit.most_in("3s".parse()?)), (29, 49));
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    #[must_use]
    pub fn most_in(&self, window: Period) -> u64 {
        let most = self.strategy.most_in(&self.quota, window.as_micros());
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// The layout of its state, for stores.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.step.shape()
    }

    /// The limit as parameters for a store that runs its steps in Lua.
    #[must_use]
    pub fn lua_spec(&self) -> LuaSpec {
        self.step.lua_spec()
    }

    /// The most units that can be used: the capacity and the debt.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// What remains under this step can be charged without a check.
    pub(crate) fn owing(&self) -> Compiled {
        self.step.owing(self.most)
    }

    #[inline]
    pub(crate) fn step(&self) -> &Compiled {
        &self.step
    }
}

/// Rejects an option that the strategy does not have, rather than ignore it.
fn check_options(quota: &Quota, strategy: Strategy) -> Result<(), Refusal> {
    let given = [
        ("burst", quota.burst.is_some(), Element::Burst),
        ("precision", quota.precision.is_some(), Element::Precision),
        ("rounding", quota.rounding.is_some(), Element::Units),
        ("refill", quota.refill.is_some(), Element::Units),
        ("anchor", quota.anchor.is_some(), Element::Units),
    ];
    for (option, is_given, word) in given {
        if is_given && !strategy.options().contains(&option) {
            let mut takers = Strategy::RATES.iter().filter(|s| s.options().contains(&option));
            let taker = takers.next().map_or("another", |s| s.name());
            return Err(Refusal::new(
                word,
                format!("`{strategy}` takes no `{option}`"),
                format!("leave it out, or use `via {taker}`"),
            ));
        }
    }
    Ok(())
}

fn check_ranges(quota: &Quota) -> Result<(), Refusal> {
    let range = |word, what: &str, value: u64| {
        if value == 0 {
            return Err(Refusal::new(
                word,
                format!("{what} of 0 would never admit anything"),
                "give at least 1".to_owned(),
            ));
        }
        if value > MAX_UNITS {
            return Err(Refusal::new(
                word,
                format!("{what} of {value} is too large"),
                format!("the largest is 2^40 = {MAX_UNITS}"),
            ));
        }
        Ok(())
    };
    range(Element::Units, "a quota", quota.units)?;
    quota.burst.map_or(Ok(()), |burst| range(Element::Burst, "a burst", burst))
}

/// Fills in the strategy's defaults for omitted options, so that equal limits have equal texts.
fn fill_defaults(quota: &mut Quota, strategy: Strategy) {
    for option in strategy.options() {
        match *option {
            "burst" => quota.burst = quota.burst.or(Some(quota.units)),
            "rounding" => quota.rounding = quota.rounding.or(Some(Rounding::default())),
            "refill" => quota.refill = quota.refill.or(Some(Refill::default())),
            "anchor" => quota.anchor = quota.anchor.or(Some(Anchor::default())),
            "precision" => {
                let tenth = Period::from_micros(quota.period.as_micros() / 10);
                quota.precision = quota.precision.or(tenth);
            }
            _ => {}
        }
    }
}

impl FromStr for Quota {
    type Err = ParseError;

    /// Parses units per period, without options.
    ///
    /// ```
    /// use tollgate::Quota;
    /// let quota: Quota = "10/1m".parse()?;
    /// assert_eq!((quota.units, quota.period), (10, "60s".parse()?));
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// An invalid quota, a number or a duration out of range, or text after the quota.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        notation::parse_quota(text)
    }
}

impl FromStr for Limit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        notation::parse_limit(text, 0..text.len(), None)
    }
}

impl fmt::Display for Limit {
    /// [`Limit::full_text`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full_text)
    }
}

fn full_text(name: Option<&str>, quota: &Quota, strategy: Strategy) -> String {
    let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
    let (units, period) = (quota.units, quota.period);
    let mut text = match (strategy.kind(), quota.ban) {
        (LimitKind::Slots, _) => format!("{name}{units} at once hold {period}"),
        (LimitKind::Ban, Some(BanLength { first, longest })) => {
            let most = if longest == first { String::new() } else { format!(" up to {longest}") };
            format!("{name}ban {first} after {units} denials in {period}{most}")
        }
        (LimitKind::Rate | LimitKind::Ban, _) => format!("{name}{}", rate_text(quota, strategy)),
    };
    // Shrunk because it is kept for long, and its capacity counts towards the memory bound.
    text.shrink_to_fit();
    text
}

fn rate_text(quota: &Quota, strategy: Strategy) -> String {
    let mut text = format!("{}/{:#}", quota.units, quota.period);
    if let Some(burst) = quota.burst {
        text += &format!(" burst {burst}");
    }
    if let Some(precision) = quota.precision {
        text += &format!(" precision {precision}");
    }
    text += match quota.rounding {
        Some(Rounding::Conservative) => " rounding conservative",
        Some(Rounding::Interpolate) => " rounding interpolate",
        Some(Rounding::Truncate) => " rounding truncate",
        None => "",
    };
    text += match quota.refill {
        Some(Refill::Greedy) => " refill greedy",
        Some(Refill::Interval) => " refill interval",
        None => "",
    };
    text += match quota.anchor {
        Some(Anchor::Epoch) => " anchor epoch",
        Some(Anchor::FirstHit) => " anchor first-hit",
        None => "",
    };
    if let Some(debt) = quota.debt {
        text += &format!(" debt {debt}");
    }
    text + &format!(" via {strategy}")
}
