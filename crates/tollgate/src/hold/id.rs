//! The id of a hold.

use core::fmt;
use core::str::FromStr;

use super::kind::{HoldKind, MAX_TTL_US};
use super::name::{HoldName, random_bytes};
use crate::error::ParseError;

/// The id of a hold: its kind, and 15 bytes. Those of a named hold are of its caller's name for it
/// ([`HoldName`]). Those of another say how long it was asked for, by which a store knows its age.
/// The rest of them nobody can guess: 65 bits of a hold of a minute, and 46 of the longest.
///
/// Displays as 32 hexadecimal digits, which parse to the same id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId([u8; 16]);

/// The letter of an id of which only the name is known. No hold is stored under it.
const ANY_KIND: u8 = b'N';

/// The end of an id that records the time that its hold was asked for. The ids of earlier versions
/// are random: one of 30 million of them passes for such an id.
const TOLD: u128 = 0x61_67_65;
const TOLD_BITS: u32 = 24;

/// The bits before it: how many binary digits of the microseconds follow the first, which is 1. The
/// seconds precede that. In 45 bits for each hold, that of a minute would have 20 random ones less.
const DIGITS_BITS: u32 = 6;

impl HoldId {
    /// The id in the terms of a peek: no hold is stored under it.
    pub(super) const fn of_peek(kind: HoldKind) -> Self {
        Self([kind.code(); 16])
    }

    /// A new id of a hold that is asked for so many microseconds, at least 1. Its random bits come
    /// from a keyed hash whose key the system chose at random.
    #[must_use]
    pub fn random(kind: HoldKind, ttl_us: u64) -> Self {
        let digits = ttl_us.max(1).ilog2();
        let rest = u128::from(ttl_us) & ((1 << digits) - 1);
        let told = (rest << DIGITS_BITS | u128::from(digits)) << TOLD_BITS | TOLD;
        let random = u128::from_be_bytes(random_bytes());
        let told_bits = digits + DIGITS_BITS + TOLD_BITS;
        let mut bytes = (random >> told_bits << told_bits | told).to_be_bytes();
        bytes[0] = kind.code();
        Self(bytes)
    }

    /// How long its hold was asked for, in microseconds. `None` where the id does not record it:
    /// that of a named hold, or of one that an earlier version placed.
    #[must_use]
    pub fn asked_us(&self) -> Option<u64> {
        let number = u128::from_be_bytes(self.0);
        if self.name().is_some() || number & ((1 << TOLD_BITS) - 1) != TOLD {
            return None;
        }
        let rest = number >> TOLD_BITS;
        let digits = rest & ((1 << DIGITS_BITS) - 1);
        let ttl_us = 1 << digits | (rest >> DIGITS_BITS) & ((1 << digits) - 1);
        u64::try_from(ttl_us).ok().filter(|ttl_us| *ttl_us <= MAX_TTL_US)
    }

    /// The id of the hold of this kind that its caller names.
    #[must_use]
    pub const fn named(kind: HoldKind, name: HoldName) -> Self {
        // An older version knows no such letter, and refuses it. A credit has one letter alone: all
        // that is remembered of it lies beside it.
        match kind {
            HoldKind::Credit => Self::lettered(kind.code(), name),
            _ => Self::lettered(kind.code().to_ascii_uppercase(), name),
        }
    }

    /// The id of the hold of this name, of whatever kind it is: to settle or renew it.
    #[must_use]
    pub const fn of_any_kind(name: HoldName) -> Self {
        Self::lettered(ANY_KIND, name)
    }

    const fn lettered(letter: u8, HoldName(rest): HoldName) -> Self {
        let mut bytes = [letter; 16];
        bytes.split_at_mut(1).1.copy_from_slice(&rest);
        Self(bytes)
    }

    /// The id under which a store that decides about each count by itself keeps this hold over all
    /// of these counts ([`HoldName::over`]). An id without a name is the same on all of them.
    #[must_use]
    pub fn over<'k>(self, counts: impl IntoIterator<Item = &'k str>) -> Self {
        match self.name() {
            Some(name) => Self::lettered(self.0[0], name.over(counts)),
            None => self,
        }
    }

    /// The name that its caller gave the hold, if one did.
    #[must_use]
    #[inline]
    pub const fn name(&self) -> Option<HoldName> {
        let [letter, rest @ ..] = self.0;
        if letter.is_ascii_uppercase() { Some(HoldName(rest)) } else { None }
    }

    /// True for the id of a hold of which only the name is known.
    #[must_use]
    pub const fn is_of_any_kind(&self) -> bool {
        self.0[0] == ANY_KIND
    }

    /// The id of these bytes; `None` if the first is not a kind.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        match bytes[0] {
            b'a' | b'r' | b'c' | b'k' | b'A' | b'R' | b'C' => Some(Self(bytes)),
            _ => None,
        }
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The kind of its hold; `Reserve` where only the name is known.
    #[must_use]
    pub const fn kind(&self) -> HoldKind {
        match self.0[0] {
            b'a' | b'A' => HoldKind::Acquire,
            b'c' | b'C' => HoldKind::Charging,
            b'k' => HoldKind::Credit,
            _ => HoldKind::Reserve,
        }
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HoldId({self})")
    }
}

impl FromStr for HoldId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || {
            let remedy = "give it unchanged, as it was returned: 32 hexadecimal digits";
            ParseError::whole(text, "this is not the id of a hold", remedy)
        };
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| wrong())?;
        Self::from_bytes(number.to_be_bytes()).ok_or_else(wrong)
    }
}
