//! How a store is connected.

use std::sync::Arc;
use std::time::Duration;

use sha1::Digest as _;
use tollgate::{Clock as TimeSource, StoreError};

use super::plan::Plans;
use super::{DEFAULT_REMEMBER, RareScripts, RedisStore, Shared};
use crate::client::{Client, first_nonce};
use crate::compose::{Clock, Parts};
use crate::key::Keys;
use crate::options::Options;

/// How a store counts; [`RedisStore::connect`] takes the usual way.
#[derive(Debug)]
pub struct Builder {
    options: Options,
    keys: Keys,
    given: Option<Box<dyn TimeSource>>,
    encodes_expiry: bool,
    swapping: bool,
    remember: Duration,
}

impl Builder {
    pub(super) fn new(options: Options) -> Self {
        let keys = Keys::new();
        Self {
            options,
            keys,
            given: None,
            encodes_expiry: false,
            swapping: false,
            remember: DEFAULT_REMEMBER,
        }
    }

    /// How long a request id is remembered (default: [`DEFAULT_REMEMBER`]).
    #[must_use]
    pub fn remember(self, remember: Duration) -> Self {
        Self { remember, ..self }
    }

    /// Puts all keys under the hash tag of this value, so that subjects which are asked together
    /// lie in one slot of a cluster. An ask may name another ([`tollgate::Ask::shard`]).
    #[must_use]
    pub fn shard(self, shard: &str) -> Self {
        Self { keys: self.keys.sharded(shard), ..self }
    }

    /// Counts by `clock` instead of the server's, under keys of a run of its own that live for an
    /// hour: for trying limits on traffic of the past. [`RedisStore::clear_run`] removes them.
    #[must_use]
    pub fn run(self, run: &str, clock: impl TimeSource + 'static) -> Self {
        Self { keys: Keys::for_run(run), given: Some(Box::new(clock)), ..self }
    }

    /// Keeps the keys of a run for years, with TTLs that tell when each would expire by its clock
    /// ([`crate::compose::encoded_expiry_ms`]): for tests of what may be forgotten.
    #[must_use]
    pub fn encode_expiry(self) -> Self {
        Self { encodes_expiry: true, ..self }
    }

    /// Counts under keys of a run of its own, by the server's clock: for trying limits on traffic
    /// of now. [`RedisStore::clear_run`] removes them.
    #[must_use]
    pub fn run_now(self, run: &str) -> Self {
        Self { keys: Keys::for_run(run), given: None, ..self }
    }

    /// Decides here and writes by comparing and swapping, in two round trips and more: what a
    /// strategy without a step in Lua needs. For checks and peeks; logs, request ids and what is
    /// rare are left to their scripts.
    #[must_use]
    pub fn swapping(self) -> Self {
        Self { swapping: true, ..self }
    }

    /// Names the keys so.
    pub(crate) fn keys(self, keys: Keys) -> Self {
        Self { keys, ..self }
    }

    /// Connects.
    ///
    /// # Errors
    /// As [`RedisStore::connect`].
    pub async fn connect(self) -> Result<RedisStore, StoreError> {
        let Self { options, keys, given, encodes_expiry, swapping, remember } = self;
        let (deadline, scripts) = (options.deadline, options.scripts);
        let place = format!("{options} {}", keys.prefix());
        let client = Client::connect(options).await?;
        let clock = match (&given, encodes_expiry) {
            (None, _) => Clock::Server,
            (Some(_), false) => Clock::Given,
            (Some(_), true) => Clock::GivenWithExpiry,
        };
        let parts = Parts::default();
        let rare = RareScripts::new(clock, &parts);
        // Two stores at one place share their counts, so they share their receipts.
        let digest = sha1::Sha1::digest(place.as_bytes());
        let identity = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        Ok(RedisStore(Arc::new(Shared {
            client,
            keys,
            given,
            swapping,
            identity,
            remember,
            deadline,
            // Charges are told apart by these numbers.
            nonce: first_nonce(),
            plans: Plans::new(clock, parts, scripts),
            rare,
        })))
    }
}
