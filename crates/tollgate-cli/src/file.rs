//! Files that are written completely, or not at all.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use tempfile::NamedTempFile;

/// A temporary file in the folder of `path`, to be renamed later.
pub(crate) fn beside(path: &Path) -> Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // With the usual permissions: by default only the owner could read a temporary file.
    let mut builder = tempfile::Builder::new();
    let builder = builder.permissions(fs::Permissions::from_mode(0o666));
    let file = builder.tempfile_in(folder.unwrap_or(Path::new(".")));
    if path.is_dir() {
        anyhow::bail!("{}: this is a folder; name a file", path.display());
    }
    file.with_context(|| format!("{}: cannot be written", path.display()))
}

/// Moves the written file to its path.
pub(crate) fn persist(mut file: NamedTempFile, bytes: &[u8], path: &Path) -> Result<()> {
    let failed = || format!("{}: cannot be written", path.display());
    file.write_all(bytes).with_context(failed)?;
    file.persist(path).map(drop).with_context(failed)
}
