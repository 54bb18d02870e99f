//! Calls, by method and result.

use tollgate_envoy::proto::{KUADRANT_SERVICE, SERVICE};

use crate::metrics::{FrontFamily, GRPC_CALLS};

/// The methods.
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
}

impl Method {
    const NAMES: [&str; 8] = [
        "ShouldRateLimit",
        "CheckRateLimit",
        "Report",
        "Reserve",
        "Commit",
        "Health",
        "ServerReflection",
        "ServerReflectionV1Alpha",
    ];

    /// The method of a path, `/SERVICE/METHOD`.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        let service = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        Some(match service? {
            (SERVICE, "ShouldRateLimit") => Self::ShouldRateLimit,
            (KUADRANT_SERVICE, "CheckRateLimit") => Self::CheckRateLimit,
            (KUADRANT_SERVICE, "Report") => Self::Report,
            (KUADRANT_SERVICE, "Reserve") => Self::Reserve,
            (KUADRANT_SERVICE, "Commit") => Self::Commit,
            ("grpc.health.v1.Health", _) => Self::Health,
            ("grpc.reflection.v1.ServerReflection", _) => Self::Reflection,
            ("grpc.reflection.v1alpha.ServerReflection", _) => Self::ReflectionV1Alpha,
            _ => return None,
        })
    }

    /// Whether it asks about counts: health and reflection only look at the service.
    pub(super) fn is_question(self) -> bool {
        !matches!(self, Self::Health | Self::Reflection | Self::ReflectionV1Alpha)
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
    /// There was no room for it, so its body was not read.
    Refused,
}

impl Ended {
    const NAMES: &[&str] = &["ok", "over_limit", "error", "refused"];
}

/// Calls, by method and result.
pub(super) fn calls() -> FrontFamily {
    FrontFamily {
        name: GRPC_CALLS,
        help: "Answered calls over gRPC, by method and result.",
        labels: ["method", "result"],
        asked: Method::NAMES.into(),
        ended: Ended::NAMES,
        is_always_there: false,
        timed: Some("grpc"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_name_and_the_rest_has_none() {
        for (path, method) in [
            (
                "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
                Some("ShouldRateLimit"),
            ),
            ("/envoy.service.ratelimit.v3.RateLimitService/Other", None),
            ("/kuadrant.service.ratelimit.v1.RateLimitService/Reserve", Some("Reserve")),
            ("/kuadrant.service.ratelimit.v1.RateLimitService/ShouldRateLimit", None),
            ("/grpc.health.v1.Health/Check", Some("Health")),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Some("ServerReflection")),
            (
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                Some("ServerReflectionV1Alpha"),
            ),
            ("/", None),
            ("", None),
        ] {
            let place = Method::from_path(path).map(|method| method as usize);
            assert_eq!(place.map(|place| calls().asked[place]), method, "{path}");
        }
        assert_eq!(Ended::NAMES[Ended::Refused as usize], "refused");
    }
}
