//! Error responses for invalid requests, in the format of RFC 9457.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use super::answer::no_sniff;
use crate::http::{MAX_HEAD_BYTES, Misframed, Reply};
use crate::service::{Kind, Refusal};

/// An error in a request: the field, the problem, and a valid value.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Problem {
    title: &'static str,
    #[serde(serialize_with = "number")]
    status: StatusCode,
    detail: String,
    /// The field of the question, such as `checks[3].cost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

fn number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Refused");
        Self { title, status, detail: detail.into(), field: None }
    }

    /// A 400 response.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 503: there is no buffer space for the request or its answer.
    pub(super) fn no_room() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too much is on its way from and to other connections: ask again, or for less in one \
             request",
        )
    }

    /// 404: there is nothing at this path.
    pub(super) fn not_found(path: &str) -> Self {
        let shown: String = path.chars().take(100).collect();
        Self::new(
            StatusCode::NOT_FOUND,
            format!("there is nothing at {shown}: GET / lists what there is"),
        )
    }

    /// The same, for this field.
    pub(crate) fn at(self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// The same, with the field inside a larger question: `cost` becomes `checks[3].cost`.
    pub(crate) fn within(self, place: &str) -> Self {
        let field = match self.field {
            Some(field) => format!("{place}.{field}"),
            None => place.to_owned(),
        };
        Self { field: Some(field), ..self }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn response(&self) -> Reply {
        // Serialization of strings and numbers cannot fail.
        let body = serde_json::to_vec(self).unwrap_or_default();
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        no_sniff(headers);
        response
    }

    /// 405, with the allowed methods.
    pub(crate) fn method(allowed: &'static str) -> Reply {
        let detail = format!("this is asked by {allowed}");
        let mut response = Self::new(StatusCode::METHOD_NOT_ALLOWED, detail).response();
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let Refusal { kind, detail, field } = refusal;
        let status = match kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Conflict | Kind::Full => StatusCode::CONFLICT,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self { field: field.map(str::to_owned), ..Self::new(status, detail) }
    }
}

/// The full response to a request that the HTTP library refuses by itself; `None` where the
/// library's own response is as good.
pub(crate) fn explain(status: u16, why: Option<Misframed>) -> Option<Bytes> {
    let detail = match status {
        400 => why.map_or("this is not a request of HTTP/1.1", Misframed::detail).to_owned(),
        431 => format!(
            "a head has at most {MAX_HEAD_BYTES} bytes and 100 headers, the request line among them"
        ),
        _ => return None,
    };
    let problem = Problem::new(StatusCode::from_u16(status).ok()?, detail);
    let body = serde_json::to_string(&problem).ok()?;
    let text = format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: application/problem+json\r\n\
         x-content-type-options: nosniff\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        problem.title,
        body.len()
    );
    Some(text.into())
}
