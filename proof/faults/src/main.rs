//! Faults of real servers under load: `cargo xtask faults`, or
//! `cargo run --release -p tollgate-faults -- --help`.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use signal_hook::consts::{SIGINT, SIGTERM};
use tollgate_faults::fault::{Fault, Impossible};
use tollgate_faults::run::{self, Found, Leg, Ran, Run};
use tollgate_faults::show;
use tollgate_faults::world::{Ground, Topology, World};
use tollgate_proof::history::History;

/// Make faults on real servers under load, and check what callers saw
///
/// Each fault gets new servers: one alone, a primary under sentinels, or a cluster. Twelve callers
/// ask all the time. Every call is recorded and checked against the definitions; the counts at the
/// end also show the charges.
///
/// Exits with 0 when all was as stated, with 1 when a bound or a promise was broken, with 2 on an
/// error. A fault that cannot be made here is skipped, which is reported: partitions need root and
/// iptables, clocks need root and a C compiler.
#[derive(Debug, Parser)]
#[command(name = "tollgate-faults", max_term_width = 100)]
#[command(
    after_help = "Example: cargo run --release -p tollgate-faults -- kill freeze --on cluster"
)]
struct Args {
    /// The faults to make; all without any
    #[arg(value_name = "FAULT")]
    faults: Vec<Fault>,
    /// On these only (may be repeated)
    #[arg(long, value_name = "TOPOLOGY")]
    on: Vec<Topology>,
    /// A redis-server or valkey-server (may be repeated); without it, the one on the path
    #[arg(long, value_name = "PROGRAM")]
    server: Vec<PathBuf>,
    /// The seed for victims, subjects and times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Make faults at random for this many seconds, on servers that stay, with small ones beside
    #[arg(long, value_name = "SECONDS")]
    random: Option<u64>,
    /// Run the cluster client of redis-rs beside, on clusters, and say what it met
    #[arg(long, conflicts_with = "random")]
    beside: bool,
    /// Write the history of each run into this directory, for the example `check_history`
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
    /// Write one JSON object for each run
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Write a table in Markdown
    #[arg(long)]
    markdown: bool,
    /// List the faults, and make none
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether all was as stated.
fn run(args: &Args) -> Result<bool> {
    if args.list {
        list()?;
        return Ok(true);
    }
    let is_stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second one ends the program immediately.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&is_stopped))?;
        signal_hook::flag::register(signal, Arc::clone(&is_stopped))?;
    }
    if let Some(directory) = &args.keep {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    let mut all = Vec::new();
    let servers: Vec<Option<PathBuf>> = match &args.server[..] {
        [] => vec![None],
        programs => programs.iter().cloned().map(Some).collect(),
    };
    for program in servers {
        match args.random {
            Some(seconds) => {
                random(
                    args,
                    program.as_ref(),
                    Duration::from_secs(seconds),
                    &is_stopped,
                    &mut all,
                )?;
            }
            None => each(args, program.as_ref(), &is_stopped, &mut all)?,
        }
    }
    if args.markdown {
        text(&show::markdown(&all))?;
    } else if !args.json {
        text(&show::table(&all))?;
    }
    Ok(all.iter().all(|found| found.amiss().is_empty()))
}

/// Each fault on new servers.
fn each(
    args: &Args,
    program: Option<&PathBuf>,
    is_stopped: &AtomicBool,
    all: &mut Vec<Found>,
) -> Result<()> {
    let chosen = |fault: &&Fault| args.faults.is_empty() || args.faults.contains(fault);
    for &fault in Fault::all().iter().filter(chosen) {
        for &topology in fault.topologies().iter().filter(|it| args.is_on(**it)) {
            if is_stopped.load(Ordering::SeqCst) {
                return Ok(());
            }
            let Args { seed, beside, .. } = *args;
            let program = program.cloned();
            let run = Run { fault, topology, program, seed, is_beside: beside };
            match run.make() {
                Ok(Ran::Found(found)) => args.found(*found, all)?,
                Ok(Ran::Skipped(why)) => {
                    note(&format!("SKIPPED: {} on {topology}: {why}", fault.name()));
                }
                Err(error) => return Err(error.context(format!("{} on {topology}", fault.name()))),
            }
        }
    }
    Ok(())
}

/// Faults at random, on servers that stay.
fn random(
    args: &Args,
    program: Option<&PathBuf>,
    time: Duration,
    is_stopped: &AtomicBool,
    all: &mut Vec<Found>,
) -> Result<()> {
    let topologies: Vec<Topology> =
        Topology::ALL.into_iter().filter(|&topology| args.is_on(topology)).collect();
    let each = time / u32::try_from(topologies.len()).unwrap_or(1);
    for topology in topologies {
        let mut rng = ChaCha8Rng::seed_from_u64(args.seed);
        let ground = Ground::new(program.cloned());
        let mut world = World::start(topology, &ground);
        let mut faults: Vec<Fault> = Fault::all()
            .iter()
            .copied()
            .filter(|fault| args.faults.is_empty() || args.faults.contains(fault))
            .filter(|fault| fault.topologies().contains(&topology) && run::is_possible(*fault))
            .collect();
        let until = Instant::now() + each;
        while Instant::now() < until && !is_stopped.load(Ordering::SeqCst) {
            let seed: u32 = rng.random();
            let some: Vec<Fault> = (0..rng.random_range(1..4))
                .filter_map(|_| faults.choose(&mut rng).copied())
                .collect();
            let leg = Leg { faults: &some, seed: seed.into(), clocks: None, is_noisy: true };
            match leg.run(&mut world) {
                Ok(found) => args.found(found, all)?,
                Err(error) => match error.downcast::<Impossible>() {
                    Ok(Impossible { fault, why, .. }) => {
                        note(&format!("SKIPPED: {} on {topology}: {why}", fault.name()));
                        faults.retain(|it| *it != fault);
                    }
                    Err(error) => return Err(error.context(format!("seed {seed} on {topology}"))),
                },
            }
            if let Err(error) = run::until_healthy(&world) {
                note(&format!("new servers on {topology}: the old ones are not well: {error:#}"));
                world = World::start(topology, &ground);
            }
        }
    }
    Ok(())
}

impl Args {
    fn is_on(&self, topology: Topology) -> bool {
        self.on.is_empty() || self.on.contains(&topology)
    }

    /// Shows a run as it is over, and keeps it.
    fn found(&self, mut found: Found, all: &mut Vec<Found>) -> Result<()> {
        note(&show::line(&found));
        if self.json {
            text(&format!("{}\n", serde_json::to_string(&found)?))?;
        }
        if let Some(directory) = &self.keep {
            keep(directory, &found)?;
        } else if !found.amiss().is_empty() {
            note(&found.report.to_string());
        }
        // It is large, and nobody reads it again.
        found.history = History::default();
        all.push(found);
        Ok(())
    }
}

fn keep(directory: &Path, found: &Found) -> Result<()> {
    let names: Vec<String> = found.faults.iter().map(|fault| fault.name()).collect();
    let file = format!("{}-{}-{}.history", names.join("-"), found.topology.name(), found.seed);
    let path = directory.join(file);
    fs::write(&path, found.history.to_string()).with_context(|| path.display().to_string())
}

fn list() -> Result<()> {
    let width = Fault::all().iter().map(|fault| fault.name().len()).max().unwrap_or(0);
    for fault in Fault::all() {
        let on: Vec<String> = fault.topologies().iter().map(|it| it.name()).collect();
        text(&format!("{:width$}  {} ({})\n", fault.name(), fault.what(), on.join(", ")))?;
    }
    Ok(())
}

/// Writes text. A reader that went away (`| head`) is not an error.
fn text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// A line for people beside what was asked for.
fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
