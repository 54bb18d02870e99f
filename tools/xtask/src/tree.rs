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
            let has_xtask = folder.join("tools/xtask/Cargo.toml").is_file();
            if has_xtask && manifest.is_ok_and(|text| text.contains("[workspace]")) {
                return Ok(Self { root: folder.to_path_buf() });
            }
        }
        bail!("no workspace here: run this inside a clone of the project")
    }

    /// The paths of every file of the project, sorted: those that git tracks or would track.
    /// Without git (a source archive) it is every file outside of the build's folders.
    pub(crate) fn paths(&self) -> Result<Vec<String>> {
        // A file can be in git's list and deleted on disk; the target of a link has its own path.
        let paths = self.named(|at| at.is_file() && !at.is_symlink())?;
        if paths.is_empty() {
            bail!("found no files under {}", self.root.display());
        }
        Ok(paths)
    }

    /// The paths of every symbolic link: crates have some to files that their packages must
    /// contain, and others read too.
    pub(crate) fn links(&self) -> Result<Vec<String>> {
        self.named(Path::is_symlink)
    }

    fn named(&self, wanted: impl Fn(&Path) -> bool) -> Result<Vec<String>> {
        let mut paths = match self.paths_from_git() {
            Some(paths) => paths,
            None => {
                let mut found = Vec::new();
                walk(&self.root, "", &mut found)?;
                found
            }
        };
        paths.retain(|path| wanted(&self.root.join(path)));
        paths.sort();
        paths.dedup();
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

    /// The paths that differ from a commit, new files among them and removed ones too.
    pub(crate) fn changed(&self, since: &str) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        for arguments in [
            &["diff", "--name-only", "--no-renames", "-z", since, "--"][..],
            &["ls-files", "-z", "--others", "--exclude-standard"],
        ] {
            let output = self.git(arguments).output().context("cannot start git")?;
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr);
                bail!("git cannot say what differs from `{since}`: {}", why.trim_end());
            }
            paths.extend(names(&String::from_utf8(output.stdout).context("a path is not UTF-8")?));
        }
        Ok(paths)
    }

    fn git(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.current_dir(&self.root).args(arguments);
        command
    }

    fn paths_from_git(&self) -> Option<Vec<String>> {
        let git = |arguments: &[&str]| {
            let output = self.git(arguments).output().ok()?;
            output.status.success().then_some(output.stdout)
        };
        // A copy of the project inside of another repository is not that repository's.
        let top = String::from_utf8(git(&["rev-parse", "--show-toplevel"])?).ok()?;
        let top = Path::new(top.trim_end()).canonicalize().ok()?;
        if top != self.root.canonicalize().ok()? {
            return None;
        }
        let listed = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        Some(names(&String::from_utf8(listed).ok()?))
    }
}

/// The names of a list of git's, each of which ends with a NUL.
fn names(listed: &str) -> Vec<String> {
    listed.split_terminator('\0').map(str::to_owned).collect()
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
        } else if kind.is_file() || kind.is_symlink() {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_a_commit_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree { root: dir.path().to_path_buf() };
        let git = |arguments: &[&str]| assert!(tree.git(arguments).status().unwrap().success());
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        git(&["init", "--quiet"]);
        for name in ["same", "edited", "removed", "moved"] {
            write(name, name);
        }
        git(&["add", "."]);
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        git(&[&who[..], &["commit", "--quiet", "--message", "first"]].concat());
        assert_eq!(tree.changed("HEAD").unwrap(), [""; 0]);
        write("edited", "other");
        write("new", "new");
        std::fs::remove_file(dir.path().join("removed")).unwrap();
        git(&["mv", "moved", "away"]);
        let changed = tree.changed("HEAD").unwrap();
        assert_eq!(changed, ["away", "edited", "moved", "removed", "new"]);
        let message = tree.changed("nowhere").unwrap_err().to_string();
        assert!(message.starts_with("git cannot say what differs from `nowhere`: "), "{message}");
    }

    #[test]
    fn the_list_holds_this_file_and_nothing_built() {
        let paths = Tree::find().unwrap().paths().unwrap();
        assert!(paths.iter().any(|path| path == "tools/xtask/src/tree.rs"));
        assert!(!paths.iter().any(|path| path.starts_with("target/")));
    }

    #[test]
    fn without_git_the_folders_are_walked() {
        let root = Tree::find().unwrap().root.join("tools/xtask");
        // The root of git's tree is not this folder, so git's list does not count.
        let paths = Tree { root }.paths().unwrap();
        assert!(paths.iter().any(|path| path == "src/tree.rs"));
    }
}
