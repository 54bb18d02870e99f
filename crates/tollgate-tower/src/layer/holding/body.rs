//! The body of a response, which ends what its request holds.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

use super::guard::Guard;

pin_project_lite::pin_project! {
    /// The body of a response of a [`HoldingTollgate`](super::HoldingTollgate): that of the service
    /// or of a refusal. The hold of its request is given back when the body has ended, or is
    /// dropped.
    pub struct HoldingBody<B> {
        #[pin]
        body: B,
        guard: Option<Box<Guard>>,
    }
}

impl<B> HoldingBody<B> {
    pub(super) fn new(body: B, guard: Option<Box<Guard>>) -> Self {
        Self { body, guard }
    }

    /// A body of a request that holds nothing.
    pub(super) fn plain(body: B) -> Self {
        Self::new(body, None)
    }
}

impl<B> fmt::Debug for HoldingBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldingBody").field("holds", &self.guard.is_some()).finish_non_exhaustive()
    }
}

impl<B: Body> Body for HoldingBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let polled = this.body.as_mut().poll_frame(cx);
        let is_over = match &polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(_))) => this.body.is_end_stream(),
            Poll::Ready(None | Some(Err(_))) => true,
        };
        if let (Some(guard), Poll::Ready(Some(Ok(frame)))) = (&mut *this.guard, &polled) {
            guard.count(frame.data_ref().map_or(0, Buf::remaining));
        }
        // Before the last frame is passed on: a client that has read it finds the slot free.
        if is_over {
            drop(this.guard.take());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
