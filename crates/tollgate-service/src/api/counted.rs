//! The labels by which requests are counted: the operation, and the class of the response status.

use http::StatusCode;

use crate::metrics::FrontFamily;
use crate::operations::TABLE;

/// The classes of statuses; the service never answers with 1xx.
const CLASSES: &[&str] = &["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The place of the class of a status.
pub(crate) fn class_of(status: StatusCode) -> usize {
    usize::from(status.as_u16() / 100).wrapping_sub(1)
}

/// Requests by operation and by class of the response status.
pub(crate) fn requests() -> FrontFamily {
    FrontFamily {
        name: "tollgate_http_requests",
        help: "Answered requests, by endpoint and status class.",
        labels: ["endpoint", "status"],
        asked: TABLE.iter().map(|row| row.path).collect(),
        ended: CLASSES,
        is_always_there: true,
        timed: Some("http"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_its_place() {
        for (status, class) in [(200, "2xx"), (404, "4xx"), (599, "5xx")] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(CLASSES.get(class_of(status)), Some(&class));
        }
        assert_eq!(CLASSES.get(class_of(StatusCode::from_u16(999).unwrap())), None);
    }
}
