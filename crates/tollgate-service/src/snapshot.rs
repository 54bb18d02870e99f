//! Snapshots of the memory store in a file, which keep counts over a restart.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tollgate::{MemoryStore, MemoryStoreBuilder, Restored, Saved, SnapshotError};

/// A snapshot file that could not be read or written.
#[derive(thiserror::Error)]
#[error("the snapshot {path}: {why}", path = path.display())]
pub struct SnapshotFileError {
    path: PathBuf,
    #[source]
    why: Why,
}

tollgate::debug_as_display!(SnapshotFileError);

/// The error of the file system or of the store.
#[derive(Debug, thiserror::Error)]
enum Why {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// Builds a memory store with the counts of this file, and reports what the file contained. The
/// store is empty when there is no file.
///
/// The file is kept: after a crash the same counts are restored, which is closer to the truth than
/// none.
///
/// # Errors
/// The file cannot be read or contains no valid snapshot. Nothing is restored then.
pub fn restore(
    builder: MemoryStoreBuilder,
    path: &Path,
) -> Result<(MemoryStore, Option<Restored>), SnapshotFileError> {
    let restored = match File::open(path) {
        Ok(file) => builder.restore(file).map_err(Why::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((builder.build(), None));
        }
        Err(error) => Err(error.into()),
    };
    let (store, restored) =
        restored.map_err(|why| SnapshotFileError { path: path.to_owned(), why })?;
    Ok((store, Some(restored)))
}

/// Writes the counts of a store to this file. On an error the old file stays unchanged.
///
/// # Errors
/// The error of the file system.
pub fn save(store: &MemoryStore, path: &Path) -> Result<Saved, SnapshotFileError> {
    let temporary = self::temporary(path);
    let written = || -> Result<Saved, Why> {
        // Subjects are personal data, so only the owner may read the file. An existing temporary
        // file may belong to another user, or link to such a file.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(&temporary)?;
        let saved = store.save(&file)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        // The rename is durable once the folder is synced.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(saved)
    };
    written().map_err(|why| {
        // A partial file is useless.
        let _ = fs::remove_file(&temporary);
        SnapshotFileError { path: path.to_owned(), why }
    })
}

/// The file name with `.new` appended, in the same folder: only there is a rename atomic.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}
