//! The settings of a store, from code or a URL.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, Period, StoreError, WallClock};

/// The default time that an operation waits for the lock.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(5);

/// The charges that survive a crash or a power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Sync {
    /// `synchronous=NORMAL`: an answered check survives the death of every process. A power loss
    /// may undo the last checks, but never damages the file. One `fsync` per some 1,000 pages.
    #[default]
    Normal,
    /// `synchronous=FULL`: an answered check survives a power loss, at the cost of an `fsync` per
    /// check.
    Full,
}

/// The file of a store, and its settings.
///
/// ```
/// use std::time::Duration;
/// use tollgate_sqlite::{Options, Sync};
/// let options = Options::from_url("sqlite:///var/lib/tollgate.db?sync=full&deadline=500ms")?;
/// assert_eq!(options, Options::new("/var/lib/tollgate.db")
///     .sync(Sync::Full)
///     .deadline(Duration::from_millis(500)));
/// # Ok::<(), tollgate::StoreError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) path: PathBuf,
    pub(crate) sync: Sync,
    /// The explicit deadline; `None` for [`DEFAULT_DEADLINE`].
    pub(crate) deadline: Option<Duration>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Options {
    /// A store in the file `path`, which is created if it does not exist; its directory must exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let clock = Arc::new(WallClock);
        Self { path: path.into(), sync: Sync::Normal, deadline: None, clock }
    }

    /// Sets what survives a power loss.
    #[must_use]
    pub fn sync(self, sync: Sync) -> Self {
        Self { sync, ..self }
    }

    /// How long an operation waits for other processes before it fails with a transient error.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Reads the time from `clock` instead of the wall clock: for tests and simulations. All
    /// processes that share a file must agree on the time.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// The deadline of operations that set none themselves.
    pub(crate) fn effective_deadline(&self) -> Duration {
        self.deadline.unwrap_or(DEFAULT_DEADLINE)
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Parses `sqlite://PATH[?sync=full|normal&deadline=5s]`, or a bare path that begins with `/`,
    /// `./` or `../`. In a URL `%XX` is the byte XX, and of an option that is given twice the last
    /// counts; a bare path is taken literally.
    ///
    /// # Errors
    /// The scheme is unknown, the path is missing, or a key or its value is invalid. A text that
    /// may be a server's address as well as a file is rejected, too.
    pub fn from_url(text: &str) -> Result<Self, StoreError> {
        let wrong = |what: String| StoreError::permanent(format!("store `{text}`: {what}"));
        let Some(rest) = text.strip_prefix("sqlite://") else {
            // Not quoted any further: the URL of a server may contain a password.
            if let Some((scheme, _)) = text.split_once("://") {
                return Err(StoreError::permanent(format!(
                    "the store `{scheme}://...` is not SQLite: write `sqlite://PATH`, or a path, \
                     e.g. `./counts.db`"
                )));
            }
            if text.is_empty() {
                return Err(wrong("the path is missing: write `sqlite://PATH`".to_owned()));
            }
            if ["/", "./", "../"].iter().any(|begin| text.starts_with(begin)) {
                return Ok(Self::new(text));
            }
            // Taken as a file, a server's address would make each machine count alone. The error
            // does not quote it, since it may contain a secret.
            let meant = match text.rsplit_once([':', '@']) {
                Some(_) => "a server is named with its scheme, e.g. `redis://HOST:PORT`; a file",
                None => "a file",
            };
            return Err(StoreError::permanent(format!(
                "the store has no scheme: {meant} as `sqlite://PATH`, `./PATH` or `/PATH`"
            )));
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() {
            return Err(wrong("the path is missing: write `sqlite://PATH`".to_owned()));
        }
        let path = tollgate::unescape_text(path).ok_or_else(|| {
            wrong("`%` begins a byte in hexadecimal, e.g. `%3F` for `?`; itself it is `%25`".into())
        })?;
        let mut options = Self::new(path);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (key, value) {
                ("sync", "full") => options.sync = Sync::Full,
                ("sync", "normal") => options.sync = Sync::Normal,
                ("sync", _) => {
                    return Err(wrong(format!(
                        "`sync={value}`: write `sync=normal` (survives a killed process) or \
                         `sync=full` (survives a power loss)"
                    )));
                }
                ("prefix", _) => {
                    return Err(wrong(
                        "`prefix` is for keys on Redis, and one file is one environment: give each \
                         a file of its own, e.g. `sqlite:///var/lib/staging.db`"
                            .to_owned(),
                    ));
                }
                ("deadline", _) => {
                    let read = duration(value).ok_or_else(|| {
                        wrong(format!("`deadline={value}`: write a duration, as in `deadline=5s`"))
                    })?;
                    options.deadline = Some(read);
                }
                _ => {
                    return Err(wrong(format!(
                        "unknown option `{key}`: known are `sync=full` and `deadline=5s`"
                    )));
                }
            }
        }
        Ok(options)
    }
}

impl PartialEq for Options {
    /// The clock, which is for tests, is not compared.
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path && self.sync == other.sync && self.deadline == other.deadline
    }
}

/// A duration in the notation of limits, or zero of a unit (`0s`): do not wait for the lock.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches('0');
    if unit.len() < text.len() && ["us", "ms", "s", "m", "h"].contains(&unit) {
        return Some(Duration::ZERO);
    }
    text.parse::<Period>().ok().map(Period::as_duration)
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)] // a test that cannot go on has failed
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls_say_what_a_store_is_opened_with() {
        let plain = Options::from_url("./some/path.db").unwrap();
        assert_eq!(plain, Options::new("./some/path.db"));
        let named = Options::from_url("sqlite://some/path.db").unwrap();
        assert_eq!(named, Options::new("some/path.db"));
        let odd = Options::from_url("sqlite:///a%3Fb%20c?deadline=0s&sync=normal").unwrap();
        assert_eq!(odd, Options::new("/a?b c").deadline(Duration::ZERO));
    }

    #[test]
    fn wrong_urls_say_what_is_right() {
        for (url, said) in [
            ("sqlite://", "the path is missing"),
            ("", "the path is missing"),
            ("redis://:secret@x", "the store `redis://...` is not SQLite"),
            ("localhost:6379", "e.g. `redis://HOST:PORT`; a file"),
            ("some/path.db", "a file as `sqlite://PATH`"),
            (
                "sqlite://x?prefix=staging",
                "one file is one environment: give each a file of its own",
            ),
            ("sqlite://x?mode=ro", "unknown option `mode`: known are `sync=full` and `deadline"),
            ("sqlite://x?sync=off", "write `sync=normal`"),
            ("sqlite://x?deadline=5", "as in `deadline=5s`"),
            ("sqlite://x?deadline=99999999999999999999s", "as in `deadline=5s`"),
            ("sqlite://x?deadline=9999999999999999h", "as in `deadline=5s`"),
            ("sqlite://x%zz", "`%` begins a byte"),
            ("sqlite://x%", "`%` begins a byte"),
        ] {
            let error = Options::from_url(url).unwrap_err();
            assert!(error.to_string().contains(said), "{url}: {error}");
            assert!(!error.is_transient(), "{url}");
        }
    }

    proptest! {
        #[test]
        fn no_url_panics(text in ".*", query in ".*") {
            let _ = Options::from_url(&text);
            let _ = Options::from_url(&format!("sqlite://{text}?{query}"));
            let _ = Options::from_url(&format!("sqlite://x?deadline={query}"));
        }
    }
}
