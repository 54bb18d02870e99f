//! Addresses to listen on: TCP and unix sockets.

use core::fmt;
use core::str::FromStr;
use std::fs::Permissions;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::PathBuf;

use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};

/// Where to listen: `HOST:PORT`, `:PORT` for every address, or `unix:/PATH`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Address {
    /// The addresses that a name and a port come to.
    Tcp(Vec<SocketAddr>),
    /// A socket in the file system. An old one that nobody listens on is replaced.
    Unix(PathBuf),
}

/// A text that is no address.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no address to listen on ({why}): write HOST:PORT, as `127.0.0.1:8700`, or `unix:/PATH`"
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
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| error("the port is no number up to 65535"))?;
            // One socket of IPv6 takes both, where the system has it so.
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
        }
    }
}

impl Address {
    /// True when only this machine can reach it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(found) => found.iter().all(|address| is_loopback(address.ip())),
            Self::Unix(_) => true,
        }
    }

    /// Takes the address. Of a name with several, the first that can be had.
    ///
    /// # Errors
    /// As the system says: in use, not allowed, not of this machine.
    pub(crate) fn bind(&self, access: Access) -> io::Result<Bound> {
        match self {
            Self::Tcp(found) => Ok(Bound::Tcp(listen(found)?)),
            Self::Unix(path) => {
                let refuses = |path| {
                    let connected = std::os::unix::net::UnixStream::connect(path);
                    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
                };
                // A socket that nobody answers on was left by a process that is gone. What is no
                // socket refuses as well, and is somebody's file.
                let is_socket = |path| {
                    let found = std::fs::symlink_metadata(path);
                    found.is_ok_and(|found| found.file_type().is_socket())
                };
                if is_socket(path) && refuses(path) {
                    std::fs::remove_file(path)?;
                }
                let socket = UnixSocket::new_stream()?;
                socket.bind(path)?;
                let bound = Bound::Unix(socket.listen(BACKLOG)?, path.clone());
                let mode = match access {
                    Access::Everybody => 0o666,
                    Access::Owner => 0o600,
                };
                std::fs::set_permissions(path, Permissions::from_mode(mode))?;
                Ok(bound)
            }
        }
    }
}

/// Listens on the first of these that can be had.
fn listen(found: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in found {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // An address that a process has just left is free.
        socket.set_reuseaddr(true)?;
        // Connections have what their listener has.
        #[cfg(target_os = "linux")]
        socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
        match socket.bind(*address).and_then(|()| socket.listen(BACKLOG)) {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Who may connect to a socket in the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Whoever reaches its folder, as with a port of loopback.
    Everybody,
    /// The user that the service runs as, and root.
    Owner,
}

/// True for addresses of this machine alone, `::ffff:127.0.0.1` among them.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// How many connections may wait to be accepted: what the system allows is less
/// (`net.core.somaxconn`).
const BACKLOG: u32 = 65_535;

/// How much of an answer the system takes beyond what is on its way. By itself it takes megabytes
/// of each that nobody reads, and the others wait while it copies them.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 64 * 1_024;

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Bound {
    /// Of TCP.
    Tcp(TcpListener),
    /// In the file system; removed when this is dropped.
    Unix(UnixListener, PathBuf),
}

impl Bound {
    /// What it listens on, with the port that the system chose where 0 was asked for.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => Ok(Address::Tcp(vec![listener.local_addr()?])),
            Self::Unix(_, path) => Ok(Address::Unix(path.clone())),
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Gone already is as good.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a flood of connections those of others wait here, and not in the network.
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
        // Nobody accepts. A connection that finds no place waits for a second, or is refused.
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

    /// Of an answer that nobody reads the system takes little: it takes megabytes by itself.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_takes_little_of_what_nobody_reads() {
        let bound = "127.0.0.1:0".parse::<Address>().unwrap().bind(Access::Everybody).unwrap();
        let Ok(Address::Tcp(address)) = bound.address() else { panic!("{bound:?}") };
        let Bound::Tcp(listener) = &bound else { panic!("{bound:?}") };
        let unread = std::net::TcpStream::connect(address[0]).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut taken = 0;
        // Until it has taken nothing more for a while.
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
