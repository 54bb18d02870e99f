//! The streams that connections go over: TCP, unix sockets, and TLS over these.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// A stream of a connection.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether the end of the stream is a separate message. A client that closes without reading
    /// that message resets the connection, though it has read the answers before.
    const HAS_CLOSING_MESSAGE: bool = false;

    /// The error of the connection that no read and no write has reported.
    fn error(&self) -> Option<io::Error>;
}

impl Transport for TcpStream {
    fn error(&self) -> Option<io::Error> {
        self.take_error().unwrap_or_else(Some)
    }
}

impl Transport for UnixStream {
    fn error(&self) -> Option<io::Error> {
        self.take_error().unwrap_or_else(Some)
    }
}

impl<T: Transport> Transport for TlsStream<T> {
    const HAS_CLOSING_MESSAGE: bool = true;

    fn error(&self) -> Option<io::Error> {
        self.get_ref().0.error()
    }
}

#[cfg(test)]
impl Transport for tokio::io::DuplexStream {
    fn error(&self) -> Option<io::Error> {
        None
    }
}
