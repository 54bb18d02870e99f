//! The two sides of `memory`, behind one face.

use std::hint::black_box;
use std::num::NonZeroU32;

use governor::clock::DefaultClock;
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use tollgate::{Ask, DEFAULT_BYTES, Limit, Limiter, MemoryStore, Period, Strategy};

/// More than an entry takes, so that the store's bound is out of the way.
const BYTES_PER_KEY: usize = 256;

const MINUTE_US: u64 = 60_000_000;

/// Key number `i`: 16 bytes.
pub(super) fn key(i: u32) -> String {
    format!("key-{i:012}")
}

// governor is asked with a reference to its own kind of key, which is a `String` here.
#[allow(clippy::ptr_arg)]
/// A keyed limiter that gives back one unit per minute, up to a burst.
pub(super) trait Side: Sync {
    fn new(burst: u32, keys: u32) -> Self;
    /// Takes units before the measurement.
    fn spend(&self, key: &String, units: u32);
    /// The call that is measured: one unit. Both look at what remains.
    fn call(&self, key: &String) -> bool;
}

/// Ours.
pub(super) struct Tollgate(Limiter);

impl Side for Tollgate {
    fn new(burst: u32, keys: u32) -> Self {
        let bytes = DEFAULT_BYTES.max(keys as usize * BYTES_PER_KEY);
        let store = MemoryStore::builder().max_bytes(bytes).build();
        let period = Period::from_micros(MINUTE_US).unwrap_or_else(|| unreachable!("a minute"));
        let mut quota = tollgate::Quota::new(1, period);
        quota.burst = Some(u64::from(burst));
        let limit = Limit::new(quota, Strategy::Gcra)
            .unwrap_or_else(|_| unreachable!("a burst below 2^32 minutes is counted exactly"));
        Self(Limiter::new(limit.into(), store))
    }

    fn spend(&self, key: &String, units: u32) {
        let ask = Ask::new(key.as_str()).cost(u64::from(units));
        black_box(self.0.check(ask).now().is_ok());
    }

    #[inline]
    fn call(&self, key: &String) -> bool {
        self.0.check(key.as_str()).now().is_ok_and(|decision| {
            black_box(decision.remaining());
            decision.is_allowed()
        })
    }
}

/// governor's keyed limiter on a dashmap, with its default clock, and the middleware that says
/// what remains.
pub(super) struct Governor(
    RateLimiter<String, DashMapStateStore<String>, DefaultClock, StateInformationMiddleware>,
);

impl Side for Governor {
    fn new(burst: u32, _keys: u32) -> Self {
        let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_minute(NonZeroU32::MIN).allow_burst(burst);
        Self(RateLimiter::dashmap(quota).with_middleware())
    }

    fn spend(&self, key: &String, units: u32) {
        let units = NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN);
        black_box(self.0.check_key_n(key, units).is_ok());
    }

    #[inline]
    fn call(&self, key: &String) -> bool {
        match self.0.check_key(key) {
            Ok(snapshot) => {
                black_box(snapshot.remaining_burst_capacity());
                true
            }
            Err(not_until) => {
                black_box(&not_until);
                false
            }
        }
    }
}
