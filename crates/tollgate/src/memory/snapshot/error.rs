//! Errors of writing and reading a snapshot.

use core::fmt;
use std::io;

/// The kind of a snapshot error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SnapshotFault {
    /// Reading or writing failed: a full disk, a closed pipe.
    Io,
    /// The data is not a snapshot of a memory store.
    Foreign,
    /// This build cannot read the version of the format.
    Version,
    /// The data ends before the snapshot does.
    Truncated,
    /// The data was changed after it was written, or no store writes such data.
    Damaged,
    /// The snapshot does not fit into the store's byte bound.
    TooLarge,
    /// The snapshot was saved by a full store with another hash: the shared states cannot be
    /// matched to their subjects.
    Shared,
}

/// An error of writing or reading a snapshot: the problem, its byte, and the remedy.
///
/// ```
/// use tollgate::{MemoryStore, SnapshotFault};
///
/// let error = MemoryStore::builder().restore(&b"{\"json\": true}"[..]).unwrap_err();
/// assert_eq!((error.fault(), error.at()), (SnapshotFault::Foreign, 0));
/// assert!(error.to_string().starts_with("this is not a snapshot of a memory store, at byte 0: "));
/// ```
pub struct SnapshotError {
    fault: SnapshotFault,
    at: u64,
    what: String,
    remedy: String,
    source: Option<io::Error>,
}

crate::debug_as_display!(SnapshotError);

impl SnapshotError {
    pub(in crate::memory) fn new(
        fault: SnapshotFault,
        at: u64,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { fault, at, what: what.into(), remedy: remedy.into(), source: None }
    }

    /// The data was changed after it was written, or no store writes such data.
    pub(in crate::memory) fn damaged(at: u64, what: impl Into<String>) -> Self {
        Self::new(
            SnapshotFault::Damaged,
            at,
            what,
            "the snapshot is damaged: read a sound copy of it, or start with an empty store",
        )
    }

    pub(super) fn io(at: u64, doing: &str, source: io::Error) -> Self {
        let what = format!("the snapshot could not be {doing} ({source})");
        let remedy = "fix that and try again; the counts are as they were";
        Self { source: Some(source), ..Self::new(SnapshotFault::Io, at, what, remedy) }
    }

    /// The kind of the error.
    #[must_use]
    pub fn fault(&self) -> SnapshotFault {
        self.fault
    }

    /// The offset in the snapshot at which the error was found, in bytes from 0.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The problem, in one line.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The remedy.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// True when a retry may succeed: reading or writing failed, and the data may be intact.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.fault == SnapshotFault::Io
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at byte {}: {}", self.what, self.at, self.remedy)
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}
