//! Calls, by method and result.

use core::sync::atomic::{AtomicU64, Ordering};

use tollgate_envoy::proto::{KUADRANT_SERVICE, SERVICE};

/// The methods. A label with names chosen by clients would be unbounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    ShouldRateLimit,
    CheckRateLimit,
    Report,
    Reserve,
    Commit,
    Health,
    Reflection,
    /// The same under its former name, which many tools still ask for.
    ReflectionV1Alpha,
    Other,
}

impl Method {
    const NAMES: [&str; 9] = [
        "ShouldRateLimit",
        "CheckRateLimit",
        "Report",
        "Reserve",
        "Commit",
        "Health",
        "ServerReflection",
        "ServerReflectionV1Alpha",
        "other",
    ];

    /// The method of a path, `/SERVICE/METHOD`.
    pub(super) fn from_path(path: &str) -> Self {
        let service = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        match service {
            Some((SERVICE, "ShouldRateLimit")) => Self::ShouldRateLimit,
            Some((KUADRANT_SERVICE, "CheckRateLimit")) => Self::CheckRateLimit,
            Some((KUADRANT_SERVICE, "Report")) => Self::Report,
            Some((KUADRANT_SERVICE, "Reserve")) => Self::Reserve,
            Some((KUADRANT_SERVICE, "Commit")) => Self::Commit,
            Some(("grpc.health.v1.Health", _)) => Self::Health,
            Some(("grpc.reflection.v1.ServerReflection", _)) => Self::Reflection,
            Some(("grpc.reflection.v1alpha.ServerReflection", _)) => Self::ReflectionV1Alpha,
            _ => Self::Other,
        }
    }

    /// Whether messages may follow the first one.
    pub(super) fn has_more(self) -> bool {
        matches!(self, Self::Reflection | Self::ReflectionV1Alpha)
    }
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    Ok,
    OverLimit,
    Error,
    /// There was no room for it, so nothing of it was read.
    Refused,
}

impl Ended {
    const NAMES: [&str; 4] = ["ok", "over_limit", "error", "refused"];
}

/// The counters of calls.
#[derive(Debug, Default)]
pub(crate) struct CallCounts([[AtomicU64; Ended::NAMES.len()]; Method::NAMES.len()]);

impl CallCounts {
    pub(super) fn add(&self, method: Method, ended: Ended) {
        let counts = self.0.get(method as usize);
        if let Some(count) = counts.and_then(|counts| counts.get(ended as usize)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All nonzero counters: the method, the result and the count.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        Method::NAMES.into_iter().zip(&self.0).flat_map(|(method, counts)| {
            let counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
            let named = Ended::NAMES.into_iter().zip(counts).filter(|(_, count)| *count > 0);
            named.map(move |(ended, count)| (method, ended, count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_counters_and_the_rest_is_other() {
        let counts = CallCounts::default();
        for (path, ended) in [
            ("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", Ended::OverLimit),
            ("/envoy.service.ratelimit.v3.RateLimitService/Other", Ended::Error),
            ("/kuadrant.service.ratelimit.v1.RateLimitService/Reserve", Ended::OverLimit),
            ("/kuadrant.service.ratelimit.v1.RateLimitService/ShouldRateLimit", Ended::Error),
            ("/grpc.health.v1.Health/Check", Ended::Ok),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Ended::Ok),
            ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Ended::Refused),
            ("/", Ended::Error),
            ("", Ended::Error),
        ] {
            counts.add(Method::from_path(path), ended);
        }
        let all: Vec<_> = counts.iter().collect();
        assert_eq!(
            all,
            [
                ("ShouldRateLimit", "over_limit", 1),
                ("Reserve", "over_limit", 1),
                ("Health", "ok", 1),
                ("ServerReflection", "ok", 1),
                ("ServerReflectionV1Alpha", "refused", 1),
                ("other", "error", 4),
            ]
        );
    }
}
