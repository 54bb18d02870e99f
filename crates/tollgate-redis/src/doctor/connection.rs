//! The doctor's own connection: one command at a time, with a limit for each wait.

use std::fmt;
use std::future::{Future, ready};
use std::time::Duration;

use redis::Value;
use tokio::runtime::{Builder, Runtime};

use super::facts::{CommandReply, Commands, ConnectionLost};
use crate::client::CommandConnection;
use crate::fault::Fault;
use crate::options::Options;

/// How long connecting and each reply may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to be looked at by the doctor. It brings what drives it, and waits in its thread:
/// not to be used within a tokio runtime.
pub struct Connection {
    line: CommandConnection,
    address: String,
    /// Dropped last: the line lives in it.
    runtime: Runtime,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why there is no connection. None of these says a password.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL cannot be read.
    Url(String),
    /// Nobody answers there, or not as Redis does.
    Unreachable {
        /// Where.
        address: String,
        /// What went wrong.
        why: String,
    },
    /// A server answers, and refuses the user, the password or the database.
    Refused {
        /// Where.
        address: String,
        /// The server's words.
        why: String,
    },
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(why) => f.write_str(why),
            Self::Unreachable { address, why } => {
                write!(f, "no Redis can be reached at {address}: {why}")
            }
            Self::Refused { address, why } => write!(f, "{address} refuses to serve us: {why}"),
        }
    }
}

impl std::error::Error for ConnectError {}

impl Connection {
    /// Connects: `redis://`, `rediss://` (TLS) or `unix://`.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub fn open(url: &str) -> Result<Self, ConnectError> {
        let options =
            Options::from_url(url).map_err(|error| ConnectError::Url(error.to_string()))?;
        let address = options.address.to_string();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ConnectError::Unreachable {
            address: address.clone(),
            why: format!("no runtime can be started: {error}"),
        })?;
        match runtime.block_on(CommandConnection::open(options.connect_timeout(PATIENCE))) {
            Ok(line) => Ok(Self { line, address, runtime }),
            Err(Fault::Unreachable { why, .. }) => Err(ConnectError::Unreachable { address, why }),
            Err(fault) if is_servers_word(&fault) => {
                Err(ConnectError::Refused { address, why: fault.to_string() })
            }
            Err(fault) => Err(ConnectError::Unreachable { address, why: fault.to_string() }),
        }
    }

    /// Where the server is, without user and password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Commands for Connection {
    fn command(
        &mut self,
        words: &[&str],
    ) -> impl Future<Output = Result<CommandReply, ConnectionLost>> {
        let mut command = redis::Cmd::new();
        command.arg(words);
        let exchange = self.runtime.block_on(self.line.exchange(&command, PATIENCE));
        ready(exchange.map(answer).map_err(|fault| ConnectionLost::new(fault.to_string())))
    }
}

/// Whether a server said it, and not the way to it.
fn is_servers_word(fault: &Fault) -> bool {
    !matches!(
        fault,
        Fault::Tls { .. }
            | Fault::TlsToPlainPort { .. }
            | Fault::PlainToTlsPort { .. }
            | Fault::Deadline { .. }
            | Fault::Closed { .. }
            | Fault::Garbled { .. }
    )
}

fn answer(value: Value) -> CommandReply {
    match value {
        Value::Nil => CommandReply::Nil,
        Value::Int(number) => CommandReply::Int(number),
        Value::BulkString(bytes) => {
            CommandReply::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => CommandReply::Text(text),
        Value::Okay => CommandReply::Text("OK".to_owned()),
        Value::Array(items) | Value::Set(items) => {
            CommandReply::List(items.into_iter().map(answer).collect())
        }
        Value::Map(pairs) => CommandReply::List(
            pairs.into_iter().flat_map(|(name, value)| [answer(name), answer(value)]).collect(),
        ),
        Value::ServerError(error) => {
            CommandReply::Error(format!("{} {}", error.code(), error.details().unwrap_or_default()))
        }
        // Numbers with fractions, truth values and pushes: nothing that is asked answers them.
        _ => CommandReply::Nil,
    }
}
