//! The error type of this crate: why an experiment or a picture has no result, and the remedy.

/// Why an experiment could not run to its end, or a chart could not be written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A log could not be read, or a decider gave no decision.
    #[error(transparent)]
    Log(#[from] tollgate_logs::Error),
    /// The queue of an experiment gave no answer.
    #[error("a queue gave no answer: {0}")]
    Queue(#[from] tollgate_queue::Error),
    /// A chart could not be written as PNG.
    #[error("cannot write the chart as PNG: {why}; write it as SVG, which has no such bound")]
    Picture {
        /// The error of the encoder.
        why: String,
    },
}

tollgate::debug_as_display!(Error);

impl From<tollgate::Error> for Error {
    fn from(error: tollgate::Error) -> Self {
        Self::Log(error.into())
    }
}

impl From<tollgate::StoreError> for Error {
    fn from(error: tollgate::StoreError) -> Self {
        Self::Log(error.into())
    }
}
