//! Builds and connects a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

use sha1::Digest as _;
use tollgate::{Clock as TimeSource, StoreError};

use super::denials::Denials;
use super::plan::Plans;
use super::rare_scripts::RareScripts;
use super::redis_store::{RedisStore, Shared};
use crate::client::Client;
use crate::compose::{Clock, Parts};
use crate::key::Keys;
use crate::node::first_nonce;
use crate::options::Options;

/// The settings of a store; [`RedisStore::connect`] uses the defaults.
#[derive(Debug)]
pub struct Builder {
    options: Options,
    keys: Keys,
    given: Option<Box<dyn TimeSource>>,
    encodes_expiry: bool,
    swapping: bool,
}

impl RedisStore {
    /// Connects to `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS, or
    /// `unix:///path`. Options such as `?deadline=50ms` and `&connections=1` follow.
    ///
    /// # Errors
    /// The URL is invalid, or the server cannot be reached, refuses the password, or is not Redis.
    /// Each error suggests a remedy.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(Options::from_url(url)?).connect().await
    }

    /// A store that is not connected yet.
    #[must_use]
    pub fn builder(options: Options) -> Builder {
        Builder::new(options)
    }
}

impl Builder {
    fn new(options: Options) -> Self {
        let keys = Keys::new().within(&options.prefix);
        Self { options, keys, given: None, encodes_expiry: false, swapping: false }
    }

    /// Puts all keys under the hash tag of this value, so that subjects of one ask are stored in
    /// one slot of a cluster. An ask may name another shard ([`tollgate::Ask::shard`]).
    #[must_use]
    pub fn shard(self, shard: &str) -> Self {
        Self { keys: self.keys.sharded(shard), ..self }
    }

    /// Uses `clock` instead of the server's clock, and separate keys for this run, which expire
    /// after an hour. Intended for replaying past traffic. [`RedisStore::clear_run`] removes the
    /// keys.
    #[must_use]
    pub fn run(self, run: &str, clock: impl TimeSource + 'static) -> Self {
        let keys = Keys::for_run(run).within(&self.options.prefix);
        Self { keys, given: Some(Box::new(clock)), ..self }
    }

    /// Keeps the keys of a run for years, and encodes in their TTLs when each would expire by its
    /// own clock ([`crate::compose::encoded_expiry_ms`]). Intended for tests of expiry.
    #[must_use]
    pub fn encode_expiry(self) -> Self {
        Self { encodes_expiry: true, ..self }
    }

    /// Uses separate keys for this run, and the server's clock. Intended for trying limits on
    /// current traffic. [`RedisStore::clear_run`] removes the keys.
    #[must_use]
    pub fn run_now(self, run: &str) -> Self {
        let keys = Keys::for_run(run).within(&self.options.prefix);
        Self { keys, given: None, ..self }
    }

    /// Decides in this process and writes by compare-and-swap, in two or more round trips: for
    /// strategies without a step in Lua. This covers checks and peeks. Logs, request ids and rare
    /// operations still use their scripts.
    #[must_use]
    pub fn swapping(self) -> Self {
        Self { swapping: true, ..self }
    }

    /// Sets the names of the keys.
    pub(crate) fn keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }

    /// Connects.
    ///
    /// # Errors
    /// As [`RedisStore::connect`].
    pub async fn connect(self) -> Result<RedisStore, StoreError> {
        let store = self.unconnected();
        store.try_connect().await?;
        Ok(store)
    }

    /// The store before its first connection, for a program that starts while the server is away.
    /// All calls fail immediately, and charge nothing, until [`RedisStore::try_connect`] has
    /// succeeded.
    #[must_use]
    pub fn unconnected(self) -> RedisStore {
        let Self { options, keys, given, encodes_expiry, swapping } = self;
        let (deadline, scripts) = (options.deadline, options.scripts);
        let place = format!("{options} {}", keys.prefix());
        let is_usual = options.database == 0 && options.prefix.name().is_none();
        let environment = format!("{} {}", options.database, options.prefix);
        let environment = if is_usual { String::new() } else { environment };
        let client = Client::unconnected(options);
        let clock = match (&given, encodes_expiry) {
            (None, _) => Clock::Server,
            (Some(_), false) => Clock::Given,
            (Some(_), true) => Clock::GivenWithExpiry,
        };
        let parts = Parts::default();
        let rare = RareScripts::new(clock, &parts);
        // Two stores on one server and database share their counts, so they also share receipts.
        let digest = sha1::Sha1::digest(place.as_bytes());
        let identity = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        RedisStore(Arc::new(Shared {
            client,
            keys,
            given,
            swapping,
            identity,
            environment,
            deadline,
            // These numbers identify charges.
            nonce: first_nonce(),
            plans: Plans::new(clock, parts, scripts),
            rare,
            forgotten_requests: AtomicU64::new(0),
            ahead_us: AtomicI64::new(0),
            denials: Denials::default(),
        }))
    }
}
