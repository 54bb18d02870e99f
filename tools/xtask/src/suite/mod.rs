//! The tests: built by cargo, then run side by side, as many binaries at a time as there are
//! processors. A binary that waits (for a server, for a process that it killed) leaves a processor
//! to another.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::report::seconds;
use crate::tools::cargo;
use crate::tree::Tree;

mod counts;

pub(crate) use counts::Counts;
use counts::Reader;

/// The longest binaries, which begin first: at the end no processor waits for another.
const LONGEST: [&str; 3] = [
    "tollgate-proof: tests/lua_twins.rs",
    "tollgate-redis: tests/servers/main.rs",
    "tollgate-cli: tests/it/main.rs",
];

/// Something that prints as libtest does: a test binary, or cargo with the doc tests.
struct Job {
    name: String,
    command: Command,
}

/// Runs the tests of these packages, or of all packages if none is named. Shows the output of each
/// binary when that binary ends, and counts.
pub(crate) fn run(tree: &Tree, packages: &[String]) -> Result<Counts> {
    let Some(mut jobs) = build(tree, packages)? else { return Ok(Counts::of_a_failed_build()) };
    let mut doc_tests = cargo_test(tree, packages);
    doc_tests.args(["--doc", "--"]);
    jobs.push_back(Job { name: "doc tests".to_owned(), command: doc_tests });
    let place = |job: &Job| LONGEST.iter().position(|name| *name == job.name);
    jobs.make_contiguous().sort_by_key(|job| place(job).unwrap_or(LONGEST.len()));
    let jobs = Mutex::new(jobs);
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        let mut counts = Counts::default();
        while let Some(job) = next() {
            let (of_one, shown) = job.run()?;
            counts.add(of_one);
            print(&shown)?;
        }
        Ok(counts)
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut all = Counts::default();
        for worker in workers {
            let counts: Result<Counts> =
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.add(counts?);
        }
        Ok(all)
    })
}

fn cargo_test(tree: &Tree, packages: &[String]) -> Command {
    let mut command = cargo(tree);
    command.args(["test", "--locked", "--no-fail-fast"]);
    match packages {
        [] => command.arg("--workspace"),
        some => command.args(some.iter().flat_map(|name| ["--package", name])),
    };
    command
}

/// Builds every test binary; `None` if that fails, which cargo has explained already.
fn build(tree: &Tree, packages: &[String]) -> Result<Option<VecDeque<Job>>> {
    let mut command = cargo_test(tree, packages);
    // No examples: clippy has checked them, and no test runs one.
    command.args(["--tests", "--no-run", "--message-format=json-render-diagnostics"]);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo test")?;
    let pipe = child.stdout.take().context("cargo test has no output")?;
    let mut jobs = VecDeque::new();
    for line in BufReader::new(pipe).lines() {
        let line = line.context("cannot read what cargo test built")?;
        jobs.extend(job_of(&line));
    }
    let status = child.wait().context("cannot wait for cargo test")?;
    Ok(status.success().then_some(jobs))
}

/// The test binary that a message of cargo's names, if it is one about a test binary.
fn job_of(message: &str) -> Option<Job> {
    let message: Value = serde_json::from_str(message).ok()?;
    if !message["profile"]["test"].as_bool()? {
        return None;
    }
    let program = message["executable"].as_str()?;
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?;
    let source = PathBuf::from(message["target"]["src_path"].as_str()?);
    let source = source.strip_prefix(folder).unwrap_or(&source).display();
    let package = folder.file_name()?.to_string_lossy();
    let mut command = Command::new(program);
    // As cargo runs it.
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    // The time of each test is an option that libtest keeps back on a stable compiler.
    command.env("RUSTC_BOOTSTRAP", "1").args(["-Z", "unstable-options", "--report-time"]);
    Some(Job { name: format!("{package}: {source}"), command })
}

/// Shows the output of one binary as a whole.
fn print(shown: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(shown.as_bytes()).context("cannot show the output of a test")
}

impl Job {
    /// Runs it to its end: the counts, and the part of its output to show.
    fn run(self) -> Result<(Counts, String)> {
        let Self { name, mut command } = self;
        let started = Instant::now();
        // The output of a passing test is read too, or a test that skips itself could not be seen.
        command.arg("--show-output");
        if std::io::stdout().is_terminal() {
            command.args(["--color", "always"]);
        }
        // Both go into one pipe, so that they stay in order.
        let (mut output, writer) = std::io::pipe().context("cannot make a pipe")?;
        command.stdin(Stdio::null());
        command.stdout(writer.try_clone().context("cannot share a pipe")?).stderr(writer);
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        // It holds the writing ends; the pipe would never end.
        drop(command);
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
        let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
        let (counts, shown) = Reader::read_all(&String::from_utf8_lossy(&bytes), status.success());
        Ok((
            counts.of_binary(&name),
            format!("\n{name}, {}\n{shown}\n", seconds(started.elapsed())),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(program: &str, lines: &str) -> Job {
        let mut command = Command::new(program);
        command.args(["-c", lines, program]);
        Job { name: "a".to_owned(), command }
    }

    #[test]
    fn only_test_binaries_are_jobs() {
        let message = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml",
                "target":{{"src_path":"/w/crates/a/tests/b/main.rs"}},
                "profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let job = job_of(&message(true, "\"/w/target/b-1\"")).unwrap();
        assert_eq!(job.name, "a: tests/b/main.rs");
        assert_eq!(job.command.get_program(), "/w/target/b-1");
        assert_eq!(job.command.get_current_dir(), Some("/w/crates/a".as_ref()));
        assert!(job_of(&message(false, "\"/w/target/a\"")).is_none());
        assert!(job_of(&message(true, "null")).is_none());
        assert!(job_of(r#"{"reason":"build-finished","success":true}"#).is_none());
    }

    #[test]
    fn a_job_is_counted_by_what_it_prints_and_how_it_ends() {
        let counted = |lines: &str| job("sh", lines).run().unwrap().0.last_line(false);
        let passes = "echo running 1 test; echo 'test result: ok. 1 passed; 0 failed'";
        assert_eq!(counted(passes), "1 passed, 0 failed");
        assert_eq!(counted("echo running 1 test; kill -9 $$"), "0 passed, 1 failed");
        assert_eq!(counted("exit 3"), "0 passed, 1 failed");
        let (_, shown) = job("sh", "echo out; echo err >&2").run().unwrap();
        assert!(shown.starts_with("\na, 0.") && shown.ends_with(" s\nout\nerr\n\n"), "{shown:?}");
        assert!(job("no-such-program-here", "").run().is_err());
    }
}
