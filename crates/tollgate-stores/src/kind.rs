//! Which kind of store a URL means. Its scheme decides.

use core::fmt;

/// The longest scheme that an error repeats, in characters.
const SHOWN_CHARS: usize = 60;

/// A kind of store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// In this process: `memory://`.
    Memory,
    /// In a file: `sqlite://`, or a path.
    Sqlite,
    /// On Redis or Valkey: `redis://`, `unix://` or `redis+unix://`; a cluster, `redis+cluster://`;
    /// the primary that sentinels name, `redis+sentinel://`. With `rediss` it is over TLS.
    Redis,
}

impl Kind {
    /// The kind that a URL means. Nothing but the scheme is looked at, so the rest may be wrong.
    ///
    /// A text without a scheme is a path, which means a file. Only one that begins with `/`, `./`
    /// or `../` can be opened.
    ///
    /// ```
    /// use tollgate_stores::Kind;
    ///
    /// assert_eq!(Kind::from_url("rediss://redis.internal"), Ok(Kind::Redis));
    /// assert_eq!(Kind::from_url("./counts.db"), Ok(Kind::Sqlite));
    /// assert!(Kind::from_url("postgres://db.internal").is_err());
    /// ```
    ///
    /// # Errors
    /// The scheme is of no store.
    pub fn from_url(url: &str) -> Result<Self, UnknownKind> {
        match scheme(url) {
            None | Some("sqlite") => Ok(Self::Sqlite),
            Some("memory") => Ok(Self::Memory),
            Some(
                "redis" | "rediss" | "unix" | "redis+unix" | "redis+cluster" | "rediss+cluster"
                | "redis+sentinel" | "rediss+sentinel",
            ) => Ok(Self::Redis),
            Some(other) => Err(UnknownKind::new(other)),
        }
    }

    /// `memory`, `sqlite` or `redis`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
        }
    }
}

/// The scheme of a URL, before `://`. `None` without one.
///
/// The rest may hold a password, so errors should repeat the scheme alone.
#[must_use]
pub fn scheme(url: &str) -> Option<&str> {
    url.split_once("://").map(|(scheme, _)| scheme)
}

/// A URL means none of the stores there are. It reads as the problem; the correction is up to the
/// program, which may take fewer kinds.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownKind {
    /// The scheme as it can be shown.
    scheme: String,
}

impl UnknownKind {
    fn new(scheme: &str) -> Self {
        let mut chars = scheme.chars();
        let shown = chars.by_ref().take(SHOWN_CHARS);
        let mut shown: String = shown.map(|c| if c.is_control() { '?' } else { c }).collect();
        if chars.next().is_some() {
            shown.push_str("...");
        }
        Self { scheme: shown }
    }
}

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown kind of store `{}://`", self.scheme)
    }
}

impl std::error::Error for UnknownKind {}

tollgate::debug_as_display!(UnknownKind);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_says_the_kind() {
        for (url, kind) in [
            ("memory://", Kind::Memory),
            ("sqlite://x.db?sync=full", Kind::Sqlite),
            ("/tmp/x.db", Kind::Sqlite),
            ("", Kind::Sqlite),
            ("redis://x", Kind::Redis),
            ("rediss://x", Kind::Redis),
            ("unix:///x", Kind::Redis),
            ("redis+unix:///x", Kind::Redis),
            ("redis+cluster://a,b", Kind::Redis),
            ("rediss+cluster://a,b", Kind::Redis),
            ("redis+sentinel://a,b/main", Kind::Redis),
            ("rediss+sentinel://a,b/main", Kind::Redis),
        ] {
            assert_eq!(Kind::from_url(url), Ok(kind), "{url}");
        }
    }

    #[test]
    fn a_scheme_of_no_store_is_named_and_nothing_else() {
        for (url, said) in [
            ("postgres://ann:secret@x", "unknown kind of store `postgres://`"),
            ("Redis://x", "unknown kind of store `Redis://`"),
            ("redis+clusters://a,b", "unknown kind of store `redis+clusters://`"),
            ("a\nb://", "unknown kind of store `a?b://`"),
        ] {
            assert_eq!(Kind::from_url(url).unwrap_err().to_string(), said);
        }
        let long = format!("{}://", "x".repeat(SHOWN_CHARS + 1));
        assert!(Kind::from_url(&long).unwrap_err().to_string().ends_with("x...://`"));
    }
}
