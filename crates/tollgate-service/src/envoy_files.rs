//! The files that rules are read from.

use std::io;
use std::path::{Path, PathBuf};

use tollgate_policy::MAX_FILE_BYTES;

/// The most bytes of all files together.
const MAX_BYTES: u64 = 4 * MAX_FILE_BYTES as u64;

/// The files of rules at a path: one file, or the files of a folder in the order of their names.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct EnvoyFiles {
    /// Their names and their texts.
    pub texts: Vec<(String, String)>,
    /// The other files of the folder. Hidden ones are in neither.
    passed_over: Vec<String>,
}

impl EnvoyFiles {
    /// Reads the file, or the files of a folder that are named `.yaml`, `.yml` or without a `.`:
    /// the key of a config map often has no extension.
    ///
    /// # Errors
    /// The problem with a file, or with the folder.
    pub fn read(path: &Path) -> Result<Self, String> {
        let error = |path: &Path, why: io::Error| format!("{}: {why}", path.display());
        let is_folder = std::fs::metadata(path).map_err(|why| error(path, why))?.is_dir();
        let mut files = Self::default();
        let mut paths = vec![path.to_owned()];
        if is_folder {
            let entries = std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
            let entries = entries.map_err(|why| error(path, why))?;
            let mut all: Vec<_> = entries.iter().map(std::fs::DirEntry::path).collect();
            all.retain(|path| !is_hidden(path));
            all.sort_unstable();
            let passed_over;
            (paths, passed_over) = all.into_iter().partition(|path| is_rules(path));
            let shown = |path: &PathBuf| path.display().to_string();
            files.passed_over = passed_over.iter().map(shown).collect();
            if paths.is_empty() {
                let path = path.display();
                return Err(format!(
                    "{path}: no file in it is named `.yaml`, `.yml` or without a `.`"
                ));
            }
        }
        let mut bytes = 0;
        for path in paths {
            let found = std::fs::metadata(&path).map_err(|why| error(&path, why))?;
            if !found.is_file() {
                return Err(format!("{}: this is not a plain file", path.display()));
            }
            bytes += found.len();
            if bytes > MAX_BYTES {
                return Err(format!("{}: the rules have over {MAX_BYTES} bytes", path.display()));
            }
            let text = std::fs::read_to_string(&path).map_err(|why| error(&path, why))?;
            files.texts.push((path.display().to_string(), text));
        }
        Ok(files)
    }

    /// A warning for each file that was passed over.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.passed_over.iter().map(|path| {
            format!("{path} is not read: rules are in files named `.yaml`, `.yml` or without a `.`")
        })
    }
}

/// Names that begin with a dot are those of editors and of mounted volumes.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'))
}

/// Whether this file of a folder is one of rules. The key of a config map often has no extension.
fn is_rules(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, None | Some("yaml" | "yml")) && path.is_file()
}
