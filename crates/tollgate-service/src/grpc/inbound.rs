//! The message of a call, within its time and the memory of all connections; and its answer, which
//! holds the call's memory until it was sent.

use core::future::Future as _;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::calls::Room;
use crate::listen::{Budget, Share};

/// The bytes of a message that take no share of the memory of all: most messages are shorter.
const FREE_BYTES: usize = 1_024;

/// The body of a call.
pub(super) struct Inbound<B> {
    body: B,
    budget: Arc<Budget>,
    read: usize,
    /// The memory that it takes of the shared budget, until the message is read.
    shares: Vec<Share>,
    most: Duration,
    /// Whether the time is that of each piece, since messages may follow the first.
    has_more: bool,
    /// Set once it has to be waited for.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<B> Inbound<B> {
    /// A body that is there within `most`.
    pub(super) fn new(body: B, budget: Arc<Budget>, most: Duration) -> Self {
        Self { body, budget, read: 0, shares: Vec::new(), most, has_more: false, deadline: None }
    }

    /// A body whose pieces may each take this long.
    pub(super) fn in_pieces(body: B, budget: Arc<Budget>, most: Duration) -> Self {
        Self { has_more: true, ..Self::new(body, budget, most) }
    }

    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        self.read += bytes;
        if self.read > FREE_BYTES {
            let share = self.budget.take(bytes).ok_or_else(|| {
                let why = "too much is on its way from and to other connections: ask again";
                Status::resource_exhausted(why)
            })?;
            self.shares.push(share);
        }
        Ok(())
    }
}

impl<B> Body for Inbound<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                if self.has_more {
                    self.deadline = None;
                }
                Poll::Ready(Some(self.take(bytes).map(|()| frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(Status::from_error(error.into()))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let most = self.most;
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(most)));
                if deadline.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let why = format!("the message was not there {most:?} after its head");
                Poll::Ready(Some(Err(Status::deadline_exceeded(why))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The answer of a call.
pub(super) struct Outbound {
    pub(super) body: tonic::body::Body,
    /// The memory that the call takes of the shared budget.
    pub(super) _room: Room,
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
