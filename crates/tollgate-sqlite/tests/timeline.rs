//! Random operations: the SQLite store answers as the memory store does, in every field.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a test that cannot go on has failed

use std::sync::Mutex;
use std::time::Duration;

use futures_executor::block_on;
use proptest::prelude::*;
use tollgate::engine::{self, Outcome};
use tollgate::operation::{self, Adjust, Inspect, Operation, Reset};
use tollgate::{
    Around, Ask, Carried, Counted, Inspection, LimitSet, Limiter, ManualClock, MemoryStore,
    Receipt, SKEW_US, Store, StoreError, Subject, Time,
};
use tollgate_sqlite::{Options, SqliteStore};

/// Sets under which operations alternate: those of one row are the same counts under other
/// numbers.
const FAMILIES: &[&[&str]] = &[
    &["a: 5/10s via gcra", "a: 3/10s burst 7 via gcra", "a: 4/5s via sliding_log"],
    &["l: 5/10s via sliding_log", "l: 9/10s via sliding_log", "l: 3/4s via sliding_log"],
    &[
        "x: 4/3s via sliding_log, y: 6/7s via fixed_window",
        "x: 6/3s via sliding_log, y: 6/7s via sliding_log",
        "x: 5/3s via fixed_window, y: 9/7s via sliding_log",
    ],
    &[
        "w: 10/10s precision 1s via sliding_window",
        "w: 8/10s precision 2s rounding interpolate via sliding_window",
        "w: 6/10s anchor first-hit via fixed_window",
    ],
    &["b: 5/4s refill interval via token_bucket", "b: 5/4s burst 9 via token_bucket"],
    &["u: 1/2s via uniform, g: 20/m via gcra, s: 30/h via sliding_log"],
];

#[derive(Clone, Debug)]
enum Op {
    Check { who: usize, family: usize, cost: u64, mode: usize },
    Several { family: usize, cost: u64 },
    Refund { which: usize, units: u64 },
    Adjust { who: usize, family: usize, delta: i64 },
    Reset { who: usize, family: usize },
    Numbers { family: usize },
    Forward { us: u64 },
    Back { us: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let (who, family) = (0..2_usize, 0..FAMILIES.len());
    let us = prop_oneof![1..50_u64, 1..3_000_000_u64, Just(1_000_000), 1..20_000_000_u64];
    prop_oneof![
        12 => (who.clone(), family.clone(), 1..7_u64, 0..4_usize)
            .prop_map(|(who, family, cost, mode)| Op::Check { who, family, cost, mode }),
        3 => (family.clone(), 1..4_u64).prop_map(|(family, cost)| Op::Several { family, cost }),
        4 => (0..8_usize, 1..7_u64).prop_map(|(which, units)| Op::Refund { which, units }),
        2 => (who.clone(), family.clone(), -5..6_i64)
            .prop_map(|(who, family, delta)| Op::Adjust { who, family, delta }),
        1 => (who, family.clone()).prop_map(|(who, family)| Op::Reset { who, family }),
        2 => family.prop_map(|family| Op::Numbers { family }),
        6 => us.clone().prop_map(|us| Op::Forward { us }),
        2 => us.prop_map(|us| Op::Back { us }),
    ]
}

/// A store that remembers its last outcome: a receipt comes only from a limiter's decision.
struct Tap<S>(S, Mutex<Option<Outcome>>);

impl<S> Tap<S> {
    fn last(&self) -> Outcome {
        self.1.lock().expect("unpoisoned").take().expect("a check before")
    }
}

impl<S: Store> Around for Tap<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.0
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        let answer = self.0.perform(operation).await?;
        if let Some(outcome) = O::outcome(&answer) {
            *self.1.lock().expect("unpoisoned") = Some(outcome.clone());
        }
        Ok(answer)
    }
}

/// Asks through a limiter, and answers the outcome and the receipt.
fn ask<'a, S: Store>(
    limiter: &'a Limiter<Tap<S>>,
    ask: Ask<'a>,
    peek: bool,
) -> (Outcome, Option<Receipt>) {
    let asked =
        async { if peek { limiter.check(ask.peek()).await } else { limiter.check(ask).await } };
    let receipt = block_on(asked).expect("a decision").receipt();
    (limiter.store().last(), receipt)
}

/// The receipts of one check.
struct Receipts {
    mine: Receipt,
    theirs: Receipt,
    /// Its count was reset since.
    reset: bool,
    /// It was given back, or no part of it.
    given: bool,
}

/// A file and memory at the same time, by the same clock.
struct Twins {
    clock: ManualClock,
    memory: MemoryStore,
    /// The same file, opened twice: each sees what the other does.
    files: [SqliteStore; 2],
    by_memory: Limiter<Tap<MemoryStore>>,
    by_file: [Limiter<Tap<SqliteStore>>; 2],
    families: Vec<Vec<LimitSet>>,
    turn: Vec<usize>,
    receipts: Vec<Receipts>,
    /// Counts that were reset, and when.
    resets: Vec<(Subject, String, u64)>,
    /// Both stores drop what has expired before each operation. Otherwise each does so when it
    /// likes, and then a large step back, a reset and carried-over units may differ (section 3 of
    /// the definitions allows it): those are not compared.
    sweeps: bool,
    latest: u64,
    ops: usize,
    _dir: tempfile::TempDir,
}

impl Twins {
    fn new(sweeps: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let start_us = 1_700_000_000_000_000;
        let clock = ManualClock::at_micros(start_us);
        let open = || {
            let options = Options::new(dir.path().join("twin.db")).clock(clock.clone());
            SqliteStore::open_with(options).expect("a new file")
        };
        let parse = |text: &&str| text.parse().expect("a limit set");
        let families: Vec<Vec<LimitSet>> =
            FAMILIES.iter().map(|family| family.iter().map(parse).collect()).collect();
        let memory = MemoryStore::builder().clock(clock.clone()).build();
        let files = [open(), open()];
        let unused: LimitSet = "1/s".parse().expect("a limit set");
        let by_file =
            files.clone().map(|file| Limiter::new(unused.clone(), Tap(file, Mutex::default())));
        Self {
            by_memory: Limiter::new(unused, Tap(memory.clone(), Mutex::default())),
            by_file,
            memory,
            files,
            clock: clock.clone(),
            turn: vec![0; families.len()],
            families,
            receipts: Vec::new(),
            resets: Vec::new(),
            sweeps,
            latest: start_us,
            ops: 0,
            _dir: dir,
        }
    }

    fn limits(&self, family: usize) -> LimitSet {
        let members = &self.families[family];
        members[self.turn[family] % members.len()].clone()
    }

    fn store(&self) -> &SqliteStore {
        &self.files[self.which()]
    }

    fn which(&self) -> usize {
        usize::from(self.ops.is_multiple_of(3))
    }

    fn run(&mut self, op: &Op) {
        self.ops += 1;
        if self.sweeps {
            self.memory.sweep();
            self.store().sweep().expect("swept");
        }
        match *op {
            Op::Check { who, family, cost, mode } => {
                self.ask(&[(who, family)], cost, mode);
            }
            Op::Several { family, cost } => {
                let next = (family + 1) % self.families.len();
                self.ask(&[(0, family), (1, family), (0, next)], cost, 0);
            }
            Op::Refund { which, units } => {
                self.refund(which, units);
            }
            Op::Adjust { delta: 0, .. } => {}
            Op::Adjust { who, family, delta } => {
                let (subject, limits) = (subject(who), self.limits(family));
                let counted = Counted::new(&subject, &limits);
                let changes = self.store().adjust_now(counted, &delta.into()).expect("adjusted");
                assert_eq!(
                    changes,
                    block_on(self.memory.perform(&Adjust::new(counted, &delta.into())))
                        .expect("adjusted")
                );
            }
            Op::Reset { who, family } => {
                let (subject, limits) = (subject(who), self.limits(family));
                let counted = Counted::new(&subject, &limits);
                self.forget_receipts(&subject, &limits);
                let reset = self.store().reset_now(counted).expect("reset");
                let other = block_on(self.memory.perform(&Reset::new(counted))).expect("reset");
                assert!(reset == other || !self.sweeps, "{reset} {other}");
            }
            // Events that a shorter window no longer counts, a longer one may: whether they are
            // still held is for each store to say.
            Op::Numbers { family: 1 } if !self.sweeps => {}
            Op::Numbers { family } => self.turn[family] += 1,
            Op::Forward { us } => self.clock.advance(Duration::from_micros(us)),
            Op::Back { us } => {
                let least = if self.sweeps { 0 } else { self.latest - SKEW_US };
                let now_us = self.clock_us().saturating_sub(us).max(least);
                self.clock.set(Time::from_micros(now_us));
            }
        }
        self.latest = self.latest.max(self.clock_us());
        self.compare_states();
    }

    fn clock_us(&self) -> u64 {
        self.memory.now().as_micros()
    }

    fn ask(&mut self, who: &[(usize, usize)], cost: u64, mode: usize) {
        let parts: Vec<(Subject, LimitSet)> =
            who.iter().map(|(who, family)| (subject(*who), self.limits(*family))).collect();
        let asked = || {
            let pairs: Vec<(Subject, &LimitSet)> =
                parts.iter().map(|(subject, limits)| (subject.clone(), limits)).collect();
            let asked = Ask::from(pairs).cost(cost);
            if mode % 2 == 1 { asked.partial() } else { asked }
        };
        let peek = mode >= 2;
        let (mut mine, my_receipt) = ask(&self.by_file[self.which()], asked(), peek);
        let (mut theirs, their_receipt) = ask(&self.by_memory, asked(), peek);
        assert_eq!(mine.receipt == 0, theirs.receipt == 0);
        (mine.receipt, theirs.receipt) = (0, 0);
        if !self.sweeps {
            for fields in mine.fields.iter_mut().chain(&mut theirs.fields) {
                fields.carried = Carried::Same;
            }
            // A denial keeps what was carried over: that of nothing too.
            (mine.changed, theirs.changed) = (mine.granted > 0, theirs.granted > 0);
        }
        if let (Some(mine), Some(theirs)) = (my_receipt, their_receipt) {
            let unused = self.receipts.iter().all(|other| other.mine.number != mine.number);
            assert!(unused, "{} was given out twice", mine.number);
            // Whether one of several counts was reset before its charge, memory tells by times.
            let several = mine.charges.len() > 1;
            let unclear = self.resets.iter().any(|(subject, identity, reset_us)| {
                let mut charges = mine.charges.iter();
                charges.any(|c| {
                    c.subject == *subject
                        && c.limits.identity() == identity
                        && c.at_us.iter().any(|at_us| at_us <= reset_us)
                })
            });
            if !(several && unclear) {
                self.receipts.push(Receipts { mine, theirs, reset: false, given: false });
            }
        }
        assert_eq!(mine, theirs, "cost {cost}, mode {mode}, of {parts:?}");
    }

    fn refund(&mut self, which: usize, units: u64) {
        let Some(index) = self.receipts.len().checked_sub(which + 1) else { return };
        let Receipts { mine, theirs, reset, given } = &self.receipts[index];
        // A second after it counts no more, each knows of a reset or a refund as long as it likes.
        // Both forget refunds immediately where both sweep; memory may know of a reset for longer.
        let may_be_forgotten = engine::receipt_until_us(mine) + SKEW_US <= self.latest;
        if *reset && may_be_forgotten && self.sweeps {
            return;
        }
        let refund = self.store().refund_now(mine, units.into()).expect("refunded");
        let other = block_on(self.memory.perform(&operation::Refund::new(theirs, units.into())))
            .expect("refunded");
        if *given && may_be_forgotten && !self.sweeps {
            assert_eq!(refund.given, other.given, "{mine:?}");
        } else {
            assert_eq!(refund, other, "{mine:?}");
        }
        self.receipts[index].given = true;
    }

    /// Before a reset of a count: both stores know of its receipts that they were before, except
    /// where memory can only compare times (charges of several counts).
    fn forget_receipts(&mut self, subject: &Subject, limits: &LimitSet) {
        self.resets.push((subject.clone(), limits.identity().to_owned(), self.clock_us()));
        let of_it = |receipt: &Receipt| {
            let mut charges = receipt.charges.iter();
            charges.any(|c| c.subject == *subject && c.limits.identity() == limits.identity())
        };
        self.receipts.retain(|receipts| !of_it(&receipts.mine) || receipts.mine.charges.len() == 1);
        for receipts in &mut self.receipts {
            receipts.reset |= of_it(&receipts.mine);
        }
    }

    /// The contents of both are the same, except for expired entries.
    fn compare_states(&self) {
        let now_us = self.clock_us();
        let counts = |found: Option<Inspection>| {
            found.filter(|held| held.fresh_at.as_micros() + SKEW_US > now_us.max(self.latest))
        };
        for (who, family) in (0..2).flat_map(|who| (0..FAMILIES.len()).map(move |f| (who, f))) {
            let (subject, limits) = (subject(who), self.limits(family));
            let counted = Counted::new(&subject, &limits);
            let mine = counts(self.store().inspect_now(counted).expect("inspected"));
            let theirs =
                counts(block_on(self.memory.perform(&Inspect::new(counted))).expect("inspected"));
            assert_eq!(mine, theirs, "{subject} under {limits}");
        }
    }
}

fn subject(who: usize) -> Subject {
    Subject::new("user", ["ann", "bob"][who]).expect("a subject")
}

fn run(ops: &[Op], sweeps: bool) {
    let mut twins = Twins::new(sweeps);
    for op in ops {
        twins.run(op);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_file_answers_as_memory_does(ops in proptest::collection::vec(op(), 1..80)) {
        run(&ops, false);
    }

    #[test]
    fn also_after_large_steps_back_when_both_forget_at_once(
        ops in proptest::collection::vec(op(), 1..80),
    ) {
        run(&ops, true);
    }
}
