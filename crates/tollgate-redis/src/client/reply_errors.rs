//! What errors of redis-rs and of the server mean.

use redis::{ErrorKind, RedisError, ServerError};

use crate::fault::{ChargeState, Fault};

/// What an error of redis-rs means: with an error of the server it answers `Ok`.
pub(super) fn lost(error: &RedisError, charge: ChargeState) -> Fault {
    match error.kind() {
        ErrorKind::Parse => Fault::Garbled { charge },
        _ => Fault::Closed { charge },
    }
}

/// What an error of the server means.
pub(crate) fn refused(error: &ServerError) -> Fault {
    Fault::from_reply(&format!("{} {}", error.code(), error.details().unwrap_or("")))
}
