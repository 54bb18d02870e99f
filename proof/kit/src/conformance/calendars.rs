//! Cases: windows of calendars (definitions, section 14).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use std::time::Duration;

use tollgate::{Ask, LimitSet, Receipt, Store};

use super::StoreMaker;
use super::world::{World, answer, fields, oracle_of, rule_of, set, stepped_back};
use crate::Random;
use crate::oracle::{Oracle, Rule, edges_of};

const S: u64 = 1_000_000;
const HOUR: u64 = 3_600 * S;
const HISTORIES: u64 = 24;
const OPERATIONS: usize = 100;

/// Numbers that one limit has in turn.
const NUMBERS: [[&str; 3]; 6] = [
    ["6/day in Europe/Berlin", "3/day in Europe/Berlin", "9/day in Africa/Cairo"],
    ["6/week in Asia/Tokyo", "4/week in Asia/Tokyo debt 0", "x"],
    ["6/month in America/Santiago", "3/month in America/Santiago", "7/month in Asia/Kathmandu"],
    ["6/month in Europe/Berlin from 31st 23:59", "2/month in Europe/Berlin", "x"],
    ["6/week in America/New_York", "8/week in America/New_York debt 1", "x"],
    ["6/day in Australia/Lord_Howe from 02:30", "9/day in Australia/Lord_Howe from 02:30", "x"],
];

/// Midnight of the 1st of March 2024 by UTC.
const MARCH_US: u64 = 1_709_251_200 * S;

/// Checks of every mode, charges, refunds and adjustments around edges, while the numbers change
/// and the clock is behind: as the oracle says, in every field.
pub(super) fn calendars_equal_the_oracle_in_every_field<M: StoreMaker>(maker: &M) {
    let (mut admitted, mut denied) = (0, 0);
    for (family, texts) in NUMBERS.iter().enumerate() {
        for seed in super::some(maker, HISTORIES) {
            let mut random = Random::new(seed * 100 + family as u64);
            let mut history = History::new(maker, texts, &mut random);
            for _ in 0..OPERATIONS {
                history.step(&mut random);
            }
            (admitted, denied) = (admitted + history.admitted, denied + history.denied);
        }
    }
    let all = maker.one_of().max(1);
    assert!(admitted * all > 2_000 && denied * all > 500, "{admitted} admitted, {denied} denied");
}

struct History<S> {
    world: World<S>,
    sets: Vec<LimitSet>,
    /// Which numbers it is asked under.
    revision: usize,
    edges: &'static [i64],
    oracle: Oracle,
    now_us: u64,
    latest_us: u64,
    /// Each with the rule and the time that it was charged under, and its units.
    receipts: Vec<(Receipt, Rule, u64, u64)>,
    admitted: u64,
    denied: u64,
}

impl<S: Store> History<S> {
    fn new<M: StoreMaker<Store = S>>(maker: &M, texts: &[&str; 3], random: &mut Random) -> Self {
        let all = texts.iter().filter(|text| **text != "x");
        let sets: Vec<LimitSet> = all.map(|text| set(&format!("a: {text}"))).collect();
        let edges = edges_of(&texts[0][2..]).expect("a calendar of the table");
        // Far later a server could not tell the times that its keys live by the kit's clock.
        let known = edges.partition_point(|at| *at < 63_072_000);
        let edge = edges[2 + random.place(known - 2)];
        let now_us = u64::try_from(edge).unwrap() * S - random.below(3 * HOUR);
        Self {
            world: World::new(maker, &sets[0].to_string(), now_us),
            oracle: oracle_of(&sets[0].limits()[0]),
            sets,
            revision: 0,
            edges,
            now_us,
            latest_us: now_us,
            receipts: Vec::new(),
            admitted: 0,
            denied: 0,
        }
    }

    /// Goes on, sometimes to the next edge or a microsecond before it, and asks something.
    fn step(&mut self, random: &mut Random) {
        let next = |at: &&i64| u64::try_from(**at).is_ok_and(|at| at * S > self.now_us + 2);
        let edge = self.edges.iter().find(next).expect("a later edge");
        self.now_us = match random.below(10) {
            0 => u64::try_from(*edge).unwrap() * S - random.below(2),
            _ => self.now_us + random.below(HOUR),
        };
        let counts = |at| !self.oracle.is_idle(at);
        self.now_us = stepped_back(random, self.now_us, &mut self.latest_us, counts);
        self.latest_us = self.latest_us.max(self.now_us);
        self.world.at(self.now_us);
        if random.below(10) == 0 {
            self.revision = random.place(self.sets.len());
        }
        self.ask(random.below(10), 1 + random.below(4));
    }

    fn ask(&mut self, kind: u64, cost: u64) {
        let (world, now_us) = (&self.world, self.now_us);
        let limits = &self.sets[self.revision];
        let limit = &limits.limits()[0];
        let ask = || Ask::new("bob").under(limits).cost(cost);
        let what = format!("{limit}: {kind} of {cost} at {now_us}");
        let rule = rule_of(limit).expect("a rule");
        let mut oracle = self.oracle.clone();
        if kind == 3 {
            if let Some((receipt, charged_under, at_us, units)) = self.receipts.pop()
                && !oracle.would_repair(now_us)
            {
                let given = world.refund(&receipt).given;
                let expected = match now_us < charged_under.counts_until(at_us, units) {
                    true => oracle.refund(now_us, at_us, units),
                    false => 0,
                };
                assert_eq!(given, [expected], "{what}");
                self.oracle = oracle;
            }
            return;
        }
        oracle.change_owing(now_us, rule, Some(limit.debt())).expect("numbers in range");
        match kind {
            0 => {
                assert_eq!(answer(&world.peek(ask()), true), oracle.peek(now_us, cost), "{what}");
                return;
            }
            1 => assert_eq!(world.charge(ask()), oracle.charge(now_us, cost), "{what}"),
            2 => {
                let delta = i64::try_from(cost).unwrap() * if cost > 2 { 1 } else { -1 };
                world.adjust(ask(), delta);
                oracle.adjust(now_us, delta);
            }
            4 => {
                let decision = world.check(ask().partial());
                assert_eq!(answer(&decision, false), oracle.partial(now_us, cost), "{what}");
            }
            _ => {
                let decision = world.check(ask());
                let expected = oracle.check(now_us, cost);
                assert_eq!(answer(&decision, false), expected, "{what}");
                *(if expected.admitted { &mut self.admitted } else { &mut self.denied }) += 1;
                let receipt = decision.receipt();
                self.receipts.extend(receipt.map(|it| (it, rule, oracle.charged_at(), cost)));
            }
        }
        self.oracle = oracle;
    }
}

/// A day's cap under a month's: one check, charged by both or by none.
pub(super) fn a_day_and_a_month_are_one_check<M: StoreMaker>(maker: &M) {
    let limits = "2/day in Europe/Berlin, 5/month in Europe/Berlin";
    // Noon of the 30th of March, before the day of 23 hours.
    let world = World::new(maker, limits, MARCH_US + (29 * 24 + 11) * HOUR);
    let mut taken = Vec::new();
    for hour in 0..72 {
        world.at(MARCH_US + (29 * 24 + 11 + hour) * HOUR);
        let decision = world.check("bob");
        if decision.is_allowed() {
            taken.push(hour);
        } else {
            // Midnight of the 31st, of the 1st and of the 2nd of April.
            let next = [12, 35, 59, 83].into_iter().find(|edge| *edge > hour).unwrap();
            assert_eq!(fields(&decision, 0).retry_after_us, Some((next - hour) * HOUR), "{hour}");
        }
    }
    // Four of March, and no more of April than two a day.
    assert_eq!(taken, [0, 1, 12, 13, 35, 36, 59, 60]);
}

/// A limit under a name keeps its count when a duration becomes a calendar, or the other way round.
pub(super) fn a_duration_and_a_calendar_of_one_name_share_a_count<M: StoreMaker>(maker: &M) {
    let (calendar, duration) = (set("x: 9/month in Asia/Tokyo"), set("x: 9/2h via fixed_window"));
    let now_us = 59 * 24 * HOUR + 37 * 60 * S; // in March 1970
    let world = World::new(maker, "x: 9/month in Asia/Tokyo", now_us);
    let left = |limits: &LimitSet, cost: u64| {
        let decision = world.check(Ask::new("bob").under(limits).cost(cost));
        let fields = fields(&decision, 0);
        (fields.remaining, fields.reset_after_us)
    };
    // The month of Tokyo ends at 15:00 of the 31st by UTC.
    let month_us = (30 * 24 + 15) * HOUR - 37 * 60 * S;
    assert_eq!(left(&calendar, 2), (7, month_us));
    assert_eq!(left(&duration, 1), (6, 2 * HOUR - 37 * 60 * S));
    assert_eq!(left(&calendar, 1), (5, month_us));
    world.at(now_us + 2 * HOUR);
    assert_eq!(left(&duration, 1), (4, 2 * HOUR - 37 * 60 * S));
    world.at(now_us + 4 * HOUR);
    assert_eq!(left(&calendar, 1), (8, month_us - 4 * HOUR));
}

/// Two versions of the time zones in turns, which differ by an hour at every edge: each edge admits
/// at most the limit once more.
pub(super) fn two_versions_of_a_zone_admit_one_budget_more_an_edge<M: StoreMaker>(maker: &M) {
    const DAYS: u64 = 12;
    let versions = [set("x: 5/day in UTC"), set("x: 5/day in UTC from 01:00")];
    for seed in super::some(maker, 8) {
        let mut random = Random::new(seed);
        let world = World::new(maker, "x: 5/day in UTC", MARCH_US);
        let mut units = 0;
        for quarter in 0..DAYS * 96 {
            world.at(MARCH_US + quarter * HOUR / 4);
            for _ in 0..4 {
                let version = &versions[random.place(2)];
                units += world.check(Ask::new("bob").under(version).cost(1)).granted();
            }
        }
        assert!((5 * DAYS..=5 * (2 * DAYS + 1)).contains(&units), "seed {seed}: {units} units");
    }
}

/// A hold that is settled windows later counts where it is settled.
pub(super) fn a_hold_that_ends_windows_later_counts_there<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "5/day in Africa/Cairo", MARCH_US);
    let ask = Ask::new("bob").cost(3).reserve(Duration::from_secs(30 * 86_400));
    let placed = super::block_on(world.limiter.hold(ask)).expect("the store answers");
    let hold = placed.hold.expect("it fits");
    world.at(MARCH_US + 20 * 24 * HOUR);
    assert_eq!(world.peek("bob").remaining(), 2);
    super::block_on(world.limiter.commit(&hold, 2)).expect("the store answers");
    let peeked = world.peek("bob");
    // Midnight in Cairo is 22:00 by UTC.
    assert_eq!((peeked.remaining(), fields(&peeked, 0).reset_after_us), (3, 22 * HOUR));
    world.at(MARCH_US + 20 * 24 * HOUR + 22 * HOUR);
    assert_eq!(world.peek("bob").remaining(), 5);
}
