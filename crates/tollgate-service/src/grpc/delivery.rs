//! Distinguishes answers that were delivered from those that nobody received.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use crate::listen::{Budget, Pace, Undelivered};

/// A response whose body says when it was passed on, if something is attached that is undone
/// otherwise. The message takes from this room until it was read.
pub(super) fn followed(
    mut response: Response<Body>,
    pace: &Arc<Pace>,
    room: &Arc<Budget>,
) -> Response<Body> {
    let Some(undelivered) = Undelivered::of(response.extensions_mut()) else { return response };
    let (pace, room) = (Arc::clone(pace), Arc::clone(room));
    response.map(|body| {
        let undelivered = Some(undelivered);
        Body::new(Followed { body, undelivered, message: None, pace, room })
    })
}

/// The body of an answer that is undone if it is dropped before its end.
struct Followed {
    body: Body,
    /// Until the message comes. It is attached to that from then on.
    undelivered: Option<Undelivered>,
    /// The number of the message, until the trailers follow it.
    message: Option<u64>,
    pace: Arc<Pace>,
    room: Arc<Budget>,
}

impl HttpBody for Followed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other),
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(bytes) => match self.undelivered.take() {
                Some(undelivered) => {
                    let on_the_way = &self.pace.on_the_way;
                    let (number, bytes) = on_the_way.passed_on(undelivered, bytes, &self.room);
                    self.message = Some(number);
                    Frame::data(bytes)
                }
                None => Frame::data(bytes),
            },
            // The trailers are the last that is asked for.
            Err(trailers) => {
                self.message = None;
                trailers
            }
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(number) = self.message.take() {
            self.pace.on_the_way.cut_off(number);
        }
    }
}
