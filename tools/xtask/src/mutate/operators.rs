//! cargo-mutants on the strategies: every comparison, operator and return value.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::mutate::accepted;
use crate::mutate::{FAST_BUILDS, JUDGING_TESTS, Options, RESULTS, Tally, chosen};
use crate::process;
use crate::tools::MUTANTS;
use crate::tree::{File, Tree};

/// The crates whose tests judge a mutant.
const JUDGES: [&str; 2] = ["tollgate", "tollgate-proof"];

/// The limit for the tests of one mutant: they take a few seconds.
const TIMEOUT_SECONDS: &str = "30";

/// The task: true when at least 95 % of the viable mutants are killed or time out.
pub(crate) fn run(tree: &Tree, options: &Options, may_install: bool) -> Result<bool> {
    let files = chosen(tree, &options.files)?;
    let accepted = accepted::read(tree)?;
    let output = tree.root.join(RESULTS).join("operators");
    std::fs::create_dir_all(&output).context("cannot make target/mutants/operators")?;
    let found = output.join("mutants.out");

    let mut command = MUTANTS.command(tree, may_install)?;
    // Only the members that a plain `cargo build` takes would be looked at otherwise.
    command.arg("--workspace");
    for file in &files {
        command.args(["--file", &file.path]);
    }
    if let Some(shard) = options.shard {
        command.args(["--shard", &shard.to_string(), "--sharding", "round-robin"]);
    }
    if options.list {
        return process::show(command.arg("--list"));
    }
    for judge in JUDGES {
        command.args(["--test-package", judge]);
    }
    command.args(["--jobs", &options.jobs.to_string(), "--no-shuffle"]);
    // The unmutated run would be of the mutated crate alone, which has none of these tests.
    command.args(["--baseline=skip", "--timeout", TIMEOUT_SECONDS]);
    command.args(["--cargo-arg=--locked", "--cargo-test-arg=--lib"]);
    for test in JUDGING_TESTS {
        command.arg(format!("--cargo-test-arg=--test={test}"));
    }
    command.envs(FAST_BUILDS);
    command.arg("--output").arg(&output);
    // The files of an earlier run must not be read as the result of this one.
    for old in [found.clone(), output.join("mutants.out.old")] {
        match std::fs::remove_dir_all(&old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context("cannot remove the results of the last run");
            }
            _ => {}
        }
    }
    // Exit codes of cargo-mutants: 0 all caught, 2 some missed, 3 some timed out; else it failed.
    let status = command.status().context("cannot start cargo-mutants")?;
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        bail!("cargo-mutants failed ({status}); its logs are in {RESULTS}/operators/mutants.out");
    }
    let list = |name: &str| lines(&found.join(name));
    let missed = list("missed.txt")?;
    let tally = Tally {
        killed: list("caught.txt")?.len(),
        survived: missed.len(),
        timed_out: list("timeout.txt")?.len(),
        unviable: list("unviable.txt")?.len(),
    };
    for mutant in &missed {
        match place(mutant, &files).and_then(|(path, line)| accepted::reason(&accepted, path, line))
        {
            Some(reason) => println!("accepted {mutant}: {reason}"),
            None => println!("survived {mutant}"),
        }
    }
    accepted::report_stale(&accepted, &files);
    Ok(tally.verdict())
}

/// The lines of a result file; cargo-mutants writes every one of them, empty or not.
fn lines(path: &Path) -> Result<Vec<String>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The path and the text of the line of a mutant written `path:line:column: what`.
fn place<'a>(mutant: &str, files: &'a [File]) -> Option<(&'a str, &'a str)> {
    let (path, rest) = mutant.split_once(':')?;
    let (line, _) = rest.split_once(':')?;
    let file = files.iter().find(|file| file.path == path)?;
    let index = line.parse::<usize>().ok()?.checked_sub(1)?;
    Some((&file.path, file.text.lines().nth(index)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_of_the_tool_is_found_in_its_file() {
        let files = [File { path: "a/b.rs".into(), text: "one\n  two\n".into() }];
        let mutant = "a/b.rs:2:5: replace > with >= in f";
        assert_eq!(place(mutant, &files), Some(("a/b.rs", "  two")));
        assert_eq!(place("a/b.rs:3:5: replace", &files), None);
        assert_eq!(place("nonsense", &files), None);
    }
}
