//! A connection that notes what it is at, and gives a text to what the HTTP library refuses.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::registry::{Pace, Phase};

/// Says what a refusal of the HTTP library means: from its status to a whole response.
pub(crate) type Explain = fn(u16) -> Option<Bytes>;

/// A stream of bytes, watched.
#[derive(Debug)]
pub(crate) struct Paced<T> {
    stream: T,
    pace: Arc<Pace>,
    explain: Explain,
    /// What is written in place of a bare refusal, as far as it is not written yet.
    instead: Option<Bytes>,
    /// How many bytes of what nobody wants were read at the end.
    drained: usize,
    /// How many bytes of a response were taken since that last counted as progress.
    taken: usize,
}

/// How much of a request that was refused is read all the same.
const MAX_DRAINED_BYTES: usize = 1_024 * 1_024;

/// How much of a response a client takes within the deadline for reading, at least. Whoever takes a
/// byte from time to time would hold a response for as long as it likes.
pub(super) const MIN_TAKEN_BYTES: usize = 64 * 1_024;

impl<T> Paced<T> {
    pub(crate) fn new(stream: T, pace: Arc<Pace>, explain: Explain) -> Self {
        Self { stream, pace, explain, instead: None, drained: 0, taken: 0 }
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
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before && self.pace.phase() == Phase::Idle {
            self.pace.is_at(Phase::Head);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Paced<T> {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Nobody was asked, and something is said: the library refuses what it could not read.
        if self.pace.phase() == Phase::Head {
            return self.refuse(cx, buf);
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.taken += written;
        if self.taken >= MIN_TAKEN_BYTES && self.pace.phase() == Phase::Write {
            self.taken = 0;
            self.pace.is_at(Phase::Write);
        }
        Poll::Ready(Ok(written))
    }

    #[inline]
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if self.pace.phase() == Phase::Write {
            self.pace.is_at(Phase::Idle);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        if self.pace.has_left_unread() { self.drain(cx) } else { Poll::Ready(Ok(())) }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Paced<T> {
    /// Reads what the client still sends, up to a bound and within the deadline of a head. A
    /// connection that is closed over unread bytes is reset, and the client may lose the refusal
    /// that says why.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.drained == 0 {
            self.pace.is_at(Phase::Head);
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
            let Some(text) = status(buf).and_then(self.explain) else {
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
