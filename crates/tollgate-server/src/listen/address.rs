//! The addresses that the service listens on: TCP and unix sockets.

use core::fmt;
use core::str::FromStr;
use std::fs::Permissions;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::PathBuf;

use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};

use super::passed;

/// An address to listen on: `HOST:PORT`, `:PORT` for all addresses of the machine, `unix:/PATH`, or
/// `systemd:NAME`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Address {
    /// The addresses to which the host and the port resolve.
    Tcp(Vec<SocketAddr>),
    /// A socket in the file system. An old socket without a listener is replaced.
    Unix(PathBuf),
    /// A socket that systemd opened and passed to this process under this name.
    Systemd(String),
}

/// A text that is not a valid address to listen on.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no address to listen on ({why}): write HOST:PORT, as `127.0.0.1:8700`, \
     `unix:/PATH`, or `systemd:NAME`"
)]
pub struct AddressError {
    text: String,
    why: String,
}

tollgate::debug_as_display!(AddressError);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = |why: &str| AddressError { text: text.to_owned(), why: why.to_owned() };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(error("the path is missing"));
            }
            return Ok(Self::Unix(path.into()));
        }
        if let Some(name) = text.strip_prefix("systemd:") {
            if name.is_empty() {
                return Err(error("the `FileDescriptorName=` of the socket is missing"));
            }
            return Ok(Self::Systemd(name.to_owned()));
        }
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| error("the port is no number up to 65535"))?;
            // One IPv6 socket also accepts IPv4, where the system is configured for it.
            return Ok(Self::Tcp(vec![SocketAddr::from(([0_u16; 8], port))]));
        }
        let Some((_, port)) = text.rsplit_once(':') else {
            return Err(error("the port is missing"));
        };
        port.parse::<u16>().map_err(|_| error("the port is no number up to 65535"))?;
        let found = text.to_socket_addrs().map_err(|fault| error(&fault.to_string()))?;
        let found: Vec<_> = found.collect();
        if found.is_empty() { Err(error("the name has no address")) } else { Ok(Self::Tcp(found)) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(found) => {
                for (place, address) in found.iter().enumerate() {
                    write!(f, "{}{address}", if place > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Systemd(name) => write!(f, "systemd:{name}"),
        }
    }
}

impl Address {
    /// Whether it is reached over TCP.
    pub(crate) fn is_tcp(&self) -> bool {
        match self {
            Self::Tcp(_) => true,
            Self::Unix(_) => false,
            Self::Systemd(name) => passed::address(name).is_none_or(|it| it.is_tcp()),
        }
    }

    /// Whether only this machine can reach the address.
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
                let bound = Bound::Unix(socket.listen(BACKLOG)?, Some(path.clone()));
                let mode = match access {
                    Access::Everybody => 0o666,
                    Access::Owner => 0o600,
                };
                std::fs::set_permissions(path, Permissions::from_mode(mode))?;
                Ok(bound)
            }
            Self::Systemd(name) => passed::take(name, access),
        }
    }
}

/// Listens on the first address that can be bound.
fn listen(found: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in found {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Allow an address that a stopped process has just released.
        socket.set_reuseaddr(true)?;
        take_little_unsent(&socket)?;
        match socket.bind(*address).and_then(|()| socket.listen(BACKLOG)) {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Bounds what the system buffers. Accepted connections inherit this option from their listener.
#[cfg_attr(not(target_os = "linux"), expect(clippy::unnecessary_wraps, reason = "as on Linux"))]
pub(super) fn take_little_unsent(socket: &impl AsFd) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}

/// Who may connect to a socket in the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Every user with access to its folder, as with a loopback port.
    Everybody,
    /// The user of the service, and root.
    Owner,
}

/// Whether the address is a loopback one, including `::ffff:127.0.0.1`.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
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
            let second = core::time::Duration::from_millis(900);
            waiting.push(
                std::net::TcpStream::connect_timeout(&address[0], second)
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

    #[test]
    fn an_error_prints_as_it_displays() {
        let error = "nowhere".parse::<Address>().expect_err("no port");
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[test]
    fn addresses_are_read_and_said() {
        for (text, said, local) in [
            ("127.0.0.1:8700", "127.0.0.1:8700", true),
            ("[::1]:80", "[::1]:80", true),
            ("0.0.0.0:80", "0.0.0.0:80", false),
            (":8700", "[::]:8700", false),
            ("[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80", true),
            ("unix:/run/t.sock", "unix:/run/t.sock", true),
            ("unix:///run/t.sock", "unix:/run/t.sock", true),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_local()), (said, local));
        }
    }

    #[test]
    fn what_is_no_address_is_said_with_what_would_be() {
        for (text, why) in [
            ("", "the port is missing"),
            ("localhost", "the port is missing"),
            ("127.0.0.1:99999", "no number up to 65535"),
            (":x", "no number up to 65535"),
            ("unix:", "the path is missing"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("127.0.0.1:8700"), "{error}");
        }
    }
}
