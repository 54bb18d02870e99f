//! The failure rule: the answer when the store does not answer in time.

use core::fmt;
use core::str::FromStr;

use tollgate::{ParseError, Share};

/// The answer when the store does not answer in time.
///
/// ```
/// use tollgate_policy::OnFailure;
/// let rule: OnFailure = "local 25 %".parse()?;
/// assert_eq!(rule, OnFailure::Local("1/4".parse()?));
/// assert_eq!(rule.to_string(), "local 1/4");
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum OnFailure {
    /// The request is admitted, and not counted.
    Allow,
    /// The request is denied.
    Deny,
    /// This process admits its share of each limit, counted in its own memory. Section 10 of
    /// `docs/definitions.md` has the bounds.
    Local(Share),
}

/// The valid rules, for errors.
pub(crate) const RULES: &str = "say `allow`, `deny`, or a share for this node, e.g. `local 25 %`";

impl OnFailure {
    /// `allow`, `deny` or `local`, without the share.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Local(_) => "local",
        }
    }

    /// The share of a local rule.
    #[must_use]
    pub fn share(self) -> Option<Share> {
        match self {
            Self::Local(share) => Some(share),
            Self::Allow | Self::Deny => None,
        }
    }
}

impl FromStr for OnFailure {
    type Err = ParseError;

    /// Parses `allow`, `deny`, or `local` with a share, such as `local 25 %`.
    ///
    /// # Errors
    /// Anything else; an invalid share.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "allow" => return Ok(Self::Allow),
            "deny" => return Ok(Self::Deny),
            _ => {}
        }
        match text.strip_prefix("local") {
            Some(share) if share.starts_with(' ') => Ok(Self::Local(share.trim_start().parse()?)),
            Some("") => Err(ParseError::whole(text, "`local` names no share", RULES)),
            _ => Err(ParseError::whole(text, format!("`{text}` is not a failure rule"), RULES)),
        }
    }
}

impl fmt::Display for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(share) => write!(f, "local {share}"),
            other => f.write_str(other.name()),
        }
    }
}
