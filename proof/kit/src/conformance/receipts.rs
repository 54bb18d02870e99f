//! Cases: a receipt counts once, even when its limit's numbers change (definitions, section 4).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use core::time::Duration;

use tollgate::{Ask, LimitSet, Receipt};

use super::StoreMaker;
use super::world::{World, block_on, set};
use crate::Random;

const NOW_US: u64 = 100_000_000;

const S: u64 = 1_000_000;

/// A limit, and the same much slower.
const SLOWED: [[&str; 2]; 6] = [
    ["a: 10/2s via fixed_window", "a: 10/1h via fixed_window"],
    ["a: 10/2s anchor first-hit via fixed_window", "a: 10/1h anchor first-hit via fixed_window"],
    ["a: 10/2s via token_bucket", "a: 10/1h via token_bucket"],
    ["a: 10/2s via gcra", "a: 10/1h via gcra"],
    ["a: 10/2s refill interval via token_bucket", "a: 10/1h refill interval via token_bucket"],
    ["a: 10/2s precision 1s via sliding_window", "a: 10/1h precision 1m via sliding_window"],
];

/// A charge that was given back, or forgotten by a reset, under a short limit is not given back
/// again under a long one, when the one that had to remember it may have forgotten.
pub(super) fn a_receipt_counts_once_after_its_limit_was_slowed<M: StoreMaker>(maker: &M) {
    for [was, is] in SLOWED {
        for by_reset in [false, true] {
            let world = World::new(maker, was, NOW_US);
            let slow = set(is);
            let receipt = world.check(Ask::new("ann").cost(5)).receipt().expect("admitted");
            assert!(world.check(Ask::new("ann").cost(5)).is_allowed(), "{was}");
            if by_reset {
                assert!(world.reset("ann"), "{was}");
            } else {
                assert_eq!(world.refund(&receipt).given, [5], "{was}");
            }
            assert!(world.check(Ask::new("ann").cost(5).under(&slow)).is_allowed(), "{is}");
            world.at(NOW_US + 5 * S);
            for other in 0..200 {
                assert!(world.check(Ask::new(format!("other:{other}")).under(&slow)).is_allowed());
            }
            let before = world.peek(Ask::new("ann").under(&slow)).remaining();
            assert_eq!(world.refund(&receipt).given, [0], "{was} -> {is}, by a reset: {by_reset}");
            let after = world.peek(Ask::new("ann").under(&slow)).remaining();
            assert_eq!(after, before, "{was} -> {is}, by a reset: {by_reset}");
        }
    }
}

/// The events between a charge and the reset that forgets it.
#[derive(Clone, Copy, Debug)]
enum Between {
    /// Another reset, after which shorter numbers count and are reset in turn.
    ResetBefore,
    /// Shorter numbers count.
    Shorter,
    /// All was given back by hand; then shorter numbers count.
    Adjusted,
    /// Another strategy counts under the name.
    OtherStrategy,
}

/// A charge under a long limit, then a reset under a short one: whatever else is forgotten
/// meanwhile, the receipt gives nothing when the limit is long again.
pub(super) fn no_receipt_outlives_a_reset<M: StoreMaker>(maker: &M) {
    use Between::{Adjusted, OtherStrategy, ResetBefore, Shorter};
    for [short, long] in SLOWED {
        for between in [ResetBefore, Shorter, Adjusted, OtherStrategy] {
            let world = World::new(maker, long, NOW_US);
            let what = format!("{long}, {between:?}, {short}");
            let receipt = world.check(Ask::new("ann").cost(5)).receipt().expect("admitted");
            match between {
                ResetBefore => assert!(world.reset("ann"), "{what}"),
                Adjusted => assert_eq!(world.adjust("ann", 5), [5], "{what}"),
                Shorter | OtherStrategy => {}
            }
            let short = match between {
                OtherStrategy => set("a: 10/2s via sliding_log"),
                _ => set(short),
            };
            assert!(world.check(Ask::new("ann").under(&short)).is_allowed(), "{what}");
            assert!(world.reset(Ask::new("ann").under(&short)), "{what}");
            for second in 1..=6 {
                world.at(NOW_US + second * S);
                for other in 0..30 {
                    let other = format!("other:{other}");
                    assert!(world.check(Ask::new(&*other).under(&short)).is_allowed());
                    assert!(world.reset(Ask::new(&*other).under(&short)));
                }
                maker.forget(world.limiter.store());
            }
            assert!(world.check(Ask::new("ann").cost(10)).is_allowed(), "{what}");
            assert_eq!(world.refund(&receipt).given, [0], "{what}");
            assert_eq!(world.peek("ann").remaining(), 0, "{what}");
        }
    }
}

/// A charge, and then another strategy that counts under the name, and nothing yet: a reset finds
/// no count to delete, and is remembered all the same.
pub(super) fn a_reset_is_remembered_where_the_count_went_before_it<M: StoreMaker>(maker: &M) {
    let other = set("a: 10/1d via sliding_log");
    for [_, limits] in SLOWED {
        let world = World::new(maker, limits, NOW_US);
        let receipt = world.check(Ask::new("ann").cost(5)).receipt().expect("admitted");
        let hold = world.limiter.hold(Ask::new("ann").reserve(Duration::from_secs(2)));
        assert!(block_on(hold).unwrap().hold.is_some(), "{limits}");
        // The denial ends the hold, writes that the count starts fresh, and nothing is left.
        world.at(NOW_US + 4 * S);
        assert!(!world.check(Ask::new("ann").cost(11).under(&other)).is_allowed(), "{limits}");
        maker.forget(world.limiter.store());
        world.reset(Ask::new("ann").under(&other));
        assert!(world.check(Ask::new("ann").cost(10)).is_allowed(), "{limits}");
        assert_eq!(world.refund(&receipt).given, [0], "{limits}");
        assert_eq!(world.peek("ann").remaining(), 0, "{limits}");
    }
}

/// A refund that a store may have forgotten: the charge counts no more. After a step back to when
/// it did, the receipt is like one that was never refunded, and gives what counts at its time.
pub(super) fn a_spent_receipt_is_forgotten_only_by_a_step_back_beyond_it<M: StoreMaker>(maker: &M) {
    let limit = "10/4s precision 1s via sliding_window";
    for within_skew in [true, false] {
        let world = World::new(maker, limit, NOW_US);
        let receipt = world.check(Ask::new("ann").cost(5)).receipt().expect("admitted");
        world.at(NOW_US + 6 * S);
        let refund = world.refund(&receipt);
        assert_eq!((refund.already, &refund.given[..]), (false, &[0][..]));
        if within_skew {
            world.at(NOW_US + 7 * S - 1_000);
            maker.forget(world.limiter.store());
            world.at(NOW_US + 6 * S);
            assert!(world.refund(&receipt).already);
            continue;
        }
        world.at(NOW_US + 7 * S + 2_000);
        maker.forget(world.limiter.store());
        assert!(world.check(Ask::new("ann").cost(7)).is_allowed());
        assert_eq!(world.refund(&receipt).given, [0]);
        world.at(NOW_US + 9 * S);
        maker.forget(world.limiter.store());
        world.at(NOW_US);
        // The later charge is placed where the earlier one was.
        assert!(!world.check(Ask::new("ann").cost(4)).is_allowed());
        let refund = world.refund(&receipt);
        let left = world.peek("ann").remaining();
        if refund.already {
            assert_eq!((&refund.given[..], left), (&[0][..], 3));
        } else {
            assert_eq!((&refund.given[..], left), (&[5][..], 8));
        }
        // Once.
        assert!(world.refund(&receipt).already);
        assert_eq!(world.peek("ann").remaining(), left);
    }
}

/// Units leave a count that is above its lowered limit, and `remaining` does not rise.
pub(super) fn given_is_by_how_much_remaining_rose<M: StoreMaker>(maker: &M) {
    for via in [
        "via sliding_log",
        "via fixed_window",
        "anchor first-hit via fixed_window",
        "precision 10m via sliding_window",
    ] {
        let world = World::new(maker, &format!("a: 6/1h {via}"), NOW_US);
        let lower = set(&format!("a: 2/1h {via}"));
        let mut receipts = Vec::new();
        for (at_us, cost) in [(NOW_US, 3), (NOW_US + 1, 2), (NOW_US + 2, 1)] {
            world.at(at_us);
            receipts.extend(world.check(Ask::new("ann").cost(cost)).receipt());
        }
        assert!(!world.check(Ask::new("ann").under(&lower)).is_allowed(), "{via}");
        let remaining = || world.peek(Ask::new("ann").under(&lower)).remaining();
        // 6 of 2, then 3 of 2, then 1 of 2, then none.
        for (receipt, given, left) in [(0, 0, 0), (1, 1, 1), (2, 1, 2)] {
            assert_eq!(world.refund(&receipts[receipt]).given, [given], "{via}, {receipt}");
            assert_eq!(remaining(), left, "{via}, {receipt}");
        }
    }
}

/// Numbers of one limit, from short to long.
const NUMBERS: [[&str; 3]; 7] = [
    ["a: 6/1s via fixed_window", "a: 9/7s via fixed_window", "a: 4/1m via fixed_window"],
    [
        "a: 6/1s anchor first-hit via fixed_window",
        "a: 9/7s via fixed_window",
        "a: 4/1m anchor first-hit via fixed_window",
    ],
    ["a: 6/1s via gcra", "a: 9/7s burst 4 via gcra", "a: 4/1m via gcra"],
    ["a: 6/1s via token_bucket", "a: 9/7s burst 4 via token_bucket", "a: 4/1m via token_bucket"],
    [
        "a: 6/1s refill interval via token_bucket",
        "a: 9/7s via token_bucket",
        "a: 4/1m refill interval via token_bucket",
    ],
    ["a: 6/1s via sliding_log", "a: 9/7s via sliding_log", "a: 4/1m via sliding_log"],
    [
        "a: 6/1s precision 500ms via sliding_window",
        "a: 9/7s precision 1s rounding interpolate via sliding_window",
        "a: 4/1m precision 10s via sliding_window",
    ],
];

/// The units of a charge that may be given back, and those that were.
struct Charged {
    receipt: Receipt,
    /// The place of its numbers.
    under: usize,
    left: u64,
    /// It was made before a reset.
    forgotten: bool,
}

const HISTORIES: u64 = 30;
const OPERATIONS: usize = 80;

/// Charges, refunds and second refunds, resets and adjustments while the numbers change, with
/// others that come in between, so that a store sweeps: no receipt gives back more than its cost
/// in all, and none gives anything that a reset has forgotten.
pub(super) fn a_receipt_counts_once_in_any_history_of_changes<M: StoreMaker>(maker: &M) {
    let (mut given, mut again) = (0, 0);
    for numbers in NUMBERS {
        for seed in super::some(maker, HISTORIES) {
            let (first, second) = history(maker, numbers, seed);
            given += first;
            again += second;
        }
    }
    let all = maker.one_of().max(1);
    assert!(
        given * all > 100 && again * all > 1_000,
        "{given} units given back, {again} second refunds"
    );
}

fn history<M: StoreMaker>(maker: &M, numbers: [&'static str; 3], seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let world = World::new(maker, numbers[0], NOW_US + random.below(3 * S));
    let sets: Vec<LimitSet> = numbers.map(set).to_vec();
    let (mut given, mut again) = (0, 0);
    let mut under = 0;
    let mut charged: Vec<Charged> = Vec::new();
    for _ in 0..OPERATIONS {
        let step = [0, random.below(S / 2), random.below(2 * S), random.below(9 * S)];
        world.at(world.now_us() + step[usize::try_from(random.below(4)).unwrap()]);
        if random.below(6) == 0 {
            maker.forget(world.limiter.store());
        }
        if random.below(4) == 0 {
            under = usize::try_from(random.below(3)).unwrap();
        }
        let ask = || Ask::new("ann").under(&sets[under]);
        match random.below(16) {
            0..6 => {
                let decision = world.check(ask().cost(1 + random.below(4)));
                charged.extend(decision.receipt().map(|receipt| {
                    let left = receipt.units();
                    Charged { receipt, under, left, forgotten: false }
                }));
            }
            6..12 if !charged.is_empty() => {
                let pick = usize::try_from(random.below(charged.len() as u64)).unwrap();
                let Charged { receipt, left, forgotten, under: was } = &mut charged[pick];
                // Written under these numbers from here: a look sees the real state.
                let _ = world.check(ask());
                let before = world.peek(ask()).remaining();
                let asked = 1 + random.below(receipt.units());
                let refund = world.refund_part(receipt, asked);
                let units = refund.given[0];
                let what = format!("{} then {}: {receipt:?}", numbers[*was], numbers[under]);
                assert!(units <= *left, "seed {seed}: {units} of {left} given back of {what}");
                assert!(units <= asked, "seed {seed}: {units} of {asked} asked for of {what}");
                if *left == 0 || *forgotten {
                    let after = world.peek(ask()).remaining();
                    assert_eq!((units, after), (0, before), "seed {seed}: {what}");
                }
                again += u64::from(*left == 0 || refund.already);
                given += units;
                *left = left.saturating_sub(asked);
            }
            12 => {
                if world.reset(ask()) {
                    charged.iter_mut().for_each(|charged| charged.forgotten = true);
                }
            }
            13 => {
                let by = i64::try_from(random.below(5)).unwrap() - 2;
                world.adjust(ask(), if by == 0 { 3 } else { by });
            }
            _ => {
                for _ in 0..20 {
                    let other = format!("other:{}", random.below(1_000));
                    let _ = world.check(Ask::new(other).under(&sets[under]));
                }
            }
        }
    }
    (given, again)
}
