//! Conditions: the values that a field must have for a policy to apply.

use core::fmt;
use std::borrow::Cow;

use hashbrown::HashSet;
use ipnet::IpNet;
use tollgate::{ParseError, Time};

use crate::clock::{LocalMinute, Recurrence, local_text};
use crate::field::{Field, Fields, value};
use crate::glob::Glob;
use crate::list::ValueList;
use crate::network::{client_address, parse_client, parse_network, parse_prefix};

/// The longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1_024;

/// The prefix of the hash of an API key, where a key could be written.
const HASHED: &str = "hash:";

/// Reads `hash:` and 32 hexadecimal digits, as `tollgate hash-key` prints them, into the digits in
/// lower case. `None` for a text that does not begin with `hash:`, which is a key.
///
/// # Errors
/// Something else than 32 hexadecimal digits behind `hash:`.
pub fn read_hash(text: &str) -> Result<Option<Box<str>>, ParseError> {
    let Some(hash) = text.strip_prefix(HASHED) else { return Ok(None) };
    if hash.len() != 32 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(ParseError::whole(
            "",
            "this is not the hash of an API key",
            "`hash:` and 32 hexadecimal digits, as `tollgate hash-key` prints them",
        ));
    }
    Ok(Some(hash.to_ascii_lowercase().into()))
}

/// Up to this many pairs of patterns are compared one by one.
pub(crate) const SHORT: usize = 16;

/// A pattern for one value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Pattern {
    /// Exactly this value.
    Exact(Box<str>),
    /// The API key of this hash: 32 hexadecimal digits, as a front provides the field.
    Hashed(Box<str>),
    /// A value that begins with this text.
    Prefix(Box<str>),
    /// A value with a `*` before its end.
    Glob(Glob),
    /// A host below this one: `.example.com`, including the dot.
    Below(Box<str>),
    /// An address in this network.
    Network(IpNet),
    /// A value in a list, or an address in one of its networks.
    Listed(ValueList),
    /// A time of day, or days of the week.
    Recurring(Recurrence),
    /// Any value that is not empty.
    Any,
}

impl Pattern {
    /// The text that every value begins with, and that which it ends with.
    pub(crate) fn glob(&self) -> Option<&Glob> {
        match self {
            Self::Glob(glob) => Some(glob),
            _ => None,
        }
    }

    /// As [`Pattern::parse`], without the check against the form that fronts provide.
    pub(crate) fn read(field: &Field, text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::whole(
                text,
                "an empty value matches nothing",
                "an empty field counts as absent: write what it must be, or `*` for any value",
            ));
        }
        if text.len() > MAX_PATTERN_BYTES {
            return Err(ParseError::whole(
                "",
                format!("this value has {} bytes", text.len()),
                format!("at most {MAX_PATTERN_BYTES}: write a prefix, e.g. `abc*`"),
            ));
        }
        if field.is_clock() {
            return Recurrence::parse(field, text).map(Self::Recurring);
        }
        if *field == Field::ApiKey
            && let Some(hash) = read_hash(text)?
        {
            return Ok(Self::Hashed(hash));
        }
        let lowered;
        let text = if matches!(field, Field::Host | Field::Ip) {
            lowered = text.to_ascii_lowercase();
            lowered.as_str()
        } else {
            text
        };
        if text == "*" {
            return Ok(Self::Any);
        }
        let below = text.strip_prefix('*').filter(|rest| rest.starts_with('.'));
        let (pattern, rest): (fn(Box<str>) -> Self, &str) = match (below, field) {
            (Some(rest), Field::Host) => (Self::Below, rest),
            _ => match text.strip_suffix('*') {
                Some(rest) => (Self::Prefix, rest),
                None => (Self::Exact, text),
            },
        };
        if let Some(star) = rest.find('*') {
            return Glob::parse(field, text, star).map(Self::Glob);
        }
        match (pattern(rest.into()), field) {
            (Self::Exact(text), Field::Ip) => {
                let net = parse_network(&text)?;
                // A single address is compared as text, as fronts provide it.
                let is_one = net.prefix_len() == net.max_prefix_len();
                Ok(if is_one {
                    Self::Exact(net.addr().to_string().into())
                } else {
                    Self::Network(net)
                })
            }
            (pattern, _) => Ok(pattern),
        }
    }

    /// True when `value` matches.
    #[inline]
    pub(crate) fn holds(&self, value: &str) -> bool {
        match self {
            Self::Exact(text) | Self::Hashed(text) => **text == *value,
            Self::Prefix(text) => value.starts_with(&**text),
            Self::Glob(glob) => glob.holds(value),
            Self::Below(text) => value.len() > text.len() && value.ends_with(&**text),
            Self::Network(net) => parse_client(value).is_some_and(|told| net.contains(&told)),
            Self::Listed(list) => list.holds(value),
            // By the clock, and not by a value.
            Self::Recurring(_) => false,
            Self::Any => true,
        }
    }

    /// True for a pattern over a text; fronts provide an address as text in one form.
    fn is_text(&self) -> bool {
        matches!(self, Self::Prefix(_) | Self::Glob(_) | Self::Below(_))
    }

    /// The network of these addresses, if they are one.
    fn network(&self) -> Option<IpNet> {
        match self {
            Self::Network(net) => Some(*net),
            Self::Prefix(text) => parse_prefix(text),
            _ => None,
        }
    }

    /// True when this pattern matches every value that `other` matches.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Hashed(mine), Self::Hashed(theirs)) => mine == theirs,
            (pattern, Self::Exact(text)) => pattern.holds(text),
            (Self::Prefix(mine), Self::Prefix(theirs)) => theirs.starts_with(&**mine),
            (Self::Prefix(mine), Self::Glob(theirs)) => theirs.begins().starts_with(&**mine),
            (Self::Glob(mine), Self::Glob(theirs)) => mine == theirs,
            (Self::Recurring(mine), Self::Recurring(theirs)) => mine.covers(theirs),
            (Self::Below(mine), Self::Below(theirs)) => theirs.ends_with(&**mine),
            (Self::Listed(mine), theirs) => {
                matches!(theirs, Self::Listed(theirs) if theirs == mine)
                    || theirs.network().is_some_and(|theirs| mine.covers(theirs))
            }
            (mine, theirs) => {
                let both = mine.network().zip(theirs.network());
                both.is_some_and(|(mine, theirs)| mine.contains(&theirs))
            }
        }
    }

    /// True when no value matches both.
    fn is_disjoint(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Hashed(a), Self::Hashed(b)) => a != b,
            // The key may be the one of the hash.
            (Self::Hashed(_), _) | (_, Self::Hashed(_)) => false,
            (Self::Exact(text), pattern) | (pattern, Self::Exact(text)) => !pattern.holds(text),
            (Self::Prefix(a), Self::Prefix(b)) => !a.starts_with(&**b) && !b.starts_with(&**a),
            (Self::Prefix(a), Self::Glob(b)) | (Self::Glob(b), Self::Prefix(a)) => {
                !a.starts_with(b.begins()) && !b.begins().starts_with(&**a)
            }
            (Self::Glob(a), Self::Glob(b)) => a.is_disjoint(b),
            (Self::Recurring(a), Self::Recurring(b)) => a.is_disjoint(b),
            (Self::Below(a), Self::Below(b)) => !a.ends_with(&**b) && !b.ends_with(&**a),
            (a, b) => {
                let both = a.network().zip(b.network());
                both.is_some_and(|(a, b)| !a.contains(&b) && !b.contains(&a))
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) => f.write_str(text),
            Self::Hashed(hash) => write!(f, "{HASHED}{hash}"),
            Self::Prefix(text) => write!(f, "{text}*"),
            Self::Glob(glob) => write!(f, "{glob}"),
            Self::Below(text) => write!(f, "*{text}"),
            Self::Network(net) => write!(f, "{net}"),
            Self::Listed(list) => write!(f, "{list}"),
            Self::Recurring(when) => write!(f, "{when}"),
            Self::Any => f.write_str("*"),
        }
    }
}

/// A field and the patterns of which it must match one.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Condition {
    /// The field.
    pub field: Field,
    /// The patterns, at least one.
    pub any_of: Vec<Pattern>,
    /// Whether the field must match none of them. A request without the field satisfies that.
    pub negated: bool,
}

impl Condition {
    /// A condition on a field. For a path, `/api/*` also matches `/api`: fronts provide `/api/` in
    /// this form.
    #[must_use]
    pub fn new(field: Field, mut any_of: Vec<Pattern>) -> Self {
        if field == Field::Path {
            let without_slash = |pattern: &Pattern| match pattern {
                Pattern::Prefix(text) => {
                    let text = text.strip_suffix('/').filter(|text| !text.is_empty());
                    text.map(|text| Pattern::Exact(text.into()))
                }
                Pattern::Glob(glob) => {
                    let text = glob.text().strip_suffix("/*")?;
                    Pattern::read(&Field::Path, text).ok()
                }
                _ => None,
            };
            let also: Vec<Pattern> = any_of.iter().filter_map(without_slash).collect();
            any_of.extend(
                also.into_iter().filter(|exact| !any_of.contains(exact)).collect::<Vec<_>>(),
            );
        }
        Self { field, any_of, negated: false }
    }

    /// The opposite condition.
    #[must_use]
    pub fn negate(self) -> Self {
        Self { negated: !self.negated, ..self }
    }

    /// Whether it names an API key in clear.
    pub(crate) fn has_keys(&self) -> bool {
        let clear = |pattern: &Pattern| matches!(pattern, Pattern::Exact(_));
        self.field == Field::ApiKey && self.any_of.iter().any(clear)
    }

    /// Replaces each API key by its hash, so that it matches what fronts provide.
    pub(crate) fn hash_keys(&mut self, hash: &dyn Fn(&str) -> String) {
        if !self.has_keys() {
            return;
        }
        for pattern in &mut self.any_of {
            if let Pattern::Exact(key) = pattern {
                *pattern = Pattern::Hashed(hash(key).into());
            }
        }
    }

    /// True when the request has the field and it matches one of the patterns; the opposite if it
    /// is negated.
    #[inline]
    pub(crate) fn holds<F: Fields + ?Sized>(&self, fields: &F) -> bool {
        if self.field.is_clock() {
            return self.local(fields.now()).is_some_and(|minute| self.holds_at(minute));
        }
        self.matches(fields) != self.negated
    }

    fn matches<F: Fields + ?Sized>(&self, fields: &F) -> bool {
        let Some(value) = value(fields, &self.field) else { return false };
        let value = normal(&self.field, value);
        if self.any_of.iter().any(|pattern| pattern.holds(&value)) {
            return true;
        }
        let whole = if self.field == Field::Ip { client_address(fields, &value) } else { None };
        whole.is_some_and(|address| {
            let text = address.to_string();
            self.any_of.iter().any(|pattern| !pattern.is_text() && pattern.holds(&text))
        })
    }

    /// The minute of the week at this time, in the zone of this condition on a time or a day.
    fn local(&self, now: Time) -> Option<LocalMinute> {
        self.any_of.iter().find_map(|pattern| match pattern {
            Pattern::Recurring(when) => Some(when.local(now)),
            _ => None,
        })
    }

    /// True when a condition on a time or a day holds at this minute of the week.
    pub(crate) fn holds_at(&self, minute: LocalMinute) -> bool {
        let holds = |pattern: &Pattern| match pattern {
            Pattern::Recurring(when) => when.holds(minute),
            _ => false,
        };
        self.any_of.iter().any(holds) != self.negated
    }

    /// The value that a request has for this condition; for a time or a day the minute of the week
    /// in its zone, such as `Sun 03:00`. `None` if it has none.
    pub fn value_of(&self, fields: &dyn Fields) -> Option<String> {
        match self.local(fields.now()) {
            Some(minute) => Some(local_text(minute)),
            None => value(fields, &self.field).map(Cow::into_owned),
        }
    }

    /// True when this condition holds for every request for which `other` holds.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        if self.field != other.field {
            return false;
        }
        match (self.negated, other.negated) {
            (false, false) => self.is_wider(other),
            (true, true) => other.is_wider(self),
            (true, false) => self.shares_none(other),
            (false, true) => false,
        }
    }

    /// True when each value of `other` is one of these.
    fn is_wider(&self, other: &Self) -> bool {
        // Most are short, and building a set for each pair would take longer than comparing.
        if self.any_of.len() * other.any_of.len() <= SHORT {
            let mine = |theirs: &Pattern| self.any_of.iter().any(|mine| mine.covers(theirs));
            return other.any_of.iter().all(mine);
        }
        let (mine, wide) = self.sorted_out();
        other.any_of.iter().all(|theirs| {
            matches!(theirs, Pattern::Exact(text) if mine.contains(&**text))
                || wide.iter().any(|mine| mine.covers(theirs))
        })
    }

    /// True when no request satisfies both.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        if self.field != other.field {
            return false;
        }
        match (self.negated, other.negated) {
            (false, false) => self.shares_none(other),
            (true, false) => self.is_wider(other),
            (false, true) => other.is_wider(self),
            (true, true) => false,
        }
    }

    /// True when no value is one of both.
    fn shares_none(&self, other: &Self) -> bool {
        if self.any_of.len() * other.any_of.len() <= SHORT {
            let mine = |theirs: &Pattern| self.any_of.iter().all(|mine| mine.is_disjoint(theirs));
            return other.any_of.iter().all(mine);
        }
        let (mine, wide) = self.sorted_out();
        other.any_of.iter().all(|theirs| match theirs {
            Pattern::Exact(text) => {
                !mine.contains(&**text) && wide.iter().all(|mine| mine.is_disjoint(theirs))
            }
            _ => self.any_of.iter().all(|mine| mine.is_disjoint(theirs)),
        })
    }

    /// The exact texts, for lookups in a set, and the patterns that must be compared one by one: a
    /// list of thousands of keys is compared with many others.
    fn sorted_out(&self) -> (HashSet<&str>, Vec<&Pattern>) {
        let mut exact = HashSet::default();
        let mut wide = Vec::new();
        for pattern in &self.any_of {
            match pattern {
                Pattern::Exact(text) => {
                    exact.insert(&**text);
                }
                _ => wide.push(pattern),
            }
        }
        (exact, wide)
    }

    /// The most steps to compare two conditions.
    pub(crate) fn work(&self, other: &Self) -> usize {
        if self.field != other.field {
            return 1;
        }
        let is_wide = |pattern: &&Pattern| !matches!(pattern, Pattern::Exact(_));
        let wide = |one: &Self| one.any_of.iter().filter(is_wide).count();
        let (mine, theirs) = (self.any_of.len(), other.any_of.len());
        mine + theirs + mine * wide(other) + theirs * wide(self)
    }
}

/// A value in the form of patterns: hosts in lower case.
#[inline]
pub(crate) fn normal<'v>(field: &Field, value: Cow<'v, str>) -> Cow<'v, str> {
    if *field == Field::Host && value.bytes().any(|b| b.is_ascii_uppercase()) {
        return Cow::Owned(value.to_ascii_lowercase());
    }
    value
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.field, if self.negated { "!=" } else { "=" })?;
        for (i, pattern) in self.any_of.iter().enumerate() {
            if i > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{pattern}")?;
        }
        Ok(())
    }
}
