//! A bound socket that listens.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use tokio::net::{TcpListener, UnixListener};

use super::address::Address;

/// The users that may connect to a socket in the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Every user with access to its folder, as with a loopback port.
    Everybody,
    /// The user of the service, and root.
    Owner,
}

/// The most connections that wait to be accepted. The system's own maximum (`net.core.somaxconn`)
/// is lower.
pub(super) const BACKLOG: u32 = 65_535;

/// The most bytes of a response that the kernel buffers beyond those in flight. By default it
/// buffers megabytes for a client that does not read, and other clients wait during the copy.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 64 * 1_024;

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Bound {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A unix socket; its file is removed when this is dropped, unless another made it.
    Unix(UnixListener, Option<PathBuf>),
}

impl Bound {
    /// The bound address, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => Ok(Address::Tcp(vec![listener.local_addr()?])),
            Self::Unix(listener, _) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().ok_or(io::ErrorKind::AddrNotAvailable)?;
                Ok(Address::Unix(path.to_owned()))
            }
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Self::Unix(_, Some(path)) = self {
            // The file may be removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Bounds what the system buffers. Accepted connections inherit this option from their listener.
#[cfg_attr(not(target_os = "linux"), expect(clippy::unnecessary_wraps, reason = "as on Linux"))]
pub(super) fn limit_unsent(socket: &impl AsFd) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}
