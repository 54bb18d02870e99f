//! The identity of one request, or why it has none.

use http::HeaderMap;
use http::header::HeaderName;

use super::head::Head;
use super::header::{MAX_VALUE_BYTES, header_text};
use super::missing::{Missing, Required};
use super::path::PathReading;
use super::source::{Identity, Way};
use super::text::Value;
use super::why::Why;

impl Identity {
    /// The identity of this request.
    ///
    /// # Errors
    /// Why the request has none. [`Missing::is_absent`] distinguishes an absent value from a
    /// malformed one.
    pub fn value<'r>(&self, head: &Head<'r>) -> Result<Value<'r>, Missing<'_>> {
        let found = match &self.0 {
            Way::Client(address) => head
                .peer()
                .ok_or(Why::NoPeer)
                .map(|peer| address.client(peer, head.headers()).value()),
            Way::Header { name, lowercase } => header_value(head.headers(), name, *lowercase),
            Way::Key(key) => key.value(head.headers()),
            Way::Route => match head.route() {
                Some(route) if !route.is_empty() => bounded(route).map(Value::borrowed),
                _ => Err(Why::NoRoute),
            },
            Way::Path(reading) => path_value(head.path(), reading),
            Way::Own { function, .. } => match function(head) {
                Some(text) if !text.is_empty() => bounded(&text).map(|_| ()).map(|()| text),
                _ => Err(Why::Absent),
            }
            .map(Value::owned),
        };
        found.map_err(|why| Missing { what: Required::Identity(self), why })
    }
}

fn header_value<'r>(
    headers: &'r HeaderMap,
    name: &HeaderName,
    lowercase: bool,
) -> Result<Value<'r>, Why> {
    let text = header_text(headers, name)?;
    if !lowercase {
        return Ok(Value::borrowed(text));
    }
    // Non-ASCII blanks are trimmed too, as logins do; the result may be empty.
    match text.trim().to_lowercase() {
        text if text.is_empty() => Err(Why::Absent),
        text => Ok(Value::owned(text)),
    }
}

fn path_value<'p>(path: &'p str, reading: &PathReading) -> Result<Value<'p>, Why> {
    bounded(path)?;
    let form = reading.read(path)?;
    bounded(&form)?;
    Ok(match form {
        std::borrow::Cow::Borrowed(text) => Value::borrowed(text),
        std::borrow::Cow::Owned(text) => Value::owned(text),
    })
}

fn bounded(text: &str) -> Result<&str, Why> {
    if text.len() > MAX_VALUE_BYTES {
        return Err(Why::TooLong { bytes: text.len(), most: MAX_VALUE_BYTES });
    }
    Ok(text)
}
