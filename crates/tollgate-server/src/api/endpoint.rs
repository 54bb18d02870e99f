//! The endpoints, by which requests are counted and traced.

use http::StatusCode;

use super::queues::parts;
use crate::metrics::FrontFamily;

/// The endpoints; the files of the console are one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Endpoint {
    Check,
    Peek,
    Charge,
    Refund,
    Reserve,
    Commit,
    Acquire,
    Renew,
    Release,
    Auth,
    Json,
    Queue,
    Take,
    Done,
    Extend,
    Nack,
    Policies,
    Explain,
    Openapi,
    Index,
    Healthz,
    Readyz,
    Metrics,
    Inspect,
    Reset,
    Adjust,
    Reload,
    Series,
    Top,
    Ban,
    Exempt,
    Lift,
    Rulings,
    AdminPeek,
    AdminExplain,
    AdminPolicies,
    Overview,
    Lookup,
    AdminRelease,
    Console,
}

impl Endpoint {
    const ALL: [Self; 40] = [
        Self::Check,
        Self::Peek,
        Self::Charge,
        Self::Refund,
        Self::Reserve,
        Self::Commit,
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::Auth,
        Self::Json,
        Self::Queue,
        Self::Take,
        Self::Done,
        Self::Extend,
        Self::Nack,
        Self::Policies,
        Self::Explain,
        Self::Openapi,
        Self::Index,
        Self::Healthz,
        Self::Readyz,
        Self::Metrics,
        Self::Inspect,
        Self::Reset,
        Self::Adjust,
        Self::Reload,
        Self::Series,
        Self::Top,
        Self::Ban,
        Self::Exempt,
        Self::Lift,
        Self::Rulings,
        Self::AdminPeek,
        Self::AdminExplain,
        Self::AdminPolicies,
        Self::Overview,
        Self::Lookup,
        Self::AdminRelease,
        Self::Console,
    ];

    /// The endpoint's path, which is also its label.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Check => "/v1/check",
            Self::Peek => "/v1/peek",
            Self::Charge => "/v1/charge",
            Self::Refund => "/v1/refund",
            Self::Reserve => "/v1/reserve",
            Self::Commit => "/v1/commit",
            Self::Acquire => "/v1/acquire",
            Self::Renew => "/v1/renew",
            Self::Release => "/v1/release",
            Self::Auth => "/v1/auth",
            Self::Json => "/json",
            Self::Queue => "/v1/queues/{name}",
            Self::Take => "/v1/queues/{name}/take",
            Self::Done => "/v1/queues/{name}/done",
            Self::Extend => "/v1/queues/{name}/extend",
            Self::Nack => "/v1/queues/{name}/nack",
            Self::Policies => "/v1/policies",
            Self::Explain => "/v1/explain",
            Self::Openapi => "/v1/openapi.yaml",
            Self::Index => "/",
            Self::Healthz => "/healthz",
            Self::Readyz => "/readyz",
            Self::Metrics => "/metrics",
            Self::Inspect => "/v1/admin/inspect",
            Self::Reset => "/v1/admin/reset",
            Self::Adjust => "/v1/admin/adjust",
            Self::Reload => "/v1/admin/reload",
            Self::Series => "/v1/admin/series",
            Self::Top => "/v1/admin/top",
            Self::Ban => "/v1/admin/ban",
            Self::Exempt => "/v1/admin/exempt",
            Self::Lift => "/v1/admin/lift",
            Self::Rulings => "/v1/admin/rulings",
            Self::AdminPeek => "/v1/admin/peek",
            Self::AdminExplain => "/v1/admin/explain",
            Self::AdminPolicies => "/v1/admin/policies",
            Self::Overview => "/v1/admin/overview",
            Self::Lookup => "/v1/admin/lookup",
            Self::AdminRelease => "/v1/admin/release",
            Self::Console => "/console",
        }
    }

    /// The endpoint of a path.
    pub(crate) fn from_path(path: &str) -> Option<Self> {
        if path.starts_with("/console/") {
            return Some(Self::Console);
        }
        // A queue's name is not a label, since clients may request queues that do not exist.
        match parts(path) {
            None => Self::ALL.into_iter().find(|endpoint| endpoint.path() == path),
            Some((_, None)) => Some(Self::Queue),
            Some((_, Some("take"))) => Some(Self::Take),
            Some((_, Some("done"))) => Some(Self::Done),
            Some((_, Some("extend"))) => Some(Self::Extend),
            Some((_, Some("nack"))) => Some(Self::Nack),
            Some((_, Some(_))) => None,
        }
    }

    /// Whether a request only monitors the service.
    pub(crate) fn monitors(self) -> bool {
        matches!(self, Self::Healthz | Self::Readyz | Self::Metrics)
    }
}

/// The classes of statuses; the service never answers with 1xx.
const CLASSES: &[&str] = &["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The place of the class of a status.
pub(crate) fn class_of(status: StatusCode) -> usize {
    usize::from(status.as_u16() / 100).wrapping_sub(1)
}

/// Requests by endpoint and by class of the response status.
pub(crate) fn requests() -> FrontFamily {
    FrontFamily {
        name: "tollgate_http_requests",
        help: "Answered requests, by endpoint and status class.",
        labels: ["endpoint", "status"],
        asked: Endpoint::ALL.map(Endpoint::path).into(),
        ended: CLASSES,
        is_always_there: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_has_its_place_and_the_rest_is_other() {
        for (place, endpoint) in Endpoint::ALL.into_iter().enumerate() {
            assert_eq!(endpoint as usize, place);
            assert_eq!(Endpoint::from_path(endpoint.path()), Some(endpoint));
        }
        for path in [
            "",
            "/v1",
            "/v1/check/",
            "/v1/checks",
            "/user:42",
            "/v1/admin/user:42",
            "/v1/queues/a/b",
        ] {
            assert_eq!(Endpoint::from_path(path), None, "{path}");
        }
    }

    #[test]
    fn a_class_has_its_place() {
        for (status, class) in [(200, "2xx"), (404, "4xx"), (599, "5xx")] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(CLASSES.get(class_of(status)), Some(&class));
        }
        assert_eq!(CLASSES.get(class_of(StatusCode::from_u16(999).unwrap())), None);
    }
}
