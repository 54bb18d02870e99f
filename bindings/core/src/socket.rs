//! Sockets that a loop of another language watches, as the libraries of tokio see them.
//!
//! A loop says when a socket can be read or written, and its thread does so. A loop that can only
//! watch what it reads hands over the bytes instead, and writes what a socket does not take.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::lock::lock;

/// The treatment of bytes that a socket does not take immediately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// They wait until the loop says that there is room.
    Kept,
    /// The loop gets them, writes them, and says when that is done.
    HandedOver,
}

/// The loop's next task for a socket.
#[derive(Debug)]
pub enum Change {
    /// Watch whether it can be read.
    Open(Arc<Watched>),
    /// Watch whether it can be written, until it can, or write these bytes.
    Write(Arc<Watched>, Vec<u8>),
    /// Watch it no more. It is closed when this is dropped, not before: else its descriptor could
    /// be that of another socket.
    Close(Arc<Watched>),
}

/// The sockets of a loop.
#[derive(Debug)]
pub struct Sockets {
    inner: Mutex<Inner>,
    /// Tells the loop that there are changes.
    bell: Waker,
    rest: Rest,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<u32, Arc<Watched>>,
    changes: VecDeque<Change>,
    /// The number of the last socket. No number is used twice.
    last: u32,
    is_closed: bool,
}

/// A socket, and who waits for it.
#[derive(Debug)]
pub struct Watched {
    number: u32,
    socket: UnixStream,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The bytes that the loop has read.
    came: VecDeque<u8>,
    /// Whether there may be more, which only reading can tell.
    may_read: bool,
    /// Nothing comes any more, or why nothing can.
    end: Option<io::Result<()>>,
    /// The loop has to say first that there is room.
    is_full: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Watched {
    /// The number by which the loop knows it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Another descriptor of it, for a loop that closes its own.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
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

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Sockets {
    pub(crate) fn new(bell: Waker, rest: Rest) -> Self {
        Self { inner: Mutex::default(), bell, rest }
    }

    /// Takes over a socket that does not block. Reads and writes are the same for those of TCP.
    pub(crate) fn adopt(self: &Arc<Self>, socket: OwnedFd) -> Socket {
        let state = State {
            came: VecDeque::new(),
            may_read: true,
            end: None,
            is_full: false,
            reader: None,
            writer: None,
        };
        let mut inner = lock(&self.inner);
        inner.last += 1;
        let (number, socket, state) = (inner.last, socket.into(), Mutex::new(state));
        let watched = Arc::new(Watched { number, socket, state });
        if !inner.is_closed {
            inner.open.insert(number, Arc::clone(&watched));
        }
        drop(inner);
        self.push(Change::Open(Arc::clone(&watched)));
        Socket { watched, sockets: Arc::clone(self) }
    }

    fn find(&self, number: u32) -> Option<Arc<Watched>> {
        lock(&self.inner).open.get(&number).cloned()
    }

    fn wake_reader(&self, number: u32, change: impl FnOnce(&mut State)) {
        if let Some(socket) = self.find(number) {
            socket.wake_reader(change);
        }
    }

    /// A socket can be read.
    pub fn can_read(&self, number: u32) {
        self.wake_reader(number, |state| state.may_read = true);
    }

    /// The loop has read these bytes.
    pub fn received(&self, number: u32, bytes: &[u8]) {
        self.wake_reader(number, |state| state.came.extend(bytes));
    }

    /// A socket can be written: the loop has written what it was given, or there is room.
    pub fn can_write(&self, number: u32) {
        let writer = self.find(number).and_then(|socket| {
            let mut state = lock(&socket.state);
            state.is_full = false;
            state.writer.take()
        });
        writer.into_iter().for_each(Waker::wake);
    }

    /// The loop has closed its side: after the other end did, or because it cannot watch it.
    pub fn ended(&self, number: u32, how: io::Result<()>) {
        self.wake_reader(number, |state| (state.may_read, state.end) = (true, Some(how)));
        self.can_write(number);
    }

    /// Any socket may be read.
    pub fn may_read_all(&self) {
        let all: Vec<Arc<Watched>> = lock(&self.inner).open.values().cloned().collect();
        all.iter().for_each(|socket| socket.wake_reader(|state| state.may_read = true));
    }

    /// The next thing to do for them.
    pub fn change(&self) -> Option<Change> {
        lock(&self.inner).changes.pop_front()
    }

    /// Whether there is something to do for them.
    pub fn has_changes(&self) -> bool {
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

    /// Has none any more. The loop has ended.
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
pub struct Socket {
    watched: Arc<Watched>,
    sockets: Arc<Sockets>,
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = lock(&self.watched.state);
        if !state.came.is_empty() {
            // A deque reads its first part, and the wrapped rest comes with the next call.
            let count = state.came.read(buffer.initialize_unfilled())?;
            buffer.advance(count);
            return Poll::Ready(Ok(()));
        }
        while state.may_read {
            let room = buffer.initialize_unfilled();
            match (&self.watched.socket).read(room) {
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
        if let Some(end) = state.end.take() {
            state.end = Some(Ok(()));
            return Poll::Ready(end);
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
        let mut state = lock(&self.watched.state);
        // The loop's writes come before.
        while !state.is_full {
            match (&self.watched.socket).write(bytes) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => state.is_full = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Poll::Ready(Err(error)),
            }
            let given = match self.sockets.rest {
                Rest::Kept => Vec::new(),
                Rest::HandedOver => bytes.to_vec(),
            };
            self.sockets.push(Change::Write(Arc::clone(&self.watched), given));
            if self.sockets.rest == Rest::HandedOver {
                return Poll::Ready(Ok(bytes.len()));
            }
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.watched.socket.shutdown(Shutdown::Write))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let found = lock(&self.sockets.inner).open.remove(&self.watched.number);
        if let Some(watched) = found {
            self.sockets.push(Change::Close(watched));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(rest: Rest) -> (Arc<Sockets>, Socket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let sockets = Arc::new(Sockets::new(Waker::noop().clone(), rest));
        let socket = sockets.adopt(ours.into());
        assert!(matches!(sockets.change(), Some(Change::Open(it)) if it.number() == 1));
        (sockets, socket, theirs)
    }

    fn read(socket: &mut Socket) -> Poll<io::Result<Vec<u8>>> {
        let mut bytes = [0; 16];
        let mut buffer = ReadBuf::new(&mut bytes);
        let cx = &mut Context::from_waker(Waker::noop());
        Pin::new(socket).poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().to_vec())
    }

    /// Writes until the socket takes no more, and returns what the last call said.
    fn fill(socket: &mut Socket, sockets: &Sockets) -> Poll<io::Result<usize>> {
        let cx = &mut Context::from_waker(Waker::noop());
        loop {
            let wrote = Pin::new(&mut *socket).poll_write(cx, &[7; 4096]);
            if sockets.has_changes() {
                return wrote;
            }
            assert!(matches!(wrote, Poll::Ready(Ok(_))), "{wrote:?}");
        }
    }

    #[test]
    fn bytes_are_read_in_place_or_as_the_loop_read_them() {
        let (sockets, mut socket, theirs) = sockets(Rest::Kept);
        assert!(read(&mut socket).is_pending());
        (&theirs).write_all(b"one").unwrap();
        assert!(read(&mut socket).is_pending(), "the loop has not said so");
        sockets.can_read(1);
        assert!(matches!(read(&mut socket), Poll::Ready(Ok(it)) if it == b"one"));
        sockets.received(1, b"two");
        assert!(matches!(read(&mut socket), Poll::Ready(Ok(it)) if it == b"two"));
        sockets.ended(1, Err(ErrorKind::Other.into()));
        assert!(matches!(read(&mut socket), Poll::Ready(Err(_))));
        assert!(matches!(read(&mut socket), Poll::Ready(Ok(it)) if it.is_empty()));
    }

    #[test]
    fn the_rest_waits_for_room_or_is_handed_over() {
        let (all, mut socket, _theirs) = sockets(Rest::Kept);
        assert!(fill(&mut socket, &all).is_pending());
        assert!(matches!(all.change(), Some(Change::Write(_, bytes)) if bytes.is_empty()));
        let (all, mut socket, _theirs) = sockets(Rest::HandedOver);
        assert!(matches!(fill(&mut socket, &all), Poll::Ready(Ok(4096))));
        assert!(matches!(all.change(), Some(Change::Write(_, bytes)) if bytes.len() == 4096));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut socket).poll_write(cx, b"x").is_pending(), "after what is written");
    }

    #[test]
    fn a_socket_is_closed_when_the_loop_was_told() {
        let (all, socket, theirs) = sockets(Rest::Kept);
        theirs.set_nonblocking(true).unwrap();
        drop(socket);
        let closed = all.change();
        assert!(matches!(&closed, Some(Change::Close(it)) if it.number() == 1));
        assert!((&theirs).read(&mut [0]).is_err(), "it is open");
        drop(closed);
        assert_eq!((&theirs).read(&mut [0]).unwrap(), 0);
    }
}
