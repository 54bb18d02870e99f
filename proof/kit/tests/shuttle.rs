//! All or nothing under every order of threads: the locking of the memory store's `answer`, over
//! the real engine, with shuttle's locks in the place of the store's.
//!
//! It is a model: the shards are locked in ascending order, each once; the states are taken out,
//! decided on together, and put back before any lock is let go. A refund marks its receipt under
//! one lock and gives back under another. The store itself cannot be run under shuttle without
//! another lock type in it.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shuttle::sync::{Mutex, MutexGuard};
use shuttle::thread;
use tollgate::engine::{self, Mode, Part, VecStates};
use tollgate::{LimitSet, Time};

const NOW: Time = Time::from_micros(100_000_000);

#[derive(Default)]
struct Shard {
    held: BTreeMap<usize, VecStates>,
    spent: BTreeSet<u64>,
    charges: u64,
}

/// Subject `i` lives in shard `i % 2`.
struct Model {
    shards: [Mutex<Shard>; 2],
    limits: LimitSet,
    sorted: bool,
}

/// The charge: the shard that numbered it, its number, and its subject.
#[derive(Clone)]
struct Receipt {
    shard: usize,
    number: u64,
    subjects: Vec<usize>,
}

impl Model {
    fn new(limits: &str) -> Arc<Self> {
        let shards = [Mutex::new(Shard::default()), Mutex::new(Shard::default())];
        Arc::new(Self { shards, limits: limits.parse().unwrap(), sorted: true })
    }

    /// One unit of each subject, or of none.
    fn check(&self, subjects: &[usize]) -> Option<Receipt> {
        let mut indices: Vec<usize> = subjects.iter().map(|subject| subject % 2).collect();
        if self.sorted {
            indices.sort_unstable();
        }
        indices.dedup();
        let mut guards: Vec<(usize, MutexGuard<'_, Shard>)> =
            indices.iter().map(|index| (*index, self.shards[*index].lock().unwrap())).collect();
        let mut states: Vec<VecStates> = Vec::new();
        for subject in subjects {
            let (_, shard) = guards.iter_mut().find(|(index, _)| *index == subject % 2).unwrap();
            let taken = shard.held.remove(subject);
            states.push(taken.unwrap_or_else(|| VecStates::fresh(&self.limits)));
        }
        let mut parts: Vec<Part<'_>> =
            states.iter_mut().map(|state| Part::new(&self.limits, state)).collect();
        let outcome = engine::decide(&mut parts, NOW, 1.into(), Mode::Whole, None).unwrap();
        drop(parts);
        for (subject, state) in subjects.iter().zip(states) {
            let (_, shard) = guards.iter_mut().find(|(index, _)| *index == subject % 2).unwrap();
            shard.held.insert(*subject, state);
        }
        let (shard, first) = &mut guards[0];
        first.charges += 1;
        let receipt = Receipt { shard: *shard, number: first.charges, subjects: subjects.to_vec() };
        (outcome.granted > 0).then_some(receipt)
    }

    /// The units given back to each subject: all, or none the second time.
    fn refund(&self, receipt: &Receipt) -> u64 {
        if !self.shards[receipt.shard].lock().unwrap().spent.insert(receipt.number) {
            return 0;
        }
        let mut least = u64::MAX;
        for subject in &receipt.subjects {
            let mut shard = self.shards[subject % 2].lock().unwrap();
            let held = shard.held.get_mut(subject).unwrap();
            let at = [NOW.as_micros(); 2];
            let (limits, at) = (&self.limits, &at[..self.limits.limits().len()]);
            let whole = engine::Portion::whole(1.into());
            let given = engine::refund(
                &mut engine::Part::new(limits, held),
                limits,
                (at, NOW),
                &whole,
                NOW,
            );
            least = least.min(given.into_iter().min().unwrap());
        }
        least
    }

    /// The remaining units of a subject, under its strictest limit.
    fn remaining(&self, subject: usize) -> u64 {
        let mut shard = self.shards[subject % 2].lock().unwrap();
        let fresh = || VecStates::fresh(&self.limits);
        let held = shard.held.entry(subject).or_insert_with(fresh);
        let mut parts = [Part::new(&self.limits, held)];
        let outcome = engine::decide(&mut parts, NOW, 1.into(), Mode::Peek, None).unwrap();
        outcome.fields.iter().map(|fields| fields.remaining).min().unwrap()
    }
}

/// Three threads over two subjects in both orders, and one subject alone: the admitted units are
/// the used ones, everywhere, and never more than the limit.
fn all_or_nothing(sorted: bool) {
    let mut model = Model::new("3/1h via gcra, 4/1h via sliding_log");
    Arc::get_mut(&mut model).unwrap().sorted = sorted;
    let orders: [&'static [usize]; 3] = [&[0, 1], &[1, 0], &[1]];
    let threads: Vec<_> = orders
        .into_iter()
        .map(|subjects| {
            let model = Arc::clone(&model);
            thread::spawn(move || (0..2).filter(|_| model.check(subjects).is_some()).count() as u64)
        })
        .collect();
    let admitted: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let (both, alone) = (admitted[0] + admitted[1], admitted[2]);
    assert_eq!(model.remaining(0), 3 - both);
    assert_eq!(model.remaining(1), 3 - both - alone);
    assert_eq!(both + alone, 3, "six asked for three");
}

#[test]
fn checks_of_several_subjects_are_all_or_nothing() {
    shuttle::check_random(|| all_or_nothing(true), 3_000);
    shuttle::check_pct(|| all_or_nothing(true), 2_000, 3);
}

/// The model can fail: locks in the order of the subjects wait for each other.
#[test]
#[should_panic(expected = "deadlock")]
fn unsorted_locks_are_found() {
    shuttle::check_random(|| all_or_nothing(false), 3_000);
}

/// Two threads refund one receipt while another checks: given back once, and to both subjects.
#[test]
fn a_refund_happens_once_in_every_order() {
    shuttle::check_random(
        || {
            let model = Model::new("2/1h via fixed_window");
            let receipt = model.check(&[0, 1]).unwrap();
            assert!(model.check(&[1, 0]).is_some());
            let refunds: Vec<_> = (0..2)
                .map(|_| {
                    let (model, receipt) = (Arc::clone(&model), receipt.clone());
                    thread::spawn(move || model.refund(&receipt))
                })
                .collect();
            let other = {
                let model = Arc::clone(&model);
                thread::spawn(move || u64::from(model.check(&[0, 1]).is_some()))
            };
            let given: u64 = refunds.into_iter().map(|refund| refund.join().unwrap()).sum();
            let more = other.join().unwrap();
            assert_eq!(given, 1);
            assert_eq!((model.remaining(0), model.remaining(1)), (1 - more, 1 - more));
        },
        3_000,
    );
}

/// A hundred asks on a limit of five, over four threads.
#[test]
fn five_of_a_hundred() {
    shuttle::check_random(
        || {
            let model = Model::new("5/1h via sliding_log");
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let model = Arc::clone(&model);
                    thread::spawn(move || (0..25).filter(|_| model.check(&[0]).is_some()).count())
                })
                .collect();
            let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(admitted, 5);
        },
        200,
    );
}
