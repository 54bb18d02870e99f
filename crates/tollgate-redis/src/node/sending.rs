//! A call on its way: what is sent, who waits for it, and the reply.

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::sync::oneshot;

use super::batch_script::BatchScript;
use super::deadline::Deadline;
use crate::fault::Fault;

/// The arguments of a call before its keys: EVALSHA, the script's name, the number of keys.
pub(super) const BEFORE_KEYS: usize = 3;

/// The part of a call that is sent.
pub(super) struct Sending {
    /// The call on its own.
    pub(super) command: Cmd,
    /// The number of its keys.
    pub(super) keys: usize,
    /// The number of its words, keys included; 0 where it is sent alone.
    pub(super) words: usize,
    /// The slot of its keys on a cluster, else 0.
    pub(super) slot: u16,
    /// The script of a batch that it may share with waiting calls of the same script and slot;
    /// `None` for a call that is sent alone, and that no other overtakes.
    pub(super) batch: Option<Arc<BatchScript>>,
}

impl Sending {
    /// A command that is sent alone and has no keys.
    pub(super) fn alone(command: Cmd) -> Self {
        Self { command, keys: 0, words: 0, slot: 0, batch: None }
    }
}

/// The reply to a call.
#[derive(Debug)]
pub(super) struct CallReply {
    /// The call on its own.
    pub(super) command: Cmd,
    /// The reply, which may be a server error. `None` when its batch was refused, so that none of
    /// its calls ran.
    pub(super) answer: Option<Value>,
}

/// A call that waits to be sent.
pub(super) struct PendingCall {
    pub(super) sending: Sending,
    /// When the caller stops waiting for the reply.
    pub(super) by: Deadline,
    pub(super) reply: oneshot::Sender<Result<CallReply, Fault>>,
}

impl PendingCall {
    pub(super) fn hear(self, answer: Option<Value>) {
        // The caller may have been dropped.
        drop(self.reply.send(Ok(CallReply { command: self.sending.command, answer })));
    }

    pub(super) fn fail(self, fault: Fault) {
        drop(self.reply.send(Err(fault)));
    }
}
