//! Units: what limits count.

use core::fmt;
use core::str::FromStr;

use crate::error::ParseError;

/// The longest name of a unit, in bytes.
pub const MAX_UNIT_BYTES: usize = 32;

/// The unit of a limit: what it counts. A name such as `tokens`, of a lowercase letter and then
/// lowercase letters, digits and `_`.
///
/// ```
/// use tollgate::{Limit, Unit};
/// let limit: Limit = "100000/m of tokens via gcra".parse()?;
/// assert_eq!(limit.unit().name(), "tokens");
/// let usual: Limit = "10/s".parse()?;
/// assert_eq!(*usual.unit(), Unit::REQUESTS);
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit {
    /// Its name, and then zeros. Apart from the sign: so much is compared without a call.
    name: [u8; MAX_UNIT_BYTES],
    /// Whether no cost has an amount of it ([`Limit::uncounted`]).
    ///
    /// [`Limit::uncounted`]: crate::Limit::uncounted
    is_uncounted: bool,
}

/// The sign before the unit of a limit that counts nothing for now.
const UNCOUNTED: char = '-';

impl Unit {
    /// Requests: the unit of every limit that names none, and of a plain cost.
    pub const REQUESTS: Self = Self::of_text(b"requests");

    /// Slots: the unit of limits such as `20 at once`.
    pub const SLOTS: Self = Self::of_text(b"slots");

    /// A unit that no limit counts, of a peek at nothing: a time is refused as the name of a unit,
    /// and reads as one in scripts.
    pub(crate) const NOTHING: Self = Self::of_text(b"day");

    const fn of_text(text: &[u8]) -> Self {
        let mut name = [0; MAX_UNIT_BYTES];
        let mut at = 0;
        while at < text.len() {
            name[at] = text[at];
            at += 1;
        }
        Self { name, is_uncounted: false }
    }

    /// Its name, as in `of tokens`.
    #[must_use]
    pub fn name(&self) -> &str {
        let length = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        core::str::from_utf8(&self.name[..length]).unwrap_or_default()
    }

    /// The same unit, of which no cost has an amount: `-tokens`.
    pub(crate) fn uncounted(self) -> Self {
        Self { is_uncounted: true, ..self }
    }

    /// The unit that a limit counts, or would: without the sign of one that is not counted.
    pub(crate) fn counted(self) -> Self {
        Self { is_uncounted: false, ..self }
    }

    /// Whether no cost has an amount of it.
    pub(crate) fn is_uncounted(self) -> bool {
        self.is_uncounted
    }

    /// Why a cost beyond a limit of so many is never admitted, for people.
    #[must_use]
    pub fn beyond(&self, limit: u64) -> String {
        match *self {
            Self::REQUESTS => format!("the cost is above {limit}"),
            Self::SLOTS => format!("more slots are asked for than there are, {limit}"),
            other => format!("the cost is above {limit} {}", other.name()),
        }
    }
}

impl FromStr for Unit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut bytes = text.bytes();
        let is_sound = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase())
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && text.len() <= MAX_UNIT_BYTES;
        // An identity ends with its unit, and that of a calendar with one of these.
        if ["day", "week", "month", "year"].contains(&text) {
            return Err(ParseError::whole(
                text,
                "a time is no unit",
                "name what is counted, such as `tokens`; a calendar is written `1000/month`",
            ));
        }
        if is_sound {
            return Ok(Self::of_text(text.as_bytes()));
        }
        Err(ParseError::whole(
            text,
            "this is not the name of a unit",
            format!(
                "a unit is a lowercase letter, then lowercase letters, digits or `_`, at most \
                 {MAX_UNIT_BYTES}, such as `tokens`"
            ),
        ))
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_uncounted {
            true => f.pad(&format!("{UNCOUNTED}{}", self.name())),
            false => f.pad(self.name()),
        }
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unit({self})")
    }
}
