//! Moves every integer literal of the strategies by one, one at a time, and runs the tests.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;

use crate::mutate::accepted::{self, Accepted};
use crate::mutate::scratch::Scratch;
use crate::mutate::{Options, RESULTS, Tally, chosen, write};
use crate::process;
use crate::report::seconds;
use crate::source::{Kind, Source};
use crate::tree::{File, Tree};

/// The first build has nothing to reuse, so it gets this long.
const FIRST_BUILD: Duration = Duration::from_secs(3600);

/// A mutant gets this many times what the unmutated tests took, build included.
const PATIENCE: u32 = 5;

/// And at least this long: a machine can be busy for some seconds.
const LEAST_LIMIT: Duration = Duration::from_secs(20);

/// One literal of one file, written one higher or lower.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mutant {
    path: String,
    line: usize,
    column: usize,
    /// The text of the line, by which a survivor is accepted.
    line_text: String,
    range: Range<usize>,
    original: String,
    replacement: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Killed,
    Survived,
    TimedOut,
    Unviable,
}

impl Fate {
    fn word(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Survived => "survived",
            Self::TimedOut => "timeout",
            Self::Unviable => "unviable",
        }
    }
}

/// A mutant, how it ended, and how long that took.
type Verdict = (Mutant, Fate, Duration);

impl std::fmt::Display for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, line, column, original, replacement, .. } = self;
        write!(f, "{path}:{line}:{column}: {original} -> {replacement}")
    }
}

/// The task: true when at least 95 % of the viable mutants are killed or time out.
pub(crate) fn run(tree: &Tree, options: &Options) -> Result<bool> {
    let files = chosen(tree, &options.files)?;
    let accepted = accepted::read(tree)?;
    let mut mutants = Vec::new();
    for file in &files {
        mutants.extend(find(file)?);
    }
    let all = mutants.len();
    if let Some(shard) = options.shard {
        shard.retain(&mut mutants);
    }
    println!("{} of {all} mutants in {} files", mutants.len(), files.len());
    if options.list {
        mutants.iter().for_each(|mutant| println!("{mutant}"));
        return Ok(true);
    }
    if mutants.is_empty() {
        bail!("nothing to mutate: no integer literal there, or an empty shard");
    }
    if options.test_command.trim().is_empty() {
        bail!("--test-command is empty; it is a line for `sh`, such as `cargo test -q`");
    }
    process::end_groups_on_ctrl_c()?;
    let verdicts = try_all(tree, options, &files, &mutants)?;
    conclude(tree, options, &files, &accepted, &verdicts)
}

/// Every way to move an integer literal of the file's shipped code by one.
fn find(file: &File) -> Result<Vec<Mutant>> {
    let source = Source::lex(&file.path, &file.text)?;
    let lines: Vec<&str> = file.text.lines().collect();
    let mut mutants = Vec::new();
    for token in source.tokens() {
        if token.kind != Kind::Integer || token.test || token.attribute {
            continue;
        }
        let original = source.written(token);
        let (line, column) = source.place(token.range.start);
        for replacement in neighbours(original) {
            mutants.push(Mutant {
                path: file.path.clone(),
                line,
                column,
                line_text: lines.get(line - 1).copied().unwrap_or_default().to_owned(),
                range: token.range.clone(),
                original: original.to_owned(),
                replacement,
            });
        }
    }
    Ok(mutants)
}

/// A literal one higher, and one lower where that is not negative; in decimal, suffix kept.
fn neighbours(literal: &str) -> Vec<String> {
    let plain: String = literal.chars().filter(|c| *c != '_').collect();
    let (radix, digits) = match plain.get(..2) {
        Some("0x") => (16, &plain[2..]),
        Some("0o") => (8, &plain[2..]),
        Some("0b") => (2, &plain[2..]),
        _ => (10, plain.as_str()),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    // The lexer has seen an integer; one beyond 128 bits is the compiler's to refuse.
    let Ok(value) = u128::from_str_radix(digits, radix) else { return Vec::new() };
    let moved = [value.checked_add(1), value.checked_sub(1)];
    moved.into_iter().flatten().map(|value| format!("{value}{suffix}")).collect()
}

fn mutated(text: &str, mutant: &Mutant) -> String {
    let mut changed = text.to_owned();
    changed.replace_range(mutant.range.clone(), &mutant.replacement);
    changed
}

/// Tries every mutant, several copies concurrently when asked to, and prints each outcome as it
/// comes.
fn try_all(
    tree: &Tree,
    options: &Options,
    files: &[File],
    mutants: &[Mutant],
) -> Result<Vec<Verdict>> {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Vec::with_capacity(mutants.len()));
    let work = |job: usize| -> Result<()> {
        let scratch = Scratch::sync(tree, job)?;
        let limit = baseline(&scratch, options, files)?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutant) = mutants.get(index) else { return Ok(()) };
            let file = files
                .iter()
                .find(|file| file.path == mutant.path)
                .with_context(|| format!("{} is gone", mutant.path))?;
            scratch.put(&file.path, &mutated(&file.text, mutant))?;
            let ended = scratch.test(&options.test_command, limit);
            scratch.put(&file.path, &file.text)?;
            let ended = ended?;
            let outcome = outcome(ended.status.map(|status| status.success()), &ended.output);
            println!(
                "[{}/{}] {:8} {mutant} ({})",
                index + 1,
                mutants.len(),
                outcome.word(),
                seconds(ended.took)
            );
            let mut verdicts = verdicts.lock().unwrap_or_else(PoisonError::into_inner);
            verdicts.push((index, (mutant.clone(), outcome, ended.took)));
        }
    };
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..options.jobs).map(|job| scope.spawn(move || work(job))).collect();
        jobs.into_iter().try_for_each(|job| {
            job.join().map_err(|_| anyhow!("a job of the mutation check panicked"))?
        })
    })?;
    let mut verdicts = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    verdicts.sort_unstable_by_key(|(index, _)| *index);
    Ok(verdicts.into_iter().map(|(_, verdict)| verdict).collect())
}

/// Shows that the tests pass without a mutant, and measures how long a mutant may take: the
/// second run builds as much as a mutant makes it build.
fn baseline(scratch: &Scratch, options: &Options, files: &[File]) -> Result<Duration> {
    eprintln!("unmutated: `{}` in {}", options.test_command, scratch.folder().display());
    let mut took = Duration::ZERO;
    for limit in [FIRST_BUILD, FIRST_BUILD] {
        let ended = scratch.test(&options.test_command, limit)?;
        if !ended.status.is_some_and(|status| status.success()) {
            bail!("the tests fail without a mutant, so they cannot judge one:\n{}", ended.output);
        }
        took = ended.took;
        if let Some(file) = files.first() {
            scratch.put(&file.path, &file.text)?;
        }
    }
    let limit = options
        .timeout_seconds
        .map_or_else(|| (took * PATIENCE).max(LEAST_LIMIT), Duration::from_secs);
    eprintln!("unmutated: passes in {}; a mutant gets {}", seconds(took), seconds(limit));
    Ok(limit)
}

fn outcome(success: Option<bool>, output: &str) -> Fate {
    match success {
        None => Fate::TimedOut,
        Some(true) => Fate::Survived,
        Some(false) if output.contains("error: could not compile") => Fate::Unviable,
        Some(false) => Fate::Killed,
    }
}

/// Prints the survivors and the figure, and writes all verdicts to a file.
fn conclude(
    tree: &Tree,
    options: &Options,
    files: &[File],
    accepted: &[Accepted],
    verdicts: &[Verdict],
) -> Result<bool> {
    let count = |wanted: Fate| verdicts.iter().filter(|(_, outcome, _)| *outcome == wanted).count();
    let tally = Tally {
        killed: count(Fate::Killed),
        survived: count(Fate::Survived),
        timed_out: count(Fate::TimedOut),
        unviable: count(Fate::Unviable),
    };
    let why = |mutant: &Mutant| accepted::reason(accepted, &mutant.path, &mutant.line_text);
    for (mutant, outcome, _) in verdicts {
        match (outcome, why(mutant)) {
            (Fate::Survived, Some(reason)) => println!("accepted {mutant}: {reason}"),
            (Fate::Survived, None) => println!("survived {mutant}"),
            _ => {}
        }
    }
    accepted::report_stale(accepted, files);
    let mutants: Vec<_> = verdicts
        .iter()
        .map(|(mutant, outcome, took)| {
            json!({
                "file": mutant.path,
                "line": mutant.line,
                "column": mutant.column,
                "original": mutant.original,
                "mutant": mutant.replacement,
                "outcome": outcome.word(),
                "accepted": (*outcome == Fate::Survived).then(|| why(mutant)).flatten(),
                "milliseconds": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            })
        })
        .collect();
    let all = json!({
        "killed": tally.killed,
        "survived": tally.survived,
        "timeout": tally.timed_out,
        "unviable": tally.unviable,
        "shard": options.shard.map(|shard| shard.to_string()),
        "test_command": options.test_command,
        "mutants": mutants,
    });
    // Parts of one run lie beside each other.
    let name = options.shard.map_or_else(
        || "literals.json".to_owned(),
        |shard| format!("literals-{}.json", shard.to_string().replace('/', "-of-")),
    );
    let path = tree.root.join(RESULTS).join(name);
    write(&path, &format!("{all:#}\n"))?;
    Ok(tally.verdict())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File { path: "src/a.rs".into(), text: text.into() }
    }

    fn found(text: &str) -> Vec<String> {
        find(&file(text)).unwrap().iter().map(Mutant::to_string).collect()
    }

    #[test]
    fn literals_move_both_ways() {
        assert_eq!(neighbours("1"), ["2", "0"]);
        assert_eq!(neighbours("0"), ["1"]);
        assert_eq!(neighbours("1_000u64"), ["1001u64", "999u64"]);
        assert_eq!(neighbours("0xff_u8"), ["256u8", "254u8"]);
        assert_eq!(neighbours("0b10"), ["3", "1"]);
        assert_eq!(neighbours("0o17_usize"), ["16usize", "14usize"]);
    }

    #[test]
    fn the_finder_takes_what_ships_and_nothing_else() {
        let text = "//! 1\n#![recursion_limit = \"2\"]\n#[repr(align(8))]\nstruct A([u8; 3]);\n\
                    // 4\nconst S: &str = \"5\";\nfn f(a: A) -> u8 { a.0[6] /* 7 */ + 0.5 as u8 }\n\
                    #[cfg(test)]\nmod tests { const B: u8 = 9; }\n";
        assert_eq!(
            found(text),
            [
                "src/a.rs:4:15: 3 -> 4",
                "src/a.rs:4:15: 3 -> 2",
                "src/a.rs:7:24: 6 -> 7",
                "src/a.rs:7:24: 6 -> 5",
            ]
        );
    }

    #[test]
    fn a_mutant_changes_its_literal_alone() {
        let text = "//! A.\nconst A: (u8, u8) = (1, 1);\n";
        let mutants = find(&file(text)).unwrap();
        let changed = mutated(text, &mutants[2]);
        assert_eq!(changed, "//! A.\nconst A: (u8, u8) = (1, 2);\n");
    }

    #[test]
    fn outcomes_are_told_apart() {
        assert_eq!(outcome(None, ""), Fate::TimedOut);
        assert_eq!(outcome(Some(true), ""), Fate::Survived);
        assert_eq!(outcome(Some(false), "test a ... FAILED"), Fate::Killed);
        assert_eq!(outcome(Some(false), "error: could not compile `a`"), Fate::Unviable);
    }
}
