//! A few of the faults; `cargo xtask faults` makes all of them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests may")]

use tollgate_faults::fault::Fault;
use tollgate_faults::run::{Found, Ran, Run};
use tollgate_faults::show;
use tollgate_faults::world::Topology;
use tollgate_testbed::{SKIPPED, redis_program};

/// The findings of a run; `None` where it cannot be made.
fn ran(fault: Fault, topology: Topology) -> Option<Found> {
    if redis_program().is_none() {
        println!("{SKIPPED}");
        return None;
    }
    let run = Run { fault, topology, program: None, seed: 28, is_beside: false };
    match run.make().unwrap() {
        Ran::Found(found) => {
            println!("{}", show::line(&found));
            Some(*found)
        }
        Ran::Skipped(why) => {
            println!("WANTED: {why}");
            None
        }
    }
}

/// The run, in which all was as stated.
fn held(fault: Fault, topology: Topology) -> Option<Found> {
    let found = ran(fault, topology)?;
    assert_eq!(found.amiss(), Vec::<String>::new(), "{}", found.report);
    // Of a load that saw nothing, nothing could be broken.
    assert!(found.charged > 100, "{} charges", found.charged);
    Some(found)
}

#[test]
fn a_killed_server_comes_back_empty_and_the_loss_is_seen() {
    let Some(found) = held(Fault::KillAndRestart, Topology::Standalone) else { return };
    assert!(found.lost > 0 && found.not_charged > 0, "{found:?}");
}

#[test]
fn lost_torn_and_doubled_answers_double_no_charge() {
    let Some(found) = held(Fault::LoseAnswers, Topology::Cluster) else { return };
    assert!(found.ambiguous > 0, "{found:?}");
}

#[test]
fn sentinels_replace_a_killed_primary_and_nobody_goes_back_to_it() {
    held(Fault::Kill, Topology::Sentinel);
}

#[test]
fn a_primary_that_nobody_else_reaches_is_left() {
    held(Fault::CutPeersGuarded, Topology::Sentinel);
}

#[test]
fn a_cluster_replaces_a_frozen_primary_which_then_goes_on() {
    held(Fault::Freeze, Topology::Cluster);
}

#[test]
fn slots_move_without_an_error() {
    let Some(found) = held(Fault::MoveSlot, Topology::Cluster) else { return };
    assert_eq!((found.not_charged, found.ambiguous), (0, 0), "{found:?}");
}

#[test]
fn a_clock_that_is_set_back_keeps_nobody_out() {
    held(Fault::ClockBack, Topology::Standalone);
}

#[test]
fn what_is_amiss_is_said() {
    let Some(mut found) = ran(Fault::FlushAll, Topology::Standalone) else { return };
    assert_eq!(found.amiss(), Vec::<String>::new());
    found.may_lose = found.lost - 1;
    found.doubled = 2;
    found.recovery_us = 5_100_000;
    found.broken.push("P1 bound".to_owned());
    let amiss = found.amiss().join("\n");
    for part in ["P1 bound is broken", "2 charges were doubled", "were lost, of at most", "5.1s"] {
        assert!(amiss.contains(part), "{part}: {amiss}");
    }
}
