//! The addresses that the service listens on: TCP and unix sockets.

use core::fmt;
use core::str::FromStr;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

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
    "`{text}` is not an address to listen on ({why}): write HOST:PORT, e.g. `127.0.0.1:8700`, \
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
            let port = port.parse().map_err(|_| error("the port is not a number up to 65535"))?;
            // One IPv6 socket also accepts IPv4, where the system is configured for it.
            return Ok(Self::Tcp(vec![SocketAddr::from(([0_u16; 8], port))]));
        }
        let Some((_, port)) = text.rsplit_once(':') else {
            return Err(error("the port is missing"));
        };
        port.parse::<u16>().map_err(|_| error("the port is not a number up to 65535"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
            ("127.0.0.1:99999", "not a number up to 65535"),
            (":x", "not a number up to 65535"),
            ("unix:", "the path is missing"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("127.0.0.1:8700"), "{error}");
        }
    }
}
