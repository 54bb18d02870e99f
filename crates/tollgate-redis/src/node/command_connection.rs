//! A connection to look at a server.

use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use super::connector::Connector;
use super::deadline::Deadline;
use super::wire::Wire;
use crate::fault::Fault;
use crate::options::Options;

/// One connection for a few commands, to inspect a server in any state. Any answer to the greeting
/// is accepted, and a lost connection is not replaced.
pub(crate) struct CommandConnection(Wire);

impl CommandConnection {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the user, the password or the database.
    pub(crate) async fn open(options: Options) -> Result<Self, Fault> {
        let connector = Connector::new(options)?.lenient();
        connector.diagnosed(connector.open(0, |_| {})).await.map(Self)
    }

    /// Sends a command and waits for its reply, which may be a server error.
    ///
    /// # Errors
    /// No reply in time, or the connection was lost.
    pub(crate) async fn exchange(&self, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        self.0.exchange(command, Deadline::within(within)).await
    }

    /// Sends commands in one write and waits for all replies, each of which may be a server error.
    ///
    /// # Errors
    /// As [`CommandConnection::exchange`], for all together: some commands may have been answered
    /// before.
    pub(crate) async fn exchange_all(
        &self,
        commands: &Pipeline,
        within: Duration,
    ) -> Result<Vec<Value>, Fault> {
        self.0.exchange_all(commands, Deadline::within(within)).await
    }

    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}
