//! The cost of a check: an amount of each unit.

use core::fmt;
use core::str::FromStr;

use smallvec::SmallVec;

use crate::error::{Error, ParseError};
use crate::limit::{Limit, LimitKind, LimitSet, MAX_COST, Unit};
use crate::strategy::Compiled;

/// The most units in one cost.
pub const MAX_COST_UNITS: usize = 8;

/// The cost of a check: how much of each unit it takes. A plain number is requests.
///
/// ```
/// use tollgate::{Ask, Cost, Limiter};
///
/// let limiter = Limiter::memory("60/m, 100000/m of tokens via gcra".parse()?);
/// let cost = Cost::new([("requests", 1), ("tokens", 800)])?;
/// assert_eq!(cost, "requests=1,tokens=800".parse::<Cost>()?);
/// let decision = limiter.check(Ask::new("bob").cost(cost)).now()?;
/// assert!(decision.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cost {
    pub(crate) amount: u64,
    pub(crate) units: Option<Box<Units>>,
}

/// The units of a cost that is not plain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Units {
    /// The unit of the first amount.
    first: Unit,
    /// The others, in the order of their names: of a cost each at least 1, of used units also 0.
    rest: SmallVec<[(Unit, u64); 2]>,
}

/// The amounts of a [`Cost`], borrowed: a store's view of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amounts<'a> {
    /// The amount of the first unit: requests if the cost has any.
    pub(crate) amount: u64,
    pub(crate) units: Option<&'a Units>,
}

impl Cost {
    /// A cost of these amounts by unit. An amount of 0 is as one that is not named.
    ///
    /// # Errors
    /// No amount above 0; more than [`MAX_COST_UNITS`] units; a unit twice; an amount above
    /// [`MAX_COST`]; an invalid name.
    pub fn new<'u>(amounts: impl IntoIterator<Item = (&'u str, u64)>) -> Result<Self, ParseError> {
        let mut all = read_amounts(amounts)?;
        all.retain(|(_, amount)| *amount > 0);
        if all.is_empty() {
            return Err(ParseError::whole(
                "",
                "a cost without any amount above 0 takes nothing",
                "give at least one unit, as in `requests=1,tokens=800`; to look without charging, \
                 use `peek`",
            ));
        }
        Ok(Self::of(&all))
    }

    /// The used units of a hold ([`crate::Limiter::commit`]), of which an amount may be 0. What is
    /// not named is left to the terms of the hold.
    ///
    /// # Errors
    /// As [`Cost::new`], but for amounts of 0; no unit at all.
    pub fn used<'u>(amounts: impl IntoIterator<Item = (&'u str, u64)>) -> Result<Self, ParseError> {
        let all = read_amounts(amounts)?;
        if all.is_empty() {
            let remedy = "give the used amount of at least one unit, as in `tokens=1312`";
            return Err(ParseError::whole("", "no unit is named", remedy));
        }
        Ok(Self::of(&all))
    }

    /// Parses used units: a number, or `UNIT=AMOUNT` joined by commas.
    ///
    /// # Errors
    /// As [`Cost::used`].
    pub fn parse_used(text: &str) -> Result<Self, ParseError> {
        Self::used(amounts_in(text, number)?)
    }

    /// A cost of one unit.
    #[must_use]
    pub fn of_unit(unit: Unit, amount: u64) -> Self {
        Self::of(&[(unit, amount)])
    }

    /// A cost of amounts in order, the first unit first.
    pub(crate) fn of(all: &[(Unit, u64)]) -> Self {
        match all.split_first() {
            None => Self::from(0),
            Some(((Unit::REQUESTS, amount), [])) => Self::from(*amount),
            Some(((first, amount), rest)) => {
                let units = Units { first: *first, rest: rest.into() };
                Self { amount: *amount, units: Some(Box::new(units)) }
            }
        }
    }

    /// The number of requests, if there is no other unit.
    #[must_use]
    pub fn plain(&self) -> Option<u64> {
        self.amounts().plain()
    }

    /// The bytes that it allocates: none of a plain one.
    pub(crate) fn bytes_beside(&self) -> usize {
        let rest = |units: &Units| match units.rest.spilled() {
            true => units.rest.capacity() * size_of::<(Unit, u64)>(),
            false => 0,
        };
        self.units.as_ref().map_or(0, |units| size_of::<Units>() + rest(units))
    }

    /// The amounts, borrowed.
    #[must_use]
    #[inline]
    pub fn amounts(&self) -> Amounts<'_> {
        Amounts { amount: self.amount, units: self.units.as_deref() }
    }
}

/// The amounts by unit, the first unit first.
fn read_amounts<'u>(
    amounts: impl IntoIterator<Item = (&'u str, u64)>,
) -> Result<Vec<(Unit, u64)>, ParseError> {
    let mut all: Vec<(Unit, u64)> = Vec::new();
    for (name, amount) in amounts {
        let unit: Unit = name.parse()?;
        if all.iter().any(|(known, _)| *known == unit) {
            let remedy = "give one amount for each unit";
            return Err(ParseError::whole(name, format!("`{unit}` is given twice"), remedy));
        }
        if amount > MAX_COST {
            return Err(ParseError::whole(
                name,
                format!("a cost of {amount} {unit} is too large"),
                format!("the largest is 2^40 = {MAX_COST}"),
            ));
        }
        all.push((unit, amount));
    }
    if all.len() > MAX_COST_UNITS {
        return Err(ParseError::whole(
            "",
            format!("a cost has {} units", all.len()),
            format!("at most {MAX_COST_UNITS} are counted in one check"),
        ));
    }
    all.sort_by_key(requests_first);
    Ok(all)
}

/// Requests come first: they are the usual unit.
fn requests_first((unit, _): &(Unit, u64)) -> (bool, Unit) {
    (*unit != Unit::REQUESTS, *unit)
}

impl From<u64> for Cost {
    #[inline(always)]
    fn from(requests: u64) -> Self {
        Self { amount: requests, units: None }
    }
}

/// Amounts of one unit add up. Amounts of 0 stay, as of [used](Cost::used) units.
impl FromIterator<(Unit, u64)> for Cost {
    fn from_iter<I: IntoIterator<Item = (Unit, u64)>>(amounts: I) -> Self {
        let mut all: Vec<(Unit, u64)> = Vec::new();
        for (unit, amount) in amounts {
            match all.iter_mut().find(|(known, _)| *known == unit) {
                Some((_, known)) => *known = known.saturating_add(amount),
                None => all.push((unit, amount)),
            }
        }
        all.sort_by_key(requests_first);
        Self::of(&all)
    }
}

/// A plain cost is equal to its number of requests.
impl PartialEq<u64> for Cost {
    fn eq(&self, requests: &u64) -> bool {
        self.plain() == Some(*requests)
    }
}

impl From<Amounts<'_>> for Cost {
    fn from(Amounts { amount, units }: Amounts<'_>) -> Self {
        Self { amount, units: units.cloned().map(Box::new) }
    }
}

impl FromStr for Cost {
    type Err = ParseError;

    /// Parses a number, or `UNIT=AMOUNT` joined by commas.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::new(amounts_in(text, number)?)
    }
}

/// The amounts of a text, each read by this function from its place in the text: a number of
/// requests, or `UNIT=AMOUNT` joined by commas.
pub(crate) fn amounts_in<N>(
    text: &str,
    read: impl Fn(&str, &str, usize) -> Result<N, ParseError>,
) -> Result<Vec<(&str, N)>, ParseError> {
    if !text.contains('=') {
        let amount = read(text, text.trim(), text.len() - text.trim_start().len())?;
        return Ok(vec![(Unit::REQUESTS.name(), amount)]);
    }
    let mut amounts = Vec::new();
    let mut start = 0;
    for piece in text.split(',') {
        let (part, at) = (piece.trim(), start + piece.len() - piece.trim_start().len());
        start += piece.len() + 1;
        let Some((unit, digits)) = part.split_once('=') else {
            return Err(ParseError::at(
                text,
                at..at + part.len().max(1),
                "this is not an amount of a unit",
                "write `UNIT=AMOUNT`, as in `requests=1,tokens=800`",
            ));
        };
        amounts.push((unit, read(text, digits, at + unit.len() + 1)?));
    }
    Ok(amounts)
}

/// An amount, whose digits begin at a place of a text.
pub(crate) fn number(text: &str, digits: &str, at: usize) -> Result<u64, ParseError> {
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let end = at + digits.len().max(1);
    match digits.parse::<u64>().ok().filter(|number| *number <= MAX_COST) {
        Some(number) if is_number => Ok(number),
        _ if is_number => Err(ParseError::at(
            text,
            at..end,
            "a cost of this size is too large",
            format!("the largest is 2^40 = {MAX_COST}"),
        )),
        _ => Err(ParseError::at(
            text,
            at..end,
            "this is not an amount",
            "an amount is a whole number, as in `800` or `requests=1,tokens=800`",
        )),
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.amounts().fmt(f)
    }
}

impl<'a> Amounts<'a> {
    /// The amount of the first unit: requests, if the cost has any.
    #[must_use]
    #[inline]
    pub const fn first(self) -> u64 {
        self.amount
    }

    /// The number of requests, if there is no other unit.
    #[must_use]
    #[inline]
    pub const fn plain(self) -> Option<u64> {
        match self.units {
            None => Some(self.amount),
            Some(_) => None,
        }
    }

    /// True when it is of one unit alone.
    #[must_use]
    pub fn is_of_one_unit(self) -> bool {
        self.units.is_none_or(|units| units.rest.is_empty())
    }

    /// The first unit alone, with another amount.
    #[must_use]
    pub fn first_alone(self, amount: u64) -> Cost {
        Cost::of_unit(*self.first_unit(), amount)
    }

    /// The same with another amount of the first unit.
    #[must_use]
    #[inline]
    pub const fn with_first(self, amount: u64) -> Self {
        Self { amount, ..self }
    }

    /// The first unit.
    #[must_use]
    pub fn first_unit(self) -> &'a Unit {
        self.units.map_or(&Unit::REQUESTS, |units| &units.first)
    }

    /// The amount of a unit: 0 for one that is not named.
    #[must_use]
    #[inline]
    pub fn of(self, unit: &Unit) -> u64 {
        match self.units {
            None if *unit == Unit::REQUESTS => self.amount,
            None => 0,
            Some(units) if units.first == *unit => self.amount,
            Some(Units { rest, .. }) => {
                rest.iter().find(|(known, _)| known == unit).map_or(0, |(_, amount)| *amount)
            }
        }
    }

    /// The amount that a rate limit counts.
    #[inline]
    pub(crate) fn counted_by(self, limit: &Limit) -> u64 {
        match self.units {
            None if limit.is_of_requests() => self.amount,
            None => 0,
            Some(_) => self.of(limit.unit()),
        }
    }

    /// The step of the only limit of a set, if that counts the whole cost.
    #[inline]
    pub(crate) fn only_step(self, limits: &LimitSet) -> Option<&Compiled> {
        let (limit, step) = limits.only()?;
        let is_whole = match self.units {
            None => limits.is_plain(),
            Some(_) => self.is_of_one_unit() && self.first_unit() == limit.unit(),
        };
        is_whole.then_some(step)
    }

    /// The amount of a unit that is named, which may be 0 of [used](Cost::used) units.
    #[must_use]
    pub fn named(self, unit: &Unit) -> Option<u64> {
        self.iter().find(|(known, _)| *known == unit).map(|(_, amount)| amount)
    }

    /// Whether every amount is 0, as of [used](Cost::used) units.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.iter().all(|(_, amount)| amount == 0)
    }

    /// Every unit with its amount, the first one first.
    pub fn iter(self) -> impl Iterator<Item = (&'a Unit, u64)> {
        let rest = self.units.map_or(&[][..], |units| &units.rest);
        let first = core::iter::once((self.first_unit(), self.amount));
        first.chain(rest.iter().map(|(unit, amount)| (unit, *amount)))
    }

    /// Whether a limit bounds the amount of the first unit. A ban bounds every amount.
    pub(crate) fn first_is_of(self, limit: &Limit) -> bool {
        match (limit.kind(), self.units) {
            (LimitKind::Ban, _) | (LimitKind::Slots, None) => true,
            _ => self.first_unit() == limit.unit(),
        }
    }

    /// Rejects amounts of units that no limit of these sets counts.
    ///
    /// # Errors
    /// The first such unit, and the known ones.
    pub fn check_units<'s>(
        self,
        sets: impl Iterator<Item = &'s LimitSet> + Clone,
    ) -> Result<(), Error> {
        if self.units.is_none() && sets.clone().all(LimitSet::is_plain) {
            return Ok(());
        }
        let limits = || sets.clone().flat_map(LimitSet::limits).filter(|it| it.has_capacity());
        for (unit, amount) in self.iter().filter(|(unit, _)| **unit != Unit::NOTHING) {
            // A plain cost is slots, too, where a hold takes them.
            let takes_slots = |limit: &Limit| self.units.is_none() && limit.needs_hold();
            if !limits().any(|limit| limit.unit().counted() == *unit || takes_slots(limit)) {
                return Err(unknown_unit(unit, amount, limits().map(Limit::unit)));
            }
        }
        Ok(())
    }
}

#[cold]
fn unknown_unit<'u>(unit: &Unit, amount: u64, known: impl Iterator<Item = &'u Unit>) -> Error {
    let mut names: Vec<&str> = known.map(Unit::name).collect();
    names.sort_unstable();
    names.dedup();
    Error::Ask(format!(
        "no limit counts `{unit}`, of which the cost has {amount}: give amounts of {}",
        names.join(", ")
    ))
}

impl From<u64> for Amounts<'_> {
    #[inline(always)]
    fn from(requests: u64) -> Self {
        Self { amount: requests, units: None }
    }
}

impl<'a> From<&'a Cost> for Amounts<'a> {
    #[inline]
    fn from(cost: &'a Cost) -> Self {
        cost.amounts()
    }
}

impl fmt::Display for Amounts<'_> {
    /// A plain number, or `requests=1,tokens=800`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(requests) = self.plain() {
            return write!(f, "{requests}");
        }
        for (place, (unit, amount)) in self.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{unit}={amount}")?;
        }
        Ok(())
    }
}
