//! Bans (definitions, section 12): the denials that they count, how long they last, and how they
//! are forgiven.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use core::time::Duration;

use tollgate::{Ask, Carried, LimitKind, LimitSet, Store};

use super::StoreMaker;
use super::world::{START_US, World, block_on, fields, oracle_of, rule_of, set, stepped_back};
use crate::Random;
use crate::oracle::{BanOracle, BanRule, Fields};

/// Each with the limits that it is changed from.
const LIMITS: [(&str, &str); 9] = [
    ("2/1s via gcra, ban 3s after 3 denials in 2s", "2/1s via gcra, ban 2s after 2 denials in 2s"),
    (
        "3/2s via sliding_log, ban 2s after 2 denials in 5s up to 15s",
        "2/2s via sliding_log, ban 1s after 2 denials in 5s up to 5s",
    ),
    (
        "2/1s via fixed_window, ban 500ms after 1 denial in 1us up to 8s",
        "2/1s via fixed_window, ban 4s after 3 denials in 3s up to 8s",
    ),
    (
        "4/3s precision 1s via sliding_window, ban 7s after 4 denials in 3s up to 20s",
        "4/3s precision 1s via sliding_window, ban 7s after 1 denials in 3s",
    ),
    (
        "3/2s burst 2 refill interval via token_bucket, ban 1us after 2 denials in 4s up to 5s",
        "3/2s burst 2 refill interval via token_bucket, ban 1s after 2 denials in 400ms up to 3s",
    ),
    (
        "1/700ms via uniform, 5/8s via sliding_log, ban 4s after 5 denials in 10s up to 6s",
        "1/700ms via uniform, 5/8s via sliding_log, ban 9s after 4 denials in 10s up to 9s",
    ),
    (
        "2/3s via gcra, 4/9s via fixed_window, ban 900ms after 2 denials in 1s up to 1m",
        "2/3s via gcra, 4/9s via fixed_window, ban 900ms after 2 denials in 1s up to 2s",
    ),
    (
        "2/1s via gcra, a: ban 1s after 2 denials in 4s, b: ban 6s after 7 denials in 30s up to 20s",
        "2/1s via gcra, a: ban 2s after 3 denials in 4s, b: ban 5s after 4 denials in 30s up to 1m",
    ),
    (
        "3/4s via gcra, x: ban 3s after 2 denials in 2s up to 3s",
        "3/4s via gcra, x: ban 3s after 2 denials in 9s up to 24s",
    ),
];

fn rates(limits: &LimitSet) -> impl Iterator<Item = &tollgate::Limit> {
    limits.limits().iter().filter(|limit| limit.kind() == LimitKind::Rate)
}

fn rules(limits: &LimitSet) -> Vec<BanRule> {
    limits.limits().iter().filter_map(|limit| rule_of_ban(limit.quota())).collect()
}

/// The numbers of a ban; none for another limit.
pub(super) fn rule_of_ban(quota: &tollgate::Quota) -> Option<BanRule> {
    let ban = quota.ban?;
    Some(BanRule {
        denials: quota.units,
        within_us: quota.period.as_micros(),
        first_us: ban.first.as_micros(),
        longest_us: ban.longest.as_micros(),
    })
}

/// A history of one count beside the oracle.
struct History<'w, S> {
    world: &'w World<S>,
    limits: LimitSet,
    oracle: BanOracle,
    random: Random,
    back: bool,
    latest_us: u64,
}

pub(super) fn bans_equal_the_oracle_in_every_field<M: StoreMaker>(maker: &M) {
    histories(maker, false);
}

pub(super) fn bans_under_a_clock_that_steps_back_equal_the_oracle<M: StoreMaker>(maker: &M) {
    histories(maker, true);
}

fn histories<M: StoreMaker>(maker: &M, back: bool) {
    for (place, (limits, others)) in LIMITS.into_iter().enumerate() {
        for seed in 0..14 {
            let world = World::new(maker, limits, START_US);
            let (limits, others) = (set(limits), set(others));
            let oracle = BanOracle::new(rates(&limits).map(oracle_of).collect(), &rules(&limits));
            let random = Random::new(1_000 * place as u64 + seed + if back { 7 } else { 0 });
            let (limits, latest_us) = ([limits, others], START_US);
            let first = limits[0].clone();
            let world = &world;
            let mut history = History { world, limits: first, oracle, random, back, latest_us };
            for _ in 0..70 {
                history.step();
                if history.random.below(10) == 0 {
                    maker.forget(world.limiter.store());
                }
                if history.random.below(30) == 0 {
                    history.change(&limits);
                }
            }
        }
    }
}

impl<S: Store> History<'_, S> {
    fn step(&mut self) {
        let now_us = self.advance();
        let cost = if self.random.below(4) > 0 { 1 } else { 1 + self.random.below(4) };
        match self.random.below(20) {
            0..2 => self.check(now_us, cost, true, false),
            2..4 => self.check(now_us, cost, false, true),
            4 if S::KEEPS.charges => self.charge(now_us, cost),
            _ => self.check(now_us, cost, false, false),
        }
    }

    fn advance(&mut self) -> u64 {
        let random = &mut self.random;
        let now_us = self.world.now_us();
        let mut now_us = match random.below(24) {
            0..10 => now_us,
            10..14 => now_us + 1 + random.below(3),
            14..18 => now_us + random.below(900_000),
            18..20 => now_us + 1_000_000,
            20..22 => now_us + random.below(4_000_000),
            22 => now_us + random.below(30_000_000),
            _ => now_us + random.below(90_000_000),
        };
        if self.back {
            let all_count = |at_us| self.oracle.all_count(at_us);
            now_us = stepped_back(random, now_us, &mut self.latest_us, all_count);
        }
        self.latest_us = self.latest_us.max(now_us);
        self.world.at(now_us);
        now_us
    }

    fn ask(&self, cost: u64) -> Ask<'_> {
        Ask::from([("bob", &self.limits)]).cost(cost)
    }

    /// The fields in the order of the oracle: the bans come last in each of the sets.
    fn check(&mut self, now_us: u64, cost: u64, peek: bool, partial: bool) {
        let ask = if partial { self.ask(cost).partial() } else { self.ask(cost) };
        let decision = if peek { self.world.peek(ask) } else { self.world.check(ask) };
        let count = decision.reports().count();
        let got: Vec<Fields> = (0..count).map(|index| fields(&decision, index)).collect();
        let allowed = decision.is_allowed();
        drop(decision);
        let cost = if partial { self.oracle.part(now_us, cost) } else { cost };
        let (admitted, expected) = match peek {
            true => self.oracle.peek(now_us, cost),
            false => self.oracle.ask(now_us, cost),
        };
        let what = format!("{cost} at {now_us}, peek: {peek}, partial: {partial}");
        assert_eq!(allowed, admitted, "{what}: {} {:?}", self.limits, self.oracle);
        assert_eq!(got, expected, "{what}: {} {:?}", self.limits, self.oracle);
    }

    fn charge(&mut self, now_us: u64, cost: u64) {
        let got = self.world.charge_each(self.ask(cost));
        let expected = self.oracle.charge(now_us, cost);
        assert_eq!(got, expected, "charge {cost} at {now_us}: {:?}", self.oracle);
    }

    /// From here on, the other numbers count.
    fn change(&mut self, limits: &[LimitSet; 2]) {
        let next = usize::from(self.limits == limits[0]);
        self.limits = limits[next].clone();
        let now_us = self.world.now_us();
        let rates: Vec<_> = rates(&self.limits).map(|limit| rule_of(limit).unwrap()).collect();
        self.oracle.change(now_us, &rates, &rules(&self.limits));
        // A peek carries nothing over, so what follows changes the stored numbers.
        self.check(now_us, 1, false, false);
    }
}

pub(super) fn a_ban_counts_the_denials_of_its_own_set<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "1/h via gcra, ban 1m after 2 denials in 1m", START_US);
    let wide = set("3/h via sliding_log, ban 5m after 2 denials in 1m");
    let ask = |user: &'static str| Ask::new(user).and_under("model", &wide);
    let waits = |user: &'static str| {
        let decision = world.check(ask(user));
        let waits = decision.reports().map(|it| it.retry_after().map_or(0, |it| it.as_secs()));
        waits.collect::<Vec<_>>()
    };
    assert_eq!(waits("ann"), [0, 0, 0, 0]);
    // Ann is over her own limit, and nobody else is to blame.
    assert_eq!(waits("ann"), [3600, 0, 0, 0]);
    assert_eq!(waits("ann"), [3600, 60, 0, 0]);
    assert_eq!((waits("bob"), waits("cid")), (vec![0; 4], vec![0; 4]));
    // The model is used up: neither Dan nor Eve is banned for it.
    assert_eq!(waits("dan"), [0, 0, 3600, 0]);
    assert_eq!(waits("eve"), [0, 0, 3600, 300]);
    assert_eq!(waits("dan"), [0, 0, 3600, 300]);
    world.at(START_US + 300_000_000);
    assert_eq!(waits("dan"), [0, 0, 3300, 0]);
    // A ban that runs counts nothing, and neither does a peek.
    let peek = |user: &'static str| world.peek(Ask::new(user)).is_allowed();
    assert!(peek("ann") == peek("ann"));
    assert!(world.check("dan").is_allowed());
}

pub(super) fn a_ban_is_forgiven_by_a_reset_and_by_nothing_else<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "2/10s via gcra, ban 1h after 2 denials in 1m", START_US);
    let first = world.check("ann");
    let receipt = first.receipt().expect("a receipt").clone();
    drop(first);
    let denied = (0..3).filter(|_| !world.check("ann").is_allowed()).count();
    assert_eq!(denied, 2);
    let wait = || world.peek("ann").retry_after().map_or(0, |wait| wait.as_secs());
    assert_eq!(wait(), 3600);
    world.refund(&receipt);
    world.adjust("ann", 2);
    assert_eq!(wait(), 3600);
    let charged = world.charge_each("ann");
    assert!(!charged[1].fits && charged[1].cut == 0);
    // Other numbers of the rate leave the ban, and so do other numbers of the ban.
    let other = set("5/10s via gcra, ban 2h after 2 denials in 1m");
    let decision = world.check(Ask::from([("ann", &other)]));
    assert_eq!(decision.retry_after(), Some(Duration::from_secs(3600)));
    let carried: Vec<_> = decision.reports().map(|report| report.carried()).collect();
    assert_eq!(carried, [Carried::Over, Carried::Over]);
    assert!(world.reset(Ask::from([("ann", &other)])));
    assert_eq!(world.check(Ask::from([("ann", &other)]).cost(5)).retry_after(), None);
}

pub(super) fn a_hold_is_denied_by_a_ban_and_its_denial_counts<M: StoreMaker>(maker: &M) {
    let limits = "100/h via gcra, 2 at once, ban 1m after 2 denials in 1m";
    let world = World::new(maker, limits, START_US);
    let acquire =
        || block_on(world.limiter.hold(Ask::new("ann").acquire())).expect("the store answers");
    let open: Vec<_> = (0..2).map(|_| acquire().hold.expect("a slot")).collect();
    let wait = |index: usize| {
        let holding = acquire();
        assert!(holding.hold.is_none());
        fields(&holding.decision, index).retry_after_us
    };
    assert_eq!(wait(2), Some(0));
    assert_eq!(wait(2), Some(60_000_000));
    for hold in &open {
        assert!(block_on(world.limiter.release(hold)).unwrap());
    }
    // The slots are free, and the ban runs.
    assert_eq!(wait(1), Some(0));
    let reserve =
        block_on(world.limiter.hold(Ask::new("ann").reserve(Duration::from_secs(5)))).unwrap();
    assert!(reserve.hold.is_none());
    world.at(START_US + 60_000_000);
    assert!(acquire().hold.is_some());
}

/// However the store decides: one limit or several, in part, and beside open holds.
pub(super) fn a_check_that_waits_counts_for_no_ban<M: StoreMaker>(maker: &M) {
    let limits = "2/h via gcra, ban 1m after 2 denials in 1m";
    let other = set("1/h via sliding_log, ban 1m after 2 denials in 1m");
    for is_held in [false, true] {
        for partial in [false, true] {
            for several in [false, true] {
                let world = World::new(maker, limits, START_US);
                let ask = || {
                    let ask = Ask::new("ann").cost(2);
                    let ask = if several { ask.and_under("model", &other) } else { ask };
                    if partial { ask.partial() } else { ask.cost(1) }
                };
                let held = is_held.then(|| {
                    block_on(
                        world.limiter.hold(Ask::new("ann").reserve(Duration::from_secs(3_000))),
                    )
                    .unwrap()
                });
                while world.check(ask().waiting()).is_allowed() {}
                let what = format!("held {is_held}, partial {partial}, several {several}");
                let is_banned = |ask: Ask<'static>| {
                    let decision = world.peek(ask);
                    let mut reports = decision.reports();
                    reports.any(|it| it.limit().kind() == LimitKind::Ban && !it.admits())
                };
                for _ in 0..5 {
                    assert!(!world.check(ask().waiting()).is_allowed(), "{what}");
                    assert!(!is_banned("ann".into()), "{what}");
                }
                // The same without a wait is counted.
                let _ = (world.check(ask()), world.check(ask()));
                assert!(is_banned(Ask::new("ann")) || several, "{what}");
                if several {
                    let decision = world.check(ask());
                    let mut bans =
                        decision.reports().filter(|it| it.limit().kind() == LimitKind::Ban);
                    assert!(bans.any(|it| !it.admits()), "{what}");
                }
                drop(held);
            }
        }
    }
}
