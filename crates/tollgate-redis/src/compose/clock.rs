//! The clock of a script, and how long keys live by it.

/// The clock of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Clock {
    /// The server's, read once in each script.
    Server,
    /// The last argument, in microseconds since the epoch, for replaying past traffic. All keys
    /// expire one hour after their last write.
    Given,
    /// The same for tests: all keys live for years, and their TTL encodes when each would expire by
    /// the given clock ([`encoded_expiry_ms`]).
    GivenWithExpiry,
}

/// The divisor of TTLs under [`Clock::GivenWithExpiry`]. A test may run for half of it in
/// milliseconds.
const EXPIRY_SCALE: u64 = 1 << 20;

/// The millisecond of the given clock at which a key would expire, from its TTL in milliseconds.
#[must_use]
pub fn encoded_expiry_ms(pttl: u64) -> u64 {
    pttl / EXPIRY_SCALE
}

/// The TTL that encodes an expiry `lifetime` milliseconds from now.
pub(super) fn encoded_expiry(lifetime: &str) -> String {
    format!("((now - now % 1000) / 1000 + {lifetime}) * {EXPIRY_SCALE} + {}", EXPIRY_SCALE / 2)
}

/// How long a key of [`Clock::Given`] lives, in milliseconds: longer than a replay takes between
/// two writes of one subject.
pub(super) const GIVEN_LIFETIME_MS: u64 = 3_600_000;
