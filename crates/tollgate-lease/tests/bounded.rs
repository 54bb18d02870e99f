//! The memory of a node for the subjects whose units it has, by an allocator that counts.
#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code)] // tests may

#[path = "it/sim.rs"]
mod sim;

use std::alloc::System;

use sim::{World, check};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The most bytes of a leased subject: `docs/leases.md` states it.
const BYTES: usize = 1_300;

/// The most subjects of a node, as many as it has by default.
const SUBJECTS: usize = 16_384;

#[test]
fn a_leased_subject_takes_no_more_than_is_stated_and_their_number_is_bounded() {
    let world = World::new();
    let node = world.node("100000/s via gcra lease auto");
    let held = |region: &Region<'_, System>| {
        let change = region.change();
        let bytes = change.bytes_allocated - change.bytes_deallocated;
        bytes - world.store.bytes()
    };
    let region = Region::new(ALLOCATED);
    let ask = |number: usize| {
        let subject = format!("user:{number:09}");
        assert!((0..50).all(|_| check(&node, &subject).is_allowed()));
    };
    (0..SUBJECTS).for_each(ask);
    let full = held(&region);
    assert!(node.store().held() > 0);
    println!("{} bytes for each of {SUBJECTS} subjects", full / SUBJECTS);
    assert!(full <= SUBJECTS * BYTES, "{full}");
    // Twice as many after the first leases have ended: those make room.
    world.pass(1_000_000);
    (SUBJECTS..3 * SUBJECTS).for_each(ask);
    let more = held(&region);
    assert!(more <= full + full / 8, "{more} of {full}");
}
