//! The figures of a store, for metrics and consoles.

#[cfg(feature = "redis")]
use tollgate_redis::BreakerState;

/// The figures of a store, by where its counts are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Figures {
    /// In this process.
    #[non_exhaustive]
    Memory {
        /// The subjects with an entry of their own.
        subjects: u64,
        /// The limit sets that have counts.
        limit_sets: u64,
        /// The bytes in use.
        bytes: u64,
        /// The most bytes that it may use.
        max_bytes: u64,
        /// The checks over a subject on a shared state, while the store was full.
        shared: u64,
        /// The checks that were denied for lack of room even for a shared state.
        refused: u64,
    },
    /// In a file: none.
    File,
    /// On servers.
    #[cfg(feature = "redis")]
    #[non_exhaustive]
    Servers {
        /// The state of the circuit breaker.
        breaker: BreakerState,
        /// The scripts that were loaded.
        script_loads: u64,
    },
}
