//! The arguments of `health`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// The address of the service: `HOST:PORT` or `unix:/PATH`. If clients must use TLS, give the
    /// address for administrators
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:8700")]
    pub(crate) address: String,

    /// Check readiness: a service that is shutting down is not ready
    #[arg(long)]
    pub(crate) ready: bool,

    /// Check readiness, and also whether the store can count
    #[arg(long)]
    pub(crate) store: bool,

    /// The longest time to wait
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) timeout: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
