//! The command that loads a script, and its reply.

use redis::{Cmd, Value};

use super::reply_errors::refused;
use crate::fault::{ChargeState, Fault};
use crate::script::Script;

/// The command that loads a script.
pub(super) fn command(script: &Script) -> Cmd {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script.text());
    command
}

/// Whether the reply to [`command`] confirms the script.
pub(super) fn loaded(script: &Script, answer: &Value) -> Result<(), Fault> {
    match answer {
        Value::BulkString(sha) if sha == script.sha().as_bytes() => Ok(()),
        Value::ServerError(error) => Err(refused(error)),
        _ => Err(Fault::Garbled { charge: ChargeState::NotCharged }),
    }
}
