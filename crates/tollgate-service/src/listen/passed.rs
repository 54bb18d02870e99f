//! Sockets that systemd opened for the service (sd_listen_fds(3)): connections wait in them while
//! the service restarts.

use std::env;
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use listenfd::ListenFd;
use tokio::net::{TcpListener, UnixListener};

use super::address::Address;
use super::bound::{Access, Bound, limit_unsent};

/// The name of a socket whose unit has no `FileDescriptorName=`, where systemd says none.
const UNNAMED: &str = "unknown";

/// A socket that nobody has taken yet.
struct Passed {
    name: String,
    socket: Socket,
}

enum Socket {
    Tcp(StdTcpListener),
    Unix(StdUnixListener),
    /// Another kind of socket, or a file.
    Other,
}

/// Read once: the variables belong to the sockets, which are taken one by one.
static PASSED: LazyLock<Mutex<Vec<Passed>>> = LazyLock::new(|| {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':').map(str::to_owned);
    let mut all = ListenFd::from_env();
    let sockets = (0..all.len()).map(|place| {
        let name = names.next().filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| UNNAMED.to_owned());
        let socket = if let Ok(Some(listener)) = all.take_tcp_listener(place) {
            Socket::Tcp(listener)
        } else if let Ok(Some(listener)) = all.take_unix_listener(place) {
            Socket::Unix(listener)
        } else {
            Socket::Other
        };
        Passed { name, socket }
    });
    Mutex::new(sockets.collect())
});

fn passed() -> MutexGuard<'static, Vec<Passed>> {
    PASSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of the sockets that nobody has taken.
pub(crate) fn left() -> Vec<String> {
    passed().iter().map(|passed| passed.name.clone()).collect()
}

/// Where the socket of this name listens. `None` if there is none, or it has no address.
pub(super) fn address(name: &str) -> Option<Address> {
    let all = passed();
    let found = all.iter().find(|passed| passed.name == name)?;
    match &found.socket {
        Socket::Tcp(listener) => Some(Address::Tcp(vec![listener.local_addr().ok()?])),
        Socket::Unix(listener) => {
            let address = listener.local_addr().ok()?;
            Some(Address::Unix(address.as_pathname()?.to_owned()))
        }
        Socket::Other => None,
    }
}

/// Takes the socket of this name.
///
/// # Errors
/// No socket or several have this name, or it does not listen on TCP or on a unix socket.
/// Everybody may write to a socket that is for its owner.
pub(super) fn take(name: &str, access: Access) -> io::Result<Bound> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let mut all = passed();
    let places: Vec<usize> = (0..all.len()).filter(|place| all[*place].name == name).collect();
    let place = match places[..] {
        [place] => place,
        [] => {
            let names: Vec<String> =
                all.iter().map(|passed| format!("`{}`", passed.name)).collect();
            let known = match names.len() {
                0 => "systemd passed no socket to this process".to_owned(),
                _ => format!("systemd passed {}", names.join(", ")),
            };
            return Err(wrong(format!(
                "{known}: the `.socket` unit says `FileDescriptorName={name}`, and the service \
                 unit \
                 names it by `Sockets=`"
            )));
        }
        _ => {
            return Err(wrong(format!(
                "systemd passed {} sockets of this name: give each a separate unit and name",
                places.len()
            )));
        }
    };
    match all.swap_remove(place).socket {
        Socket::Tcp(listener) => {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            limit_unsent(&listener)?;
            Ok(Bound::Tcp(listener))
        }
        Socket::Unix(listener) => {
            if access == Access::Owner && may_everybody(&listener)? {
                return Err(wrong(
                    "every user of this machine could administer: write `SocketMode=0600`, or \
                     `0660` with a `SocketGroup=`, into its unit"
                        .to_owned(),
                ));
            }
            listener.set_nonblocking(true)?;
            Ok(Bound::Unix(UnixListener::from_std(listener)?, None))
        }
        Socket::Other => Err(wrong(
            "it is not a listening stream: `ListenStream=` with `Accept=no` makes one".to_owned(),
        )),
    }
}

/// Whether every user may connect.
fn may_everybody(listener: &StdUnixListener) -> io::Result<bool> {
    match listener.local_addr()?.as_pathname() {
        Some(path) => Ok(std::fs::metadata(path)?.permissions().mode() & 0o002 != 0),
        // One without a file has no owner.
        None => Ok(true),
    }
}
