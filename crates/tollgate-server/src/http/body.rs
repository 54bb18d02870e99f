//! The body of a request, bounded.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use crate::listen::Budget;

/// The most bytes of a body.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1_024;

/// All of a body, or why there is none.
pub(crate) type Whole = Result<Bytes, BodyError>;

/// Why a body was not read to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyError {
    /// It has more than [`MAX_BODY_BYTES`].
    TooLarge,
    /// It ended before its end, or is none of HTTP.
    Broken,
    /// Too much is held for other connections.
    NoRoom,
}

/// Reads all of it. What does not come at once has a share of the budget.
pub(super) async fn read(mut body: Incoming, budget: &Arc<Budget>) -> Whole {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let told = body.size_hint().lower();
    if usize::try_from(told).map_or(true, |bytes| bytes > MAX_BODY_BYTES) {
        return Err(BodyError::TooLarge);
    }
    let mut share = None;
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyError::Broken)?;
        // Trailers say nothing here.
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > MAX_BODY_BYTES {
            return Err(BodyError::TooLarge);
        }
        // Nearly every body is one piece, which is not copied.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            debug_assert!(share.is_some(), "what is put together was counted");
            rest.extend_from_slice(&first);
            first = Bytes::new();
            rest.extend_from_slice(&data);
        }
        if share.is_none() && !body.is_end_stream() {
            // As much as it says, or as there may be.
            let bytes = usize::try_from(told).ok().filter(|bytes| *bytes > 0);
            share = budget.take(bytes.unwrap_or(MAX_BODY_BYTES));
            if share.is_none() {
                return Err(BodyError::NoRoom);
            }
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}
