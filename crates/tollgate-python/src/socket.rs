//! Sockets that a loop of asyncio watches: it says when one can be read or written, and its thread
//! does so.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A lock that no panic spoils.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the loop is to do before it waits.
#[derive(Debug)]
pub(crate) enum Change {
    /// Watch whether it can be read.
    Read(RawFd),
    /// Watch whether it can be written, until it can.
    Write(RawFd),
    /// Watch it no more. It is closed when this is dropped, not before: else its number could be
    /// that of another socket.
    Close(Arc<Shared>),
}

/// The sockets of a loop.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<RawFd, Arc<Shared>>,
    changes: Vec<Change>,
    is_closed: bool,
}

/// A socket, and who waits for it.
#[derive(Debug)]
pub(crate) struct Shared {
    socket: UnixStream,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Whether there may be something to read, which only reading can tell.
    may_read: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Shared {
    /// The number by which the loop knows it.
    pub(crate) fn number(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn may_read(&self) {
        let reader = {
            let mut state = lock(&self.state);
            state.may_read = true;
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }
}

impl Sockets {
    /// Takes over a socket that does not block. What is read and written is the same for those of
    /// TCP.
    pub(crate) fn adopt(self: &Arc<Self>, socket: OwnedFd) -> Socket {
        let state = State { may_read: true, reader: None, writer: None };
        let shared = Arc::new(Shared { socket: socket.into(), state: Mutex::new(state) });
        let mut inner = lock(&self.0);
        if !inner.is_closed {
            inner.open.insert(shared.number(), Arc::clone(&shared));
            inner.changes.push(Change::Read(shared.number()));
        }
        drop(inner);
        Socket { shared, sockets: Arc::clone(self) }
    }

    /// A socket can be read.
    pub(crate) fn can_read(&self, number: RawFd) {
        let found = lock(&self.0).open.get(&number).cloned();
        found.iter().for_each(|socket| socket.may_read());
    }

    /// A socket can be written.
    pub(crate) fn can_write(&self, number: RawFd) {
        let found = lock(&self.0).open.get(&number).cloned();
        let writer = found.and_then(|socket| lock(&socket.state).writer.take());
        writer.into_iter().for_each(Waker::wake);
    }

    /// Any socket may be read.
    pub(crate) fn may_read_all(&self) {
        let all: Vec<Arc<Shared>> = lock(&self.0).open.values().cloned().collect();
        all.iter().for_each(|socket| socket.may_read());
    }

    /// What is to be done for them now.
    pub(crate) fn changes(&self) -> Vec<Change> {
        core::mem::take(&mut lock(&self.0).changes)
    }

    /// Watches none any more. The loop has ended.
    pub(crate) fn close(&self) {
        let mut inner = lock(&self.0);
        inner.is_closed = true;
        let gone = (core::mem::take(&mut inner.open), core::mem::take(&mut inner.changes));
        drop(inner);
        drop(gone);
    }
}

/// A socket as tokio's libraries read and write it.
#[derive(Debug)]
pub(crate) struct Socket {
    shared: Arc<Shared>,
    sockets: Arc<Sockets>,
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = lock(&self.shared.state);
        while state.may_read {
            let room = buffer.initialize_unfilled();
            match (&self.shared.socket).read(room) {
                Ok(count) => {
                    // Less than there was room for is all there was. The loop says when there is
                    // more. An end is one for ever.
                    state.may_read = count == 0 || count == room.len();
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => state.may_read = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match (&self.shared.socket).write(bytes) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Poll::Ready(Err(error)),
            }
            lock(&self.shared.state).writer = Some(cx.waker().clone());
            lock(&self.sockets.0).changes.push(Change::Write(self.shared.number()));
            return Poll::Pending;
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shared.socket.shutdown(Shutdown::Write))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut inner = lock(&self.sockets.0);
        if inner.open.remove(&self.shared.number()).is_some() {
            inner.changes.push(Change::Close(Arc::clone(&self.shared)));
        }
    }
}
