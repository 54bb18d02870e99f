//! Ports on which nobody listens.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Ports are taken from below those that systems give to outgoing connections, or one of these
/// could sit on the port of a server that is about to be restarted.
const PORTS: Range<u16> = 10_000..32_000;

/// An address of 127.0.0.1 on which nobody listens right now, and which this process was not given
/// lately: a test must not take what listens for another for its own server.
#[must_use]
pub fn free_port() -> SocketAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // Each process begins somewhere else.
        let turn = std::process::id() % 100_000 * 97 + GIVEN.fetch_add(1, Ordering::Relaxed);
        let offset = turn % u32::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(offset).unwrap_or_default();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
