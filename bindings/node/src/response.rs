//! Responses and lines of headers, as JavaScript takes and gives them.

use napi_derive::napi;

/// A response: its status, headers and body.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The status.
    pub status: u32,
    /// Pairs of a name and a value, in the order in which they are written.
    pub headers: Vec<Vec<String>>,
    /// The body, which is text.
    pub body: String,
}

impl From<tollgate_binding::Refusal> for Refusal {
    fn from(
        tollgate_binding::Refusal { status, headers, body }: tollgate_binding::Refusal,
    ) -> Self {
        Self {
            status: u32::from(status),
            headers: pairs(headers),
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

/// Headers, each as a name and a value.
pub(crate) fn pairs(headers: Vec<(String, String)>) -> Vec<Vec<String>> {
    headers.into_iter().map(|(name, value)| vec![name, value]).collect()
}

/// Headers, each of which is a name and a line.
pub(crate) fn lines(headers: &[Vec<String>]) -> impl Iterator<Item = (&[u8], &[u8])> {
    headers.iter().filter_map(|line| match &line[..] {
        [name, value] => Some((name.as_bytes(), value.as_bytes())),
        _ => None,
    })
}
