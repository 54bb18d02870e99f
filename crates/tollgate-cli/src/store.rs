//! The store of a command, and how the command waits for it.

use std::ffi::OsString;
use std::future::Future;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::runtime::{Builder, Runtime};
use tollgate::{Hold, Limiter, MemoryStore, MemoryStoreBuilder, StoreError};
use tollgate_queue::{AnyQueues, Layout, ProducerSettings, RedisQueues, SqliteQueues};
use tollgate_redis::{KeyPrefix, RedisStore, may_connect_later};
use tollgate_service::Queues;
use tollgate_stores::{AnyStore, Kind, StoreUrl, scheme};

use crate::args::{StoreArgs, SubjectArgs};
use crate::input::{bytes, shown};
use crate::subject_limits::SubjectLimits;

/// The default deadline for Redis if the URL has no `deadline`: the same as for SQLite. A service
/// gives up after 500 ms, but a person would rather wait than retry.
const PATIENCE: Duration = Duration::from_secs(5);

/// A limiter over the named store, with its runtime.
pub(crate) struct BlockingLimiter {
    pub(crate) limiter: Limiter<AnyStore>,
    /// Redis needs a runtime; a file does not.
    runtime: Option<Runtime>,
}

impl BlockingLimiter {
    /// Opens the store from the arguments, the environment or the default. The wait for a locked
    /// database has its default limit of 5 s.
    pub(crate) fn open(
        place: &StoreArgs,
        which: &SubjectArgs,
        counts: &SubjectLimits,
    ) -> Result<Self> {
        let (store, runtime) = opened(place, which.shard.as_deref())?;
        let limiter = Limiter::new(counts.first_limits().clone(), store);
        Ok(Self { limiter, runtime })
    }

    /// The same for a hold, which names its subject.
    pub(crate) fn of_hold(place: &StoreArgs, hold: &Hold) -> Result<Self> {
        let Some((_, limits)) = hold.counts.first() else { bail!("this hold is over no count") };
        let (store, runtime) = opened(place, hold.shard.as_deref())?;
        Ok(Self { limiter: Limiter::new(limits.clone(), store), runtime })
    }

    /// Waits for an answer.
    pub(crate) fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        match &self.runtime {
            Some(runtime) => runtime.block_on(answer),
            None => pollster::block_on(answer),
        }
    }

    /// Updates the state of the connection after a pause, so that no call is sent over a connection
    /// that was closed meanwhile. It would be unknown whether such a call was charged.
    pub(crate) fn catch_up(&self) {
        if let Some(runtime) = &self.runtime {
            // The shortest timer makes the runtime poll its sockets.
            runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        }
    }
}

/// Opens a store; Redis with its runtime.
fn opened(place: &StoreArgs, shard: Option<&str>) -> Result<(AnyStore, Option<Runtime>)> {
    Ok(match store_url(place.store.as_deref())? {
        StoreUrl::Redis(options) => {
            let runtime = runtime()?;
            let mut builder = RedisStore::builder(options);
            if let Some(shard) = shard {
                builder = builder.shard(shard);
            }
            (AnyStore::from(runtime.block_on(builder.connect())?), Some(runtime))
        }
        file => (pollster::block_on(file.open())?, None),
    })
}

/// The store of a service, on its runtime; a Redis is not connected to yet. Without a name it is a
/// memory store of this size, with the counts of `snapshot`.
pub(crate) fn service_store(
    url: Option<&str>,
    memory: Option<&str>,
    snapshot: Option<&Path>,
) -> Result<AnyStore> {
    let url = url.filter(|url| !url.is_empty());
    let is_memory = url.is_none_or(|url| Kind::from_url(url) == Ok(Kind::Memory));
    let mut builder = MemoryStore::builder();
    if let Some(size) = memory {
        if !is_memory {
            bail!(
                "`--memory` is for the memory store: SQLite and Redis are as large as their file \
                 and their `maxmemory`"
            );
        }
        builder = builder.max_bytes(bytes(size).map_err(|error| anyhow!("`--memory`: {error}"))?);
    }
    if snapshot.is_some() && !is_memory {
        bail!(
            "`--snapshot` is for the memory store: SQLite and Redis keep their counts by themselves"
        );
    }
    match url.map_or(Ok(StoreUrl::Memory), read)? {
        StoreUrl::Memory => Ok(AnyStore::Memory(memory_store(builder, snapshot)?)),
        // A service uses the store's own deadline, unless the URL sets one.
        other => Ok(other.unconnected()?),
    }
}

/// The memory store of a service, with the counts of `snapshot` if that exists.
fn memory_store(builder: MemoryStoreBuilder, snapshot: Option<&Path>) -> Result<MemoryStore> {
    let Some(path) = snapshot else { return Ok(builder.build()) };
    let (store, restored) = tollgate_service::snapshot::restore(builder, path)?;
    if let Some(restored) = restored {
        tracing::info!(
            target: "tollgate",
            "{} counts of {}, saved at {}",
            restored.subjects,
            path.display(),
            crate::show::time(restored.saved_at.as_micros())
        );
    }
    Ok(store)
}

/// The queues in the store from the arguments, the environment or the default.
pub(crate) async fn queues(place: &StoreArgs, form: Layout) -> Result<AnyQueues> {
    queues_at(store_url(place.store.as_deref())?, form).await
}

async fn queues_at(url: StoreUrl, form: Layout) -> Result<AnyQueues> {
    let queues = unconnected_queues(url, form)?;
    if let AnyQueues::Redis(queues) = &queues {
        queues.try_connect().await?;
    }
    Ok(queues)
}

/// The queues in a file, or on a Redis that is not connected to yet.
fn unconnected_queues(url: StoreUrl, form: Layout) -> Result<AnyQueues> {
    match url {
        StoreUrl::Sqlite(options) => Ok(AnyQueues::Sqlite(SqliteQueues::open_with(options)?)),
        StoreUrl::Redis(options) => Ok(AnyQueues::Redis(RedisQueues::unconnected(options, form))),
        other => bail!("`{}://` keeps no queues: {KINDS}", other.kind().name()),
    }
}

/// The queues of a service, in the store of its counts.
#[derive(Default)]
pub(crate) struct ServiceQueues {
    store: Option<AnyQueues>,
    named: Vec<(String, Option<ProducerSettings>)>,
}

impl ServiceQueues {
    /// Where they lie; `None` if there are none.
    pub(crate) fn store(&self) -> Option<&AnyQueues> {
        self.store.as_ref()
    }

    /// Opens them if the store is there; else what it knows of them is read when it comes. Returns
    /// whether it is there.
    pub(crate) async fn serve(&self, is_there: bool) -> Result<(Queues, bool)> {
        let Some(queues) = &self.store else { return Ok((Queues::default(), is_there)) };
        let named = self.named.iter().map(|(name, settings)| {
            Ok((tollgate_queue::Queue::new(queues.clone(), name)?, settings.clone()))
        });
        let named = named.collect::<Result<Vec<_>>>()?;
        let is_there = is_there
            && match connect_queues(Some(queues)).await {
                // It went away between two connections.
                Err(error) if may_connect_later(&error) => false,
                connected => connected.map(|()| true)?,
            };
        if !is_there {
            return Ok((Queues::unopened(named)?, false));
        }
        if let Some(warning) = eviction_warning(queues).await {
            tracing::warn!(target: "tollgate", "{warning}");
        }
        Ok((Queues::open(named).await?, true))
    }
}

/// Connects queues on a server, unless they have connected before; those in a file are open.
pub(crate) async fn connect_queues(queues: Option<&AnyQueues>) -> Result<(), StoreError> {
    match queues {
        Some(AnyQueues::Redis(queues)) => queues.try_connect().await.map_err(|error| match error {
            tollgate_queue::Error::Store(error) => error,
            other => StoreError::permanent(other.to_string()),
        }),
        _ => Ok(()),
    }
}

/// The queues of a service, such as `NAME=BOUND`, in the store of its counts. A Redis is not
/// connected to yet.
pub(crate) fn service_queues(
    url: Option<&str>,
    texts: &[String],
    form: Layout,
) -> Result<ServiceQueues> {
    if texts.is_empty() {
        return Ok(ServiceQueues::default());
    }
    let wanted: Vec<(&str, Option<ProducerSettings>)> =
        texts.iter().map(|text| queue_argument(text)).collect::<Result<_>>()?;
    for (place, (name, _)) in wanted.iter().enumerate() {
        if wanted.iter().take(place).any(|(other, _)| other == name) {
            bail!("`--queue` names `{name}` twice");
        }
    }
    let url = url.filter(|url| !url.is_empty() && *url != "memory://").ok_or_else(|| {
        anyhow!(
            "`--queue` needs a store that workers reach, too: `--store sqlite://PATH` or \
             `--store redis://HOST:PORT`"
        )
    })?;
    // With the same deadline as a service's store.
    let store = unconnected_queues(read(url)?, form)?;
    let named = wanted.into_iter().map(|(name, settings)| (name.to_owned(), settings));
    Ok(ServiceQueues { store: Some(store), named: named.collect() })
}

/// The warning for a server that may evict jobs of queues.
pub(crate) async fn eviction_warning(queues: &AnyQueues) -> Option<String> {
    let AnyQueues::Redis(queues) = queues else { return None };
    let policy = queues.eviction_policy().await.ok().flatten()?;
    let loses = if policy.starts_with("allkeys") {
        "jobs are lost then"
    } else {
        "ids of --once and counts of rates are forgotten then"
    };
    Some(format!(
        "this Redis evicts keys when it is full (maxmemory-policy {policy}), and {loses}: set \
         maxmemory-policy noeviction (tollgate doctor)"
    ))
}

/// `NAME=BOUND`, `NAME=BOUND,per-client=N`, or `NAME` for an existing queue.
fn queue_argument(text: &str) -> Result<(&str, Option<ProducerSettings>)> {
    let wrong = || {
        let text = shown(text);
        anyhow!(
            "`--queue {text}`: write NAME=BOUND, as in `--queue mail=100`: at most 100 wait; or \
             NAME=BOUND,per-client=N, as in `--queue mail=100,per-client=10`: at most 10 of one \
             client"
        )
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number).ok_or_else(wrong)
    };
    let Some((name, bounds)) = text.split_once('=') else { return Ok((text, None)) };
    let Some((queue_argument, more)) = bounds.split_once(',') else {
        return Ok((name, Some(ProducerSettings::new(number(bounds)?))));
    };
    let most = more.strip_prefix("per-client=").ok_or_else(wrong)?;
    Ok((name, Some(ProducerSettings::new(number(queue_argument)?).per_client(number(most)?))))
}

/// The server of the time series.
pub(crate) fn time_series_options(url: &str) -> Result<tollgate_redis::Options> {
    match (Kind::from_url(url), scheme(url)) {
        (Ok(Kind::Redis), _) => {
            let options = tollgate_redis::Options::from_url(url)?.deadline_or(PATIENCE);
            if options.is_cluster() {
                bail!("time series lie on one server, and this is a cluster: {TIME_SERIES}");
            }
            Ok(options)
        }
        // Quote only the scheme: the rest may contain a password.
        (_, Some(scheme)) => bail!("{} keeps no time series: {TIME_SERIES}", shown(scheme)),
        (_, None) => bail!("this is not the URL of a server with time series: {TIME_SERIES}"),
    }
}

/// The valid servers for time series.
const TIME_SERIES: &str = "name a Redis that has them, e.g. `redis://127.0.0.1:6379` (Redis 8, \
                           Redis \
                           Stack, or Valkey with valkey-timeseries)";

/// A single-threaded runtime for Redis, on this thread.
pub(crate) fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("no runtime can be started")
}

/// The store of a command's counts: from the URL or, without one, the file in the user's state
/// folder.
fn store_url(url: Option<&str>) -> Result<StoreUrl> {
    let Some(url) = url.filter(|url| !url.is_empty()) else {
        return Ok(StoreUrl::Sqlite(tollgate_sqlite::Options::new(default_path()?)));
    };
    if Kind::from_url(url) == Ok(Kind::Memory) {
        bail!(
            "`memory://` would forget everything when this command ends, and so admit always: use \
             `sqlite://PATH` or `redis://HOST:PORT`, or leave `--store` out"
        );
    }
    Ok(read(url)?.deadline_or(PATIENCE))
}

/// Parses a URL.
fn read(url: &str) -> Result<StoreUrl> {
    match Kind::from_url(url) {
        Ok(_) => Ok(StoreUrl::parse(url)?),
        // With the error text of this command line, whose commands accept different kinds of
        // stores.
        Err(unknown) => bail!("{unknown}: {KINDS}"),
    }
}

/// Whether the URL is of a cluster, whose checks over several slots are several calls.
pub(crate) fn is_cluster(url: &str) -> Result<bool> {
    Ok(match read(url)? {
        StoreUrl::Redis(options) => options.is_cluster(),
        _ => false,
    })
}

/// The prefix of the keys of the store at this URL; none without one, or in another store.
pub(crate) fn key_prefix(url: Option<&str>) -> Result<KeyPrefix> {
    let options = redis_options(url)?;
    Ok(options.map(|options| options.key_prefix().clone()).unwrap_or_default())
}

/// The settings of the Redis at this URL; `None` for another store, or without one.
pub(crate) fn redis_options(url: Option<&str>) -> Result<Option<tollgate_redis::Options>> {
    Ok(match url.filter(|url| !url.is_empty()).map(read).transpose()? {
        Some(StoreUrl::Redis(options)) => Some(options),
        _ => None,
    })
}

/// The valid kinds of stores.
const KINDS: &str = "this version has `sqlite://PATH`, `redis://HOST:PORT` (`rediss://` for TLS, \
                     `unix:///PATH`), `redis+cluster://HOST,HOST`, \
                     `redis+sentinel://HOST,HOST/NAME` \
                     and, for `serve` and `replay`, `memory://`";

/// The file in the user's state folder, which is created if it does not exist.
fn default_path() -> Result<PathBuf> {
    let folder = folder(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).with_context(|| {
        format!(
            "the folder {} cannot be made: give another place with `--store sqlite://PATH`",
            folder.display()
        )
    })?;
    Ok(folder.join("tollgate.db"))
}

/// `$XDG_STATE_HOME/tollgate`, else `~/.local/state/tollgate`. Relative paths are ignored, as the
/// XDG specification requires.
fn folder(state: Option<OsString>, home: Option<OsString>) -> Result<PathBuf> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(state)
        .or_else(|| absolute(home).map(|home| home.join(".local").join("state")))
        .map(|folder| folder.join("tollgate"))
        .ok_or_else(|| {
            anyhow!(
                "neither XDG_STATE_HOME nor HOME is set, so there is no default place for counts: \
                 give one with `--store sqlite://PATH`"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_in_the_state_folder() {
        let os = |text: &str| Some(OsString::from(text));
        assert_eq!(folder(os("/s"), os("/h")).unwrap(), Path::new("/s/tollgate"));
        assert_eq!(folder(os("rel"), os("/h")).unwrap(), Path::new("/h/.local/state/tollgate"));
        assert_eq!(folder(None, os("/h")).unwrap(), Path::new("/h/.local/state/tollgate"));
        assert!(folder(None, os("")).unwrap_err().to_string().contains("--store"));
    }

    #[test]
    fn stores_that_are_not_there_say_so() {
        for (url, says) in [
            ("memory://", "would forget everything"),
            ("redis+cluster://a,", "the host is missing"),
            ("redis+sentinel://a", "the name that the sentinels know the primary by is missing"),
            ("redis://", "the host is missing"),
            ("postgres://x", "unknown kind of store `postgres://`"),
            ("sqlite://", "path is missing"),
            ("redis.prod:6379", "a server is named with its scheme, e.g. `redis://HOST:PORT`"),
            ("localhost:6379", "e.g. `redis://HOST:PORT`"),
            ("user:secret@redis", "e.g. `redis://HOST:PORT`"),
            ("counts.db", "a file as `sqlite://PATH`, `./PATH`"),
        ] {
            let error = store_url(Some(url)).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
        }
        for url in ["sqlite:///tmp/x.db?sync=full", "sqlite://x.db", "/tmp/x.db", "./a:1", "../x"] {
            assert!(matches!(store_url(Some(url)), Ok(StoreUrl::Sqlite(_))), "{url}");
        }
        for url in ["redis://x", "rediss://x", "unix:///x", "redis+unix:///x"] {
            assert!(matches!(store_url(Some(url)), Ok(StoreUrl::Redis(_))), "{url}");
        }
    }

    #[test]
    fn time_series_are_on_a_redis() {
        for url in ["redis://x", "rediss://x", "unix:///x"] {
            assert!(time_series_options(url).is_ok(), "{url}");
        }
        for (url, says) in [
            ("memory://", "memory keeps no time series: name a Redis"),
            ("sqlite:///x", "sqlite keeps no time series"),
            ("user:secret@x", "not the URL of a server with time series"),
            ("redis://", "the host is missing"),
        ] {
            let error = time_series_options(url).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn a_deadline_in_the_url_counts() {
        let with = |url| format!("{:?}", store_url(Some(url)).unwrap());
        assert!(with("redis://x").contains("deadline: 5s"), "{}", with("redis://x"));
        assert!(with("redis://x?connections=1&deadline=70ms").contains("deadline: 70ms"));
    }
}
