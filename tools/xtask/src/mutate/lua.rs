//! Changes the Lua twins in small ways, and sees that their comparison with the Rust notices each.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;

use crate::mutate::accepted::{self, Accepted};
use crate::mutate::{Options, RESULTS, Tally, write};
use crate::report::seconds;
use crate::tree::{File, Tree};

/// The name, in place of a file, for a line that Rust writes as a script is composed.
const COMPOSED: &str = "composed";

/// The program that finds and judges mutants: an example, for the tests' own dependencies.
const BUILD: [&str; 10] = [
    "build",
    "--locked",
    "--quiet",
    "--profile",
    "test",
    "--package",
    "tollgate-proof",
    "--example",
    "mutate_lua",
    "--message-format=json-render-diagnostics",
];

/// One change, as the judge names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mutant {
    number: String,
    path: String,
    place: String,
    change: String,
    /// The text of the line, by which a survivor is accepted.
    line_text: String,
}

impl std::fmt::Display for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, place, change, line_text, .. } = self;
        write!(f, "{path}:{place}: {change} in `{line_text}`")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Killed,
    TimedOut,
    Survived,
}

impl Fate {
    fn word(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::TimedOut => "timeout",
            Self::Survived => "survived",
        }
    }
}

/// The outcome of one mutant, in how many milliseconds, and the test that found it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    outcome: Fate,
    milliseconds: u64,
    why: String,
}

/// The task: true when at least 95 % of the mutants are killed or time out.
pub(crate) fn run(tree: &Tree, options: &Options) -> Result<bool> {
    let accepted = accepted::read(tree)?;
    let judge = build(tree)?;
    let all = list(&judge)?;
    for file in &options.files {
        if all.iter().all(|mutant| mutant.path != *file) {
            bail!(
                "--file {file}: nothing to mutate there; say a Lua file from the root, or \
                 `{COMPOSED}` for the lines that Rust writes"
            );
        }
    }
    let wanted =
        |mutant: &&Mutant| options.files.is_empty() || options.files.contains(&mutant.path);
    let mut mutants: Vec<Mutant> = all.iter().filter(wanted).cloned().collect();
    if let Some(shard) = options.shard {
        shard.retain(&mut mutants);
    }
    println!("{} of {} mutants", mutants.len(), all.len());
    if options.list {
        mutants.iter().for_each(|mutant| println!("{mutant}"));
        return Ok(true);
    }
    let started = Instant::now();
    let verdicts = try_all(&judge, options.jobs, &mutants)?;
    println!("judged in {}", seconds(started.elapsed()));
    conclude(tree, &accepted, &all, &verdicts)
}

/// Builds the judge, and says where it is.
fn build(tree: &Tree) -> Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&tree.root).args(BUILD).stderr(Stdio::inherit());
    let output = command.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the judge of the Lua (proof/kit/examples/mutate_lua.rs) does not build");
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    executable(&text).context("cargo does not say where it built the judge of the Lua")
}

/// The program that cargo's messages name.
fn executable(messages: &str) -> Option<PathBuf> {
    let mut values = messages.lines().rev().filter_map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(value.get("executable")?.as_str()?))
    });
    values.next()
}

fn list(judge: &PathBuf) -> Result<Vec<Mutant>> {
    let output = Command::new(judge).arg("list").output().context("cannot start the judge")?;
    if !output.status.success() {
        bail!("the judge cannot list: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8_lossy(&output.stdout).lines().map(mutant).collect()
}

/// A line of the list.
fn mutant(row: &str) -> Result<Mutant> {
    let columns: Vec<&str> = row.splitn(7, '\t').collect();
    let [number, path, line, column, original, replacement, text] = columns[..] else {
        bail!("the judge lists `{row}`");
    };
    Ok(Mutant {
        number: number.to_owned(),
        path: path.to_owned(),
        place: format!("{line}:{column}"),
        change: format!("{original} -> {replacement}"),
        line_text: text.to_owned(),
    })
}

/// A judge at work.
struct Process {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(judge: &PathBuf) -> Result<Self> {
        let mut command = Command::new(judge);
        command.arg("judge").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start the judge")?;
        let questions = child.stdin.take().context("the judge takes no input")?;
        let answers = child.stdout.take().context("the judge gives no output")?;
        Ok(Self { child, questions, answers: BufReader::new(answers) })
    }

    /// None when the mutant took the whole process with it.
    fn ask(&mut self, number: &str) -> Result<Option<Verdict>> {
        writeln!(self.questions, "{number}").context("the judge has ended")?;
        let mut row = String::new();
        self.answers.read_line(&mut row).context("cannot read the output of the judge")?;
        if row.is_empty() {
            self.child.wait().context("cannot wait for the judge")?;
            return Ok(None);
        }
        verdict(row.trim_end()).map(Some)
    }

    fn end(mut self) -> Result<()> {
        drop(self.questions);
        self.child.wait().context("cannot wait for the judge")?;
        Ok(())
    }
}

/// A line of the judge's answers.
fn verdict(row: &str) -> Result<Verdict> {
    let columns: Vec<&str> = row.splitn(4, '\t').collect();
    let (word, milliseconds) = match columns[..] {
        [_, word, milliseconds, ..] => (word, milliseconds),
        _ => bail!("the judge answers `{row}`"),
    };
    let outcome = match word {
        "killed" => Fate::Killed,
        "timeout" => Fate::TimedOut,
        "survived" => Fate::Survived,
        other => bail!("the judge answers `{other}`"),
    };
    Ok(Verdict {
        outcome,
        milliseconds: milliseconds.parse().context("the judge answers no time")?,
        why: columns.get(3).copied().unwrap_or_default().to_owned(),
    })
}

/// Shows that nothing differs without a mutant: each file has separate histories.
fn unchanged(judge: &PathBuf, mutants: &[Mutant]) -> Result<()> {
    let mut process = Process::start(judge)?;
    for path in paths(mutants.iter()) {
        match process.ask(&format!("none {path}"))? {
            Some(Verdict { outcome: Fate::Survived, milliseconds, .. }) => {
                eprintln!("unchanged: {path} in {milliseconds} ms");
            }
            Some(verdict) => bail!(
                "{path} differs from the Rust without a change, so it judges nothing: {}",
                verdict.why
            ),
            None => bail!("the judge ended over the unchanged {path}"),
        }
    }
    process.end()
}

/// The files of mutants, each once.
fn paths<'m>(mutants: impl Iterator<Item = &'m Mutant>) -> Vec<&'m str> {
    let mut paths: Vec<&str> = mutants.map(|mutant| mutant.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Tries every mutant, in several processes when asked to, and says each outcome as it comes.
fn try_all<'m>(
    judge: &PathBuf,
    jobs: usize,
    mutants: &'m [Mutant],
) -> Result<Vec<(&'m Mutant, Verdict)>> {
    unchanged(judge, mutants)?;
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Vec::with_capacity(mutants.len()));
    let work = || -> Result<()> {
        let mut process = Process::start(judge)?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutant) = mutants.get(index) else { return process.end() };
            let started = Instant::now();
            let verdict = match process.ask(&mutant.number)? {
                Some(verdict) => verdict,
                None => {
                    process = Process::start(judge)?;
                    let took = started.elapsed().as_millis();
                    Verdict {
                        outcome: Fate::Killed,
                        milliseconds: u64::try_from(took).unwrap_or(u64::MAX),
                        why: "the process ended".to_owned(),
                    }
                }
            };
            let (count, all, word) = (index + 1, mutants.len(), verdict.outcome.word());
            println!("[{count}/{all}] {word:8} {mutant} ({} ms)", verdict.milliseconds);
            let mut verdicts = verdicts.lock().unwrap_or_else(PoisonError::into_inner);
            verdicts.push((index, (mutant, verdict)));
        }
    };
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        jobs.into_iter().try_for_each(|job| {
            job.join().map_err(|_| anyhow!("a job of the mutation check panicked"))?
        })
    })?;
    let mut verdicts = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    verdicts.sort_unstable_by_key(|(index, _)| *index);
    Ok(verdicts.into_iter().map(|(_, verdict)| verdict).collect())
}

/// Prints the survivors, a table and the figure, and writes all verdicts to a file.
fn conclude(
    tree: &Tree,
    accepted: &[Accepted],
    all: &[Mutant],
    verdicts: &[(&Mutant, Verdict)],
) -> Result<bool> {
    let why = |mutant: &Mutant| accepted::reason(accepted, &mutant.path, &mutant.line_text);
    let survived = verdicts.iter().filter(|(_, verdict)| verdict.outcome == Fate::Survived);
    for (mutant, _) in survived {
        match why(mutant) {
            Some(reason) => println!("accepted {mutant}: {reason}"),
            None => println!("survived {mutant}"),
        }
    }
    accepted::report_stale(accepted, &files(all));
    print!("{}", table(verdicts));
    let rows: Vec<_> = verdicts
        .iter()
        .map(|(mutant, verdict)| {
            let lives = verdict.outcome == Fate::Survived;
            json!({
                "file": mutant.path,
                "place": mutant.place,
                "line": mutant.line_text,
                "change": mutant.change,
                "outcome": verdict.outcome.word(),
                "why": verdict.why,
                "accepted": lives.then(|| why(mutant)).flatten(),
                "milliseconds": verdict.milliseconds,
            })
        })
        .collect();
    let tally = tally(verdicts.iter().map(|(_, verdict)| verdict));
    let result = json!({
        "killed": tally.killed,
        "survived": tally.survived,
        "timeout": tally.timed_out,
        "mutants": rows,
    });
    write(&tree.root.join(RESULTS).join("lua.json"), &format!("{result:#}\n"))?;
    Ok(tally.verdict())
}

/// The lines that were found, as files: an accepted line that none of them has is stale.
fn files(mutants: &[Mutant]) -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    for mutant in mutants {
        if files.last().is_none_or(|file| file.path != mutant.path) {
            files.push(File { path: mutant.path.clone(), text: String::new() });
        }
        if let Some(file) = files.last_mut() {
            file.text.push_str(&mutant.line_text);
            file.text.push('\n');
        }
    }
    files
}

fn tally<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> Tally {
    let mut tally = Tally::default();
    for verdict in verdicts {
        match verdict.outcome {
            Fate::Killed => tally.killed += 1,
            Fate::TimedOut => tally.timed_out += 1,
            Fate::Survived => tally.survived += 1,
        }
    }
    tally
}

/// A row for each file.
fn table(verdicts: &[(&Mutant, Verdict)]) -> String {
    let paths = paths(verdicts.iter().map(|(mutant, _)| *mutant));
    let width = paths.iter().map(|path| path.len()).max().unwrap_or_default().max(4);
    let mut text = format!(
        "{:width$}  {:>7}  {:>6}  {:>9}  {:>8}  {:>7}\n",
        "file", "mutants", "killed", "timed out", "survived", "caught"
    );
    for path in paths {
        let own = verdicts.iter().filter(|(mutant, _)| mutant.path == path);
        let Tally { killed, survived, timed_out, .. } = tally(own.map(|(_, verdict)| verdict));
        let count = killed + survived + timed_out;
        // In tenths, rounded down: 94.99 is not 95.
        let tenths = ((killed + timed_out) * 1000).checked_div(count).unwrap_or_default();
        let share = format!("{}.{} %", tenths / 10, tenths % 10);
        text.push_str(&format!(
            "{path:width$}  {count:>7}  {killed:>6}  {timed_out:>9}  {survived:>8}  {share:>7}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_judge_are_read() {
        let found = mutant("7\ta.lua\t3\t12\t<\t<=\tif a < b then").unwrap();
        assert_eq!(found.to_string(), "a.lua:3:12: < -> <= in `if a < b then`");
        assert_eq!(found.number, "7");
        assert!(mutant("7\ta.lua").is_err());
        let found = verdict("7\ttimeout\t120\ttoo long").unwrap();
        assert_eq!((found.outcome, found.milliseconds), (Fate::TimedOut, 120));
        assert!(verdict("7\tperhaps\t120\t").is_err());
        assert!(verdict("7").is_err());
    }

    #[test]
    fn the_table_counts_by_file() {
        let a = mutant("0\ta.lua\t1\t1\t<\t<=\tx").unwrap();
        let b = mutant("1\tcomposed\t1\t1\t<\t<=\tx").unwrap();
        let of = |outcome| Verdict { outcome, milliseconds: 1, why: String::new() };
        let verdicts = [
            (&a, of(Fate::Killed)),
            (&a, of(Fate::TimedOut)),
            (&a, of(Fate::Survived)),
            (&b, of(Fate::Killed)),
        ];
        let table = table(&verdicts);
        let rows: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["a.lua", "3", "1", "1", "1", "66.6", "%"]);
        assert_eq!(rows[2], ["composed", "1", "1", "0", "0", "100.0", "%"]);
    }

    #[test]
    fn the_judge_is_where_cargo_says() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/mutate_lua\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/mutate_lua")));
        assert_eq!(executable(""), None);
    }
}
