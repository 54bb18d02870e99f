//! Follows the frames of HTTP/2 over a connection (RFC 9113, section 4.1). The HTTP library says
//! nothing of a stream that a client resets after its answer was written, and such an answer was
//! not read.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::listen::{Farewell, MAX_COMPARED_BYTES, Pace, Transport};

/// The bytes before the first frame of a client.
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;

/// The types of frames that matter.
const DATA: u8 = 0;
const RST_STREAM: u8 = 3;

/// The frames in one direction.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; HEAD_BYTES],
    /// How many bytes of the head have come.
    known: usize,
    /// How many bytes come before the next head.
    left: usize,
    /// The payload so far, where it is looked at.
    payload: Option<Vec<u8>>,
}

impl Frames {
    fn after(bytes: usize) -> Self {
        Self { left: bytes, ..Self::default() }
    }

    /// Follows the next bytes. `wants` tells by type and length whether a payload is looked at;
    /// `told` gets the type, the stream and such a payload.
    fn follow(
        &mut self,
        mut bytes: &[u8],
        wants: impl Fn(u8, usize) -> bool,
        mut told: impl FnMut(u8, u32, &[u8]),
    ) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (now, rest) = bytes.split_at(self.left.min(bytes.len()));
                (self.left, bytes) = (self.left - now.len(), rest);
                if let Some(payload) = &mut self.payload {
                    payload.extend_from_slice(now);
                }
                if self.left == 0
                    && let Some(payload) = self.payload.take()
                {
                    told(self.kind(), self.stream(), &payload);
                }
                continue;
            }
            let (now, rest) = bytes.split_at((HEAD_BYTES - self.known).min(bytes.len()));
            self.head[self.known..][..now.len()].copy_from_slice(now);
            (self.known, bytes) = (self.known + now.len(), rest);
            if self.known == HEAD_BYTES {
                let [a, b, c, ..] = self.head;
                let length = u32::from_be_bytes([0, a, b, c]);
                self.known = 0;
                self.left = usize::try_from(length).unwrap_or(usize::MAX);
                self.payload = wants(self.kind(), self.left).then(Vec::new);
            }
        }
    }

    fn kind(&self) -> u8 {
        self.head[3]
    }

    fn stream(&self) -> u32 {
        let [.., a, b, c, d] = self.head;
        u32::from_be_bytes([a & 0x7F, b, c, d])
    }
}

/// The stream of a connection, with its reports about the answers over it.
#[derive(Debug)]
pub(super) struct Framed<T> {
    stream: T,
    pace: Arc<Pace>,
    came: Frames,
    went: Frames,
    has_ended: bool,
    /// The end, while answers are on their way.
    farewell: Option<Farewell>,
}

impl<T> Framed<T> {
    pub(super) fn new(stream: T, pace: Arc<Pace>) -> Self {
        let (came, went) = (Frames::after(PREFACE_BYTES), Frames::default());
        Self { stream, pace, came, went, has_ended: false, farewell: None }
    }

    fn follow_read(&mut self, bytes: &[u8]) {
        let on_the_way = &self.pace.on_the_way;
        let wants = |kind, length| kind == RST_STREAM && length == 4;
        self.came.follow(bytes, wants, |_, stream, _| on_the_way.reset(stream));
    }

    fn follow_written(&mut self, bytes: &[u8]) {
        let on_the_way = &self.pace.on_the_way;
        let is_any_coming = on_the_way.is_any_coming();
        let wants = |kind, length| is_any_coming && kind == DATA && length <= MAX_COMPARED_BYTES;
        self.went.follow(bytes, wants, |_, stream, data| on_the_way.goes_over(stream, data));
    }

    /// Notes an error of the connection.
    fn noted<V>(&self, result: io::Result<V>) -> io::Result<V> {
        if result.is_err() {
            self.pace.on_the_way.failed();
        }
        result
    }
}

impl<T: Transport> AsyncRead for Framed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        self.noted(read)?;
        let came = buf.filled().get(before..).unwrap_or_default();
        self.has_ended |= came.is_empty();
        self.follow_read(came);
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> AsyncWrite for Framed<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        let written = self.noted(written)?;
        self.follow_written(buf.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs));
        let written = self.noted(written)?;
        let mut left = written;
        for buf in bufs {
            let now = left.min(buf.len());
            self.follow_written(buf.get(..now).unwrap_or_default());
            left -= now;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        self.pace.on_the_way.flushed();
        Poll::Ready(self.noted(flushed))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
        self.noted(closed)?;
        let Self { stream, pace, has_ended, farewell, .. } = &mut *self;
        Farewell::part(farewell, cx, stream, (*has_ended, pace)).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[kind, 0], &stream.to_be_bytes()].concat();
        [&head, payload].concat()
    }

    #[test]
    fn frames_are_found_in_reads_of_any_size() {
        let all = [
            frame(4, 0, &[1; 18]),
            frame(RST_STREAM, 7, &[0, 0, 0, 8]),
            frame(DATA, 9, b""),
            frame(DATA, 0x8000_0000 | 9, b"hello"),
            frame(DATA, 11, &[0; 300]),
            frame(RST_STREAM, 11, &[0, 0, 0, 8]),
        ];
        let bytes = [&[7; PREFACE_BYTES][..], &all.concat()].concat();
        for size in [1, 2, 3, 8, 9, 10, 100, 1_000] {
            let (mut frames, mut found) = (Frames::after(PREFACE_BYTES), Vec::new());
            let wants = |kind, length| kind == RST_STREAM || kind == DATA && length == 5;
            for part in bytes.chunks(size) {
                let told = |kind, stream, payload: &[u8]| found.push((kind, stream, payload.len()));
                frames.follow(part, wants, told);
            }
            assert_eq!(found, [(RST_STREAM, 7, 4), (DATA, 9, 5), (RST_STREAM, 11, 4)], "{size}");
        }
    }
}
