//! How servers of tests are launched: by which program, as whom, with what.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{installed, tls};

/// How servers are launched, for one at a time or all of a cluster.
///
/// ```
/// use tollgate_testbed::{Launch, RedisServer, redis_program};
///
/// fn a_test() {
///     let Some(program) = redis_program() else { return };
///     let server = RedisServer::launched(&Launch::new().program(program), &["--hz", "50"]);
///     assert_eq!(server.command(&[b"DBSIZE"]).int(), Some(0));
/// }
/// # a_test();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Launch {
    program: Option<PathBuf>,
    pub(super) dir: Option<PathBuf>,
    is_own_user: bool,
    pub(super) is_loading: bool,
    environment: Vec<(String, String)>,
}

impl Launch {
    /// The program of [`redis_program`](crate::redis_program), as the user who runs the test.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// This program in place of the one that is found.
    #[must_use]
    pub fn program(self, program: impl Into<PathBuf>) -> Self {
        Self { program: Some(program.into()), ..self }
    }

    /// Its files and its socket, `redis.sock`, lie in this folder of somebody else, and stay there.
    #[must_use]
    pub fn dir(self, dir: &Path) -> Self {
        Self { dir: Some(dir.to_owned()), ..self }
    }

    /// It counts as started while it still loads its data.
    #[must_use]
    pub fn loading(self) -> Self {
        Self { is_loading: true, ..self }
    }

    /// Each server runs as a separate user, whose number is its port: a firewall can then
    /// distinguish its packets from those of others. Only root can do that.
    #[must_use]
    pub fn as_own_user(self) -> Self {
        Self { is_own_user: true, ..self }
    }

    /// A variable of each server's environment, such as `LD_PRELOAD`.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The start of a command for a server on this port, whose files are in this directory.
    ///
    /// # Errors
    ///
    /// No server is installed.
    ///
    /// # Panics
    ///
    /// The directory cannot be given to another user.
    pub(super) fn command(&self, port: u16, dir: &Path) -> Result<Command, String> {
        let found = || installed::find()?.ok_or_else(|| installed::SKIPPED.to_owned());
        let mut command = Command::new(self.program.clone().map_or_else(found, Ok)?);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.is_own_user {
            let user = u32::from(port);
            command.uid(user);
            chown(dir, Some(user), None).unwrap();
            for entry in fs::read_dir(dir).unwrap() {
                chown(entry.unwrap().path(), Some(user), None).unwrap();
            }
        }
        Ok(command)
    }
}

/// The setup of one server, beside that of all test servers.
#[derive(Debug, Default)]
pub(super) struct Setup {
    pub(super) launch: Launch,
    pub(super) arguments: Vec<String>,
    /// The text of its configuration file, written once: a server may rewrite it, and finds it so
    /// when it is restarted.
    pub(super) config: Option<String>,
}

impl Setup {
    /// The argument after a name.
    pub(super) fn argument(&self, name: &str) -> Option<&str> {
        let found = self.arguments.iter().position(|word| word == name)?;
        self.arguments.get(found + 1).map(String::as_str)
    }

    /// On which port a server that has this one speaks TLS.
    pub(super) fn tls_port(&self, port: u16) -> Option<u16> {
        match self.argument(tls::PORT) {
            Some(other) => other.parse().ok(),
            None => self.argument(tls::CERTIFICATE).map(|_| port),
        }
    }

    /// The arguments that make a server listen on this port.
    pub(super) fn port_arguments(&self, port: u16) -> Vec<String> {
        let text = port.to_string();
        let words: &[&str] = match self.tls_port(port) {
            // Plain text has a default port, which is another's.
            Some(tls_port) if tls_port == port => &["--port", "0", tls::PORT, &text],
            _ => &["--port", &text],
        };
        words.iter().map(|&word| word.to_owned()).collect()
    }
}
