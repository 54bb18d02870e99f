//! Mutation checks: change the strategies in small ways, and see that a test notices each.

mod accepted;
pub(crate) mod literals;
pub(crate) mod lua;
pub(crate) mod models;
pub(crate) mod operators;
mod scratch;

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::tree::{File, Tree};

/// The least share of viable mutants that tests must kill.
const LEAST_PERCENT: usize = 95;

/// Where results and the copies of the workspace are kept, from the root of the project.
const RESULTS: &str = "target/mutants";

/// The tests that judge a mutant: the ones that compare every field with the oracle, on the engine
/// and on a store. They take seconds, and a mutant that they let live is a hole in them.
pub(crate) const JUDGING_TESTS: [&str; 3] = ["memory_store", "strategies", "twins"];

/// Hundreds of builds, and nobody ever debugs one.
pub(crate) const FAST_BUILDS: [(&str, &str); 2] =
    [("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_PROFILE_TEST_DEBUG", "0")];

/// The options of a mutation check.
#[derive(Debug)]
pub(crate) struct Options {
    /// Only these files; all of the strategies when empty.
    pub(crate) files: Vec<String>,
    /// Only a part of the mutants.
    pub(crate) shard: Option<Shard>,
    /// How many copies of the workspace work concurrently.
    pub(crate) jobs: usize,
    /// The command that a mutant must make fail.
    pub(crate) test_command: String,
    /// The limit for one mutant; none: five times the unmutated run.
    pub(crate) timeout_seconds: Option<u64>,
    /// Whether to say what would be mutated, and no more.
    pub(crate) list: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            shard: None,
            jobs: 1,
            test_command: format!(
                "cargo test -q -p tollgate -p tollgate-proof --lib --test {}",
                JUDGING_TESTS.join(" --test ")
            ),
            timeout_seconds: None,
            list: false,
        }
    }
}

/// One of several equal parts: those whose index leaves `part` when divided by `of`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shard {
    part: usize,
    of: usize,
}

impl Shard {
    /// Reads `K/N`, counted from 0 as cargo-mutants does.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parts = text
            .split_once('/')
            .and_then(|(part, of)| Some(Self { part: part.parse().ok()?, of: of.parse().ok()? }));
        match parts {
            Some(shard) if shard.part < shard.of => Ok(shard),
            _ => bail!("--shard {text}: say K/N with K from 0 to N-1, such as 0/4"),
        }
    }

    /// Keeps the mutants that are in the part.
    pub(crate) fn retain<T>(self, mutants: &mut Vec<T>) {
        let mut index = 0..;
        mutants.retain(|_| index.next().is_some_and(|index| self.holds(index)));
    }

    /// Whether the mutant of this index is in the part.
    pub(crate) fn holds(self, index: usize) -> bool {
        index % self.of == self.part
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

/// How many mutants ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    killed: usize,
    survived: usize,
    timed_out: usize,
    unviable: usize,
}

impl Tally {
    /// Prints the figure; true when enough viable mutants were killed or timed out.
    fn verdict(self) -> bool {
        let Self { killed, survived, timed_out, unviable } = self;
        let caught = killed + timed_out;
        let viable = caught + survived;
        println!(
            "{killed} killed, {survived} survived, {timed_out} timed out, {unviable} unviable"
        );
        if viable == 0 {
            println!("no viable mutant: nothing is shown");
            return false;
        }
        // In tenths, rounded down: 94.99 is not 95.
        let tenths = caught * 1000 / viable;
        println!("{}.{} % of {viable} viable mutants caught", tenths / 10, tenths % 10);
        caught * 100 >= viable * LEAST_PERCENT
    }
}

/// The files to mutate: the Rust of the strategies, or those named.
fn chosen(tree: &Tree, named: &[String]) -> Result<Vec<File>> {
    let folder = crate::tidy::STRATEGIES;
    let all = tree.files()?;
    let mut files = Vec::new();
    if named.is_empty() {
        let is_step = |file: &&File| file.path.starts_with(folder) && file.path.ends_with(".rs");
        files.extend(all.iter().filter(is_step).cloned());
        if files.is_empty() {
            bail!("no Rust files under {folder}; name one with --file");
        }
    }
    for name in named {
        match all.iter().find(|file| file.path == *name) {
            Some(file) => files.push(file.clone()),
            None => bail!(
                "--file {name}: no such file of the project; say it from the root, such as \
                 {folder}registry.rs"
            ),
        }
    }
    Ok(files)
}

/// Writes a result file, and its folder before.
fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_decides() {
        let tally =
            |killed, survived, timed_out| Tally { killed, survived, timed_out, unviable: 9 };
        assert!(tally(94, 5, 1).verdict());
        assert!(!tally(94, 6, 0).verdict());
        assert!(!tally(949, 51, 0).verdict());
        assert!(!Tally::default().verdict());
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let tree = Tree::find().unwrap();
        let message = chosen(&tree, &["crates/none.rs".into()]).unwrap_err().to_string();
        assert!(message.starts_with("--file crates/none.rs: no such file"), "{message}");
    }
}
