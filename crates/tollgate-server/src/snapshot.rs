//! The counts of the memory store in a file, over a restart.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tollgate::{MemoryStore, MemoryStoreBuilder, Restored, Saved, SnapshotError};

/// A snapshot that could not be read or written.
#[derive(thiserror::Error)]
#[error("the snapshot {path}: {why}", path = path.display())]
pub struct SnapshotFileError {
    path: PathBuf,
    #[source]
    why: Why,
}

tollgate::debug_as_display!(SnapshotFileError);

/// What the file or the store says.
#[derive(Debug, thiserror::Error)]
enum Why {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// The store of a builder with the counts of this file, and what was in it; a fresh one when there
/// is none.
///
/// The file stays: after a crash it is read again, which is nearer to the truth than nothing.
///
/// # Errors
/// A file that cannot be read, or holds no sound snapshot: then nothing of it is taken.
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

/// Writes the counts of a store into this file: all of them, or the old file stays as it was.
///
/// # Errors
/// What the system says.
pub fn save(store: &MemoryStore, path: &Path) -> Result<Saved, SnapshotFileError> {
    let temporary = self::temporary(path);
    let written = || -> Result<Saved, Why> {
        // Subjects are personal data: nobody else reads them. A file that is there already may be
        // another's, or a link to another's.
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
        // The name is durable once its folder is.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(saved)
    };
    written().map_err(|why| {
        // What is half there is of no use.
        let _ = fs::remove_file(&temporary);
        SnapshotFileError { path: path.to_owned(), why }
    })
}

/// The name with `.new` at its end, in the same folder: only so a rename is one step.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}
