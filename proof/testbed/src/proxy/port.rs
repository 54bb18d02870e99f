//! A port that stays a proxy's own while nobody listens on it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, bind, listen, shutdown, socket_with, sockopt,
};

use crate::free_port;

/// How many connections may wait for [`accept`](TcpListener::accept).
const BACKLOG: i32 = 128;

/// A port of 127.0.0.1 and the one socket that is bound to it.
///
/// To refuse connections the socket is shut down, which Linux undoes by listening again. To close
/// it would not do: a child of this process has a copy until it runs its program, and the port
/// would accept connections so long.
#[derive(Debug)]
pub(super) struct Port {
    socket: OwnedFd,
    address: SocketAddr,
}

impl Port {
    /// A free port, on which nobody listens yet.
    ///
    /// # Errors
    ///
    /// Somebody took it meanwhile.
    pub(super) fn free() -> io::Result<Self> {
        let address = free_port();
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &address)?;
        Ok(Self { socket, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on it.
    ///
    /// # Errors
    ///
    /// Another does.
    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        // Connections that were accepted before keep the port, unless both sides allow it.
        sockopt::set_socket_reuseaddr(&self.socket, true)?;
        listen(&self.socket, BACKLOG)?;
        Ok(self.socket.try_clone()?.into())
    }

    /// Refuses connections from now on: [`accept`](TcpListener::accept) of all listeners ends with
    /// an error. Nobody else can listen on the port.
    ///
    /// # Errors
    ///
    /// It does not listen.
    pub(super) fn refuse(&self) -> io::Result<()> {
        // A test that looks for a free port would else take this one.
        let kept = sockopt::set_socket_reuseaddr(&self.socket, false);
        // In any case: its acceptor is waited for.
        shutdown(&self.socket, Shutdown::Read)?;
        Ok(kept?)
    }
}
