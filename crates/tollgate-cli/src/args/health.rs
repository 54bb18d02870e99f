//! The arguments of `health`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Health {
    /// The service, by the address that `serve` prints after `listening`: `HOST:PORT`, a URL, or
    /// `unix:/PATH`. Where clients need certificates, give the address after `admin`
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
