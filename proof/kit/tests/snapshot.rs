//! A memory store that is saved and restored all the time behaves as any other: against the
//! conformance kit, and beside one that goes on.
#![allow(clippy::unwrap_used)] // tests may unwrap

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::operation::Operation;
use tollgate::{
    Ask, Decision, Facts, Keeps, LimitSet, Limiter, ManualClock, MemoryStore, MemoryStoreBuilder,
    Patience, Receipt, SKEW_US, Store, StoreError, Time,
};
use tollgate_proof::conformance::{self, block_on};

/// A store after a restart.
fn restarted(store: &MemoryStore, builder: MemoryStoreBuilder) -> MemoryStore {
    let mut file = Vec::new();
    let saved = store.save(&mut file).unwrap();
    let (restored, read) = builder.restore(&file[..]).unwrap();
    assert_eq!((saved.bytes, read.bytes), (file.len() as u64, file.len() as u64));
    assert_eq!(saved.subjects, read.subjects + read.expired);
    assert_eq!((saved.shared, saved.at), (read.shared, read.saved_at));
    assert!(read.receipts);
    assert!(restored.bytes() <= store.bytes(), "{} of {}", restored.bytes(), store.bytes());
    restored
}

/// A store that begins after this many questions with a restart, until it is asked under a request
/// id or somebody waits in line: a snapshot has neither (definitions, sections 2 and 11).
struct Restarting {
    store: Mutex<(MemoryStore, u32)>,
    builder: MemoryStoreBuilder,
    every: u32,
}

impl Restarting {
    fn new(builder: MemoryStoreBuilder, every: u32) -> Self {
        Self { store: Mutex::new((builder.clone().build(), 0)), builder, every }
    }

    /// The store, locked: a charge between saving and restoring would be lost.
    fn store(&self) -> MutexGuard<'_, (MemoryStore, u32)> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store, which restarts no more.
    fn last(&self) -> MutexGuard<'_, (MemoryStore, u32)> {
        let mut held = self.store();
        held.1 = u32::MAX;
        held
    }

    fn next(&self) -> MutexGuard<'_, (MemoryStore, u32)> {
        let mut held = self.store();
        held.1 = held.1.saturating_add(1);
        if held.1 != u32::MAX && held.1.is_multiple_of(self.every) {
            held.0 = restarted(&held.0, self.builder.clone());
        }
        held
    }

    /// The store for an operation. State that a snapshot leaves out would be lost.
    fn for_next(&self, operation: &impl Operation) -> MutexGuard<'_, (MemoryStore, u32)> {
        let is_left_out = operation.question().is_some_and(|question| {
            let is_in_line = question.hold.is_some_and(|it| it.patience == Patience::InLine);
            question.request.is_some() || is_in_line
        });
        if is_left_out { self.last() } else { self.next() }
    }
}

impl Store for Restarting {
    const KEEPS: Keeps = Keeps::ALL;

    fn identity(&self) -> u64 {
        self.store().0.identity()
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        self.store().0.issued(receipt)
    }

    fn facts(&self) -> Facts {
        self.store().0.facts().answering_at_once(false)
    }

    fn will_wait(&self, _: Duration) {}

    async fn perform<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        block_on(self.for_next(operation).0.perform(operation))
    }

    fn perform_now<O: Operation>(&self, operation: &O) -> Option<Result<O::Answer, StoreError>> {
        self.for_next(operation).0.perform_now(operation)
    }
}

/// As often as it can be: between any two questions.
fn make(clock: ManualClock) -> Restarting {
    Restarting::new(MemoryStore::builder().clock(clock), 1)
}

tollgate_proof::conformance_tests!(make);

#[test]
fn the_other_hash_is_restored_as_well() {
    conformance::run(|clock: ManualClock| {
        Restarting::new(MemoryStore::builder().sip_hash().clock(clock), 5)
    });
}

/// After a restart a repeated request is charged again, and the receipt of its first answer is
/// still valid.
#[test]
fn a_snapshot_has_no_request_ids() {
    let builder = MemoryStore::builder();
    let limits: LimitSet = "9/1h via gcra".parse().unwrap();
    let ask = || Ask::new("ann").request("a request of ann");
    let before = Limiter::new(limits.clone(), builder.clone().build());
    let first = before.check(ask()).now().unwrap().into_owned();
    assert!(before.check(ask()).now().unwrap().is_repeated());
    let after = Limiter::new(limits, restarted(before.store(), builder));
    let again = after.check(ask()).now().unwrap();
    assert_eq!((again.is_repeated(), again.remaining()), (false, 7));
    assert!(after.check(ask()).now().unwrap().is_repeated());
    let given = block_on(after.refund(&first.receipt().unwrap())).unwrap();
    assert_eq!((given.already, given.left), (false, 0.into()));
    assert_eq!(after.check(Ask::new("ann").peek()).now().unwrap().remaining(), 8);
}

/// Failures are printed with their input; they are not written into the tree.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// Every strategy and option, alone and with others; each in three revisions of its numbers.
const LIMITS: [[&str; 3]; 10] = [
    ["a: 3/2s via uniform", "a: 1/2s via uniform", "a: 5/9s via uniform"],
    ["a: 3/2s via gcra", "a: 7/9s burst 4 via gcra", "a: 2/1s burst 5 via gcra"],
    ["a: 4/3s via token_bucket", "a: 4/3s burst 2 via token_bucket", "a: 9/7s via token_bucket"],
    [
        "a: 3/2s burst 5 refill interval via token_bucket",
        "a: 2/2s burst 3 refill interval via token_bucket",
        "a: 3/4s burst 5 via token_bucket",
    ],
    ["a: 3/2s via fixed_window", "a: 5/2s via fixed_window", "a: 3/3s via fixed_window"],
    [
        "a: 3/2s anchor first-hit via fixed_window",
        "a: 6/5s anchor first-hit via fixed_window",
        "a: 3/2s via fixed_window",
    ],
    ["a: 4/2s via sliding_log", "a: 2/2s via sliding_log", "a: 6/5s via sliding_log"],
    [
        "a: 5/2s precision 500ms via sliding_window",
        "a: 5/2s precision 1s rounding interpolate via sliding_window",
        "a: 9/6s precision 3s rounding truncate via sliding_window",
    ],
    [
        "a: 3/2s via sliding_log, b: 7/9s via gcra, c: 8/10s via fixed_window",
        "b: 5/9s via gcra, a: 3/2s via sliding_log, c: 8/10s via fixed_window",
        "a: 2/2s via sliding_log, b: 7/9s via gcra, c: 6/10s via sliding_log",
    ],
    [
        "a: 4/3s via sliding_log, b: 6/7s via sliding_log",
        "a: 4/5s via sliding_log, b: 6/7s via sliding_log",
        "a: 3/2s via gcra, b: 6/7s via sliding_log",
    ],
];

/// A pause in microseconds.
fn gap() -> impl Strategy<Value = u64> {
    prop_oneof![0..2_000_000_u64, Just(0), Just(1), Just(SKEW_US), Just(3_000_000)]
}

/// Two stores on one clock: one goes on, the other is restarted.
struct Beside {
    clock: ManualClock,
    on: Limiter<MemoryStore>,
    cut: Limiter<MemoryStore>,
    receipts: Vec<(Receipt, Receipt)>,
    /// The latest time of a reset.
    reset_at: Time,
}

/// Everything that a decision says.
fn all_of(decision: &Decision<'_>) -> String {
    let reports = decision.reports().map(|report| {
        let (subject, limit, carried) = (report.subject(), report.limit(), report.carried());
        let (retry, reset) = (report.retry_after(), report.reset_after());
        format!("{subject} {limit} {} {retry:?} {reset:?} {carried:?}", report.remaining())
    });
    let (verdict, granted, at) = (decision.verdict(), decision.granted(), decision.at());
    let charged = decision.receipt().map(|receipt| {
        receipt.charges.iter().map(|charges| charges.at_us.to_vec()).collect::<Vec<_>>()
    });
    let reports: Vec<String> = reports.collect();
    format!("{verdict:?} {granted} {at:?} {} {charged:?} {reports:?}", decision.binding().limit())
}

impl Beside {
    fn new(limits: &str, now_us: u64) -> Self {
        let clock = ManualClock::at_micros(now_us);
        let limiter = || {
            let store = MemoryStore::builder().clock(clock.clone()).build();
            Limiter::new(limits.parse().unwrap(), store)
        };
        Self {
            on: limiter(),
            cut: limiter(),
            clock,
            receipts: Vec::new(),
            reset_at: Time::default(),
        }
    }

    /// Whether what has expired is still there is chance in either store, which matters when a
    /// clock goes back or numbers change, unless both have looked.
    fn sweep(&self) {
        self.on.store().sweep();
        self.cut.store().sweep();
    }

    fn restart(&mut self) {
        let store = restarted(self.cut.store(), MemoryStore::builder().clock(self.clock.clone()));
        self.cut = Limiter::new(self.cut.limits().clone(), store);
    }

    /// Both answers to the same question.
    fn ask(&mut self, kind: u8, cost: u64, subject: &str, limits: &LimitSet, all: &LimitSet) {
        let ask = || match kind {
            0..=2 => Ask::from([(subject, limits), ("everybody", all)]).cost(cost),
            3 => Ask::new(subject).under(limits).cost(cost).partial(),
            _ => Ask::new(subject).under(limits).cost(cost),
        };
        let peek = || Ask::new(subject).under(limits).cost(cost);
        let (on, cut) = (&self.on, &self.cut);
        match kind {
            0..=9 => {
                let (a, b) = (on.check(ask()).now().unwrap(), cut.check(ask()).now().unwrap());
                assert_eq!(all_of(&a), all_of(&b));
                // A subject's own shard knows which of two charges came before a reset. A charge
                // that another shard numbered is ordered by its time, and it is chance which shard
                // numbers a charge of several subjects.
                if kind > 2 || a.at() > self.reset_at {
                    self.receipts.extend(a.receipt().zip(b.receipt()));
                }
            }
            10 => {
                let (a, b) = (
                    on.check(peek().peek()).now().unwrap(),
                    cut.check(peek().peek()).now().unwrap(),
                );
                assert_eq!(all_of(&a), all_of(&b));
            }
            11 | 12 if !self.receipts.is_empty() => {
                let pick = usize::try_from(cost).unwrap() % self.receipts.len();
                let (a, b) = self.receipts[pick].clone();
                let units = if kind == 11 { 1 } else { a.units() };
                let (a, b) = (on.refund(a.part(units)).now(), cut.refund(b.part(units)).now());
                assert_eq!(a.unwrap(), b.unwrap());
            }
            13 => {
                let delta = if cost.is_multiple_of(2) { 2 } else { -2 };
                let a = block_on(on.admin().adjust(peek(), delta)).unwrap();
                assert_eq!(a, block_on(cut.admin().adjust(peek(), delta)).unwrap());
            }
            14 => {
                let (a, b) =
                    (block_on(on.admin().reset(peek())), block_on(cut.admin().reset(peek())));
                assert_eq!(a.unwrap(), b.unwrap());
                let now = self.on.store().now();
                self.reset_at = self.reset_at.max(now);
                // A reset under a clock that stepped back is forgotten before a charge from ahead
                // of it is; how soon depends on who shares the subject's shard. Where it is
                // forgotten the refund gives nothing either, but repairs a state in the future.
                self.receipts
                    .retain(|(receipt, _)| receipt.charges.len() == 1 && receipt.at <= now);
            }
            _ => {
                let (a, b) =
                    (block_on(on.admin().inspect(peek())), block_on(cut.admin().inspect(peek())));
                assert_eq!(a.unwrap(), b.unwrap());
            }
        }
    }
}

proptest! {
    #![proptest_config(config(400))]

    /// A history that is cut anywhere, as often as may be, is answered as without the cuts: in
    /// every field of every decision, refund and inspection. Limits change on the way, and clocks
    /// step back, also while the store is away.
    #[test]
    fn a_restart_changes_no_answer(
        limits in prop::sample::select(&LIMITS[..]),
        policy in any::<bool>(),
        steps in prop::collection::vec(
            (0..4_u8, 0..16_u8, gap(), 1..5_u64, 0..3_usize, 0..12_u8),
            1..80,
        ),
    ) {
        let revisions = limits.map(|text| text.parse::<LimitSet>().unwrap());
        let revisions = revisions.map(|set| {
            if policy { set.in_policy("api").unwrap() } else { set }
        });
        let everybody: LimitSet = "9/3s via sliding_log".parse().unwrap();
        let mut now_us = 40_000_000_000;
        let mut beside = Beside::new("1/s via gcra", now_us);
        let mut revision = 0;
        for (subject, kind, gap_us, cost, next, moment) in steps {
            beside.sweep();
            if moment == 0 {
                revision = next;
            }
            let cut = moment % 3 == 1;
            let file = cut.then(|| {
                let mut file = Vec::new();
                beside.cut.store().save(&mut file).unwrap();
                file
            });
            now_us = match moment {
                1 | 2 => now_us - gap_us.min(SKEW_US),
                4 | 5 => now_us - gap_us * 3,
                _ => now_us + gap_us,
            };
            beside.clock.set(Time::from_micros(now_us));
            if let Some(file) = file {
                let builder = MemoryStore::builder().clock(beside.clock.clone());
                let (store, _) = builder.restore(&file[..]).unwrap();
                beside.cut = Limiter::new(beside.cut.limits().clone(), store);
            }
            if moment == 11 {
                beside.restart();
            }
            beside.sweep();
            let subject = ["ann", "bob", "a-subject-of-more-than-sixteen-bytes", "b:1"]
                [usize::from(subject)];
            beside.ask(kind, cost, subject, &revisions[revision], &everybody);
        }
        prop_assert_eq!(beside.on.store().subjects(), beside.cut.store().subjects());
    }
}
