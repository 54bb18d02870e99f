//! Sockets that an event loop of Node watches and reads, as the libraries of tokio see them.
//!
//! A `net.Socket` has one descriptor of the socket, and reads. This side has another one, and
//! writes: that takes one call of the system and none of JavaScript. What the system does not take
//! at once JavaScript writes, since only its loop knows when there is room again.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::carrier::lock;

/// What JavaScript is to do for a socket, by its number.
#[derive(Debug)]
pub(crate) enum Change {
    /// Watch and read it.
    Open(u32, OwnedFd),
    /// Write these bytes, and say when that is done.
    Write(u32, Vec<u8>),
    /// Close it.
    Close(u32),
}

/// The sockets of a thread.
#[derive(Debug)]
pub(crate) struct Sockets {
    inner: Mutex<Inner>,
    /// Tells the loop that there are changes.
    bell: Waker,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<u32, Arc<Shared>>,
    changes: VecDeque<Change>,
    /// The number of the last socket. No number is used twice.
    last: u32,
    is_closed: bool,
}

/// A socket, and who waits for it.
#[derive(Debug)]
struct Shared {
    number: u32,
    socket: io::Result<UnixStream>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What JavaScript has read.
    came: VecDeque<u8>,
    /// Whether there may be more, which only reading can tell.
    may_read: bool,
    /// Nothing comes any more.
    is_ended: bool,
    /// JavaScript still writes.
    is_full: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Shared {
    fn socket(&self) -> io::Result<&UnixStream> {
        self.socket.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))
    }

    /// Changes its state, and wakes whoever waits to read.
    fn wake_reader(&self, change: impl FnOnce(&mut State)) {
        let reader = {
            let mut state = lock(&self.state);
            change(&mut state);
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }
}

impl Sockets {
    pub(crate) fn new(bell: Waker) -> Self {
        Self { inner: Mutex::default(), bell }
    }

    /// Takes over a socket that does not block. What is read and written is the same for those of
    /// TCP.
    pub(crate) fn adopt(self: &Arc<Self>, socket: OwnedFd) -> Socket {
        let ours = socket.try_clone().map(UnixStream::from);
        let mut inner = lock(&self.inner);
        inner.last += 1;
        let shared = Arc::new(Shared { number: inner.last, socket: ours, state: Mutex::default() });
        if !inner.is_closed {
            inner.open.insert(shared.number, Arc::clone(&shared));
            inner.changes.push_back(Change::Open(shared.number, socket));
        }
        drop(inner);
        self.bell.wake_by_ref();
        Socket { shared, sockets: Arc::clone(self) }
    }

    fn find(&self, number: u32) -> Option<Arc<Shared>> {
        lock(&self.inner).open.get(&number).cloned()
    }

    /// JavaScript has read these bytes.
    pub(crate) fn received(&self, number: u32, bytes: &[u8]) {
        let Some(socket) = self.find(number) else { return };
        socket.wake_reader(|state| state.came.extend(bytes));
    }

    /// JavaScript has closed its side, after the other end did.
    pub(crate) fn ended(&self, number: u32) {
        let Some(socket) = self.find(number) else { return };
        socket.wake_reader(|state| {
            (state.may_read, state.is_ended) = (true, true);
        });
        self.written(number);
    }

    /// JavaScript has written what it was given.
    pub(crate) fn written(&self, number: u32) {
        let writer = self.find(number).and_then(|socket| {
            let mut state = lock(&socket.state);
            state.is_full = false;
            state.writer.take()
        });
        writer.into_iter().for_each(Waker::wake);
    }

    /// Any socket may be read.
    pub(crate) fn may_read_all(&self) {
        let all: Vec<Arc<Shared>> = lock(&self.inner).open.values().cloned().collect();
        all.iter().for_each(|socket| socket.wake_reader(|state| state.may_read = true));
    }

    /// The next thing to do for them.
    pub(crate) fn change(&self) -> Option<Change> {
        lock(&self.inner).changes.pop_front()
    }

    /// Whether there is something to do for them.
    pub(crate) fn has_changes(&self) -> bool {
        !lock(&self.inner).changes.is_empty()
    }

    fn push(&self, change: Change) {
        let mut inner = lock(&self.inner);
        if !inner.is_closed {
            inner.changes.push_back(change);
        }
        drop(inner);
        self.bell.wake_by_ref();
    }

    /// Has none any more. The thread ends, and Node closes its side.
    pub(crate) fn close(&self) {
        let mut inner = lock(&self.inner);
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
        let mut socket = self.shared.socket()?;
        let mut state = lock(&self.shared.state);
        if !state.came.is_empty() {
            // A deque reads its first part, and what wraps around comes with the next call.
            let count = state.came.read(buffer.initialize_unfilled())?;
            buffer.advance(count);
            return Poll::Ready(Ok(()));
        }
        while state.may_read {
            let room = buffer.initialize_unfilled();
            match socket.read(room) {
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
        if state.is_ended {
            return Poll::Ready(Ok(()));
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
        let mut socket = self.shared.socket()?;
        let mut state = lock(&self.shared.state);
        // What JavaScript writes comes before.
        if state.is_full {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        loop {
            match socket.write(bytes) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Poll::Ready(Err(error)),
            }
            state.is_full = true;
            drop(state);
            self.sockets.push(Change::Write(self.shared.number, bytes.to_vec()));
            return Poll::Ready(Ok(bytes.len()));
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shared.socket()?.shutdown(Shutdown::Write))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let found = lock(&self.sockets.inner).open.remove(&self.shared.number);
        if found.is_some() {
            self.sockets.push(Change::Close(self.shared.number));
        }
    }
}
