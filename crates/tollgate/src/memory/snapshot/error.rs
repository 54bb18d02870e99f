//! Why a snapshot could not be written or read.

use core::fmt;
use std::io;

/// What kind of thing is wrong with a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SnapshotFault {
    /// It could not be read or written at all: a full disk, a closed pipe.
    Io,
    /// It is something else: no memory store wrote it.
    Foreign,
    /// It has a version of the format that this build does not read.
    Version,
    /// It stops before its end.
    Truncated,
    /// It is not as it was written, or nothing that a store writes.
    Damaged,
    /// The store that is to hold it has not the bytes for it.
    TooLarge,
    /// It was saved by a full store that hashed subjects in another way: nobody can tell which of
    /// the shared states a subject has to do with.
    Shared,
}

/// Why a snapshot could not be written or read: what is wrong, at which byte, and what to do.
///
/// ```
/// use tollgate::{MemoryStore, SnapshotFault};
///
/// let error = MemoryStore::builder().restore(&b"{\"json\": true}"[..]).unwrap_err();
/// assert_eq!((error.fault(), error.at()), (SnapshotFault::Foreign, 0));
/// assert!(error.to_string().starts_with("this is no snapshot of a memory store, at byte 0: "));
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

    /// The file says what no store writes, or not what it said when it was written.
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
        let remedy = "mend that and try again; the counts are as they were";
        Self { source: Some(source), ..Self::new(SnapshotFault::Io, at, what, remedy) }
    }

    /// What kind of thing is wrong.
    #[must_use]
    pub fn fault(&self) -> SnapshotFault {
        self.fault
    }

    /// The byte of the snapshot, counted from 0, at which it was seen.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.at
    }

    /// What is wrong, in one line.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// True when trying again later may succeed: reading or writing failed, not what was read.
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
