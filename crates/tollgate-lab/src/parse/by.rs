//! The field by which clients are distinguished.

use std::fmt;
use std::str::FromStr;

/// The longest name of a field in bytes.
pub const MAX_FIELD: usize = 256;

/// The field by which clients are distinguished: the `--by` option.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum By {
    /// The address of the client, without a port.
    #[default]
    Ip,
    /// The path of the request, without its query.
    Path,
    /// The authenticated user. A `-` means that there was none: such a line is not an event.
    User,
    /// A field by its name. In JSON lines: any field; `a.b` is field `b` inside `a`. In common and
    /// combined logs: `method`, `status`, `referer`, `agent`, `host` (the remote host, first on the
    /// line) or `vhost` (the virtual host before it).
    Field(String),
}

/// Why a text is not a valid `--by` option.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ByError {
    /// The text is empty.
    #[error("--by needs a field: ip, path, user, or the name of a field of the log")]
    Empty,
    /// The text is longer than [`MAX_FIELD`].
    #[error("the name of a --by field has at most {MAX_FIELD} bytes; this one has {len}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
}

tollgate::debug_as_display!(ByError);

impl FromStr for By {
    type Err = ByError;

    fn from_str(text: &str) -> Result<Self, ByError> {
        match text {
            "" => Err(ByError::Empty),
            "ip" => Ok(Self::Ip),
            "path" => Ok(Self::Path),
            "user" => Ok(Self::User),
            _ if text.len() > MAX_FIELD => Err(ByError::TooLong { len: text.len() }),
            _ => Ok(Self::Field(text.to_owned())),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip => "ip",
            Self::Path => "path",
            Self::User => "user",
            Self::Field(name) => name,
        })
    }
}
