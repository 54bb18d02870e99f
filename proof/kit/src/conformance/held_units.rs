//! Cases: holds of several units. Beside the store there is a limiter in memory for each limit,
//! which counts that limit's unit as requests.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use std::time::Duration;

use tollgate::{
    Ask, Charged, Cost, Decision, Error, Hold, HoldKind, HoldName, LimitSet, Limiter, MemoryStore,
    Reserve, Store,
};

use super::StoreMaker;
use super::world::{START_US, World, block_on, set};
use crate::Random;

const MS: u64 = 1_000;
const HISTORIES: u64 = 30;
const OPERATIONS: usize = 90;

/// Limits with their units, under two sets of numbers. The unit of a limit follows its period.
const FAMILIES: [[&[(&str, &str)]; 2]; 5] = [
    [
        &[("requests", "a: 9/4s debt 3 via gcra"), ("tokens", "b: 60/4s debt 30 via gcra")],
        &[("requests", "a: 12/4s debt 3 via gcra"), ("tokens", "b: 35/4s debt 30 via gcra")],
    ],
    [
        &[
            ("tokens", "b: 60/4s debt 20 via fixed_window"),
            ("requests", "a: 9/4s via fixed_window"),
            ("slots", "s: 4 at once hold 20s"),
        ],
        &[
            ("tokens", "b: 40/4s debt 20 via fixed_window"),
            ("requests", "a: 9/4s via fixed_window"),
            ("slots", "s: 3 at once hold 20s"),
        ],
    ],
    [
        &[("bytes", "c: 50/3s via sliding_log"), ("tokens", "b: 40/4s debt 9 via sliding_log")],
        &[("bytes", "c: 30/3s via sliding_log"), ("tokens", "b: 55/4s debt 9 via sliding_log")],
    ],
    [
        &[
            ("requests", "a: 9/4s precision 1s via sliding_window"),
            ("tokens", "b: 50/4s burst 70 refill interval debt 40 via token_bucket"),
            ("bytes", "c: 70/9s via gcra"),
            ("slots", "s: 5 at once hold 30s"),
        ],
        &[
            ("requests", "a: 7/4s precision 1s via sliding_window"),
            ("tokens", "b: 50/4s burst 60 refill interval debt 40 via token_bucket"),
            ("bytes", "c: 60/9s via gcra"),
            ("slots", "s: 5 at once hold 30s"),
        ],
    ],
    [&[("tokens", "b: 60/4s debt 60 via gcra")], &[("tokens", "b: 45/4s debt 45 via gcra")]],
];

/// A limit of another unit, as notation.
fn of_unit(unit: &str, text: &str) -> String {
    let mut words: Vec<&str> = text.split(' ').collect();
    let named = format!("of {unit}");
    if !["requests", "slots"].contains(&unit) {
        words.insert(2, &named);
    }
    words.join(" ")
}

/// Reserves, acquires, commits that name some of the units, renewals, charges and checks of several
/// units, while the numbers change: each limit answers as a limiter that counts its unit alone.
pub(super) fn holds_of_several_units_equal_those_of_each<M: StoreMaker>(maker: &M) {
    let mut seen = Seen::default();
    for (family, texts) in FAMILIES.iter().enumerate() {
        for seed in super::some(maker, HISTORIES) {
            let mut random = Random::new(seed * 100 + family as u64);
            let mut history = History::new(maker, texts);
            for _ in 0..OPERATIONS {
                history.step(&mut random, &mut seen);
            }
        }
    }
    let all = maker.one_of().max(1);
    let Seen { placed, denied, settled, ended, beyond, left, renewed, again } = seen;
    assert!(
        [placed, denied, settled].iter().all(|count| count * all > 900)
            && [beyond, left, ended, renewed, again].iter().all(|count| count * all > 100),
        "{seen:?}"
    );
}

#[derive(Default, Debug)]
struct Seen {
    placed: u64,
    denied: u64,
    settled: u64,
    /// Holds that had ended before they were settled.
    ended: u64,
    /// Limits of which a commit could not charge all.
    beyond: u64,
    /// Units that a commit left to the terms of the hold.
    left: u64,
    renewed: u64,
    again: u64,
}

/// A limit under test and the limiter that counts it alone.
struct Twin {
    unit: &'static str,
    limiter: Limiter<MemoryStore>,
    sets: [LimitSet; 2],
}

struct Placed {
    hold: Hold,
    /// That of each twin; `None` where it was charged.
    twins: Vec<Option<Hold>>,
    amounts: Vec<u64>,
    settled: Option<Cost>,
}

struct History<S> {
    world: World<S>,
    sets: [LimitSet; 2],
    twins: Vec<Twin>,
    revision: usize,
    placed: Vec<Placed>,
    now_us: u64,
}

impl<S: Store> History<S> {
    fn new<M: StoreMaker<Store = S>>(
        maker: &M,
        texts: &[&'static [(&'static str, &'static str)]; 2],
    ) -> Self {
        let all = texts.map(|texts| {
            let each: Vec<String> = texts.iter().map(|(unit, text)| of_unit(unit, text)).collect();
            each.join(", ")
        });
        let world = World::new(maker, &all[0], START_US);
        let twins = texts[0].iter().zip(texts[1]).map(|((unit, one), (_, other))| {
            let store = MemoryStore::builder().clock(world.clock.clone()).build();
            Twin { unit, limiter: Limiter::new(set(one), store), sets: [set(one), set(other)] }
        });
        let (twins, sets) = (twins.collect(), all.each_ref().map(|text| set(text)));
        Self { world, sets, twins, revision: 0, placed: Vec::new(), now_us: START_US }
    }

    fn step(&mut self, random: &mut Random, seen: &mut Seen) {
        let most = if random.below(5) == 0 { 2_000 * MS } else { 150 * MS };
        self.now_us += random.below(most);
        self.world.at(self.now_us);
        if random.below(15) == 0 {
            self.revision = 1 - self.revision;
        }
        match random.below(12) {
            0 | 1 => self.check(random, false),
            2 => self.check(random, true),
            3 => self.charge(random),
            4..=7 => self.hold(random, seen),
            8 if !self.placed.is_empty() => self.renew(random, seen),
            _ if !self.placed.is_empty() => self.settle(random, seen),
            _ => {}
        }
    }

    /// An amount of each limit, at least 1: of slots 1, or with some chance more.
    fn amounts(&self, random: &mut Random) -> (Vec<u64>, Cost) {
        let names_slots = random.below(3) == 0;
        let each = self.twins.iter().map(|twin| match twin.unit {
            "slots" if names_slots => 1 + random.below(2),
            "slots" => 1,
            _ => 1 + random.below(twin.sets[0].limits()[0].capacity() / 3),
        });
        let each: Vec<u64> = each.collect();
        let is_named = |unit: &str| unit != "slots" || names_slots;
        let named = self.twins.iter().zip(&each).filter(|(twin, _)| is_named(twin.unit));
        let cost = Cost::new(named.map(|(twin, amount)| (twin.unit, *amount))).unwrap();
        // A plain cost of a reserve takes one slot, and of an acquire as many as it costs.
        (each, cost)
    }

    fn has_slots(&self) -> bool {
        self.twins.iter().any(|twin| twin.unit == "slots")
    }

    /// The ask of a twin for its amount. Slots are taken by an acquire.
    fn ask<'t>(&self, twin: &'t Twin, amount: u64) -> Ask<'t> {
        let ask = Ask::new("bob").under(&twin.sets[self.revision]).cost(amount);
        if twin.unit == "slots" { ask.acquire() } else { ask }
    }

    fn peeked(&self, amounts: &[u64]) -> Vec<Decision<'static>> {
        let each = self.twins.iter().zip(amounts);
        each.map(|(twin, amount)| {
            let ask = self.ask(twin, *amount).peek();
            block_on(twin.limiter.check(ask)).unwrap().into_owned()
        })
        .collect()
    }

    fn check(&self, random: &mut Random, peeks: bool) {
        let (amounts, cost) = self.amounts(random);
        let mut expected = self.peeked(&amounts);
        let admitted = expected.iter().all(Decision::is_allowed);
        let set = &self.sets[self.revision];
        let ask = Ask::new("bob").under(set).cost(cost.clone());
        let what = format!("{set}: a check of {cost} at {}", self.now_us);
        if peeks {
            let ask = if self.has_slots() { ask.acquire() } else { ask };
            let told = self.world.peek(ask);
            assert_eq!(told.is_allowed(), admitted, "{what}");
            return self.assert_fields(&told, &expected, &what);
        }
        // A check takes no slot.
        if self.has_slots() {
            return;
        }
        if admitted {
            for ((twin, amount), expected) in self.twins.iter().zip(&amounts).zip(&mut expected) {
                let check = twin.limiter.check(self.ask(twin, *amount));
                *expected = block_on(check).unwrap().into_owned();
            }
        }
        let told = self.world.check(ask);
        assert_eq!(told.is_allowed(), admitted, "{what}");
        self.assert_fields(&told, &expected, &what);
        if !admitted {
            self.deny(&amounts);
        }
    }

    /// A denial stores a count that it has carried over to other numbers. A limiter that would
    /// admit its part does so by a hold of which nothing is charged.
    fn deny(&self, amounts: &[u64]) {
        for (twin, amount) in self.twins.iter().zip(amounts) {
            let ask = self.ask(twin, *amount);
            let ask = if twin.unit == "slots" { ask } else { ask.reserve(Duration::from_secs(1)) };
            let hold = block_on(twin.limiter.hold(ask)).unwrap().hold;
            if let Some(hold) = hold {
                block_on(twin.limiter.commit(&hold, 0)).unwrap();
            }
        }
    }

    fn charge(&self, random: &mut Random) {
        let (amounts, cost) = self.amounts(random);
        let set = &self.sets[self.revision];
        let ask = Ask::new("bob").under(set).cost(cost.clone());
        let told = block_on(self.world.limiter.charge(ask)).unwrap();
        for ((twin, amount), told) in self.twins.iter().zip(&amounts).zip(&told) {
            let ask = Ask::new("bob").under(&twin.sets[self.revision]).cost(*amount);
            let expected = block_on(twin.limiter.charge(ask)).unwrap()[0];
            let mut expected = expected;
            if !self.knows_all_ends() {
                expected.reset_after_us = told.reset_after_us;
            }
            if twin.unit != "slots" {
                assert_eq!(*told, expected, "{set}: a charge of {cost}: {}", twin.unit);
            }
        }
    }

    fn hold(&mut self, random: &mut Random, seen: &mut Seen) {
        let (amounts, cost) = self.amounts(random);
        let ttl = Duration::from_micros(500 * MS + random.below(6_000 * MS));
        let acquires = self.has_slots() && random.below(4) == 0 && cost.plain().is_none();
        let charging = random.below(2) == 0;
        let expected = self.peeked(&amounts);
        let admitted = expected.iter().all(Decision::is_allowed);
        let set = &self.sets[self.revision];
        let reserve = Reserve::from(ttl);
        let reserve = if charging { reserve.charging() } else { reserve };
        let ask = Ask::new("bob").under(set).cost(cost.clone());
        let ask = match acquires {
            true => ask.holding(HoldKind::Acquire, Some(ttl)),
            false => ask.reserve(reserve),
        };
        let placed = block_on(self.world.limiter.hold(ask)).unwrap();
        let what = format!("{set}: a hold of {cost} for {ttl:?} at {}", self.now_us);
        assert_eq!(placed.hold.is_some(), admitted, "{what}: {}", placed.decision);
        let Some(hold) = placed.hold else {
            seen.denied += 1;
            self.deny(&amounts);
            return self.assert_fields(&placed.decision, &expected, &what);
        };
        seen.placed += 1;
        let mut twins = Vec::new();
        let mut after = Vec::new();
        for (twin, amount) in self.twins.iter().zip(&amounts) {
            let ask = Ask::new("bob").under(&twin.sets[self.revision]).cost(*amount);
            if twin.unit != "slots" && acquires {
                after.push(block_on(twin.limiter.check(ask)).unwrap().into_owned());
                twins.push(None);
                continue;
            }
            let ask = match twin.unit {
                "slots" => ask.holding(HoldKind::Acquire, Some(ttl)),
                _ => ask.reserve(reserve),
            };
            let placed = block_on(twin.limiter.hold(ask)).unwrap();
            after.push(placed.decision.into_owned());
            twins.push(Some(placed.hold.expect("room, as the peek said")));
        }
        assert_eq!(hold.to_string().parse(), Ok(hold.clone()), "{what}");
        self.placed.push(Placed { hold, twins, amounts, settled: None });
        self.assert_fields(&placed.decision, &after, &what);
    }

    fn renew(&mut self, random: &mut Random, seen: &mut Seen) {
        let place = random.place(self.placed.len());
        let Placed { hold, twins, .. } = &mut self.placed[place];
        let ttl = Some(Duration::from_micros(500 * MS + random.below(6_000 * MS)));
        let renewed = block_on(self.world.limiter.renew(hold, ttl)).unwrap();
        for (twin, own) in
            self.twins.iter().zip(twins).filter_map(|(t, own)| Some((t, own.as_mut()?)))
        {
            assert_eq!(block_on(twin.limiter.renew(own, ttl)).unwrap(), renewed, "{}", twin.unit);
            if renewed {
                assert_eq!(own.end, hold.end);
            }
        }
        seen.renewed += u64::from(renewed);
    }

    /// Where units are held, all is free when the last hold of the count has ended. A twin knows
    /// nothing of acquired ones.
    fn knows_all_ends(&self) -> bool {
        let acquired = self.placed.iter().filter(|it| it.hold.kind() == HoldKind::Acquire);
        acquired.map(|it| it.hold.end.as_micros()).all(|end| end <= self.now_us)
    }

    fn assert_fields(&self, told: &Decision<'_>, expected: &[Decision<'static>], what: &str) {
        let is_known = self.knows_all_ends();
        for (told, expected) in told.reports().zip(expected) {
            let own = expected.reports().next().unwrap();
            let reset = if is_known { own.reset_after() } else { told.reset_after() };
            assert_eq!(
                (told.remaining(), told.retry_after(), told.reset_after()),
                (own.remaining(), own.retry_after(), reset),
                "{what}: {}",
                told.limit()
            );
        }
    }

    /// Used amounts of some of the units of a hold, and none of slots.
    fn used(&self, random: &mut Random, amounts: &[u64]) -> Vec<Option<u64>> {
        let each = self.twins.iter().zip(amounts).map(|(twin, amount)| {
            let used = match random.below(4) {
                0 => None,
                1 => Some(0),
                2 => Some(random.below(amount + 1)),
                _ => Some(amount + random.below(5 * amount + 30)),
            };
            used.filter(|_| twin.unit != "slots")
        });
        each.collect()
    }

    /// Commits a hold, naming some of its units.
    fn settle(&mut self, random: &mut Random, seen: &mut Seen) {
        let place = random.place(self.placed.len());
        let (kind, twins) = (self.placed[place].hold.kind(), &self.twins);
        let amounts = self.placed[place].amounts.clone();
        let used = self.used(random, &amounts);
        let all_zero = random.below(10) == 0;
        let named = twins.iter().zip(&used).filter_map(|(twin, used)| Some((twin.unit, (*used)?)));
        let named: Vec<(&str, u64)> = named.collect();
        let is_plain = all_zero || kind == HoldKind::Acquire || named.is_empty();
        let actual = if is_plain { Cost::from(0) } else { Cost::used(named).unwrap() };
        let resolved = |place: usize| match (used[place], kind) {
            _ if actual.plain() == Some(0) => 0,
            (Some(used), _) => used,
            (None, HoldKind::Charging) => amounts[place],
            (None, _) => 0,
        };
        let told = block_on(self.world.limiter.commit(&self.placed[place].hold, actual.clone()));
        let what =
            format!("{:?} of {}: {actual} at {}", kind, self.placed[place].hold.cost, self.now_us);
        if let Some(before) = &self.placed[place].settled {
            if let Ok(told) = &told {
                assert!(told.already, "{what}");
                assert_eq!(told.actual, *before, "{what}");
                seen.again += 1;
            }
            self.placed.remove(place);
            return;
        }
        let (mut is_open, is_known) = (None, self.knows_all_ends());
        for (number, twin) in self.twins.iter().enumerate() {
            let Some(own) = &self.placed[place].twins[number] else { continue };
            let units = if twin.unit == "slots" { 0 } else { resolved(number) };
            let expected = match block_on(twin.limiter.commit(own, units)) {
                Ok(settled) => Some(settled.charged[0]),
                Err(Error::NotOpen(_)) => None,
                Err(error) => panic!("{what}: {error}"),
            };
            assert_eq!(told.is_ok(), expected.is_some(), "{what}: {}: {told:?}", twin.unit);
            is_open = Some(expected.is_some());
            let (Ok(told), Some(expected)) = (&told, expected) else { continue };
            seen.beyond += u64::from(expected.cut > 0);
            seen.left += u64::from(used[number].is_none());
            // Of nothing, a limit among others says when it owes no more.
            let least = |it: &Charged| (it.cut, it.remaining);
            let more = |it: &Charged| (it.fits, it.retry_after_us);
            let is_same = |told: &Charged| {
                least(told) == least(&expected)
                    && (units == 0 || more(told) == more(&expected))
                    && (!is_known || told.reset_after_us == expected.reset_after_us)
            };
            assert!(
                is_same(&told.charged[number]),
                "{what}: {}: {told:?}, {expected:?}",
                twin.unit
            );
        }
        let Ok(told) = told else {
            seen.ended += u64::from(is_open == Some(false));
            self.placed.remove(place);
            return;
        };
        seen.settled += 1;
        let amount = |unit: &str| {
            let place = self.twins.iter().position(|twin| twin.unit == unit)?;
            (unit != "slots").then(|| resolved(place))
        };
        for twin in self.twins.iter().filter(|twin| twin.unit != "slots") {
            let unit = twin.unit.parse().unwrap();
            assert_eq!(Some(told.actual.amounts().of(&unit)), amount(twin.unit), "{what}");
        }
        match kind {
            // Nobody remembers that slots were given back.
            HoldKind::Acquire => drop(self.placed.remove(place)),
            _ => self.placed[place].settled = Some(told.actual),
        }
    }
}

/// An amount of 0 is admitted beside full holds, and denied while more is used and held than the
/// limit.
pub(super) fn an_amount_of_0_waits_until_nothing_is_owed<M: StoreMaker>(maker: &M) {
    let limits = "9/1h via gcra, 100/100s of tokens debt 50 via gcra";
    let world = World::new(maker, limits, START_US);
    let reserve = |text: &str| {
        let ask = Ask::new("bob").cost(text.parse::<Cost>().unwrap());
        block_on(world.limiter.hold(ask.reserve(Duration::from_secs(60)))).unwrap().hold
    };
    let hold = reserve("requests=1,tokens=100").expect("room");
    assert!(world.check("bob").is_allowed(), "a full budget admits a question without tokens");
    assert!(reserve("tokens=1").is_none());
    let nothing = || world.peek(Ask::new("bob").peek_at_nothing());
    assert!(nothing().is_allowed(), "all is held, and no more");
    // Thirty more than were held, of which none is left: one comes back each second.
    let used = Cost::used([("tokens", 130)]).unwrap();
    let settled = block_on(world.limiter.commit(&hold, used)).unwrap();
    assert_eq!((settled.charged[1].fits, settled.charged[1].cut), (false, 0));
    assert_eq!(settled.actual.to_string(), "tokens=130");
    let owes = world.check("bob");
    let wait = Duration::from_secs(30);
    assert_eq!(
        (owes.is_allowed(), owes.retry_after(), owes.unit().name()),
        (false, Some(wait), "tokens")
    );
    assert_eq!((nothing().is_allowed(), nothing().retry_after()), (false, Some(wait)));
    world.at(START_US + 29_999_999);
    assert!(!world.check("bob").is_allowed() && !nothing().is_allowed());
    world.at(START_US + 30_000_000);
    assert!(nothing().is_allowed() && world.check("bob").is_allowed());
}

/// A named hold is of all its amounts: asked for again it is one, otherwise it is refused.
pub(super) fn a_named_hold_is_of_all_its_amounts<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "9/1h via gcra, 100/1h of tokens via gcra", START_US);
    let name: HoldName = "an-id-of-a-request".parse().unwrap();
    let ask = |text: &str| {
        let ask = Ask::new("bob").cost(text.parse::<Cost>().unwrap()).named(name);
        ask.reserve(Duration::from_secs(60))
    };
    let hold = |text: &str| block_on(world.limiter.hold(ask(text)));
    let first = hold("requests=1,tokens=40").unwrap().hold.expect("room");
    let again = hold("tokens=40,requests=1").unwrap().hold.expect("the same");
    assert_eq!((first.id, first.fence), (again.id, again.fence));
    for other in ["requests=1,tokens=41", "requests=1", "tokens=40"] {
        let error = hold(other).unwrap_err().to_string();
        assert!(error.contains("asked for otherwise"), "{other}: {error}");
    }
    let shown = world.inspect("bob").unwrap();
    assert_eq!(shown.holds[0].hold.cost.to_string(), "requests=1,tokens=40");
    let known = Ask::new("bob").named(name).named_hold(world.limiter.limits()).unwrap();
    let used = Cost::used([("tokens", 7)]).unwrap();
    let settled = block_on(world.limiter.commit(&known, used.clone())).unwrap();
    assert_eq!((settled.already, settled.actual.to_string()), (false, "tokens=7".to_owned()));
    let again = block_on(world.limiter.commit(&known, used)).unwrap();
    assert_eq!((again.already, again.actual.to_string()), (true, "tokens=7".to_owned()));
    let error = hold("requests=1,tokens=40").unwrap_err().to_string();
    assert!(error.contains("committed before"), "{error}");
    let peek = world.peek(Ask::new("bob").cost("requests=1,tokens=1".parse::<Cost>().unwrap()));
    let left: Vec<u64> = peek.reports().map(|report| report.remaining()).collect();
    assert_eq!(left, [9, 93]);
}
