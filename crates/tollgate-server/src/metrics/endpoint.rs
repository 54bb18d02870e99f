//! Requests by endpoint and by class of the response status.

use core::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

use crate::api::queue_parts;

/// The endpoints; the files of the console are one. Any other path counts as `other`: a label with
/// paths chosen by clients would be unbounded.
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
    Other,
}

impl Endpoint {
    const ALL: [Self; 41] = [
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
        Self::Other,
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
            Self::Other => super::OTHER,
        }
    }

    /// The endpoint of a path.
    pub(crate) fn from_path(path: &str) -> Self {
        if path.starts_with("/console/") {
            return Self::Console;
        }
        // A queue's name is not a label, since clients may request queues that do not exist.
        match queue_parts(path) {
            None => {}
            Some((_, None)) => return Self::Queue,
            Some((_, Some("take"))) => return Self::Take,
            Some((_, Some("done"))) => return Self::Done,
            Some((_, Some("extend"))) => return Self::Extend,
            Some((_, Some("nack"))) => return Self::Nack,
            Some((_, Some(_))) => return Self::Other,
        }
        Self::ALL.into_iter().find(|endpoint| endpoint.path() == path).unwrap_or(Self::Other)
    }
}

/// The classes of statuses; the service never answers with 1xx.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The counters of requests.
#[derive(Debug)]
pub(crate) struct Requests([[AtomicU64; CLASSES.len()]; Endpoint::ALL.len()]);

impl Default for Requests {
    fn default() -> Self {
        Self([const { [const { AtomicU64::new(0) }; CLASSES.len()] }; Endpoint::ALL.len()])
    }
}

impl Requests {
    /// Counts an answered request.
    #[inline]
    pub(crate) fn add(&self, endpoint: Endpoint, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).wrapping_sub(1);
        if let Some(count) = self.0.get(endpoint as usize).and_then(|classes| classes.get(class)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All nonzero counters: the path, the class and the count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        Endpoint::ALL.into_iter().zip(&self.0).flat_map(|(endpoint, classes)| {
            let counts = classes.iter().map(|count| count.load(Ordering::Relaxed));
            CLASSES
                .into_iter()
                .zip(counts)
                .filter(|(_, count)| *count > 0)
                .map(move |(class, count)| (endpoint.path(), class, count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_has_its_place_and_the_rest_is_other() {
        let requests = Requests::default();
        for (place, endpoint) in Endpoint::ALL.into_iter().enumerate() {
            assert_eq!(endpoint as usize, place);
            assert_eq!(Endpoint::from_path(endpoint.path()), endpoint);
            requests.add(endpoint, StatusCode::OK);
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
            assert_eq!(Endpoint::from_path(path), Endpoint::Other, "{path}");
        }
        assert_eq!(requests.iter().count(), Endpoint::ALL.len());
        requests.add(Endpoint::Check, StatusCode::from_u16(599).unwrap());
        requests.add(Endpoint::Check, StatusCode::from_u16(999).unwrap());
        assert_eq!(requests.iter().nth(1), Some(("/v1/check", "5xx", 1)));
        assert_eq!(requests.iter().map(|(.., count)| count).sum::<u64>(), 42);
    }
}
