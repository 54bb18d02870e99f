//! The smallest client that can ask a server something: it waits for each reply.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::resp::{Reply, request};

/// How long a read or a write may take: far longer than any answer of a server that is well.
const PATIENCE: Duration = Duration::from_secs(10);

/// Both kinds of socket.
trait Wire: Read + Write + Send {
    fn patience(&self, limit: Duration) -> io::Result<()>;
}

impl Wire for TcpStream {
    fn patience(&self, limit: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(limit))?;
        self.set_read_timeout(Some(limit))
    }
}

impl Wire for UnixStream {
    fn patience(&self, limit: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(limit))?;
        self.set_read_timeout(Some(limit))
    }
}

/// A blocking connection, with its own code so that it shares no mistake with the client under
/// test.
pub struct Client {
    wire: Box<dyn Wire>,
    /// Bytes that were read and are not yet a whole reply.
    unread: Vec<u8>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("unread", &self.unread.len()).finish_non_exhaustive()
    }
}

impl Client {
    /// A connection over TCP.
    ///
    /// # Errors
    ///
    /// Nobody listens there.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        Self::over(Box::new(stream))
    }

    /// A connection over a unix socket.
    ///
    /// # Errors
    ///
    /// Nobody listens there.
    pub fn unix(path: &Path) -> io::Result<Self> {
        Self::over(Box::new(UnixStream::connect(path)?))
    }

    fn over(wire: Box<dyn Wire>) -> io::Result<Self> {
        wire.patience(PATIENCE)?;
        Ok(Self { wire, unread: Vec::new() })
    }

    /// Waits at most this long for each read and write from now on; it is 10 s at first.
    ///
    /// # Errors
    ///
    /// `limit` is zero.
    pub fn patience(&self, limit: Duration) -> io::Result<()> {
        self.wire.patience(limit)
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    ///
    /// The connection ended, the reply took too long, or it is not RESP2.
    pub fn command(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.send(words)?;
        self.receive()
    }

    /// Sends a command without waiting, so that several are in flight.
    ///
    /// # Errors
    ///
    /// The connection ended.
    pub fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        self.wire.write_all(&request(words))
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    ///
    /// The connection ended, the reply took too long, or it is not RESP2.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut chunk = [0; 16 * 1024];
        loop {
            let read = Reply::read(&self.unread);
            let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            if let Some((reply, end)) = read.map_err(invalid)? {
                self.unread.drain(..end);
                return Ok(reply);
            }
            match self.wire.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.unread.extend(&chunk[..length]),
                // To start a child in another thread interrupts a read that has a time limit.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
