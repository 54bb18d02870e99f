//! The faults: how each is made and undone, and the cost that it may have.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use tollgate_proof::history::FaultKind;
use tollgate_testbed::{RedisServer, Trick};

use crate::clock::Clocks;
use crate::command::ok;
use crate::cut::{Cut, Side};
use crate::load::Load;
use crate::slots::{self, Lacking};
use crate::wait::{SERVERS, STEP, pause, so, until};
use crate::world::{Ground, Topology, World};

/// How long a fault lasts that does not wait for anybody.
const WHILE: Duration = Duration::from_millis(700);

const HOUR_US: i64 = 3_600_000_000;

/// A fault. Its victim is a primary that the seed chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "each has its row")]
#[expect(missing_docs, reason = "`what` says it")]
pub enum Fault {
    Kill,
    KillAndRestart,
    FreezeBriefly,
    Freeze,
    Failover,
    Pause,
    Sleep,
    Busy,
    KillClients,
    FlushScripts,
    FlushAll,
    FullMemory,
    FewReplicas,
    Readonly,
    SentinelsGone,
    MoveSlot,
    MoveSlots,
    MoveAtomically,
    LoseAnswers,
    Stall,
    CutClients,
    CutAnswers,
    CutPeers,
    CutPeersGuarded,
    ClockForward,
    ClockBack,
    ClocksApart,
}

/// The cost that a fault may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "each is a bound of its own")]
pub enum Cost {
    /// No charge is lost.
    Nothing,
    /// The units admitted from one second before the fault until this many seconds after its
    /// beginning, and at most the limit of each subject.
    Recent(u8),
    /// The limit of each subject.
    Limit,
}

impl Cost {
    /// The bound in words; `L` is the limit.
    #[must_use]
    pub fn bound(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Recent(0) => "the last second".to_owned(),
            Self::Recent(seconds) => format!("its first {seconds} s"),
            Self::Limit => "`L` a subject".to_owned(),
        }
    }
}

use Topology::{Cluster, Sentinel, Standalone};

impl Fault {
    /// All, in the order of the table.
    #[must_use]
    pub fn all() -> &'static [Self] {
        <Self as clap::ValueEnum>::value_variants()
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// A description of the fault.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Kill => "a primary is killed (`kill -9`) and replaced",
            Self::KillAndRestart => "a primary is killed and back immediately, empty",
            Self::FreezeBriefly => "a primary is frozen for 0.4 s (SIGSTOP, SIGCONT)",
            Self::Freeze => "a primary is frozen until it is replaced, and goes on",
            Self::Failover => "a planned failover",
            Self::Pause => "`CLIENT PAUSE 700 ALL`",
            Self::Sleep => "`DEBUG SLEEP 0.7`",
            Self::Busy => "another script runs for 0.7 s (`BUSY`)",
            Self::KillClients => "`CLIENT KILL TYPE normal`, 14 times in 0.7 s",
            Self::FlushScripts => "`SCRIPT FLUSH`, 14 times in 0.7 s",
            Self::FlushAll => "`FLUSHALL`",
            Self::FullMemory => "memory is full for 0.7 s (`OOM`)",
            Self::FewReplicas => "too few replicas for 0.7 s (`NOREPLICAS`)",
            Self::Readonly => "the server is a replica for 0.7 s (`READONLY`)",
            Self::SentinelsGone => "all sentinels are killed, and come back",
            Self::MoveSlot => "a slot moves key by key, there and back",
            Self::MoveSlots => "all used slots of a primary move, there and back",
            Self::MoveAtomically => "the same by `CLUSTER MIGRATESLOTS`",
            Self::LoseAnswers => "1 of 50 calls is lost, torn, doubled or unanswered",
            Self::Stall => "the network pauses for 0.7 s, and all arrives late",
            Self::CutClients => "clients are cut off from a primary for 0.7 s",
            Self::CutAnswers => "what a primary answers is lost for 0.7 s",
            Self::CutPeers => "a primary with its clients is cut off until it is replaced",
            Self::CutPeersGuarded => "the same with `min-replicas-to-write 1`",
            Self::ClockForward => "the clock of a primary is set forward by 1 h",
            Self::ClockBack => "the clock of a primary is set back by 1 h",
            Self::ClocksApart => "a planned failover to a clock that is 1 h behind",
        }
    }

    /// Where it can happen.
    #[must_use]
    pub fn topologies(self) -> &'static [Topology] {
        match self {
            Self::Kill
            | Self::Failover
            | Self::CutPeers
            | Self::CutPeersGuarded
            | Self::ClocksApart => &[Sentinel, Cluster],
            Self::Readonly => &[Standalone],
            Self::SentinelsGone => &[Sentinel],
            Self::MoveSlot | Self::MoveSlots | Self::MoveAtomically => &[Cluster],
            _ => &Topology::ALL,
        }
    }

    /// The bound that `docs/faults.md` states.
    #[must_use]
    pub fn cost(self, topology: Topology) -> Cost {
        match self {
            Self::Freeze if topology == Standalone => Cost::Nothing,
            // The old primary stops, and waits until its replica has everything.
            Self::Failover | Self::ClocksApart if topology == Cluster => Cost::Nothing,
            // Writes that the replica had not received.
            Self::Kill | Self::Freeze => Cost::Recent(0),
            // It stops by itself: after the node timeout, or `min-replicas-max-lag`.
            Self::CutPeers if topology == Cluster => Cost::Recent(3),
            Self::CutPeersGuarded => Cost::Recent(3),
            Self::KillAndRestart
            | Self::Failover
            | Self::FlushAll
            | Self::CutPeers
            | Self::ClocksApart => Cost::Limit,
            _ => Cost::Nothing,
        }
    }

    /// Its name in a history.
    #[must_use]
    pub fn kind(self) -> FaultKind {
        match self {
            Self::Kill | Self::Failover => FaultKind::Failover,
            Self::KillAndRestart => FaultKind::Restart,
            Self::Freeze | Self::CutPeers | Self::CutPeersGuarded => FaultKind::StalePrimary,
            Self::FlushAll => FaultKind::Flush,
            Self::CutClients | Self::CutAnswers | Self::Stall => FaultKind::Partition,
            Self::ClockForward | Self::ClockBack | Self::ClocksApart => FaultKind::ClockStep,
            _ => FaultKind::Other,
        }
    }

    /// How the servers have to be started for it.
    #[must_use]
    pub fn ground(self, ground: Ground) -> Ground {
        match self {
            Self::LoseAnswers | Self::Stall => ground.proxied(true),
            Self::CutPeersGuarded => {
                ground.arguments(&["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"])
            }
            _ => ground,
        }
    }

    /// Whether servers need clocks that can be set.
    #[must_use]
    pub fn needs_clocks(self) -> bool {
        self.kind() == FaultKind::ClockStep
    }

    /// Whether a firewall makes it.
    #[must_use]
    pub fn needs_firewall(self) -> bool {
        matches!(self, Self::CutClients | Self::CutAnswers | Self::CutPeers | Self::CutPeersGuarded)
    }

    /// Whether servers must be started in a special way for it.
    #[must_use]
    pub fn needs_ground(self) -> bool {
        self.needs_clocks()
            || matches!(self, Self::LoseAnswers | Self::Stall | Self::CutPeersGuarded)
    }

    /// Makes it happen and undoes it. Returns when the fault is undone; the servers may not have
    /// recovered yet.
    ///
    /// # Errors
    ///
    /// It cannot be made: [`Impossible`] says why this server has no such thing.
    pub fn happen(
        self,
        world: &mut World,
        load: &Load,
        clocks: Option<&Clocks>,
        rng: &mut ChaCha8Rng,
    ) -> Result<()> {
        let victim = *world.primaries().choose(rng).context("nobody is a primary")?;
        match self {
            Self::Kill => {
                world.kill(victim);
                until_replaced(world, victim)?;
                world.restart(victim);
            }
            Self::KillAndRestart => world.restart(victim),
            Self::FreezeBriefly => {
                world.server(victim).freeze();
                pause(Duration::from_millis(400));
                world.server(victim).thaw();
            }
            Self::Freeze => {
                world.server(victim).freeze();
                pause(WHILE * 2);
                until_replaced(world, victim)?;
                world.server(victim).thaw();
            }
            Self::Failover => failover(world, victim)?,
            Self::Pause => ok(world.server(victim), &["CLIENT", "PAUSE", "700", "ALL"])?,
            Self::Sleep => ok(world.server(victim), &["DEBUG", "SLEEP", "0.7"])?,
            Self::Busy => busy(world.server(victim))?,
            Self::KillClients => {
                again(world.server(victim), &["CLIENT", "KILL", "TYPE", "normal"])?;
            }
            Self::FlushScripts => again(world.server(victim), &["SCRIPT", "FLUSH"])?,
            Self::FlushAll => ok(world.server(victim), &["FLUSHALL"])?,
            Self::FullMemory => set_for_a_while(world.server(victim), "maxmemory", "1", "0")?,
            Self::FewReplicas => {
                set_for_a_while(world.server(victim), "min-replicas-to-write", "5", "0")?;
            }
            Self::Readonly => {
                ok(world.server(victim), &["REPLICAOF", "127.0.0.1", "1"])?;
                pause(WHILE);
                ok(world.server(victim), &["REPLICAOF", "NO", "ONE"])?;
            }
            Self::SentinelsGone => {
                let sentinels = world.sentinels().context("there are no sentinels")?;
                sentinels.kill_sentinels();
                pause(WHILE * 2);
                sentinels.restart_sentinels();
            }
            Self::MoveSlot => slots::move_one(world, load, rng)?,
            Self::MoveSlots => slots::move_all(world, load, victim, rng)?,
            Self::MoveAtomically => slots::move_atomically(world, load, victim, rng)
                .map_err(|error| self.or_impossible(error))?,
            Self::LoseAnswers => lose_answers(world),
            Self::Stall => {
                let proxy = world.proxies().get(victim).context("there are no proxies")?;
                proxy.set(tollgate_testbed::Mode::Stall);
                pause(WHILE);
                proxy.heal();
            }
            Self::CutClients => cut(world, victim, Side::Clients)?,
            Self::CutAnswers => cut(world, victim, Side::Answers)?,
            Self::CutPeers | Self::CutPeersGuarded => {
                let _cut = Cut::make(world, victim, Side::Peers)?;
                until_replaced(world, victim)?;
                // Its own clients may still be served by it.
                pause(WHILE);
            }
            Self::ClockForward | Self::ClockBack => {
                let step = if self == Self::ClockBack { -HOUR_US } else { HOUR_US };
                load.hold()?;
                clocks.context("clocks cannot be set")?.set(world, victim, step)?;
                load.resume();
            }
            Self::ClocksApart => {
                let clocks = clocks.context("clocks cannot be set")?;
                load.hold()?;
                fail_over_to_the_past(world, victim, clocks)?;
                load.resume();
            }
        }
        Ok(())
    }

    /// The error of a server that lacks what this fault needs, by the name of the fault.
    fn or_impossible(self, error: Error) -> Error {
        match error.downcast::<Lacking>() {
            Ok(lacking) => Impossible { fault: self, why: lacking.to_string() }.into(),
            Err(error) => error,
        }
    }
}

/// Loses and garbles some requests and answers on the way.
fn lose_answers(world: &World) {
    let tricks =
        [Trick::LoseRequest, Trick::LoseReply, Trick::HalfReply, Trick::Duplicate, Trick::Garbage];
    for proxy in world.proxies() {
        proxy.only(&["EVALSHA"]);
        proxy.sometimes(20, &tricks);
    }
    pause(WHILE * 2);
    world.proxies().iter().for_each(tollgate_testbed::Proxy::heal);
}

/// Has a replica follow whose clock is an hour behind.
fn fail_over_to_the_past(world: &mut World, victim: usize, clocks: &Clocks) -> Result<()> {
    for index in (0..world.servers().len()).filter(|&index| index != victim) {
        if !world.primaries().contains(&index) {
            clocks.set(world, index, -HOUR_US)?;
        }
    }
    failover(world, victim)
}

/// Why a fault cannot be made on a server that has no such thing.
#[derive(Debug)]
#[non_exhaustive]
pub struct Impossible {
    /// The fault.
    pub fault: Fault,
    /// The facility that the server lacks.
    pub why: String,
}

impl std::fmt::Display for Impossible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Impossible {}

/// Waits until the others have another in the place of a primary.
fn until_replaced(world: &World, victim: usize) -> Result<()> {
    let port = world.server(victim).port();
    until(SERVERS, || so(world.is_replaced(victim), || format!("nobody took the place of {port}")))
}

/// A command again and again.
fn again(server: &RedisServer, words: &[&str]) -> Result<()> {
    for _ in 0..WHILE.as_millis() / STEP.as_millis() {
        ok(server, words)?;
        pause(STEP);
    }
    Ok(())
}

fn set_for_a_while(server: &RedisServer, name: &str, value: &str, then: &str) -> Result<()> {
    ok(server, &["CONFIG", "SET", name, value])?;
    pause(WHILE);
    ok(server, &["CONFIG", "SET", name, then])
}

/// Somebody else's script that does not end.
fn busy(server: &RedisServer) -> Result<()> {
    ok(server, &["CONFIG", "SET", "busy-reply-threshold", "50"])?;
    let mut client = server.client()?;
    let endless = thread::spawn(move || {
        // It ends with the error that it was killed.
        let _ = client.command(&[b"EVAL", b"while true do end", b"0"]);
    });
    pause(WHILE);
    ok(server, &["SCRIPT", "KILL"])?;
    endless.join().map_err(|_| anyhow::anyhow!("a script's caller panicked"))
}

fn cut(world: &World, victim: usize, side: Side) -> Result<()> {
    let _cut = Cut::make(world, victim, side)?;
    pause(WHILE);
    Ok(())
}

fn failover(world: &mut World, victim: usize) -> Result<()> {
    if let Some(sentinels) = world.sentinels() {
        sentinels.failover();
        return Ok(());
    }
    let cluster = world.cluster().context("one server has no failover")?;
    let replica = *cluster.replicas_of(victim).first().context("it has no replica")?;
    cluster.failover(replica);
    Ok(())
}
