//! How servers of tests are launched: by which program, as whom, with what.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{RedisServer, tls};

/// How servers are launched, for one at a time or all of a cluster.
///
/// ```
/// use tollgate_proof::redis::{Launch, RedisServer};
///
/// fn a_test() {
///     let Some(program) = RedisServer::find() else { return };
///     let server = RedisServer::launched(&Launch::new().program(program), &["--hz", "50"]);
///     assert_eq!(server.command(&[b"DBSIZE"]).int(), Some(0));
/// }
/// # a_test();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Launch {
    program: Option<PathBuf>,
    is_own_user: bool,
    environment: Vec<(String, String)>,
}

impl Launch {
    /// The program that [`RedisServer::find`] names, as the user who runs the test.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// This program in place of the one that is found.
    #[must_use]
    pub fn program(self, program: impl Into<PathBuf>) -> Self {
        Self { program: Some(program.into()), ..self }
    }

    /// Each server runs as a user of its own, whose number is its port: a firewall can then tell
    /// what it sends from what others send. Only root can do that.
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
    /// # Panics
    ///
    /// No server is installed, or the directory cannot be given to another user.
    pub(super) fn command(&self, port: u16, dir: &Path) -> Command {
        let program = self.program.clone().or_else(RedisServer::find);
        let program = program.expect("no redis-server: start tests with redis_or_skip!");
        let mut command = Command::new(program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.is_own_user {
            let user = u32::from(port);
            command.uid(user);
            chown(dir, Some(user), None).unwrap();
            for entry in fs::read_dir(dir).unwrap() {
                chown(entry.unwrap().path(), Some(user), None).unwrap();
            }
        }
        command
    }
}

/// What one server gets beside what all servers of tests get.
#[derive(Debug, Default)]
pub(super) struct Setup {
    pub(super) launch: Launch,
    pub(super) arguments: Vec<String>,
    /// The text of its configuration file, written once: a server may rewrite it, and finds it so
    /// when it is restarted.
    pub(super) config: Option<String>,
}

impl Setup {
    /// What its arguments say after a name.
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
