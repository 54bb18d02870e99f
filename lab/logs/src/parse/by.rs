//! The field by which clients are distinguished.

use std::fmt;
use std::str::FromStr;

/// The longest name of a field in bytes.
pub const MAX_FIELD: usize = 256;

/// The most fields of one `--by` option.
pub const MAX_BY: usize = 8;

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
    /// combined logs: `method`, `status`, `bytes`, `referer`, `agent`, `host` (the remote host,
    /// first on the line) or `vhost` (the virtual host before it).
    Field(String),
    /// All requests together, as one client.
    All,
    /// Several of the others together, at most [`MAX_BY`]: each combination of values is a client.
    Several(Vec<Self>),
}

/// Why a text is not a valid `--by` option.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ByError {
    /// The text is empty.
    #[error("--by needs a field: ip, path, user, or the name of a field of the log")]
    Empty,
    /// A list names `all`, or one field twice.
    #[error("--by {list} says the same with fewer fields: {why}")]
    Repeated {
        /// The list.
        list: String,
        /// The problem with it.
        why: &'static str,
    },
    /// More fields than [`MAX_BY`].
    #[error("--by takes at most {MAX_BY} fields; this list has {fields}")]
    TooMany {
        /// How many it has.
        fields: usize,
    },
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
            list if list.contains(',') => Self::several(list),
            "" => Err(ByError::Empty),
            "all" => Ok(Self::All),
            "ip" => Ok(Self::Ip),
            "path" => Ok(Self::Path),
            "user" => Ok(Self::User),
            _ if text.len() > MAX_FIELD => Err(ByError::TooLong { len: text.len() }),
            _ => Ok(Self::Field(text.to_owned())),
        }
    }
}

impl By {
    fn several(list: &str) -> Result<Self, ByError> {
        let repeated = |why| Err(ByError::Repeated { list: list.to_owned(), why });
        let mut all: Vec<Self> = Vec::new();
        for text in list.split(',') {
            let by = text.trim().parse()?;
            if by == Self::All {
                return repeated("`all` already counts everything together");
            }
            if all.contains(&by) {
                return repeated("a field is named twice");
            }
            all.push(by);
        }
        if all.len() > MAX_BY {
            return Err(ByError::TooMany { fields: all.len() });
        }
        Ok(Self::Several(all))
    }

    /// The fields: one, or those of [`Self::Several`].
    #[must_use]
    pub fn fields(&self) -> &[Self] {
        match self {
            Self::Several(all) => all,
            one => std::slice::from_ref(one),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::Several(all) => {
                let names: Vec<String> = all.iter().map(ToString::to_string).collect();
                return f.write_str(&names.join(","));
            }
            Self::Ip => "ip",
            Self::Path => "path",
            Self::User => "user",
            Self::Field(name) => name,
        })
    }
}
