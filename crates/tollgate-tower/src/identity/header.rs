//! Names and values of headers.

use http::HeaderMap;
use http::header::{AsHeaderName, HeaderName};
use tollgate::ParseError;

use super::why::Why;

/// The longest value of an identity other than a key, in bytes: a subject contains it unchanged.
pub const MAX_VALUE_BYTES: usize = 1_024;

/// The name of a header, or why it is invalid.
pub(crate) fn header_name(name: &str) -> Result<HeaderName, ParseError> {
    name.parse().map_err(|_| {
        ParseError::whole(
            name,
            "this is not the name of a header",
            "use letters, digits and `-`, as in `x-user`",
        )
    })
}

/// The value of a header with a single line, without blanks around it.
pub(super) fn one_line(
    headers: &HeaderMap,
    name: impl AsHeaderName,
    most: usize,
) -> Result<&[u8], Why> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or(Why::Absent)?.as_bytes();
    if lines.next().is_some() {
        return Err(Why::Repeated);
    }
    if line.len() > most {
        return Err(Why::TooLong { bytes: line.len(), most });
    }
    match line.trim_ascii() {
        b"" => Err(Why::Absent),
        line => Ok(line),
    }
}

/// The value of a header with a single line, as text.
pub(crate) fn header_text(headers: &HeaderMap, name: impl AsHeaderName) -> Result<&str, Why> {
    let line = one_line(headers, name, MAX_VALUE_BYTES)?;
    core::str::from_utf8(line).map_err(|_| Why::NotText)
}
