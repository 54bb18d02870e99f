//! `sqlite`: decisions per second beside the minimum that SQLite can do for them.

use core::fmt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::Serialize;
use tollgate::engine::Mode;
use tollgate::{Counted, LimitSet, Question, StoreError, Subject};
use tollgate_sqlite::rusqlite::{self, Connection};
use tollgate_sqlite::{Options, SqliteStore};

use crate::args::BenchSqlite;
use crate::show;

/// How many subjects take turns.
const SUBJECTS: usize = 1_000;

/// How often each of the two is measured; the medians count.
const ROUNDS: usize = 5;

/// The store in a file, beside the bare loop.
pub(crate) fn sqlite(args: &BenchSqlite) -> Result<u8> {
    #[derive(Serialize)]
    struct Json {
        checks: u32,
        decisions_per_second: f64,
        bare_per_second: f64,
        denials_per_second: f64,
        ratio: f64,
    }
    show::warn_of_debug();
    let temporary = tempfile::tempdir().context("no temporary directory: give one with `--dir`")?;
    // Always new files, also in a directory of the reader's choice.
    let chosen = args.dir.as_ref().map(tempfile::tempdir_in).transpose();
    let chosen = chosen.context("the directory cannot be written: give another with `--dir`")?;
    let dir = chosen.as_ref().unwrap_or(&temporary).path();
    let figures = run(dir, args.checks as usize)?;
    if args.json {
        show::json(&Json {
            checks: args.checks,
            decisions_per_second: figures.decisions,
            bare_per_second: figures.bare,
            denials_per_second: figures.denials,
            ratio: figures.ratio(),
        })?;
    } else {
        show::text(&format!("{figures}\n"))?;
    }
    Ok(0)
}

/// The figures, in operations per second.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Figures {
    /// Admitted `gcra` checks through [`SqliteStore::check_now`].
    decisions: f64,
    /// The bare loop `BEGIN IMMEDIATE; UPDATE t SET v = ? WHERE k = ?; COMMIT` over as many rows,
    /// with statements prepared once and the same pragmas.
    bare: f64,
    /// Denied checks, which write nothing.
    denials: f64,
}

impl Figures {
    /// Decisions for each bare update.
    fn ratio(&self) -> f64 {
        self.decisions / self.bare
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "bare BEGIN IMMEDIATE; UPDATE; COMMIT  {:>9.0} per second", self.bare)?;
        writeln!(f, "gcra check, admitted                  {:>9.0} per second", self.decisions)?;
        writeln!(f, "gcra check, denied                    {:>9.0} per second", self.denials)?;
        write!(f, "ratio of admitted to bare             {:>9.2}", self.ratio())
    }
}

/// Measures in two new files in the directory `dir`: `checks` operations of each kind, five times
/// in turns. Uses the wall clock.
fn run(dir: &Path, checks: usize) -> Result<Figures, StoreError> {
    let failed = |error: rusqlite::Error| {
        StoreError::permanent(format!("the bare loop failed: {error}")).because(error)
    };
    let names: Vec<String> = (0..SUBJECTS).map(|i| format!("user:{i:011}")).collect();
    let store = SqliteStore::open_with(Options::new(dir.join("bench-tollgate.db")))?;
    let ask = Asking::new(&names)?;
    ask.run(&store, &ask.wide, SUBJECTS)?;
    ask.run(&store, &ask.narrow, SUBJECTS)?;
    let bare = bare_file(&dir.join("bench-bare.db"), &names).map_err(failed)?;
    let (mut checked, mut updated, mut denied) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        updated.push(run_bare(&bare, &names, checks).map_err(failed)?);
        checked.push(ask.run(&store, &ask.wide, checks)?);
        denied.push(ask.run(&store, &ask.narrow, checks)?);
    }
    Ok(Figures { decisions: median(checked), bare: median(updated), denials: median(denied) })
}

/// The questions of the checks.
struct Asking {
    subjects: Vec<Subject>,
    wide: LimitSet,
    narrow: LimitSet,
}

impl Asking {
    fn new(names: &[String]) -> Result<Self, StoreError> {
        let read = |error| StoreError::permanent("a limit or subject of the bench").because(error);
        Ok(Self {
            subjects: names
                .iter()
                .map(|n| Subject::literal(n))
                .collect::<Result<_, _>>()
                .map_err(read)?,
            wide: "1000000/s burst 1000000 via gcra".parse().map_err(read)?,
            narrow: "1/366d via gcra".parse().map_err(read)?,
        })
    }

    fn run(
        &self,
        store: &SqliteStore,
        limits: &LimitSet,
        checks: usize,
    ) -> Result<f64, StoreError> {
        let start = Instant::now();
        for subject in self.subjects.iter().cycle().take(checks) {
            let parts = [Counted::new(subject, limits)];
            store.check_now(&Question::new(&parts, 1, Mode::Whole))?;
        }
        Ok(per_second(checks, start))
    }
}

fn bare_file(path: &Path, names: &[String]) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    conn.execute_batch("CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER NOT NULL) WITHOUT ROWID")?;
    for name in names {
        conn.execute("INSERT INTO t VALUES (?1, 0)", [name])?;
    }
    Ok(conn)
}

fn run_bare(conn: &Connection, names: &[String], updates: usize) -> rusqlite::Result<f64> {
    let mut begin = conn.prepare("BEGIN IMMEDIATE")?;
    let mut update = conn.prepare("UPDATE t SET v = ?1 WHERE k = ?2")?;
    let mut commit = conn.prepare("COMMIT")?;
    let start = Instant::now();
    for (value, name) in (0_i64..).zip(names.iter().cycle().take(updates)) {
        begin.execute([])?;
        update.execute((1_700_000_000_000_000 + value, name))?;
        commit.execute([])?;
    }
    Ok(per_second(updates, start))
}

#[allow(clippy::cast_precision_loss)] // a figure for people
fn per_second(count: usize, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
