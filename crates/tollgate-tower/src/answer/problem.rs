//! Response bodies by RFC 9457: the problem, for programs and for humans. They contain no subject.

use core::fmt::Write as _;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use tollgate::Unit;

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
const BLANK: &str = "about:blank";

/// A problem, before its serialization.
pub(super) struct Problem {
    kind: &'static str,
    title: &'static str,
    status: StatusCode,
    pub(super) detail: String,
}

pub(super) fn quota_exceeded(seconds: u64) -> Problem {
    Problem {
        kind: QUOTA_EXCEEDED,
        title: "Quota exceeded",
        status: StatusCode::TOO_MANY_REQUESTS,
        detail: format!("Ask again in {seconds} s."),
    }
}

/// The same, where others hold what is asked for: nobody knows when they end.
pub(super) fn held() -> Problem {
    let detail = "Requests in progress hold the units that this one needs: ask again when some \
                  have ended.";
    Problem { detail: detail.to_owned(), ..quota_exceeded(0) }
}

pub(super) fn too_costly(capacity: u64, unit: &Unit) -> Problem {
    let what = match *unit {
        Unit::SLOTS => format!("takes more slots than there are, {capacity}"),
        Unit::REQUESTS => format!("costs more than {capacity}, the capacity of its limit"),
        unit => format!("costs more than {capacity} {unit}, the capacity of its limit"),
    };
    let detail = format!("This request {what}: waiting does not help, asking for less does.");
    Problem::plain(StatusCode::UNPROCESSABLE_ENTITY, detail)
}

/// A cost above the `max` of its policy.
pub(super) fn above_maximum(most: u64, unit: &Unit) -> Problem {
    let what = match *unit {
        Unit::REQUESTS => most.to_string(),
        unit => format!("{most} {unit}"),
    };
    let detail = format!(
        "This request costs more than {what}, the most that its policy takes for one: waiting does \
         not help, asking for less does."
    );
    Problem::plain(StatusCode::UNPROCESSABLE_ENTITY, detail)
}

pub(super) fn reduced_capacity() -> Problem {
    Problem {
        kind: REDUCED_CAPACITY,
        title: "Temporary reduced capacity",
        status: StatusCode::SERVICE_UNAVAILABLE,
        detail: "Requests cannot be counted at the moment, and are denied until they can."
            .to_owned(),
    }
}

pub(super) fn banned() -> Problem {
    Problem::plain(StatusCode::FORBIDDEN, "This client is banned.".to_owned())
}

impl Problem {
    /// A problem described by its status: with `about:blank`, the title is the status's reason
    /// phrase.
    pub(super) fn plain(status: StatusCode, detail: String) -> Self {
        let title = match status {
            // Renamed by RFC 9110.
            StatusCode::UNPROCESSABLE_ENTITY => "Unprocessable Content",
            other => other.canonical_reason().unwrap_or("Refused"),
        };
        Self { kind: BLANK, title, status, detail }
    }

    /// The response. The names of policies are already quoted, in a form that is valid JSON.
    pub(super) fn response<'n>(self, violated: impl Iterator<Item = &'n str>) -> Response<Bytes> {
        let Self { kind, title, status, detail } = self;
        let mut body = String::with_capacity(256);
        // Writing to a string cannot fail.
        let _ = write!(body, r#"{{"type":"{kind}","title":"{title}","status":{}"#, status.as_u16());
        body.push_str(r#","detail":""#);
        push_escaped(&mut body, &detail);
        body.push('"');
        let mut violated = violated.peekable();
        if violated.peek().is_some() {
            body.push_str(r#","violated-policies":["#);
            for (index, name) in violated.enumerate() {
                body.push_str(if index > 0 { "," } else { "" });
                body.push_str(name);
            }
            body.push(']');
        }
        body.push('}');
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// Escapes text for a JSON string.
fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}
