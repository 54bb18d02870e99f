//! A copy of the workspace that a mutant can live in, with its own build folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::{self, Ended};
use crate::tree::Tree;

/// The address space of a test command, in KiB: a mutant that allocates in a loop must fail by
/// itself before the machine does. Compilers need less than half of it.
const ADDRESS_SPACE: u32 = 8 * 1024 * 1024;

/// A copy under `target/mutants-literals/<job>`. It stays there, so that the next mutant, and the
/// next run, builds only what changed.
#[derive(Debug)]
pub(super) struct Scratch {
    copy: PathBuf,
    build: PathBuf,
}

impl Scratch {
    /// Brings a copy up to date with the tree.
    pub(super) fn sync(tree: &Tree, job: usize) -> Result<Self> {
        let home = tree.root.join("target/mutants-literals").join(job.to_string());
        let scratch = Self { copy: home.join("tree"), build: home.join("build") };
        std::fs::create_dir_all(&scratch.copy).context("cannot make the scratch copy")?;
        let copied = Tree { root: scratch.copy.clone() };
        // First: nothing is written through a link that the tree has no longer.
        for path in copied.links()? {
            std::fs::remove_file(scratch.copy.join(path))?;
        }
        let wanted = tree.paths()?;
        for path in &wanted {
            let (from, to) = (tree.root.join(path), scratch.copy.join(path));
            // An unchanged file keeps its time, or cargo would build its crate again.
            if std::fs::read(&from).ok() == std::fs::read(&to).ok() {
                continue;
            }
            if let Some(folder) = to.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::copy(&from, &to).with_context(|| format!("cannot copy {path}"))?;
        }
        for path in copied.paths()?.iter().filter(|path| wanted.binary_search(path).is_err()) {
            std::fs::remove_file(scratch.copy.join(path))?;
        }
        for path in tree.links()? {
            let to = std::fs::read_link(tree.root.join(&path))?;
            link(&to, &scratch.copy.join(&path)).with_context(|| format!("cannot link {path}"))?;
        }
        Ok(scratch)
    }

    /// Replaces one file of the copy.
    pub(super) fn put(&self, path: &str, text: &str) -> Result<()> {
        std::fs::write(self.copy.join(path), text)
            .with_context(|| format!("cannot write {path} in the scratch copy"))
    }

    /// Runs the test command in the copy.
    pub(super) fn test(&self, line: &str, limit: Duration) -> Result<Ended> {
        // Not every system can limit it; the time limit holds everywhere.
        let bounded = format!("ulimit -v {ADDRESS_SPACE} 2>/dev/null || true\n{line}");
        let mut command = process::shell(&bounded);
        command.current_dir(&self.copy).env("CARGO_TARGET_DIR", &self.build);
        command.envs(super::FAST_BUILDS);
        process::run_for(&mut command, limit)
    }

    /// Where the copy is.
    pub(super) fn folder(&self) -> &Path {
        &self.copy
    }
}

#[cfg(unix)]
fn link(to: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(to, at)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_follows_its_tree() {
        let root = std::env::temp_dir().join(format!("tollgate-xtask-{}", std::process::id()));
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::write(root.join("a/one"), "1").unwrap();
        std::fs::write(root.join("two"), "2").unwrap();
        let tree = Tree { root: root.clone() };
        let read = |scratch: &Scratch, path: &str| {
            std::fs::read_to_string(scratch.folder().join(path)).ok()
        };

        let scratch = Scratch::sync(&tree, 0).unwrap();
        assert_eq!(read(&scratch, "a/one").as_deref(), Some("1"));
        scratch.put("a/one", "mutant").unwrap();
        assert_eq!(std::fs::read_to_string(root.join("a/one")).unwrap(), "1");

        std::fs::remove_file(root.join("two")).unwrap();
        let scratch = Scratch::sync(&tree, 0).unwrap();
        assert_eq!(read(&scratch, "a/one").as_deref(), Some("1"));
        assert_eq!(read(&scratch, "two"), None);

        std::os::unix::fs::symlink("../a", root.join("a/link")).unwrap();
        let scratch = Scratch::sync(&tree, 0).unwrap();
        assert_eq!(read(&scratch, "a/link/one").as_deref(), Some("1"));
        std::fs::remove_file(root.join("a/link")).unwrap();
        let scratch = Scratch::sync(&tree, 0).unwrap();
        assert_eq!(read(&scratch, "a/link/one"), None);

        let ended = scratch.test("cat a/one", Duration::from_secs(60)).unwrap();
        assert_eq!(ended.output, "1");
        std::fs::remove_dir_all(root).unwrap();
    }
}
