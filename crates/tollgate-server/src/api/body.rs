//! The body of a request, bounded.

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use super::problem::Problem;
use crate::listen::Caller;

/// The most bytes of a body.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1_024;

/// All of a body.
pub(crate) async fn whole(
    request: Request<Incoming>,
    caller: &Caller<'_>,
) -> Result<Bytes, Problem> {
    let body = read(request.into_body()).await;
    if body.is_ok() {
        caller.is_read();
    }
    caller.has_said_all();
    body
}

async fn read(mut body: Incoming) -> Result<Bytes, Problem> {
    let told = body.size_hint().lower();
    if usize::try_from(told).map_or(true, |bytes| bytes > MAX_BODY_BYTES) {
        return Err(too_large());
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Err(Problem::bad("the body ended before its end"));
        };
        // Trailers say nothing here.
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        // Nearly every body is one piece, which is not copied.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&first);
            first = Bytes::new();
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn too_large() -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("a body has at most {MAX_BODY_BYTES} bytes: ask in several requests"),
    )
}
