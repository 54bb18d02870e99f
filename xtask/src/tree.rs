//! The project's files: where its root is, which files belong to it, and their text.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Folders that hold no file of the project.
const NOT_OURS: [&str; 3] = [".git", "target", "mutants.out"];

/// The project as a folder on disk.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
}

/// A text file of the project.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// The path from the root, with `/` on every system.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl Tree {
    /// The tree around the current folder, else the one that this program was built from.
    pub(crate) fn find() -> Result<Self> {
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR"));
        let here = std::env::current_dir().context("cannot read the current folder")?;
        let candidates = here.ancestors().chain(built_from.ancestors().skip(1));
        for folder in candidates {
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml"));
            let has_xtask = folder.join("xtask/Cargo.toml").is_file();
            if has_xtask && manifest.is_ok_and(|text| text.contains("[workspace]")) {
                return Ok(Self { root: folder.to_path_buf() });
            }
        }
        bail!("no workspace here: run this inside a clone of the project")
    }

    /// The paths of every file of the project, sorted: those that git tracks or would track.
    /// Without git (a source archive) it is every file outside of the build's folders.
    pub(crate) fn paths(&self) -> Result<Vec<String>> {
        let mut paths = match self.paths_from_git() {
            Some(paths) => paths,
            None => {
                let mut found = Vec::new();
                walk(&self.root, "", &mut found)?;
                found
            }
        };
        // A file can be in git's list and deleted on disk.
        paths.retain(|path| self.root.join(path).is_file());
        paths.sort();
        paths.dedup();
        if paths.is_empty() {
            bail!("found no files under {}", self.root.display());
        }
        Ok(paths)
    }

    /// Every text file of the project. A file that holds a NUL or is not UTF-8 is data, not text.
    pub(crate) fn files(&self) -> Result<Vec<File>> {
        let mut files = Vec::new();
        for path in self.paths()? {
            let bytes = std::fs::read(self.root.join(&path))
                .with_context(|| format!("cannot read {path}"))?;
            if bytes.contains(&0) {
                continue;
            }
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path, text });
            }
        }
        Ok(files)
    }

    fn paths_from_git(&self) -> Option<Vec<String>> {
        let git = |arguments: &[&str]| {
            let output =
                Command::new("git").current_dir(&self.root).args(arguments).output().ok()?;
            output.status.success().then_some(output.stdout)
        };
        // A copy of the project inside of another repository is not that repository's.
        let top = String::from_utf8(git(&["rev-parse", "--show-toplevel"])?).ok()?;
        let top = Path::new(top.trim_end()).canonicalize().ok()?;
        if top != self.root.canonicalize().ok()? {
            return None;
        }
        let listed = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let listed = String::from_utf8(listed).ok()?;
        Some(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
    }
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) -> Result<()> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot list the folder {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !NOT_OURS.contains(&name.as_str()) {
            walk(&entry.path(), &path, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_holds_this_file_and_nothing_built() {
        let paths = Tree::find().unwrap().paths().unwrap();
        assert!(paths.iter().any(|path| path == "xtask/src/tree.rs"));
        assert!(!paths.iter().any(|path| path.starts_with("target/")));
    }

    #[test]
    fn without_git_the_folders_are_walked() {
        let root = Tree::find().unwrap().root.join("xtask");
        // The root of git's tree is not this folder, so git's list does not count.
        let paths = Tree { root }.paths().unwrap();
        assert!(paths.iter().any(|path| path == "src/tree.rs"));
    }
}
