//! Conditions: what a field must be for a policy to apply.

use core::fmt;

use hashbrown::HashSet;
use tollgate::ParseError;

use crate::field::{Field, Fields, value};

/// The longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1_024;

/// Up to so many pairs of patterns are compared one by one.
const SHORT: usize = 16;

/// What one value may be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Pattern {
    /// Exactly this.
    Exact(Box<str>),
    /// What begins with this.
    Prefix(Box<str>),
    /// A host below this one: `.example.com`, with its dot.
    Below(Box<str>),
    /// Anything but nothing.
    Any,
}

impl Pattern {
    /// Reads `abc`, `abc*`, `*`, and for a host `*.example.com`.
    ///
    /// # Errors
    /// An empty text, one over [`MAX_PATTERN_BYTES`], a `*` where none can stand.
    pub fn parse(field: &Field, text: &str) -> Result<Self, ParseError> {
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
                format!("at most {MAX_PATTERN_BYTES}: write a prefix, as `abc*`"),
            ));
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
            let star = star + (text.len() - rest.len()) * usize::from(below.is_some());
            return Err(ParseError::at(
                text,
                star..star + 1,
                "a `*` cannot stand here",
                "it stands at the end, as `/api/*`, alone, or before the dot of a host, as \
                 `*.example.com`",
            ));
        }
        Ok(match (pattern(rest.into()), field) {
            (Self::Exact(text), Field::Ip) => Self::Exact(address(&text).unwrap_or(text)),
            (pattern, _) => pattern,
        })
    }

    /// True when `value` is one of these.
    #[inline]
    pub(crate) fn holds(&self, value: &str) -> bool {
        match self {
            Self::Exact(text) => **text == *value,
            Self::Prefix(text) => value.starts_with(&**text),
            Self::Below(text) => value.len() > text.len() && value.ends_with(&**text),
            Self::Any => true,
        }
    }

    /// True when every value of `other` is one of these.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (pattern, Self::Exact(text)) => pattern.holds(text),
            (Self::Prefix(mine), Self::Prefix(theirs)) => theirs.starts_with(&**mine),
            (Self::Below(mine), Self::Below(theirs)) => theirs.ends_with(&**mine),
            _ => false,
        }
    }
}

/// One form for one address, and for one network of IPv6.
fn address(text: &str) -> Option<Box<str>> {
    let Some((ip, length)) = text.split_once('/') else {
        let ip: std::net::IpAddr = text.parse().ok()?;
        return Some(ip.to_canonical().to_string().into());
    };
    let (ip, length): (std::net::Ipv6Addr, u8) = (ip.parse().ok()?, length.parse().ok()?);
    Some(format!("{ip}/{length}").into())
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) => f.write_str(text),
            Self::Prefix(text) => write!(f, "{text}*"),
            Self::Below(text) => write!(f, "*{text}"),
            Self::Any => f.write_str("*"),
        }
    }
}

/// A field that must be one of some patterns.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Condition {
    /// Which field.
    pub field: Field,
    /// What it may be: at least one.
    pub any_of: Vec<Pattern>,
}

impl Condition {
    /// A field that must be one of these. For a path `/api/*` is `/api` too: fronts give `/api/` in
    /// this form.
    #[must_use]
    pub fn new(field: Field, mut any_of: Vec<Pattern>) -> Self {
        if field == Field::Path {
            let without_slash = |pattern: &Pattern| {
                match pattern {
                    Pattern::Prefix(text) => text.strip_suffix('/').filter(|text| !text.is_empty()),
                    _ => None,
                }
                .map(|text| Pattern::Exact(text.into()))
            };
            let also: Vec<Pattern> = any_of.iter().filter_map(without_slash).collect();
            any_of.extend(
                also.into_iter().filter(|exact| !any_of.contains(exact)).collect::<Vec<_>>(),
            );
        }
        Self { field, any_of }
    }

    /// True when the request has the field and it is one of the patterns.
    #[inline]
    pub(crate) fn holds<F: Fields + ?Sized>(&self, fields: &F) -> bool {
        let Some(value) = value(fields, &self.field) else { return false };
        let any = |value: &str| self.any_of.iter().any(|pattern| pattern.holds(value));
        if self.field == Field::Host && value.bytes().any(|b| b.is_ascii_uppercase()) {
            return any(&value.to_ascii_lowercase());
        }
        any(&value)
    }

    /// True when every request for which `other` holds has this one hold.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        if self.field != other.field {
            return false;
        }
        // Most are short, and a set for each pair would take longer than looking.
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

    /// True when no request can have both hold.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        if self.field != other.field {
            return false;
        }
        let apart = |a: &Pattern, b: &Pattern| match (a, b) {
            (Pattern::Exact(text), pattern) | (pattern, Pattern::Exact(text)) => {
                !pattern.holds(text)
            }
            (Pattern::Prefix(a), Pattern::Prefix(b)) => {
                !a.starts_with(&**b) && !b.starts_with(&**a)
            }
            (Pattern::Below(a), Pattern::Below(b)) => !a.ends_with(&**b) && !b.ends_with(&**a),
            _ => false,
        };
        if self.any_of.len() * other.any_of.len() <= SHORT {
            let mine = |theirs: &Pattern| self.any_of.iter().all(|mine| apart(mine, theirs));
            return other.any_of.iter().all(mine);
        }
        let (mine, wide) = self.sorted_out();
        other.any_of.iter().all(|theirs| match theirs {
            Pattern::Exact(text) => {
                !mine.contains(&**text) && wide.iter().all(|mine| apart(mine, theirs))
            }
            _ => self.any_of.iter().all(|mine| apart(mine, theirs)),
        })
    }

    /// The exact texts to be found at once, and the patterns that must be looked at: a list of
    /// thousands of keys is compared with many others.
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

    /// How many steps it takes at most to compare two of them.
    pub(crate) fn work(&self, other: &Self) -> usize {
        if self.field != other.field {
            return 1;
        }
        let wide = |one: &Self| {
            one.any_of.iter().filter(|pattern| !matches!(pattern, Pattern::Exact(_))).count()
        };
        let (mine, theirs) = (self.any_of.len(), other.any_of.len());
        mine + theirs + mine * wide(other) + theirs * wide(self)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = ", self.field)?;
        for (i, pattern) in self.any_of.iter().enumerate() {
            if i > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{pattern}")?;
        }
        Ok(())
    }
}
