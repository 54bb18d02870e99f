//! Cases: credits, beside a model that counts what is used, held and given.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use std::time::Duration;

use tollgate::{Ask, Cost, Decision, Error, Hold, HoldKind, HoldName, Receipt, Store};

use super::StoreMaker;
use super::world::{START_US, World, block_on};
use crate::Random;

const SECOND_US: u64 = 1_000_000;
const HISTORIES: u64 = 40;
const OPERATIONS: usize = 90;

/// Nothing comes back within a history, so that only holds, credits and refunds change a count.
const LIMITS: &str =
    "60/366d debt 20 via fixed_window, 300/366d of tokens debt 100 via fixed_window";
const UNITS: [(&str, u64, u64); 2] = [("requests", 60, 20), ("tokens", 300, 100)];

/// Checks, reserves, commits, charges, refunds and gifts in any order equal a model, with the wait
/// of every denial.
pub(super) fn credits_equal_a_model<M: StoreMaker>(maker: &M) {
    let mut seen = Seen::default();
    for seed in super::some(maker, HISTORIES) {
        let mut random = Random::new(seed);
        let mut history = History::new(maker);
        for _ in 0..OPERATIONS {
            history.step(&mut random, &mut seen);
        }
    }
    let all = maker.one_of().max(1);
    let Seen { admitted, denied, paid, ended, given_back, waits } = seen;
    assert!(
        [admitted, denied, paid, ended, given_back, waits].iter().all(|count| count * all > 40),
        "{seen:?}"
    );
}

#[derive(Default, Debug)]
struct Seen {
    admitted: u64,
    denied: u64,
    /// Charges of which credits paid a part.
    paid: u64,
    /// Credits that ended with units left.
    ended: u64,
    /// Refunds that gave something back to a credit.
    given_back: u64,
    /// Denials whose wait is the end of a hold.
    waits: u64,
}

#[derive(Clone)]
struct Gift {
    end_us: u64,
    left: [u64; 2],
    given: [u64; 2],
}

#[derive(Clone)]
struct Kept {
    end_us: u64,
    charges: bool,
    amounts: [u64; 2],
}

/// The used, held and given units of a count.
#[derive(Clone, Default)]
struct Model {
    used: [u64; 2],
    kept: Vec<Kept>,
    gifts: Vec<Gift>,
}

impl Model {
    fn credit(&self, unit: usize) -> u64 {
        self.gifts.iter().map(|gift| gift.left[unit]).sum()
    }

    fn held(&self, unit: usize) -> u64 {
        self.kept.iter().map(|kept| kept.amounts[unit]).sum()
    }

    fn room(&self, unit: usize) -> u64 {
        UNITS[unit].1.saturating_sub(self.used[unit])
    }

    fn remaining(&self, unit: usize) -> u64 {
        (self.room(unit) + self.credit(unit)).saturating_sub(self.held(unit))
    }

    fn admits(&self, unit: usize, amount: u64) -> bool {
        let (credit, held) = (self.credit(unit), self.held(unit));
        match (amount, credit) {
            (0, 0) => self.used[unit] + held <= UNITS[unit].1,
            _ => held + amount <= self.room(unit) + credit,
        }
    }

    /// Charges the limit if it has room for all, else credits, and the rest to the limit. Returns
    /// what credits paid of each unit.
    fn charge(&mut self, amounts: [u64; 2], at_us: u64) -> [u64; 2] {
        let mut paid = [0; 2];
        for (unit, amount) in amounts.into_iter().enumerate() {
            let mut rest = amount;
            let beyond = amount > self.room(unit);
            for gift in self.gifts.iter_mut().filter(|gift| beyond && gift.end_us > at_us) {
                let taken = rest.min(gift.left[unit]);
                (gift.left[unit], rest) = (gift.left[unit] - taken, rest - taken);
                paid[unit] += taken;
            }
            let (_, most, debt) = UNITS[unit];
            self.used[unit] += rest.min(most + debt - self.used[unit]);
        }
        paid
    }

    /// Everything ends that is due. Returns how many gifts ended with units left.
    fn advance(&mut self, now_us: u64) -> u64 {
        self.kept.sort_by_key(|kept| kept.end_us);
        while let Some(first) = self.kept.first().filter(|first| first.end_us <= now_us) {
            let Kept { end_us, charges, amounts } = first.clone();
            self.kept.remove(0);
            if charges {
                self.charge(amounts, end_us);
            }
        }
        let over = |gift: &&Gift| gift.end_us <= now_us && gift.left != [0, 0];
        let ended = self.gifts.iter().filter(over).count() as u64;
        self.gifts.retain(|gift| gift.end_us > now_us);
        ended
    }

    /// The first time at which a unit admits an amount, among the ends to come.
    fn wait_us(&self, unit: usize, amount: u64, now_us: u64) -> Option<u64> {
        let kept = self.kept.iter().map(|kept| kept.end_us);
        let mut ends: Vec<u64> = kept.chain(self.gifts.iter().map(|gift| gift.end_us)).collect();
        ends.push(now_us);
        ends.sort_unstable();
        let first = ends.into_iter().find(|end_us| {
            let mut then = self.clone();
            then.advance(*end_us);
            then.admits(unit, amount)
        });
        first.map(|end_us| end_us - now_us)
    }
}

struct History<S> {
    world: World<S>,
    model: Model,
    now_us: u64,
    open: Vec<(Hold, u64, [u64; 2])>,
    /// With the amounts, and of which units credits paid.
    receipts: Vec<(Receipt, [u64; 2], [bool; 2])>,
}

impl<S: Store> History<S> {
    fn new<M: StoreMaker<Store = S>>(maker: &M) -> Self {
        let world = World::new(maker, LIMITS, START_US);
        let (open, receipts) = (Vec::new(), Vec::new());
        Self { world, model: Model::default(), now_us: START_US, open, receipts }
    }

    fn step(&mut self, random: &mut Random, seen: &mut Seen) {
        self.now_us += random.below(3) * random.below(20 * SECOND_US);
        self.world.at(self.now_us);
        seen.ended += self.model.advance(self.now_us);
        let amounts = [random.below(14), random.below(70)];
        let amounts = if amounts == [0, 0] { [1, 0] } else { amounts };
        match random.below(13) {
            0..=3 => self.check(amounts, seen),
            4 | 5 => self.reserve(random, amounts),
            6 => self.settle(random),
            7 => self.give(random, amounts),
            8 => self.charge(amounts, seen),
            _ => self.refund(random, seen),
        }
        // A look at one more of each unit.
        let looked = self.world.peek(self.ask([1, 1]));
        self.assert_fields(&looked, [1, 1], seen);
    }

    fn ask(&self, amounts: [u64; 2]) -> Ask<'static> {
        Ask::new("bob").cost(cost_of(amounts))
    }

    fn assert_fields(&self, told: &Decision<'_>, amounts: [u64; 2], seen: &mut Seen) {
        let model = &self.model;
        for (unit, report) in told.reports().enumerate() {
            let what = format!("{} of {amounts:?} at {}: {told}", UNITS[unit].0, self.now_us);
            assert_eq!(report.remaining(), model.remaining(unit), "{what}");
            let wait = report.retry_after().map(|wait| u64::try_from(wait.as_micros()).unwrap());
            let Some(least) = model.wait_us(unit, amounts[unit], self.now_us) else { continue };
            // No credit pays what the ends of holds will charge, where a wait looks ahead.
            let is_exact = !model.kept.iter().any(|kept| kept.charges);
            let is_true = if is_exact { wait == Some(least) } else { wait >= Some(least) };
            assert!(is_true, "{what}: {wait:?}, not {least}");
            seen.waits += u64::from(is_exact && least > 0);
        }
    }

    fn check(&mut self, amounts: [u64; 2], seen: &mut Seen) {
        let before = self.model.clone();
        let admitted = (0..2).all(|unit| before.admits(unit, amounts[unit]));
        let told = self.world.check(self.ask(amounts)).into_owned();
        assert_eq!(told.is_allowed(), admitted, "{amounts:?} at {}: {told}", self.now_us);
        if !admitted {
            seen.denied += 1;
            return self.assert_fields(&told, amounts, seen);
        }
        seen.admitted += 1;
        let paid = self.model.charge(amounts, self.now_us);
        seen.paid += u64::from(paid != [0; 2]);
        for (unit, report) in told.reports().enumerate() {
            assert_eq!(report.remaining(), before.remaining(unit) - amounts[unit]);
        }
        let paid = paid.map(|paid| paid > 0);
        self.receipts.push((told.receipt().unwrap(), amounts, paid));
    }

    fn reserve(&mut self, random: &mut Random, amounts: [u64; 2]) {
        let admitted = (0..2).all(|unit| self.model.admits(unit, amounts[unit]));
        let ttl_us = SECOND_US + random.below(60 * SECOND_US);
        let charges = random.below(4) == 0;
        let kind = if charges { HoldKind::Charging } else { HoldKind::Reserve };
        let ttl = Some(Duration::from_micros(ttl_us));
        let placed = block_on(self.world.limiter.hold(self.ask(amounts).holding(kind, ttl)));
        let hold = placed.unwrap().hold;
        assert_eq!(hold.is_some(), admitted, "{amounts:?} at {}", self.now_us);
        let Some(hold) = hold else { return };
        let end_us = self.now_us + ttl_us;
        self.model.kept.push(Kept { end_us, charges, amounts });
        self.open.push((hold, end_us, amounts));
    }

    fn settle(&mut self, random: &mut Random) {
        if self.open.is_empty() {
            return;
        }
        let (hold, end_us, amounts) = self.open.remove(random.place(self.open.len()));
        let used = amounts.map(|amount| random.below(2 * amount + 1));
        let actual = Cost::used([("requests", used[0]), ("tokens", used[1])]).unwrap();
        let settled = block_on(self.world.limiter.commit(&hold, actual));
        let place = self.model.kept.iter().position(|kept| {
            kept.end_us == end_us && kept.amounts == amounts && kept.end_us > self.now_us
        });
        let Some(place) = place else {
            return assert!(matches!(settled, Err(Error::NotOpen(_))), "{settled:?}");
        };
        self.model.kept.remove(place);
        let fits = [0, 1].map(|unit| self.model.admits(unit, used[unit]));
        self.model.charge(used, self.now_us);
        self.assert_charged(&settled.unwrap().charged, fits);
    }

    fn charge(&mut self, amounts: [u64; 2], seen: &mut Seen) {
        let fits = [0, 1].map(|unit| self.model.admits(unit, amounts[unit]));
        let charged = block_on(self.world.limiter.charge(self.ask(amounts))).unwrap();
        seen.paid += u64::from(self.model.charge(amounts, self.now_us) != [0; 2]);
        self.assert_charged(&charged, fits);
    }

    fn assert_charged(&self, charged: &[tollgate::Charged], fits: [bool; 2]) {
        for (unit, charged) in charged.iter().enumerate() {
            let told = (charged.fits, charged.remaining);
            assert_eq!(told, (fits[unit], self.model.remaining(unit)), "{}", UNITS[unit].0);
        }
    }

    fn give(&mut self, random: &mut Random, amounts: [u64; 2]) {
        let ttl_us = SECOND_US + random.below(200 * SECOND_US);
        let ask = self.ask(amounts);
        let ask = ask.holding(HoldKind::Credit, Some(Duration::from_micros(ttl_us)));
        let given = block_on(self.world.limiter.hold(ask)).unwrap();
        let hold = given.hold.expect("it is never denied");
        let end_us = self.now_us + ttl_us;
        assert_eq!((hold.kind(), hold.end.as_micros()), (HoldKind::Credit, end_us));
        // Now and then it is taken back.
        if random.below(6) == 0 {
            assert!(block_on(self.world.limiter.release(&hold)).unwrap());
            assert!(!block_on(self.world.limiter.release(&hold)).unwrap());
            let error = block_on(self.world.limiter.commit(&hold, 1)).unwrap_err().to_string();
            assert!(error.contains("taken back without units"), "{error}");
            return;
        }
        self.model.gifts.push(Gift { end_us, left: amounts, given: amounts });
        self.model.gifts.sort_by_key(|gift| gift.end_us);
    }

    fn refund(&mut self, random: &mut Random, seen: &mut Seen) {
        if self.receipts.is_empty() {
            return;
        }
        let (receipt, amounts, paid) = self.receipts.remove(random.place(self.receipts.len()));
        let before = self.model.clone();
        let refund = self.world.refund(&receipt);
        assert!(!refund.already);
        for unit in 0..2 {
            let mut rest = amounts[unit];
            let gifts = self.model.gifts.iter_mut().rev().filter(|_| paid[unit]);
            for gift in gifts {
                let back = rest.min(gift.given[unit] - gift.left[unit]);
                (gift.left[unit], rest) = (gift.left[unit] + back, rest - back);
                seen.given_back += u64::from(back > 0);
            }
            if !paid[unit] {
                self.model.used[unit] = self.model.used[unit].saturating_sub(rest);
            }
            let given = self.model.remaining(unit) - before.remaining(unit);
            assert_eq!(refund.given[unit], given, "{}", UNITS[unit].0);
        }
    }
}

fn cost_of(amounts: [u64; 2]) -> Cost {
    let each = UNITS.iter().zip(amounts).filter(|(_, amount)| *amount > 0);
    Cost::new(each.map(|((unit, ..), amount)| (*unit, amount))).unwrap()
}

/// A credit under a name is given once, whoever asks again, until it ends.
pub(super) fn a_named_credit_is_given_once<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "5/1h via sliding_log", START_US);
    let name: HoldName = "an-id-of-a-voucher".parse().unwrap();
    let give = |amount: u64| {
        let ask = Ask::new("bob").cost(amount).named(name);
        block_on(world.limiter.hold(ask.holding(HoldKind::Credit, Some(Duration::from_secs(60)))))
    };
    let first = give(3).unwrap().hold.expect("it is never denied");
    // A retry has the answer of the first ask, also one with more left than the limit alone has.
    for (cost, id, left) in [(1, "a request of bob", 7), (6, "another one of bob", 1)] {
        for repeated in [false, true] {
            let told = world.check(Ask::new("bob").cost(cost).request(id));
            let told = (told.is_allowed(), told.is_repeated(), told.remaining());
            assert_eq!(told, (true, repeated, left), "{id}");
        }
    }
    world.at(START_US + 59 * SECOND_US);
    let again = give(3).unwrap();
    assert_eq!((again.decision.remaining(), again.hold.unwrap().end), (1, first.end));
    let error = give(4).unwrap_err().to_string();
    assert!(error.contains("asked for otherwise"), "{error}");
    // The last units of a credit are a part of a charge, and its end leaves the rest of the limit.
    // Its name is free then.
    world.at(START_US + 60 * SECOND_US);
    assert_eq!(world.peek("bob").remaining(), 1);
    assert_eq!(give(4).unwrap().decision.remaining(), 5);
    let shown = world.inspect("bob").unwrap();
    assert_eq!((shown.open, shown.holds[0].hold.cost.plain()), (1, Some(4)));
    assert!(block_on(world.limiter.admin().reset("bob")).unwrap());
    assert_eq!(world.peek("bob").remaining(), 5);
}

/// A refund of a charge that credits paid is theirs, and one of another charge the limit's,
/// whatever has come back to the limit meanwhile.
pub(super) fn a_refund_goes_to_who_paid<M: StoreMaker>(maker: &M) {
    for limits in ["a: 10/10s via gcra", "a: 10/10s via gcra, z: ban 1m after 10 denials in 1m"] {
        let world = World::new(maker, limits, START_US);
        let give = |amount: u64| {
            let ask = Ask::new("bob").cost(amount);
            let ask = ask.holding(HoldKind::Credit, Some(Duration::from_secs(60)));
            block_on(world.limiter.hold(ask)).unwrap().hold.unwrap()
        };
        let charge = |cost: u64| world.check(Ask::new("bob").cost(cost)).receipt().unwrap();
        let first = give(10);
        let [own, paid] = [charge(10), charge(9)];
        world.at(START_US + 5_000_000);
        assert_eq!(world.refund_part(&paid, 4).given[0], 4, "{limits}");
        assert_eq!(world.refund(&paid).given[0], 5, "{limits}");
        assert!(world.refund(&paid).already);
        world.at(START_US + 9_200_000);
        let own_again = charge(9);
        // Nearly all of it has come back by itself.
        assert_eq!(world.refund(&own).given[0], 1, "{limits}");
        assert_eq!(world.refund(&own_again).given[0], 9, "{limits}");
        assert_eq!(world.peek("bob").remaining(), 10 + 10, "{limits}");
        // What is taken back gets nothing back.
        let [own, paid] = [charge(9), charge(9)];
        assert!(block_on(world.limiter.release(&first)).unwrap());
        assert_eq!(world.refund(&paid).given[0], 0, "{limits}");
        assert_eq!(world.refund(&own).given[0], 9, "{limits}");
    }
}

/// Credits of which nothing is left make room for new ones, and none is given again that was taken
/// back.
pub(super) fn used_up_credits_make_room<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "1/1h via sliding_log", START_US);
    let give = |name: u64| {
        let name: HoldName = format!("the-id-of-order-{name}").parse().unwrap();
        let ask = Ask::new("bob").named(name);
        block_on(world.limiter.hold(ask.holding(HoldKind::Credit, Some(Duration::from_secs(900)))))
    };
    assert!(world.check("bob").is_allowed());
    for order in 0..20 {
        world.at(START_US + order);
        assert_eq!(give(order).unwrap().decision.remaining(), 1, "{order}");
        assert!(world.check("bob").is_allowed());
    }
    // The last is known still, and the first made room.
    assert_eq!(give(19).unwrap().decision.remaining(), 0);
    let first = give(0).unwrap();
    assert_eq!(first.decision.remaining(), 1);
    assert!(block_on(world.limiter.release(&first.hold.unwrap())).unwrap());
    let error = give(0).unwrap_err().to_string();
    assert!(error.contains("released or committed before"), "{error}");
    assert!(!world.check("bob").is_allowed());
}

/// A count has sixteen credits at most, and each is refused that makes no sense.
pub(super) fn a_credit_that_cannot_be_is_refused<M: StoreMaker>(maker: &M) {
    let limits = "5/1h via gcra, 90/1h of tokens via gcra, 3 at once";
    let world = World::new(maker, limits, START_US);
    let give =
        |ask: Ask<'static>, ttl| block_on(world.limiter.hold(ask.holding(HoldKind::Credit, ttl)));
    let minute = Some(Duration::from_secs(60));
    for (ask, ttl, wrong) in [
        (Ask::new("bob"), None, "how long the credit lasts"),
        (Ask::new("ann").and("bob"), minute, "to one subject at a time"),
        (Ask::new("bob").cost(cost("slots=1")), minute, "a credit of slots"),
        (Ask::new("bob").cost(cost("bytes=1")), minute, "bytes"),
        (Ask::new("bob").peek(), minute, "is not a peek"),
    ] {
        let error = give(ask, ttl).unwrap_err().to_string();
        assert!(error.contains(wrong), "{wrong}: {error}");
    }
    let both = || Ask::new("bob").cost(cost("requests=1,tokens=1"));
    for _ in 0..8 {
        assert!(give(both(), minute).unwrap().hold.is_some());
    }
    let error = give(Ask::new("bob"), minute).unwrap_err().to_string();
    assert!(error.contains("16 credits with units left at most"), "{error}");
    world.at(START_US + 60 * SECOND_US);
    assert!(give(both(), minute).unwrap().hold.is_some());
}

fn cost(text: &str) -> Cost {
    text.parse().unwrap()
}
