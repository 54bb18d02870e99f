//! TLS for servers of tests: a certificate for 127.0.0.1 and `localhost`, and who signed it.

use std::process::{Command, Stdio};

use super::RedisServer;

/// The authority that signed the certificate of servers with TLS, as PEM.
pub const AUTHORITY: &str = include_str!("authority.pem");

/// What a test prints that needs TLS when the server program was built without it.
pub const NO_TLS: &str = "SKIPPED: this redis-server has no TLS: apt-get install redis-server";

/// Whether the server program was built with TLS; true when none is installed.
///
/// # Panics
///
/// It cannot be started.
#[must_use]
pub fn has_tls() -> bool {
    let Some(program) = RedisServer::find() else { return true };
    // With nothing to listen on it ends at once, unless it does not know the directive.
    let mut server = Command::new(program);
    server.args(["--port", "0", "--tls-port", "0"]).stdin(Stdio::null());
    let said = server.output().expect("redis-server can be started");
    !String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).contains("Bad directive")
}

/// Arguments for a server that speaks TLS to clients, to its primary, and to other nodes.
pub(super) fn arguments() -> Vec<String> {
    let file = |name: &str| format!("{}/src/redis/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let pairs = [
        (CERTIFICATE, file("server.pem")),
        ("--tls-key-file", file("server.key")),
        ("--tls-ca-cert-file", file("authority.pem")),
        ("--tls-auth-clients", "no".to_owned()),
        ("--tls-replication", "yes".to_owned()),
    ];
    pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

/// The argument that only servers with TLS have.
pub(super) const CERTIFICATE: &str = "--tls-cert-file";

/// The argument of a server that listens for TLS beside plain text.
pub(super) const PORT: &str = "--tls-port";
