//! Where a limiter listens, and whether that host may get the load of a judgement: this machine
//! may, others when they are named.

use std::fmt;
use std::net::ToSocketAddrs as _;

use anyhow::{Context as _, Result, bail};
use tokio::net::TcpStream;

use crate::input::shown;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Without the brackets of an address of IPv6.
    host: String,
    port: u16,
}

impl Target {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port }
    }

    /// Reads `HOST:PORT`, or `HOST` where there is a usual port.
    pub(super) fn parse(text: &str, usual: Option<u16>) -> Result<Self> {
        let found = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = match (found, usual) {
            (Some(found), _) => found,
            (None, Some(port)) => (text, port),
            (None, None) => bail!("`{}` has no port: write HOST:PORT", shown(text)),
        };
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_wrong = |c: char| matches!(c, ':' | '@' | '/' | '[' | ']') || c.is_whitespace();
        if inner.is_none() && (host.is_empty() || host.contains(is_wrong)) {
            bail!("`{}` is no HOST:PORT, such as `127.0.0.1:8080` or `[::1]:8080`", shown(text));
        }
        Ok(Self::new(inner.unwrap_or(host), port))
    }

    /// Refuses a host beyond loopback, unless it is the named one.
    pub(super) fn may_load(&self, named: Option<&str>) -> Result<()> {
        let Self { host, port } = self;
        if named == Some(host) {
            return Ok(());
        }
        let found = (host.as_str(), *port).to_socket_addrs();
        let found = found.with_context(|| format!("`{}` is not found", shown(host)))?;
        if let Some(other) = found.map(|it| it.ip()).find(|ip| !ip.is_loopback()) {
            bail!(
                "{host} is {other}, which is not this machine: a judgement floods the limiter with \
                 questions. If you may do that, add `--i-may-load {host}`"
            );
        }
        Ok(())
    }

    /// Connects.
    pub(super) async fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.with_context(|| format!("{self} cannot be reached"))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_load(address: &str, named: Option<&str>) -> Result<()> {
        Target::parse(address, None)?.may_load(named)
    }

    #[test]
    fn only_this_machine_gets_load_unless_another_is_named() {
        assert!(may_load("127.0.0.1:80", None).is_ok());
        assert!(may_load("[::1]:80", None).is_ok());
        let refused = may_load("192.0.2.7:80", None).unwrap_err().to_string();
        assert!(refused.contains("--i-may-load 192.0.2.7"), "{refused}");
        assert!(may_load("192.0.2.7:80", Some("192.0.2.8")).is_err());
        assert!(may_load("192.0.2.7:80", Some("192.0.2.7")).is_ok());
    }

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let parse = |text| Target::parse(text, None).map(|target| target.to_string());
        assert_eq!(parse("[::1]:80").unwrap(), "[::1]:80");
        assert_eq!(parse("localhost:80").unwrap(), "localhost:80");
        for wrong in ["localhost", "::1:80", ":80", "a b:80", "user@host:80", "localhost:99999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Target::parse("a.example", Some(443)).unwrap().to_string(), "a.example:443");
    }
}
