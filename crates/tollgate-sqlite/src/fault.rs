//! Explains SQLite's errors to the caller: the cause, the remedy, and whether they are transient.

use std::path::Path;
use std::time::Duration;

use rusqlite::ErrorCode;
use tollgate::StoreError;

/// Where an error happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultLocation<'a> {
    /// The database file.
    pub(crate) path: &'a Path,
    /// How long the operation waits for the lock.
    pub(crate) deadline: Duration,
}

/// Explains an error of SQLite.
pub(crate) fn explain(error: rusqlite::Error, location: FaultLocation<'_>) -> StoreError {
    let path = location.path.display();
    let fault = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::transient(format!(
                "{path} is busy: other processes held its lock for {:?}, the whole deadline; try \
                 again, or wait longer: the policy or the question says how long with `deadline`, \
                 else the store's URL, e.g. `?deadline=30s`",
                location.deadline
            ))
        }
        Some(ErrorCode::ReadOnly) => StoreError::permanent(format!(
            "{path} cannot be written: make the file and its directory writable for this user \
             (SQLite keeps a `-wal` and a `-shm` file beside it), or give another path"
        )),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::permanent(format!(
                "{path} cannot be opened: its directory must exist and be writable for this user, \
                 and the path must not be a directory itself"
            ))
        }
        Some(ErrorCode::NotADatabase) => StoreError::permanent(format!(
            "{path} is not an SQLite database; nothing was changed in it: give another path"
        )),
        Some(ErrorCode::DiskFull) => StoreError::transient(format!(
            "the disk of {path} is full and nothing was charged: free some space"
        )),
        Some(ErrorCode::DatabaseCorrupt) => StoreError::permanent(format!(
            "{path} is damaged: move it away (counts then start fresh) or restore a copy"
        )),
        _ => StoreError::permanent(format!("SQLite failed on {path}: {error}")),
    };
    fault.because(error)
}

/// The error for invalid data other than counts, which its owner cannot have written.
pub(crate) fn impossible(path: &Path) -> StoreError {
    StoreError::permanent(format!(
        "what {} keeps beside counts is damaged (its numbers are impossible): something else has \
         written to its tables; nothing was changed",
        path.display()
    ))
}

/// The error for a state that no engine has written.
pub(crate) fn damaged(path: &Path, subject: &str, what: &str) -> StoreError {
    StoreError::permanent(format!(
        "the state of `{subject}` in {} is damaged ({what}): reset this subject, which starts it \
         fresh",
        path.display()
    ))
    .alone()
}
