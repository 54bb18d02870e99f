//! The settings of Envoy's rate limit service.

use core::time::Duration;
use std::path::PathBuf;

/// The settings of Envoy's rate limit service, over gRPC and at `/json`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnvoyOptions {
    /// The rules of envoyproxy/ratelimit: a file, or a folder of files.
    pub rules: Option<PathBuf>,
    /// Whether a domain without rules and policies is denied; it is admitted by default.
    pub denies_unknown: bool,
    /// Whether answers have headers for the response, and denials a body. They do by default.
    pub headers: bool,
    /// Whether `/metrics` has the hits by rule, too, under the names of envoyproxy/ratelimit.
    pub metrics: bool,
    /// The age from which a connection is closed, once its calls are answered: 24 h by default.
    pub max_age: Duration,
}

impl Default for EnvoyOptions {
    fn default() -> Self {
        Self {
            rules: None,
            denies_unknown: false,
            headers: true,
            metrics: false,
            max_age: Duration::from_secs(24 * 3_600),
        }
    }
}
