//! The doctor's own connection: one command at a time, with a limit for each wait.

use std::fmt;
use std::future::{Future, ready};
use std::time::Duration;

use redis::{ConnectionLike as _, ErrorKind, RedisError, Value};

use super::facts::{Answer, Commands, Lost};

/// How long connecting and each reply may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to be looked at by the doctor.
pub struct Connection {
    connection: redis::Connection,
    address: String,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why there is no connection. None of these says a password.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Trouble {
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

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(why) => write!(
                f,
                "the URL of the store cannot be read: {why}; write redis://HOST:PORT, \
                 rediss://HOST:PORT or unix:///PATH"
            ),
            Self::Unreachable { address, why } => {
                write!(f, "no Redis can be reached at {address}: {why}")
            }
            Self::Refused { address, why } => write!(f, "{address} refuses to serve us: {why}"),
        }
    }
}

impl std::error::Error for Trouble {}

impl Connection {
    /// Connects: `redis://`, `rediss://` (TLS) or `unix://`.
    ///
    /// # Errors
    ///
    /// See [`Trouble`].
    pub fn open(url: &str) -> Result<Self, Trouble> {
        // The URL itself is not shown: it may hold a password.
        let client = redis::Client::open(url).map_err(|error| Trouble::Url(error.to_string()))?;
        let address = client.get_connection_info().addr().to_string();
        let trouble = |error: RedisError| {
            let why = error.to_string();
            let address = address.clone();
            if is_servers_word(&error) {
                Trouble::Refused { address, why }
            } else {
                Trouble::Unreachable { address, why }
            }
        };
        let connection = client.get_connection_with_timeout(PATIENCE).map_err(trouble)?;
        connection.set_read_timeout(Some(PATIENCE)).map_err(trouble)?;
        connection.set_write_timeout(Some(PATIENCE)).map_err(trouble)?;
        Ok(Self { connection, address })
    }

    /// Where the server is, without user and password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Commands for Connection {
    fn command(&mut self, words: &[&str]) -> impl Future<Output = Result<Answer, Lost>> {
        let mut command = redis::Cmd::new();
        command.arg(words);
        ready(match self.connection.req_command(&command) {
            Ok(value) => Ok(answer(value)),
            Err(error) if is_servers_word(&error) => Ok(Answer::Error(words_of(&error))),
            Err(error) => Err(Lost::new(error.to_string())),
        })
    }
}

/// Whether a server said it, and not the way to it.
fn is_servers_word(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed
    )
}

/// An error as the server wrote it: its code, then its words.
fn words_of(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

fn answer(value: Value) -> Answer {
    match value {
        Value::Nil => Answer::Nil,
        Value::Int(number) => Answer::Int(number),
        Value::BulkString(bytes) => Answer::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Answer::Text(text),
        Value::Okay => Answer::Text("OK".to_owned()),
        Value::Array(items) | Value::Set(items) => {
            Answer::List(items.into_iter().map(answer).collect())
        }
        Value::Map(pairs) => Answer::List(
            pairs.into_iter().flat_map(|(name, value)| [answer(name), answer(value)]).collect(),
        ),
        Value::ServerError(error) => {
            Answer::Error(format!("{} {}", error.code(), error.details().unwrap_or_default()))
        }
        // Numbers with fractions, truth values and pushes: nothing that is asked answers them.
        _ => Answer::Nil,
    }
}
