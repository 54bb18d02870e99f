//! Calendars begin where Python's zoneinfo says, and count as the oracle does.
#![allow(clippy::unwrap_used)] // tests may unwrap

mod common;

use common::Twins;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate::{Calendar, Time};
use tollgate_proof::oracle::calendars;

#[test]
fn edges_are_those_of_zoneinfo_to_the_microsecond() {
    let mut seen = 0;
    for (text, edges) in calendars() {
        let calendar: Calendar = text.parse().unwrap();
        assert_eq!(calendar.to_string(), text);
        for pair in edges.windows(2).filter(|pair| pair[0] >= 0) {
            let [start, end] = [pair[0], pair[1]].map(|s| u64::try_from(s).unwrap() * 1_000_000);
            for us in [start, start + 1, end - 1] {
                let window = calendar.window(Time::from_micros(us));
                let window = (window.start.as_micros(), window.end.as_micros());
                assert_eq!(window, (start, end), "{text} at {us}");
            }
            seen += 1;
        }
    }
    assert!(seen > 500_000, "{seen} windows");
}

/// Random checks, peeks, partial checks, refunds and steps of the clock, mostly around edges.
#[test]
fn a_calendar_counts_as_the_oracle_does() {
    let (mut admitted, mut denied) = (0, 0);
    for (seed, (text, edges)) in calendars().enumerate() {
        let mut rng = ChaCha8Rng::seed_from_u64(seed as u64);
        let mut twins = Twins::new(&format!("20/{text}"), true);
        let mut place = 2;
        let mut receipts = Vec::new();
        let mut now_us = u64::try_from(edges[place]).unwrap() * 1_000_000;
        for _ in 0..4_000 {
            now_us = match rng.random::<u64>() % 12 {
                0 => {
                    place = 1 + usize::try_from(rng.random::<u64>()).unwrap() % (edges.len() - 2);
                    let edge = u64::try_from(edges[place]).unwrap() * 1_000_000;
                    edge + rng.random::<u64>() % 4_000_000 - 2_000_000
                }
                1 => u64::try_from(edges[place]).unwrap() * 1_000_000,
                2 => now_us - rng.random::<u64>() % 2_000_000,
                _ => now_us + rng.random::<u64>() % 1_000_000,
            };
            let cost = 1 + rng.random::<u64>() % 22;
            match rng.random::<u64>() % 8 {
                0 => drop(twins.peek(now_us, cost)),
                1 => drop(twins.partial(now_us, cost)),
                2 => twins.adjust(now_us, 2 * i64::try_from(cost).unwrap() - 23),
                3 if !receipts.is_empty() => {
                    let (at_us, cost) = receipts.remove(0);
                    let _ = twins.refund(now_us, at_us, cost, cost);
                }
                _ => {
                    let (answer, at_us) = twins.check(now_us, cost % 5 + 1);
                    if answer.admitted {
                        admitted += 1;
                        receipts.push((at_us, cost % 5 + 1));
                    } else {
                        denied += 1;
                    }
                }
            }
        }
    }
    assert!(admitted > 50_000 && denied > 20_000, "{admitted} admitted, {denied} denied");
}
