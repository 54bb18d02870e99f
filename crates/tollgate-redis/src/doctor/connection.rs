//! The doctor's own connection: one command at a time, each with a timeout.

use std::fmt;
use std::future::{Future, ready};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::facts::{Commands, ConnectionLost};
use crate::client::open_one;
use crate::command_reply::CommandReply;
use crate::fault::Fault;
use crate::node::CommandConnection;
use crate::options::{Address, Options, Target};

/// The timeout for connecting and for each reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// A blocking connection for the doctor. It has its own runtime and waits on the calling thread, so
/// do not use it within a tokio runtime.
pub struct Connection {
    line: Line,
    address: String,
    /// Dropped last, since the connection runs on it.
    runtime: Runtime,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why there is no connection. No variant contains a password.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is invalid.
    Url(String),
    /// No server answers there, or it is not Redis.
    Unreachable {
        /// The address.
        address: String,
        /// The cause.
        why: String,
    },
    /// None of the sentinels answers. The servers that they watch may be up.
    NoSentinel {
        /// The addresses.
        address: String,
        /// The cause.
        why: String,
    },
    /// The server refuses the user, the password or the database.
    Refused {
        /// The address.
        address: String,
        /// The server's error text.
        why: String,
    },
    /// The connection ended before all was seen.
    Lost {
        /// The address.
        address: String,
        /// The cause.
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
            Self::NoSentinel { address, why } => write!(
                f,
                "no sentinel can be reached at {address}: {why}; the servers that they watch were \
                 not examined"
            ),
            Self::Refused { address, why } => write!(f, "{address} refuses to serve us: {why}"),
            Self::Lost { address, why } => {
                write!(f, "the connection was lost: {why} ({address})")
            }
        }
    }
}

impl std::error::Error for ConnectError {}

impl Connection {
    /// Connects to a server: `redis://`, `rediss://` (TLS) or `unix://`, or the primary that
    /// `redis+sentinel://` names.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub fn open(url: &str) -> Result<Self, ConnectError> {
        let options = options(url)?;
        let address = options.target.to_string();
        let runtime = runtime(&address)?;
        match runtime.block_on(open_one(options)).map_err(Unopened::from) {
            Ok(line) => Ok(Self { line: Line(line), address, runtime }),
            Err(Unopened::Unreachable(why)) => Err(ConnectError::Unreachable { address, why }),
            Err(Unopened::Refused(why)) => Err(ConnectError::Refused { address, why }),
        }
    }

    /// The server's address, without user and password.
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
        ready(self.runtime.block_on(self.line.command(words)))
    }
}

/// The options of a URL, with the doctor's patience.
pub(super) fn options(url: &str) -> Result<Options, ConnectError> {
    let options = Options::from_url(url).map_err(|error| ConnectError::Url(error.to_string()))?;
    Ok(options.connect_timeout(PATIENCE))
}

/// The runtime of one examination.
pub(super) fn runtime(address: &str) -> Result<Runtime, ConnectError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| ConnectError::Unreachable {
        address: address.to_owned(),
        why: format!("no runtime can be started: {error}"),
    })
}

/// A connection to one server, in a runtime.
pub(super) struct Line(CommandConnection);

/// Why a server was not connected to.
pub(super) enum Unopened {
    /// No server answers there, or it is not Redis.
    Unreachable(String),
    /// The server refuses the user, the password or the database.
    Refused(String),
}

impl From<Fault> for Unopened {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unreachable { why, .. } => Self::Unreachable(why),
            fault if is_servers_word(&fault) => Self::Refused(fault.to_string()),
            fault => Self::Unreachable(fault.to_string()),
        }
    }
}

impl Line {
    /// Connects to a server at this address, with the login of `options`.
    pub(super) async fn open(options: &Options, address: Address) -> Result<Self, Unopened> {
        let options = Options { target: Target::Server(address), ..options.clone() };
        Ok(Self(CommandConnection::open(options).await?))
    }
}

impl Commands for Line {
    async fn command(&mut self, words: &[&str]) -> Result<CommandReply, ConnectionLost> {
        let mut command = redis::Cmd::new();
        command.arg(words);
        let exchange = self.0.exchange(&command, PATIENCE).await;
        exchange.map(CommandReply::from).map_err(|fault| ConnectionLost::new(fault.to_string()))
    }
}

/// Whether the fault is an answer of the server, not of the network.
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
