//! Why a service could not start.

use tollgate::ParseError;

use crate::listen::Address;
use crate::tls::TlsError;

/// Why a service could not start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address could not be bound.
    #[error("{address} cannot be listened on: {source}")]
    Bind {
        /// The address.
        address: Address,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// An invalid combination of settings; the text also states a valid one.
    #[error("{0}")]
    Options(String),
    /// The certificate or the private key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

tollgate::debug_as_display!(StartError);

impl From<ParseError> for StartError {
    fn from(error: ParseError) -> Self {
        Self::Options(error.to_string())
    }
}
