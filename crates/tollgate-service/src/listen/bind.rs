//! Binds addresses: opens a socket, or takes one that systemd passed.

use std::fs::Permissions;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};

use tokio::net::{TcpListener, TcpSocket, UnixSocket};

use super::address::Address;
use super::bound::{Access, BACKLOG, Bound, limit_unsent};
use super::passed;

impl Address {
    /// Whether clients reach it over TCP; true for a name of systemd that was not passed.
    pub(crate) fn is_tcp(&self) -> bool {
        match self {
            Self::Tcp(_) => true,
            Self::Unix(_) => false,
            Self::Systemd(name) => passed::address(name).is_none_or(|it| it.is_tcp()),
        }
    }

    /// Whether only this machine can reach the address; false for a name of systemd that was not
    /// passed.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(found) => found.iter().all(|address| is_loopback(address.ip())),
            Self::Unix(_) => true,
            Self::Systemd(name) => passed::address(name).is_some_and(|it| it.is_local()),
        }
    }

    /// Binds the address. If a name resolves to several, this is the first that can be bound.
    ///
    /// # Errors
    /// The error of the operating system: the address is in use, not permitted, or not of this
    /// machine.
    pub(crate) fn bind(&self, access: Access) -> io::Result<Bound> {
        match self {
            Self::Tcp(found) => Ok(Bound::Tcp(listen(found)?)),
            Self::Unix(path) => {
                let refuses = |path| {
                    let connected = std::os::unix::net::UnixStream::connect(path);
                    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
                };
                // A socket that refuses connections is left over from a process that has ended. A
                // file that is not a socket refuses them too, and must not be removed.
                let is_socket = |path| {
                    let found = std::fs::symlink_metadata(path);
                    found.is_ok_and(|found| found.file_type().is_socket())
                };
                if is_socket(path) && refuses(path) {
                    std::fs::remove_file(path)?;
                }
                let socket = UnixSocket::new_stream()?;
                socket.bind(path)?;
                // Before it listens, so that nobody else can connect meanwhile.
                let mode = match access {
                    Access::Everybody => 0o666,
                    Access::Owner => 0o600,
                };
                std::fs::set_permissions(path, Permissions::from_mode(mode))?;
                Ok(Bound::Unix(socket.listen(BACKLOG)?, Some(path.clone())))
            }
            Self::Systemd(name) => passed::take(name, access),
        }
    }
}

/// Listens on the first address that can be bound, or returns the error of the last.
fn listen(found: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut last_error = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in found {
        match listen_on(*address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Allow an address that a stopped process has just released.
    socket.set_reuseaddr(true)?;
    limit_unsent(&socket)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Whether the address is a loopback one, including `::ffff:127.0.0.1`.
fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a flood, new connections wait in this queue instead of being dropped on the network.
    #[tokio::test]
    async fn as_many_wait_to_be_accepted_as_the_system_allows() {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let most = most.trim().parse::<usize>().unwrap().min(400);
        assert!(most > 128, "this system allows too few for a test: net.core.somaxconn is {most}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let tcp = "127.0.0.1:0".parse::<Address>().unwrap().bind(Access::Everybody).unwrap();
        let unix = Address::Unix(path.clone()).bind(Access::Everybody).unwrap();
        let Ok(Address::Tcp(address)) = tcp.address() else { panic!("{tcp:?}") };
        // Nobody accepts. A connection without a place in the queue waits a second, or is refused.
        let mut waiting = Vec::new();
        for number in 0..most {
            let timeout = core::time::Duration::from_millis(900);
            waiting.push(
                std::net::TcpStream::connect_timeout(&address[0], timeout)
                    .unwrap_or_else(|error| panic!("{number} of {most}: {error}")),
            );
        }
        let connect = tokio::net::UnixStream::connect;
        let mut local = Vec::new();
        for number in 0..most {
            let connected = connect(&path).await;
            local.push(connected.unwrap_or_else(|error| panic!("{number} of {most}: {error}")));
        }
        drop(unix);
    }

    #[tokio::test]
    async fn the_next_address_is_tried_where_one_cannot_be_bound() {
        // No machine has the first, which is for documentation.
        let found = ["192.0.2.1:0", "127.0.0.1:0"].map(|address| address.parse().unwrap());
        let listener = listen(&found).unwrap();
        assert!(listener.local_addr().unwrap().ip().is_loopback());
        let error = listen(&found[..1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }

    /// The kernel buffers little of a response that nobody reads; its default is megabytes.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_takes_little_of_what_nobody_reads() {
        let bound = "127.0.0.1:0".parse::<Address>().unwrap().bind(Access::Everybody).unwrap();
        let Ok(Address::Tcp(address)) = bound.address() else { panic!("{bound:?}") };
        let Bound::Tcp(listener) = &bound else { panic!("{bound:?}") };
        let unread = std::net::TcpStream::connect(address[0]).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut taken = 0;
        // Until the kernel has taken nothing for a while.
        let pause = core::time::Duration::from_millis(200);
        while tokio::time::timeout(pause, stream.writable()).await.is_ok() {
            taken += stream.try_write(&[b'a'; 16 * 1_024]).unwrap_or_default();
        }
        assert!(taken < 1_000_000, "{taken} bytes");
        drop(unread);
    }
}
