//! TLS for servers of tests: a certificate for 127.0.0.1 and `localhost`, and who signed it.

/// The authority that signed the certificate of servers with TLS, as PEM.
pub const AUTHORITY: &str = include_str!("tls/authority.pem");

/// Another authority, which signed nothing, as PEM.
pub const STRANGER: &str = include_str!("tls/stranger.pem");

/// The argument that only servers with TLS have.
pub(super) const CERTIFICATE: &str = "--tls-cert-file";

/// The argument of a server that listens for TLS beside plain text.
pub(super) const PORT: &str = "--tls-port";

/// Arguments for a server that speaks TLS to clients, to its primary, and to other nodes.
pub(super) fn arguments() -> Vec<String> {
    let file = |name: &str| format!("{}/src/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let pairs = [
        (CERTIFICATE, file("server.pem")),
        ("--tls-key-file", file("server.key")),
        ("--tls-ca-cert-file", file("authority.pem")),
        ("--tls-auth-clients", "no".to_owned()),
        ("--tls-replication", "yes".to_owned()),
    ];
    pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}
