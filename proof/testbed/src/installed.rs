//! The installed server program, and the message of a test without one.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::program::Program;

/// The message of a test when there is no `redis-server`: the reason, then the one line to run.
pub const SKIPPED: &str = "SKIPPED: redis-server is not installed: apt-get install redis-server";

/// The message of a test that needs TLS when the server program was built without it.
pub const NO_TLS: &str = "SKIPPED: this redis-server has no TLS: apt-get install redis-server";

/// The variable that names another server program.
const NAMED: &str = "TOLLGATE_REDIS_SERVER";

/// The server program: what `TOLLGATE_REDIS_SERVER` names, else `redis-server` or `valkey-server`
/// from the path. None when none is installed.
///
/// # Errors
///
/// `TOLLGATE_REDIS_SERVER` names something that is not there.
pub(crate) fn find() -> Result<Option<PathBuf>, String> {
    let Some(named) = std::env::var_os(NAMED).map(PathBuf::from) else {
        return Ok(["redis-server", "valkey-server"].into_iter().find_map(Program::find));
    };
    match named.is_file() {
        true => Ok(Some(named)),
        false => Err(format!("{NAMED} is not a file: {}", named.display())),
    }
}

/// The server program, if one is installed.
///
/// # Panics
///
/// `TOLLGATE_REDIS_SERVER` names something that is not there: a test that were skipped for that
/// would be missed by the person who set it.
#[must_use]
pub fn redis_program() -> Option<PathBuf> {
    find().unwrap_or_else(|why| panic!("{why}"))
}

/// Whether the server program was built with TLS; true when none is installed.
///
/// # Panics
///
/// It cannot be started.
#[must_use]
pub fn has_tls() -> bool {
    let Some(program) = redis_program() else { return true };
    // With nothing to listen on it ends immediately, unless it does not know the directive.
    let mut server = Command::new(program);
    server.args(["--port", "0", "--tls-port", "0"]).stdin(Stdio::null());
    let said = server.output().expect("redis-server can be started");
    !String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).contains("Bad directive")
}
