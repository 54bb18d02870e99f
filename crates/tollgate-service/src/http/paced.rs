//! A stream that records its connection's phase, and replaces bare refusals of the HTTP library by
//! responses with an explanation.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::{Framing, Misframed};
use crate::listen::{Farewell, Pace, Phase, Transport};

/// Maps a refusal of the HTTP library to a full response, from its status and, if the framing
/// refused the request, from the reason.
pub(crate) type Explain = fn(u16, Option<Misframed>) -> Option<Bytes>;

/// A byte stream with records of its progress.
#[derive(Debug)]
pub(crate) struct Paced<T> {
    stream: T,
    /// Bytes that were read before, and are returned first.
    early: Bytes,
    pace: Arc<Pace>,
    explain: Explain,
    /// The rest of the response that replaces a bare refusal.
    instead: Option<Bytes>,
    /// The bytes that were read and discarded at the end.
    drained: usize,
    /// The bytes of a response that were written since the last recorded progress.
    taken: usize,
    /// Whether this response has already yielded to the other connections.
    waited: bool,
    framing: Framing,
    /// Whether the client has closed its side.
    has_ended: bool,
    /// The end, while answers are on their way.
    farewell: Option<Farewell>,
}

/// The answer to an HTTP/2 client, in HTTP/2 frames: SETTINGS, and GOAWAY with HTTP_1_1_REQUIRED
/// (RFC 9113, sections 6.5, 6.8 and 7).
const GO_AWAY: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x3a\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0d\
    this service speaks HTTP/1.1, and no HTTP/2 so far";

/// The most bytes of a refused request that are read and discarded.
pub(crate) const MAX_DRAINED_BYTES: usize = 1_024 * 1_024;

/// The most bytes that are read ahead of a client that waits: those of a small request.
const MAX_EARLY_BYTES: usize = 4 * 1_024;

/// The fewest bytes of a response that a client must read within the write deadline. Otherwise a
/// client that reads single bytes could hold a response for as long as it likes.
pub(crate) const MIN_TAKEN_BYTES: usize = 64 * 1_024;

impl<T> Paced<T> {
    pub(crate) fn new(stream: T, pace: Arc<Pace>, explain: Explain) -> Self {
        Self {
            stream,
            early: Bytes::new(),
            pace,
            explain,
            instead: None,
            drained: 0,
            taken: 0,
            waited: false,
            framing: Framing::default(),
            has_ended: false,
            farewell: None,
        }
    }

    /// The same stream, preceded by bytes that were already read.
    pub(super) fn after(self, early: Bytes) -> Self {
        Self { early, ..self }
    }

    pub(super) fn into_stream(self) -> T {
        self.stream
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Paced<T> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if self.early.is_empty() {
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
            self.note(read, buf.filled().len() > before)?;
        } else {
            let most = buf.remaining().min(self.early.len());
            buf.put_slice(&self.early.split_to(most));
        }
        if buf.filled().len() > before && self.pace.phase() == Phase::Idle {
            self.pace.set_phase(Phase::Head);
        }
        self.framing.follow(buf.filled_mut().get_mut(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> AsyncWrite for Paced<T> {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The library writes before the service was called: it refuses bytes that it could not
        // parse. They may have arrived together with the previous request.
        if matches!(self.pace.phase(), Phase::Head | Phase::Idle) {
            return self.refuse(cx, buf);
        }
        // Yield once before the write, so that requests already received on other connections are
        // read first. Then the responses are written one after the other, as in Redis. A client
        // that waits for several of them wakes once and finds the rest; a wake-up costs both sides
        // more than a decision.
        if self.pace.phase() == Phase::Write && !self.waited {
            self.waited = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        let written = self.noted(written)?;
        self.taken += written;
        if self.taken >= MIN_TAKEN_BYTES && self.pace.phase() == Phase::Write {
            self.taken = 0;
            self.pace.set_phase(Phase::Write);
            // Other connections need not wait for the end of a long response.
            self.waited = false;
        }
        Poll::Ready(Ok(written))
    }

    #[inline]
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        self.noted(flushed)?;
        if self.pace.is_watched() {
            self.watch(cx);
        }
        if self.pace.phase() == Phase::Write && !self.pace.is_responding() {
            self.pace.set_phase(Phase::Idle);
            self.pace.on_the_way.written();
            self.waited = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
        self.noted(closed)?;
        if self.pace.has_left_unread() {
            ready!(self.drain(cx))?;
        }
        let Self { stream, pace, has_ended, farewell, .. } = &mut *self;
        Farewell::part(farewell, cx, stream, (*has_ended, pace)).map(Ok)
    }
}

impl<T> Paced<T> {
    /// Notes what a read says about the answers before it.
    fn note(&mut self, read: io::Result<()>, is_more: bool) -> io::Result<()> {
        match (self.noted(read)?, is_more) {
            ((), true) => self.pace.on_the_way.came(),
            ((), false) => self.has_ended = true,
        }
        Ok(())
    }

    /// Looks for the end of the client's side while the work waits. The HTTP library reads nothing
    /// then, and flushes each time.
    #[cold]
    fn watch(&mut self, cx: &mut Context<'_>)
    where
        T: AsyncRead + Unpin,
    {
        while !self.has_ended && self.early.len() < MAX_EARLY_BYTES {
            let mut scratch = [0; 1_024];
            let mut buf = ReadBuf::new(&mut scratch);
            let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, &mut buf) else {
                return;
            };
            let came = buf.filled();
            // The library meets the error again when it writes.
            self.has_ended |= self.note(read, !came.is_empty()).is_err();
            self.early = [&self.early, came].concat().into();
        }
        if self.has_ended {
            self.pace.hangs_up();
            cx.waker().wake_by_ref();
        }
    }

    /// Notes an error of the connection.
    fn noted<V>(&self, result: io::Result<V>) -> io::Result<V> {
        if result.is_err() {
            self.pace.on_the_way.failed();
        }
        result
    }
}

impl<T: Transport> Paced<T> {
    /// Reads what the client still sends, up to a maximum size and within the deadline for a head.
    /// Closing a connection with unread bytes resets it, and the client may lose the response that
    /// explains the refusal.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.drained == 0 {
            self.pace.set_phase(Phase::Head);
        }
        let mut scratch = [0; 4_096];
        while self.drained < MAX_DRAINED_BYTES {
            let mut buf = ReadBuf::new(&mut scratch);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                break;
            }
            self.drained += buf.filled().len();
        }
        Poll::Ready(Ok(()))
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.instead.is_none() {
            let text = match self.framing.misframed() {
                Some(Misframed::Http2) => Some(Bytes::from_static(GO_AWAY)),
                why => status(buf).and_then(|status| (self.explain)(status, why)),
            };
            let Some(text) = text else {
                return Pin::new(&mut self.stream).poll_write(cx, buf);
            };
            self.instead = Some(text);
            self.pace.leave_unread();
        }
        while let Some(rest) = self.instead.as_mut().filter(|rest| !rest.is_empty()) {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            rest.advance(written);
        }
        Poll::Ready(Ok(buf.len()))
    }
}

/// The status of a response that begins here.
fn status(response: &[u8]) -> Option<u16> {
    let digits = response.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::sync::mpsc;

    use super::*;
    use crate::listen::{Bounds, Registry};

    /// Two connections, each in a task that reads a byte and answers it.
    #[tokio::test]
    async fn all_that_was_said_is_read_before_anybody_is_answered() {
        let (note, mut noted) = mpsc::unbounded_channel();
        let mut clients = Vec::new();
        let mut tasks = Vec::new();
        for number in 0..2 {
            let (ours, mut theirs) = duplex(64);
            theirs.write_all(b"ab").await.unwrap();
            clients.push(theirs);
            tasks.push(tokio::spawn(answer_twice(number, Noting(ours, number, note.clone()))));
        }
        for task in tasks {
            task.await.unwrap();
        }
        drop(note);
        let mut order = Vec::new();
        while let Some(event) = noted.recv().await {
            order.push(event);
        }
        let expected = ["0 read", "1 read", "0 written", "0 read", "1 written", "1 read"];
        assert_eq!(order, [&expected[..], &["0 written", "1 written"]].concat());
        for mut client in clients {
            let mut answers = [0; 2];
            client.read_exact(&mut answers).await.unwrap();
            assert_eq!(&answers, b"AB");
        }
    }

    #[tokio::test]
    async fn who_takes_a_little_now_and_then_is_late_all_the_same() {
        for (bytes, is_late) in [(1, true), (1_024, true), (MIN_TAKEN_BYTES, false)] {
            let second = core::time::Duration::from_secs(1);
            let abort = tokio::spawn(core::future::pending::<()>()).abort_handle();
            let registry = Registry::new(Bounds { write: second, ..Bounds::default() });
            let registration = registry.enter(std::net::Ipv4Addr::LOCALHOST.into()).unwrap();
            registry.ended_by(registration.key, &registration.pace, abort);
            let (ours, mut theirs) = tokio::io::duplex(bytes);
            let mut stream = Paced::new(ours, Arc::clone(&registration.pace), |_, _| None);
            registration.pace.set_phase(Phase::Write);
            let mut taken = vec![0; bytes];
            for tick in 1..=8 {
                registry.tick(tick);
                stream.write_all(&taken).await.unwrap();
                theirs.read_exact(&mut taken).await.unwrap();
            }
            assert_eq!(
                registry.closed(crate::listen::Closed::Write),
                u64::from(is_late),
                "{bytes} each tick"
            );
        }
    }

    async fn answer_twice(number: usize, stream: Noting) {
        let note = stream.2.clone();
        let registry = Registry::new(Bounds::default());
        let place = registry.enter(std::net::Ipv4Addr::LOCALHOST.into()).unwrap();
        let mut stream = Paced::new(stream, Arc::clone(&place.pace), |_, _| None);
        for _ in 0..2 {
            let byte = stream.read_u8().await.unwrap();
            note.send(format!("{number} read")).unwrap();
            place.pace.set_phase(Phase::Write);
            stream.write_u8(byte.to_ascii_uppercase()).await.unwrap();
            stream.flush().await.unwrap();
            assert_eq!(place.pace.phase(), Phase::Idle);
        }
    }

    /// A stream that records what is written, and by which connection.
    struct Noting(DuplexStream, usize, mpsc::UnboundedSender<String>);

    impl Transport for Noting {
        fn error(&self) -> Option<io::Error> {
            None
        }
    }

    impl AsyncRead for Noting {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }

    impl AsyncWrite for Noting {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.2.send(format!("{} written", self.1)).unwrap();
            Pin::new(&mut self.0).poll_write(cx, buf)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }
}
