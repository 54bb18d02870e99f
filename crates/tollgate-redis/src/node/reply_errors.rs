//! Maps errors of redis-rs and of the server to faults.

use redis::{ErrorKind, RedisError, ServerError};

use super::redirect::{NotAnswered, Redirect};
use crate::fault::{ChargeState, Fault};

/// The fault for an error of redis-rs. A server error is not among them: redis-rs returns it as
/// `Ok`.
pub(super) fn lost(error: &RedisError, charge: ChargeState) -> Fault {
    match error.kind() {
        ErrorKind::Parse => Fault::Garbled { charge },
        _ => Fault::Closed { charge },
    }
}

/// The fault for an error of the server.
pub(crate) fn refused(error: &ServerError) -> Fault {
    Fault::from_reply(&format!("{} {}", error.code(), error.details().unwrap_or("")))
}

/// The redirect or the fault for an error of the server.
pub(super) fn not_answered(error: &ServerError) -> NotAnswered {
    Redirect::of(error).map_or_else(|| refused(error).into(), NotAnswered::from)
}
