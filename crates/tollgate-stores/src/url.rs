//! A store's URL, read before the store is opened.

use core::str::FromStr;
use core::time::Duration;

use tollgate::{MemoryStore, StoreError};

use crate::any::AnyStore;
use crate::kind::Kind;

/// The correction for an unknown scheme.
const KINDS: &str = "write `memory://`, `sqlite://PATH` or `redis://HOST:PORT` (`rediss://` for TLS, \
                     `unix:///PATH` for a socket, `redis+cluster://HOST,HOST` for a cluster, \
                     `redis+sentinel://HOST,HOST/NAME` for sentinels)";

/// A URL of a store that was read and not opened. A program changes it before it opens.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use std::time::Duration;
/// use tollgate_stores::StoreUrl;
///
/// let url = std::env::var("COUNTS").unwrap_or_else(|_| "memory://".to_owned());
/// // A person waits longer than a service may.
/// let url = StoreUrl::parse(&url)?.deadline_or(Duration::from_secs(5));
/// let store = url.open().await?;
/// # let _ = store;
/// # Ok::<(), tollgate::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "a program has one, for as long as it opens a store")]
pub enum StoreUrl {
    /// In this process.
    Memory,
    /// In a file.
    #[cfg(feature = "sqlite")]
    Sqlite(tollgate_sqlite::Options),
    /// On Redis or Valkey.
    #[cfg(feature = "redis")]
    Redis(tollgate_redis::Options),
}

impl StoreUrl {
    /// Reads a URL. Nothing is opened and nobody is asked.
    ///
    /// # Errors
    /// A scheme of no store, or of one whose feature is off; a part that is missing, unknown or
    /// cannot be read. The error names the part and the correction, and shows no password.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let kind = Kind::from_url(url)
            .map_err(|unknown| StoreError::permanent(format!("{unknown}: {KINDS}")))?;
        match kind {
            Kind::Memory if url == "memory://" => Ok(Self::Memory),
            Kind::Memory if url.starts_with("memory://?prefix") => Err(StoreError::permanent(
                "`prefix` is for keys on Redis, and this memory is shared with nobody: write \
                 `memory://` with nothing behind it",
            )),
            // The rest is not shown: it may be a password.
            Kind::Memory => Err(StoreError::permanent(
                "the memory has no host and no path: write `memory://` with nothing behind it",
            )),
            Kind::Sqlite => sqlite(url),
            Kind::Redis => redis(url),
        }
    }

    /// Which kind of store it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Memory => Kind::Memory,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Kind::Sqlite,
            #[cfg(feature = "redis")]
            Self::Redis(_) => Kind::Redis,
        }
    }

    /// The same, where a Redis may take this long for an answer unless the URL said how long. The
    /// other kinds are as they were: memory answers immediately, and a file waits 5 s by itself.
    #[must_use]
    pub fn deadline_or(self, deadline: Duration) -> Self {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(options) => Self::Redis(options.deadline_or(deadline)),
            other => {
                let _ = deadline;
                other
            }
        }
    }

    /// Opens the store: makes one in memory, opens or creates the file, or connects.
    ///
    /// Redis needs a runtime of tokio, in which the store then works. The others need none, and
    /// their future is ready when it is first polled.
    ///
    /// # Errors
    /// A file that cannot be opened; a server that cannot be reached, or refuses. Transient where
    /// it may pass by itself.
    pub async fn open(self) -> Result<AnyStore, StoreError> {
        let store = self.unconnected()?;
        store.try_connect().await?;
        Ok(store)
    }

    /// Opens the store as [`StoreUrl::open`] does, but connects to no server yet. All calls fail
    /// until [`AnyStore::try_connect`] has succeeded, so a program can start while the server is
    /// away.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn unconnected(self) -> Result<AnyStore, StoreError> {
        match self {
            Self::Memory => Ok(AnyStore::Memory(MemoryStore::new())),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(options) => Ok(tollgate_sqlite::SqliteStore::open_with(options)?.into()),
            #[cfg(feature = "redis")]
            Self::Redis(options) => {
                Ok(tollgate_redis::RedisStore::builder(options).unconnected().into())
            }
        }
    }
}

impl AnyStore {
    /// Opens the store that a URL means: `memory://`, `sqlite://PATH` or `redis://HOST`, as the
    /// page of this crate lists them.
    ///
    /// Redis needs a runtime of tokio, and answers within 500 ms unless the URL says otherwise
    /// (`?deadline=200ms`). The others need none.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// use tollgate_stores::AnyStore;
    ///
    /// let store = AnyStore::open("memory://").await?;
    /// assert_eq!(store.kind(), "memory");
    ///
    /// let wrong = AnyStore::open("postgres://db.internal").await.unwrap_err();
    /// assert!(wrong.to_string().starts_with("unknown kind of store `postgres://`: write"));
    /// # Ok::<(), tollgate::StoreError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`StoreUrl::parse`] and [`StoreUrl::open`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        StoreUrl::parse(url)?.open().await
    }
}

impl FromStr for StoreUrl {
    type Err = StoreError;

    fn from_str(url: &str) -> Result<Self, StoreError> {
        Self::parse(url)
    }
}

#[cfg(feature = "sqlite")]
fn sqlite(url: &str) -> Result<StoreUrl, StoreError> {
    Ok(StoreUrl::Sqlite(tollgate_sqlite::Options::from_url(url)?))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_url: &str) -> Result<StoreUrl, StoreError> {
    Err(feature_missing("a file", "sqlite"))
}

#[cfg(feature = "redis")]
fn redis(url: &str) -> Result<StoreUrl, StoreError> {
    Ok(StoreUrl::Redis(tollgate_redis::Options::from_url(url)?))
}

#[cfg(not(feature = "redis"))]
fn redis(_url: &str) -> Result<StoreUrl, StoreError> {
    Err(feature_missing("Redis", "redis"))
}

/// The error of a program that was built without a feature. Nothing of the URL: it may be a secret.
#[cfg(not(all(feature = "redis", feature = "sqlite")))]
fn feature_missing(place: &str, feature: &str) -> StoreError {
    StoreError::permanent(format!(
        "this program was built without counts in {place}: build it with the feature `{feature}` of \
         tollgate-stores, or {KINDS}"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error_of(url: &str) -> String {
        StoreUrl::parse(url).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (url, says) in [
            (
                "postgres://x",
                "unknown kind of store `postgres://`: write `memory://`, `sqlite://PATH`",
            ),
            ("redis+clusters://a,b", "unknown kind of store `redis+clusters://`: write"),
            ("memory://secret", "write `memory://` with nothing behind it"),
            ("memory://?prefix=staging", "`prefix` is for keys on Redis"),
        ] {
            assert!(error_of(url).contains(says), "{url}: {}", error_of(url));
        }
        assert!(!error_of("memory://secret").contains("secret"));
        assert!(matches!(StoreUrl::parse("memory://"), Ok(StoreUrl::Memory)));
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn files_are_read_by_their_store() {
        for url in ["sqlite:///tmp/x.db?sync=full", "sqlite://x.db", "/tmp/x.db", "./a:1", "../x"] {
            assert_eq!(StoreUrl::parse(url).unwrap().kind(), Kind::Sqlite, "{url}");
        }
        for (url, says) in [
            ("sqlite://", "the path is missing: write `sqlite://PATH`"),
            ("sqlite://x?prefix=staging", "one file is one environment"),
            ("sqlite://x?mode=ro", "unknown option `mode`: known are"),
            ("localhost:6379", "a server is named with its scheme, e.g. `redis://HOST:PORT`"),
            ("counts.db", "a file as `sqlite://PATH`, `./PATH`"),
        ] {
            assert!(error_of(url).contains(says), "{url}: {}", error_of(url));
        }
        assert!(!error_of("user:secret@redis").contains("secret"));
    }

    #[cfg(feature = "redis")]
    #[test]
    fn servers_are_read_by_their_store() {
        for url in [
            "redis://x",
            "rediss://x",
            "unix:///x",
            "redis+unix:///x",
            "redis+cluster://a:7001,b",
            "rediss+cluster://a?reach=10.0.0.1:6379>b:7001",
            "redis+sentinel://:secret@a,b:26380/main/2?sentinel_password=x",
        ] {
            assert_eq!(StoreUrl::parse(url).unwrap().kind(), Kind::Redis, "{url}");
        }
        for (url, says) in [
            ("redis://", "the host is missing: write `redis://HOST`"),
            ("redis://h:0", "the port is a number from 1 to 65535"),
            ("redis://h?prefix={a}", "`prefix` takes 1 to 64 letters"),
            ("redis://h?retries=3", "unknown option `retries`: known are"),
            ("unix://run/r.sock", "there are three slashes"),
            ("redis://a,b", "nodes of a cluster are `redis+cluster://HOST,HOST`"),
            ("redis+cluster://", "the host is missing"),
            ("redis+cluster://a,,b", "the host is missing"),
            ("redis+cluster://a/1", "a cluster has only database 0"),
            ("redis+cluster://a?reach=b", "`reach` takes what is announced"),
            ("redis+sentinel://a,b", "the name that the sentinels know the primary by is missing"),
            ("redis+sentinel://a/main/x", "after the name stands the number of a database"),
            ("redis+sentinel://a/main?sentinel_tls=1", "`sentinel_tls` is `yes` or `no`"),
        ] {
            assert!(error_of(url).contains(says), "{url}: {}", error_of(url));
        }
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_deadline_in_the_url_stays() {
        let with = |url| {
            let url = StoreUrl::parse(url).unwrap().deadline_or(Duration::from_secs(5));
            format!("{url:?}")
        };
        assert!(with("redis://x").contains("deadline: 5s"), "{}", with("redis://x"));
        assert!(with("redis://x?connections=1&deadline=70ms").contains("deadline: 70ms"));
    }

    #[cfg(not(all(feature = "redis", feature = "sqlite")))]
    #[test]
    fn a_feature_that_is_off_is_named() {
        #[cfg(not(feature = "redis"))]
        assert!(error_of("redis://:secret@x").contains("the feature `redis`"));
        #[cfg(not(feature = "sqlite"))]
        assert!(error_of("sqlite://x.db").contains("the feature `sqlite`"));
    }

    proptest! {
        #[test]
        fn no_url_panics(text in ".*", scheme in "memory|sqlite|redis|unix|[a-z+]{1,9}") {
            let _ = StoreUrl::parse(&text);
            let _ = StoreUrl::parse(&format!("{scheme}://{text}"));
        }
    }
}
