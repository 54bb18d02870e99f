//! One run: servers, a load, a fault, and the verdict of the history.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tollgate_proof::history::{
    self, Bounds, Call, FaultKind, History, Promise, Report, Verdict, check,
};

use crate::bare::{Bare, BareFound};
use crate::clock::Clocks;
use crate::cut::Cut;
use crate::fault::{Cost, Fault, Impossible};
use crate::load::{Load, NODES, Recorded};
use crate::noise::Noise;
use crate::wait::{SERVERS, pause, so, until};
use crate::world::{Ground, Topology, World};

/// The bounds that the load states: on how many nodes leases are.
fn bounds() -> Bounds {
    Bounds { nodes: Some(NODES as u64), ..Bounds::default() }
}

/// Within this time after a fault is undone everything works again, without a restart.
pub const RECOVERS_WITHIN: Duration = Duration::from_secs(5);

const SECOND_US: u64 = 1_000_000;

/// When all is well again: this many answers for every subject, and no error for this long.
const WELL: (u64, Duration) = (3, Duration::from_millis(600));

/// How long a load may take until all is well: longer than [`RECOVERS_WITHIN`], so that a slow
/// recovery is measured.
const GIVE_UP: Duration = Duration::from_secs(30);

/// The findings of a run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Found {
    /// The faults, in their order.
    pub faults: Vec<Fault>,
    /// Where.
    pub topology: Topology,
    /// Which server: `Redis 7.0.15`.
    pub server: String,
    /// The seed that chose victims, subjects and times.
    pub seed: u64,
    /// How many calls were recorded.
    pub calls: usize,
    /// Errors after which nothing was charged.
    pub not_charged: usize,
    /// Calls without an answer, or with one that leaves open whether they were charged.
    pub ambiguous: usize,
    /// Charges that were acknowledged and can be read at the end.
    pub charged: u64,
    /// How many of them are gone.
    pub lost: u64,
    /// Charges beyond all that was acknowledged or in doubt.
    pub doubled: u64,
    /// How many of them may be gone, by the bounds of the faults.
    pub may_lose: u64,
    /// The longest time in which a subject had no answer, in microseconds.
    pub gap_us: u64,
    /// From the end of the fault to the last error, in microseconds.
    pub recovery_us: u64,
    /// How much later than its deadline a call came back, in microseconds.
    pub late_us: u64,
    /// Promises that the history breaks.
    pub broken: Vec<String>,
    /// How many answers the history decides exactly, and how many there were.
    pub exact: (u64, u64),
    /// The findings of the bare client, if there was one.
    pub bare: Option<BareFound>,
    /// The history, for readers who want to see for themselves.
    #[serde(skip)]
    pub history: History,
    /// The checker's report.
    #[serde(skip)]
    pub report: Report,
}

impl Found {
    /// The deviations from the promises, in words. Empty when all is.
    #[must_use]
    pub fn amiss(&self) -> Vec<String> {
        let mut amiss: Vec<String> =
            self.broken.iter().map(|promise| format!("{promise} is broken")).collect();
        if self.doubled > 0 {
            amiss.push(format!("{} charges were doubled", self.doubled));
        }
        if self.lost > self.may_lose {
            amiss.push(format!("{} charges were lost, of at most {}", self.lost, self.may_lose));
        }
        if u128::from(self.recovery_us) > RECOVERS_WITHIN.as_micros() {
            let took = Duration::from_micros(self.recovery_us);
            amiss.push(format!("it recovered after {took:?}, not {RECOVERS_WITHIN:?}"));
        }
        amiss
    }
}

/// The outcome of a run.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum Ran {
    /// It was made.
    Found(Box<Found>),
    /// It cannot be made here, and why.
    Skipped(String),
}

/// One fault on new servers.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it names what a run needs")]
pub struct Run {
    /// The fault.
    pub fault: Fault,
    /// To what.
    pub topology: Topology,
    /// The program of the servers; without one, that on the path.
    pub program: Option<PathBuf>,
    /// The seed for victims, subjects and times.
    pub seed: u64,
    /// Whether a bare client runs beside, on a cluster.
    pub is_beside: bool,
}

impl Run {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// Servers do not come up or become well, or a call does not return.
    pub fn make(&self) -> Result<Ran> {
        let fault = self.fault;
        if fault.needs_firewall()
            && let Some(why) = Cut::impossible()
        {
            return Ok(Ran::Skipped(why));
        }
        let clocks = match fault.needs_clocks().then(Clocks::new) {
            Some(Err(error)) => return Ok(Ran::Skipped(format!("{error:#}"))),
            made => made.transpose()?,
        };
        let mut ground = fault.ground(Ground::new(self.program.clone()));
        if let Some(clocks) = &clocks {
            ground = clocks.on(ground);
            if let Err(error) = try_clocks(clocks, &ground) {
                return Ok(Ran::Skipped(format!("{error:#}")));
            }
        }
        let mut world = World::start(self.topology, &ground);
        let bare = match world.cluster().filter(|_| self.is_beside) {
            Some(cluster) => Some(Bare::start(cluster, self.seed)?),
            None => None,
        };
        let clocks = clocks.as_ref();
        let leg = Leg { faults: &[fault], seed: self.seed, clocks, is_noisy: false };
        let mut found = match leg.run(&mut world) {
            Err(error) if error.is::<Impossible>() => return Ok(Ran::Skipped(error.to_string())),
            found => found?,
        };
        found.bare = bare.map(Bare::finish).transpose()?;
        Ok(Ran::Found(Box::new(found)))
    }
}

/// Whether a fault can be made on servers that were started without regard to it.
#[must_use]
pub fn is_possible(fault: Fault) -> bool {
    !fault.needs_ground() && (!fault.needs_firewall() || Cut::impossible().is_none())
}

/// Waits until all servers are well, replicas among them: a fault whose bound rests on a replica
/// needs one.
///
/// # Errors
///
/// They are not within a minute.
pub fn until_healthy(world: &World) -> Result<()> {
    until(Duration::from_secs(60), || world.health())
}

/// Whether this program takes a clock.
fn try_clocks(clocks: &Clocks, ground: &Ground) -> Result<()> {
    clocks.set(&World::start(Topology::Standalone, ground), 0, 7_200_000_000)
}

/// Faults one after the other under one load.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "it names what a leg needs")]
pub struct Leg<'a> {
    /// The faults.
    pub faults: &'a [Fault],
    /// The seed for victims, subjects and times.
    pub seed: u64,
    /// The clocks of the servers, where a fault sets them.
    pub clocks: Option<&'a Clocks>,
    /// Whether small faults happen beside.
    pub is_noisy: bool,
}

impl Leg<'_> {
    /// Runs it on these servers, and checks its history.
    ///
    /// # Errors
    ///
    /// See [`Run::make`].
    pub fn run(&self, world: &mut World) -> Result<Found> {
        let Self { faults, seed, clocks, is_noisy } = *self;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let topology = world.topology();
        let load = Load::start(world.options(), seed)?;
        let mut history = History::default();
        let (mut recovery_us, mut lossy) = (0, Vec::new());
        settle(&load)?;
        let mut noise =
            is_noisy.then(|| Noise::start(world, ChaCha8Rng::seed_from_u64(rng.random())));
        for &fault in faults {
            pause(Duration::from_millis(rng.random_range(0..300)));
            let began_us = load.now_us();
            fault.happen(world, &load, clocks, &mut rng)?;
            until(SERVERS, || world.is_serving()).context("the servers are not well")?;
            let undone_us = load.now_us();
            load.forget();
            let last_error_us = settle(&load)?.unwrap_or(0);
            recovery_us = recovery_us.max(last_error_us.saturating_sub(undone_us));
            let cost = fault.cost(topology);
            let lost = u32::from(cost != Cost::Nothing);
            lossy.push(match cost {
                Cost::Nothing => 0..0,
                Cost::Recent(seconds) => {
                    began_us.saturating_sub(SECOND_US)..began_us + SECOND_US * u64::from(seconds)
                }
                Cost::Limit => 0..u64::MAX,
            });
            let ended_us = match fault.kind() {
                // No call was under way then.
                FaultKind::ClockStep => undone_us,
                _ => undone_us.max(last_error_us),
            };
            history.faults.push(history::Fault {
                kind: fault.kind(),
                began_us,
                ended_us,
                target: fault.what().to_owned(),
                lost_states: lost,
            });
        }
        if noise.take().is_some() {
            load.forget();
            settle(&load)?;
        }
        let recorded = load.finish()?;
        history.calls = recorded.calls;
        let report = check(&history, &bounds());
        let of = |outcome| history.calls.iter().filter(|call| call.outcome == outcome).count();
        let is_lossy = |call: &&Call| {
            let at_us = call.returned_us.unwrap_or_default();
            call.outcome.is_allowed() && lossy.iter().any(|times| times.contains(&at_us))
        };
        let exact = report.findings().iter().find(|it| it.promise == Promise::Exact);
        let Recorded { gap_us, charged, lost, doubled, late_us, .. } = recorded;
        Ok(Found {
            faults: faults.to_vec(),
            topology,
            server: version(world),
            seed,
            calls: history.calls.len(),
            may_lose: history.calls.iter().filter(is_lossy).count() as u64,
            not_charged: of(history::CallOutcome::NotCharged),
            ambiguous: of(history::CallOutcome::Unknown),
            charged,
            lost,
            doubled,
            gap_us,
            recovery_us,
            late_us,
            broken: report
                .findings()
                .iter()
                .filter(|it| it.verdict == Verdict::Broken)
                .map(|it| it.promise.name().to_owned())
                .collect(),
            exact: exact.map_or((0, 0), |it| (it.checked, it.places)),
            bare: None,
            history,
            report,
        })
    }
}

/// Waits until all callers are well, and says when the last error was.
fn settle(load: &Load) -> Result<Option<u64>> {
    let quiet = || so(load.is_quiet(WELL.0, WELL.1), || "callers still have errors".to_owned());
    until(GIVE_UP, quiet)?;
    Ok(load.last_error_us())
}

/// The version that the first server reports.
fn version(world: &World) -> String {
    let info = world.server(0).info("server");
    match (info.get("valkey_version"), info.get("redis_version")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, Some(version)) => format!("Redis {version}"),
        (None, None) => "a server without a version".to_owned(),
    }
}
