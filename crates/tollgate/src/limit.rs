//! Limits: a quota under a strategy, with an identity; and sets of them that are checked together.

use core::fmt;

use crate::error::ParseError;
use crate::strategy::{Compiled, LuaSpec, Shape, Step, Strategy, most_used};
use crate::time::{Period, Time};

mod calendar;
mod kind;
mod lease;
mod meaning;
mod name;
mod quota;
mod set;
mod share;
mod uncounted;
mod unit;

pub use calendar::{Calendar, CalendarUnit};
pub(crate) use calendar::{Edge, MONTHS, WEEKDAYS, Window, ordinal};
pub use kind::LimitKind;
pub(crate) use lease::LeasePart;
pub use lease::{Lease, LeaseShare, LeaseSize, MIN_LEASE_US};
pub use meaning::Meaning;
pub(crate) use name::check_name;
pub use quota::{Anchor, BanLength, MAX_COST, MAX_UNITS, Quota, Refill, Rounding};
pub(crate) use quota::{Element, QuotaError};
pub use set::{LimitSet, Place};
pub use share::Share;
pub use unit::{MAX_UNIT_BYTES, Unit};

/// The most limits in one set.
pub const MAX_LIMITS: usize = 32;

/// The largest bare quota (without `via`) that defaults to `sliding_log`, in units.
pub const MAX_BARE_UNITS: u64 = 1_000;

/// A quota under a strategy. Its identity is its name, or else its strategy and window, and its
/// unit.
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
    // Known once: a check asks for both, and should not look them up.
    kind: LimitKind,
    is_of_requests: bool,
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
    ) -> Result<Self, (String, QuotaError)> {
        let text = quota.rate();
        check_calendar(&mut quota, strategy).map_err(|refusal| (text.clone(), refusal))?;
        check_options(&quota, strategy).map_err(|refusal| (text.clone(), refusal))?;
        check_ranges(&quota).map_err(|refusal| (text.clone(), refusal))?;
        let compile = |quota: &Quota| {
            let step = strategy.compile(quota)?;
            let window = || most_used(quota, step.capacity(), MAX_UNITS);
            let most = step.most().map_or_else(window, Ok)?;
            Ok((step, most))
        };
        let (mut step, most) = compile(&quota).map_err(|refusal| (text, refusal))?;
        if quota.unit.is_uncounted() {
            // It admits whatever was used, as charges without a check use more than a capacity.
            step = step.with_capacity(most);
        }
        fill_defaults(&mut quota, strategy);
        let usual = compile(&Quota { debt: None, ..quota.clone() });
        if usual.is_ok_and(|(_, usual)| usual == most) {
            quota.debt = None;
        }
        let own = || match strategy.kind() {
            LimitKind::Rate => format!("{strategy}/{}", quota.window()),
            // Other numbers keep the count.
            LimitKind::Slots | LimitKind::Ban => strategy.name().to_owned(),
        };
        let identity = with_unit(name.clone().unwrap_or_else(own), &quota);
        let full_text = full_text(name.as_deref(), &quota, strategy);
        let kind = strategy.kind();
        let is_of_requests = kind == LimitKind::Rate && quota.unit == Unit::REQUESTS;
        Ok(Self { name, quota, strategy, identity, full_text, step, most, kind, is_of_requests })
    }

    /// The same limit with a name.
    ///
    /// # Errors
    /// An invalid name. A name is a letter followed by letters, digits, `_`, `-` or `.`, at most 64
    /// characters.
    pub fn named(self, name: &str) -> Result<Self, ParseError> {
        check_name(name, name, 0..name.len())?;
        let full_text = full_text(Some(name), &self.quota, self.strategy);
        let identity = with_unit(name.to_owned(), &self.quota);
        Ok(Self { identity, name: Some(name.to_owned()), full_text, ..self })
    }

    /// The full text, with every default written out. It parses to an equal limit.
    #[must_use]
    pub fn full_text(&self) -> &str {
        &self.full_text
    }

    /// The identity of its counts: the name, or else the strategy and the window. A unit other
    /// than requests follows behind `/`.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Whether both cannot be in one set: they have one identity, or one name.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.identity == other.identity || self.name.is_some() && self.name == other.name
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

    /// The capacity of a fresh subject: 1 for `uniform`, the burst for `token_bucket` and `gcra`,
    /// else N.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.step.capacity()
    }

    /// The quantity that it bounds.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> LimitKind {
        self.kind
    }

    /// True for a rate limit of requests.
    #[inline]
    pub(crate) fn is_of_requests(&self) -> bool {
        self.is_of_requests
    }

    /// The unit that it counts, which is part of its identity.
    #[must_use]
    #[inline]
    pub fn unit(&self) -> &Unit {
        match self.kind() {
            LimitKind::Rate | LimitKind::Ban => &self.quota.unit,
            LimitKind::Slots => &Unit::SLOTS,
        }
    }

    /// True when a cost of requests alone takes from it. A limit of another unit then has the
    /// amount 0, and admits everybody.
    #[must_use]
    pub fn counts_requests(&self) -> bool {
        [Unit::REQUESTS, Unit::SLOTS].contains(self.unit())
    }

    /// True for a rate limit that counts this unit: a credit can pay for it.
    #[inline]
    pub(crate) fn is_rate_of(&self, unit: &Unit) -> bool {
        self.kind() == LimitKind::Rate && self.unit() == unit
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

    /// The maximum debt: the units beyond the capacity that charges without a check may take.
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

    /// The same limit for a store whose steps in Lua know the windows around this time.
    #[must_use]
    pub fn around(&self, now: Time) -> Self {
        Self { step: self.step.around(now), ..self.clone() }
    }

    /// The most units that can be used: the capacity and the debt.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// The units that remain under this step can be charged without a check.
    pub(crate) fn with_debt(&self) -> Compiled {
        self.step.with_capacity(self.most)
    }

    #[inline]
    pub(crate) fn step(&self) -> &Compiled {
        &self.step
    }
}

/// An identity with the unit of its quota. Neither a name nor a strategy with a window contains
/// another `/` and a letter.
fn with_unit(mut identity: String, quota: &Quota) -> String {
    let unit = quota.unit.counted();
    if unit != Unit::REQUESTS {
        identity = format!("{identity}/{unit}");
    }
    identity.shrink_to_fit();
    identity
}

/// Rejects a calendar that cannot be counted. The period of one follows from its unit.
fn check_calendar(quota: &mut Quota, strategy: Strategy) -> Result<(), QuotaError> {
    let Some(calendar) = &quota.calendar else { return Ok(()) };
    if strategy != Strategy::FixedWindow {
        return Err(QuotaError::new(
            Element::Period,
            format!(
                "`{strategy}` counts in times of one length, and a {} has many",
                calendar.unit().name()
            ),
            "use `via fixed_window`, or a duration, as in `30d`".to_owned(),
        ));
    }
    if quota.anchor.is_some() {
        return Err(QuotaError::new(
            Element::Units,
            "a calendar takes no `anchor`: its windows begin at dates".to_owned(),
            "leave it out; `from` moves the date".to_owned(),
        ));
    }
    quota.period = calendar.unit().least();
    Ok(())
}

/// Rejects an option that the strategy does not have, rather than ignore it.
fn check_options(quota: &Quota, strategy: Strategy) -> Result<(), QuotaError> {
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
            return Err(QuotaError::new(
                word,
                format!("`{strategy}` takes no `{option}`"),
                format!("leave it out, or use `via {taker}`"),
            ));
        }
    }
    Ok(())
}

fn check_ranges(quota: &Quota) -> Result<(), QuotaError> {
    let range = |word, what: &str, value: u64| {
        if value == 0 {
            return Err(QuotaError::new(
                word,
                format!("{what} of 0 would never admit anything"),
                "give at least 1".to_owned(),
            ));
        }
        if value > MAX_UNITS {
            return Err(QuotaError::new(
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
            "anchor" if quota.calendar.is_none() => {
                quota.anchor = quota.anchor.or(Some(Anchor::default()));
            }
            "precision" => {
                let tenth = Period::from_micros(quota.period.as_micros() / 10);
                quota.precision = quota.precision.or(tenth);
            }
            _ => {}
        }
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
    let mut text = match &quota.calendar {
        Some(calendar) => format!("{}/{}", quota.units, calendar.unit().name()),
        None => format!("{}/{:#}", quota.units, quota.period),
    };
    if quota.unit != Unit::REQUESTS {
        text += &format!(" of {}", quota.unit);
    }
    if let Some(calendar) = &quota.calendar {
        text += &calendar.place();
    }
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
