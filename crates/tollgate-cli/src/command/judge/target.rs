//! Whether a host may get the load of a judgement: this machine may, others when they are named.

use std::net::ToSocketAddrs as _;

use anyhow::{Context as _, Result, bail};

use crate::input::shown;

/// Refuses an address beyond loopback, unless its host is the named one.
pub(super) fn may_load(address: &str, named: Option<&str>) -> Result<()> {
    let Some((host, _)) = address.rsplit_once(':') else {
        bail!("`{}` has no port: write HOST:PORT", shown(address));
    };
    if named == Some(host) {
        return Ok(());
    }
    let found = address.to_socket_addrs();
    let found = found.with_context(|| format!("`{}` is not found", shown(address)))?;
    if let Some(other) = found.map(|it| it.ip()).find(|ip| !ip.is_loopback()) {
        bail!(
            "{host} is {other}, which is not this machine: a judgement floods the limiter with \
             questions. If you may do that, add `--i-may-load {host}`"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_gets_load_unless_another_is_named() {
        assert!(may_load("127.0.0.1:80", None).is_ok());
        assert!(may_load("[::1]:80", None).is_ok());
        let refused = may_load("192.0.2.7:80", None).unwrap_err().to_string();
        assert!(refused.contains("--i-may-load 192.0.2.7"), "{refused}");
        assert!(may_load("192.0.2.7:80", Some("192.0.2.8")).is_err());
        assert!(may_load("192.0.2.7:80", Some("192.0.2.7")).is_ok());
        assert!(may_load("localhost", None).is_err());
    }
}
