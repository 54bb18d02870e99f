//! Refusals for gRPC: a response of headers only, with a status and, if waiting helps, a
//! `RetryInfo`.

use core::time::Duration;

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The headers of a gRPC-Web refusal that pages need to read.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("grpc-status, grpc-message, grpc-status-details-bin");

/// The protocol of a request, by its content type: a refusal uses the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Wire {
    /// Everything else.
    Http,
    /// `application/grpc`, also with a format such as `+proto`.
    Grpc,
    /// `application/grpc-web`.
    GrpcWeb,
    /// `application/grpc-web-text`.
    GrpcWebText,
}

impl Wire {
    /// The protocol of a request with these headers.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use tollgate_tower::answer::Wire;
    /// let mut headers = HeaderMap::new();
    /// assert_eq!(Wire::from_headers(&headers), Wire::Http);
    /// headers.insert("content-type", "application/grpc+proto".parse()?);
    /// assert_eq!(Wire::from_headers(&headers), Wire::Grpc);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Self {
        const BASE: &[u8] = b"application/grpc";
        let Some(value) = headers.get(CONTENT_TYPE) else { return Self::Http };
        let Some((base, rest)) = value.as_bytes().split_at_checked(BASE.len()) else {
            return Self::Http;
        };
        if !base.eq_ignore_ascii_case(BASE) {
            return Self::Http;
        }
        let end = rest.iter().position(|byte| b"+; \t".contains(byte)).unwrap_or(rest.len());
        match rest.get(..end).unwrap_or_default().to_ascii_lowercase().as_slice() {
            b"" => Self::Grpc,
            b"-web" => Self::GrpcWeb,
            b"-web-text" => Self::GrpcWebText,
            _ => Self::Http,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Http | Self::Grpc => "application/grpc",
            Self::GrpcWeb => "application/grpc-web+proto",
            Self::GrpcWebText => "application/grpc-web-text+proto",
        }
    }
}

/// The gRPC status codes of refusals.
#[derive(Clone, Copy)]
pub(super) struct Code(u8);

impl Code {
    pub(super) const INVALID_ARGUMENT: Self = Self(3);
    pub(super) const PERMISSION_DENIED: Self = Self(7);
    pub(super) const RESOURCE_EXHAUSTED: Self = Self(8);
    pub(super) const UNIMPLEMENTED: Self = Self(12);
    pub(super) const UNAVAILABLE: Self = Self(14);
    pub(super) const UNAUTHENTICATED: Self = Self(16);
}

/// A response of headers only (*Trailers-Only*).
pub(super) fn refusal(
    wire: Wire,
    code: Code,
    message: &str,
    retry: Option<Duration>,
    expose: bool,
) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(wire.content_type()));
    headers.insert(GRPC_STATUS, HeaderValue::from(u16::from(code.0)));
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(percent(message))) {
        headers.insert(GRPC_MESSAGE, value);
    }
    if let Some(wait) = retry {
        let details = base64(&status(code, message, wait));
        if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(details)) {
            headers.insert(GRPC_DETAILS, value);
        }
    }
    if expose && wire != Wire::Grpc {
        headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    response
}

/// Percent-encodes a `grpc-message`.
fn percent(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for byte in message.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for nibble in [byte >> 4, byte & 15] {
                out.push(char::from(b"0123456789ABCDEF"[usize::from(nibble)]));
            }
        }
    }
    out
}

/// A `google.rpc.Status` with one `google.rpc.RetryInfo`, encoded by hand: it has four fields, and
/// a protobuf library would add six crates.
fn status(code: Code, message: &str, wait: Duration) -> Vec<u8> {
    let mut delay = Vec::new();
    number(&mut delay, 1, wait.as_secs());
    number(&mut delay, 2, u64::from(wait.subsec_nanos()));
    let mut retry_info = Vec::new();
    bytes(&mut retry_info, 1, &delay);
    let mut any = Vec::new();
    bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    bytes(&mut any, 2, &retry_info);
    let mut status = Vec::new();
    number(&mut status, 1, u64::from(code.0));
    bytes(&mut status, 2, message.as_bytes());
    bytes(&mut status, 3, &any);
    status
}

/// Encodes an integer field; zero is omitted.
fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value > 0 {
        out.push(field << 3);
        varint(out, value);
    }
}

/// Encodes a field of bytes.
fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, u64::try_from(value.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(0x80 | u8::try_from(value & 0x7f).unwrap_or(0));
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

/// Encodes without padding, as gRPC requires.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| usize::from(chunk.get(index).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..=chunk.len() {
            out.push(char::from(DIGITS[group >> (18 - 6 * place) & 63]));
        }
    }
    out
}
