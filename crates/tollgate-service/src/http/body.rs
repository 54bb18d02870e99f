//! Reads the body of a request, up to a maximum size.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use crate::listen::Budget;

/// The most bytes of a body.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1_024;

/// The whole body, or why there is none.
pub(crate) type Whole = Result<Bytes, BodyError>;

/// Why a body was not read completely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyError {
    /// It has more than [`MAX_BODY_BYTES`].
    TooLarge,
    /// It was cut off, or is not valid HTTP.
    Broken,
    /// The other connections use the whole budget.
    NoRoom,
}

/// Reads the whole body. A body in several frames takes a share of the budget.
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
        // Trailers carry no meaning here.
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > MAX_BODY_BYTES {
            return Err(BodyError::TooLarge);
        }
        // Nearly every body is one frame, and is not copied.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            debug_assert!(share.is_some(), "what is put together was counted");
            rest.extend_from_slice(&first);
            first = Bytes::new();
            rest.extend_from_slice(&data);
        }
        if share.is_none() && !body.is_end_stream() {
            // Reserve the announced length, or the maximum.
            let bytes = usize::try_from(told).ok().filter(|bytes| *bytes > 0);
            share = budget.take(bytes.unwrap_or(MAX_BODY_BYTES));
            if share.is_none() {
                return Err(BodyError::NoRoom);
            }
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}
