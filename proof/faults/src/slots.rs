//! Slots of a cluster that move while they are used.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use tollgate_testbed::{RedisCluster, SlotMove, key_slot};

use crate::command::ok;
use crate::load::Load;
use crate::wait::{SERVERS, STEP, pause, so, until};
use crate::world::World;

/// A server lacks what moving slots needs.
#[derive(Debug)]
pub(crate) struct Lacking(&'static str);

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Lacking {}

/// Another primary than this one.
fn other(world: &World, primary: usize, rng: &mut ChaCha8Rng) -> Result<usize> {
    let others: Vec<usize> = world.primaries().into_iter().filter(|&it| it != primary).collect();
    others.choose(rng).copied().context("there is one primary only")
}

/// A slot of the load moves key by key, with time for calls between two keys.
pub(crate) fn move_one(world: &World, load: &Load, rng: &mut ChaCha8Rng) -> Result<()> {
    let cluster = world.cluster().context("slots are a cluster's")?;
    let slot = *load.slots().choose(rng).context("the load has no slot")?;
    let from = cluster.owner_of_slot(slot).context("the slot has no owner")?;
    let to = other(world, from, rng)?;
    for (from, to) in [(from, to), (to, from)] {
        let way = SlotMove { slot, from, to };
        cluster.begin_migration(way);
        pause(STEP);
        let keys = cluster.servers()[from].keys();
        let here = keys.iter().filter(|key| key_slot(key) == slot);
        for key in here {
            // It may have expired.
            let _ = cluster.move_key(way, key);
            pause(Duration::from_millis(rng.random_range(1..20)));
        }
        pause(STEP);
        // New keys are made on the other side; missed ones move now.
        cluster.move_keys(way);
        cluster.finish_migration(way);
    }
    Ok(())
}

/// All slots of the load that a primary owns move to another, one after the other, and back.
fn move_each(
    world: &World,
    load: &Load,
    from: usize,
    rng: &mut ChaCha8Rng,
    make: impl Fn(&RedisCluster, SlotMove) -> Result<()>,
) -> Result<()> {
    let to = other(world, from, rng)?;
    let cluster = world.cluster().context("slots are a cluster's")?;
    let mut slots = load.slots();
    slots.retain(|&slot| cluster.owner_of_slot(slot) == Some(from));
    for (from, to) in [(from, to), (to, from)] {
        for &slot in &slots {
            make(cluster, SlotMove { slot, from, to })?;
        }
    }
    Ok(())
}

/// They move key by key.
pub(crate) fn move_all(
    world: &World,
    load: &Load,
    from: usize,
    rng: &mut ChaCha8Rng,
) -> Result<()> {
    move_each(world, load, from, rng, |cluster, way| {
        cluster.migrate_slot(way);
        Ok(())
    })
}

/// Each moves as a whole, which Valkey 9 has.
pub(crate) fn move_atomically(
    world: &World,
    load: &Load,
    from: usize,
    rng: &mut ChaCha8Rng,
) -> Result<()> {
    move_each(world, load, from, rng, |cluster, SlotMove { slot, from, to }| {
        let id = cluster.command(to, &[b"CLUSTER", b"MYID"]).text().context("a node has an id")?;
        let number = slot.to_string();
        let words = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &number, &number, "NODE", &id];
        if let Err(error) = ok(world.server(from), &words) {
            if error.to_string().contains("nknown subcommand") {
                return Err(Lacking("it has no CLUSTER MIGRATESLOTS").into());
            }
            return Err(error);
        }
        let has_moved = || cluster.owner_of_slot(slot) == Some(to);
        until(SERVERS, || so(has_moved(), || format!("slot {slot} does not move")))
    })
}
