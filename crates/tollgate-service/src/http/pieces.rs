//! The body of a response, written in pieces.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

use crate::listen::{Pace, Share};

/// The maximum number of bytes that are passed to a connection in one write; the rest stays in one
/// buffer.
const PIECE_BYTES: usize = 16 * 1_024;

/// The body of a response in pieces. It holds its share of the budget until the last piece is
/// taken.
#[derive(Debug)]
pub(super) struct Pieces {
    whole: Full<Bytes>,
    rest: Bytes,
    _share: Option<Share>,
    /// The connection's pace, notified when the last of several pieces is taken.
    pace: Option<Arc<Pace>>,
}

impl Pieces {
    pub(super) fn new(whole: Full<Bytes>, share: Option<Share>, pace: &Arc<Pace>) -> Self {
        let several = whole.size_hint().lower() > PIECE_BYTES as u64;
        let pace = several.then(|| Arc::clone(pace));
        if let Some(pace) = &pace {
            pace.set_responding(true);
        }
        Self { whole, rest: Bytes::new(), _share: share, pace }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if let Some(pace) = &self.pace {
            pace.set_responding(false);
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            let Some(Ok(frame)) = ready!(Pin::new(&mut self.whole).poll_frame(cx)) else {
                return Poll::Ready(None);
            };
            self.rest = frame.into_data().unwrap_or_default();
        }
        let most = PIECE_BYTES.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(most)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.whole.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.len() {
            0 => self.whole.size_hint(),
            left => SizeHint::with_exact(left as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::listen::{Bounds, Budget, Registry};

    #[tokio::test]
    async fn shares_come_back_when_the_last_piece_was_taken() {
        let budget = Budget::new(100_000);
        let text: Vec<u8> = (0..90_000_u32).map(|i| i.to_le_bytes()[0]).collect();
        let share = budget.take(text.len());
        let registry = Registry::new(Bounds::default());
        let place = registry.enter(std::net::Ipv4Addr::LOCALHOST.into()).unwrap();
        let mut body = Pieces::new(Full::new(Bytes::from(text.clone())), share, &place.pace);
        assert!(place.pace.is_responding());
        assert!(budget.take(20_000).is_none(), "there is no room for both");
        assert_eq!(budget.held(), 90_000);
        let mut said = Vec::new();
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE_BYTES);
            said.extend_from_slice(&piece);
            let left = text.len() - said.len();
            assert_eq!(body.size_hint().exact().unwrap_or(0), left as u64);
        }
        assert_eq!(said, text);
        drop(body);
        assert!(!place.pace.is_responding());
        assert_eq!(budget.held(), 0);
        assert!(budget.take(100_001).is_none());
        assert!(budget.take(100_000).is_some());
    }
}
