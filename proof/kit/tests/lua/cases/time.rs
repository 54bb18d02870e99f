//! Clocks at the end of time, that step back or are given; and logs that are long, or whose totals
//! wrap around.

use tollgate::engine::Mode;
use tollgate::{Strategy, Time};
use tollgate_redis::compose::{self, Check, Clock};

use super::{LIMITS, NOW_US, SEVERAL, check, equal, place, rare, set, words};
use crate::lua::fake::{Fake, Stored};
use crate::lua::histories::{Difference, Pair, Plan, Texts, seeded};
use crate::lua::model::{Charge, whose};

/// A clock beyond the last time counts as that one.
pub(super) fn end_of_time(texts: &Texts) -> Result<(), Difference> {
    let last_us = Time::MAX.as_micros();
    for limits in LIMITS.map(set) {
        let mut pair = Pair::new(texts.clone());
        pair.fake = Fake::new().bounded();
        let asked = [("somebody".to_owned(), limits.clone())];
        for now_us in [last_us - 1, last_us, last_us + 1, last_us + 30_000_000] {
            pair.check(&asked, 1, Mode::Whole, now_us)?;
        }
    }
    Ok(())
}

/// A window from the future; one bucket of it straddles an edge and loses many units in a
/// microsecond.
pub(super) fn stepped_back(texts: &Texts) -> Result<(), Difference> {
    let mut pair = Pair::new(texts.clone());
    pair.fake = Fake::new().bounded();
    let limits = set("x: 1000/4us precision 2us rounding interpolate via sliding_window");
    let asked = [("somebody".to_owned(), limits)];
    let start_us = NOW_US - NOW_US % 2;
    pair.check(&asked, 400, Mode::Whole, start_us)?;
    pair.check(&asked, 100, Mode::Whole, start_us + 4)?;
    for mode in [Mode::Peek, Mode::PeekPartial, Mode::Whole] {
        pair.check(&asked, 600, mode, start_us - 2_000_000)?;
    }
    Ok(())
}

/// A log whose totals pass 2^48 counts what it counted.
pub(super) fn wrapped(texts: &Texts) -> Result<(), Difference> {
    let limits = set("x: 7/m via sliding_log");
    let place = place(&limits);
    let most: u64 = 1 << 48;
    let row = |at_us: u64, total: u64| {
        [&at_us.to_be_bytes()[1..], &(total % most).to_be_bytes()[2..]].concat()
    };
    let head = [compose::set_tag(&limits).as_bytes(), &(most - 3).to_be_bytes()[2..]].concat();
    // Costs 2, 3 and 1, at seconds that follow each other.
    let rows = [(0, most - 1), (1, most + 2), (2, most + 3)];
    let rows = rows.map(|(i, total)| row(NOW_US + i * 1_000_000, total));
    let rows: Vec<Vec<u8>> = [vec![head], rows.into()].concat();
    let whole = check(texts, Check::new(Mode::Whole), &[&limits]);
    let fresh = || {
        let fake = Fake::new().bounded();
        fake.put(&place.state, Stored::List(rows.clone().into()));
        fake
    };
    let later = NOW_US + 3_000_000;
    for (now_us, cost, wanted) in [
        (later, "1", [1, 0, 0, 60_000_000]),
        (later, "2", [0, 1, 57_000_000, 59_000_000]),
        (later, "4", [0, 1, 58_000_000, 59_000_000]),
        (later, "6", [0, 1, 58_000_000, 59_000_000]),
        (later, "7", [0, 1, 59_000_000, 59_000_000]),
        (NOW_US + 60_000_000, "3", [3, 0, 0, 60_000_000]),
        (NOW_US + 61_000_000, "3", [3, 3, 0, 60_000_000]),
    ] {
        let mut fake = fresh();
        fake.at(now_us);
        let answer = fake.call(&whole, &place.check, &words(&[cost, "n"]));
        let now = i64::try_from(now_us).unwrap();
        let wanted = [wanted[0], now, wanted[1], wanted[2], wanted[3]];
        equal(cost, answer.integers(), wanted.into())?;
    }
    // Refunds go from the oldest; charges are written after the newest.
    for (delta, now_us, left) in [("3", later, 4), ("-1", later, 0), ("1", NOW_US + 60_500_000, 4)]
    {
        let mut fake = fresh();
        fake.at(now_us);
        let [_, (adjust, keys, mut args)] = rare(texts, &limits);
        args[1] = delta.into();
        fake.call(&adjust, &keys, &args);
        let peek = check(texts, Check::new(Mode::Peek), &[&limits]);
        let answer = fake.call(&peek, &place.check, &words(&["1", "n"]));
        equal(delta, answer.integers()[2], left)?;
    }
    // A charge or a refund leaves the events before it as they are, wherever totals lie.
    for start in most - 5..most {
        let head = [compose::set_tag(&limits).as_bytes(), &start.to_be_bytes()[2..]].concat();
        let events = [0, 1, 2, 3].map(|i| row(NOW_US + i, start + 1 + i));
        let rows: Vec<Vec<u8>> = [vec![head], events.into()].concat();
        let [_, (adjust, keys, mut args)] = rare(texts, &limits);
        args[1] = b"-1".to_vec();
        let charge = (whole.clone(), place.check.clone(), vec![b"1".to_vec(), b"n".to_vec()]);
        for (script, keys, args) in [(adjust, keys, args), charge] {
            let mut fake = Fake::new().bounded();
            fake.at(NOW_US + 3);
            fake.put(&place.state, Stored::List(rows[..4].to_vec().into()));
            fake.call(&script, &keys, &args);
            equal("rows", fake.get(&place.state), Some(Stored::List(rows.clone().into())))?;
        }
    }
    Ok(())
}

/// Longer than random histories: logs of thousands of events, and a clock that is given.
pub(super) fn long(texts: &Texts) -> Result<(), Difference> {
    for strategy in Strategy::RATES {
        let mut pair = Pair::by(Clock::Given, texts.clone());
        pair.fake = Fake::new().bounded();
        let mut rng = seeded(3);
        let plan = Plan::from_strategy(&mut rng, *strategy);
        pair.history(&mut rng, &plan, 1, 120)?;
    }
    let mut pair = Pair::by(Clock::Given, texts.clone());
    pair.fake = Fake::new().bounded();
    for limits in SEVERAL {
        pair.history(&mut seeded(4), &Plan::new(vec![set(limits)]), 2, 80)?;
    }
    let limits = set("x: 5000/m via sliding_log");
    for count in [999, 1000, 1999] {
        let mut fake = Fake::new().bounded();
        let mut rows = vec![[compose::set_tag(&limits).as_bytes(), &[0; 6]].concat()];
        for i in 1..=count {
            rows.push([&(NOW_US + i).to_be_bytes()[1..], &i.to_be_bytes()[2..]].concat());
        }
        let [_, (adjust, keys, mut args)] = rare(texts, &limits);
        args[1] = b"-1".to_vec();
        fake.put(&place(&limits).state, Stored::List(rows.clone().into()));
        fake.at(NOW_US + count + 1);
        fake.call(&adjust, &keys, &args);
        let last = count + 1;
        rows.push([&(NOW_US + last).to_be_bytes()[1..], &last.to_be_bytes()[2..]].concat());
        equal("log", fake.get(&place(&limits).state), Some(Stored::List(rows.into())))?;
        // The time, how long two keys lie, the mark of a reset, the state, the log, the sums of
        // holds and their set, DEL, the head, the events by the thousand, PEXPIRE, and how long
        // they lie now.
        equal("calls", fake.calls(), 13 + last.div_ceil(1000))?;
    }
    let mut pair = Pair::new(texts.clone());
    let limits = set("x: 5/s via gcra");
    let asked = [("somebody".to_owned(), limits.clone())];
    let outcome = pair.check(&asked, 1, Mode::Whole, NOW_US)?;
    let charge = Charge {
        number: 1,
        at_us: NOW_US,
        cost: outcome.granted.into(),
        parts: vec![("somebody".to_owned(), limits.clone(), vec![NOW_US])],
    };
    // Of the same microsecond as a reset: forgotten.
    pair.reset("somebody", &limits, NOW_US)?;
    pair.check(&asked, 1, Mode::Whole, NOW_US)?;
    pair.refund(&charge, charge.cost.clone(), NOW_US)?;
    let held = pair.model.counts.contains_key(&whose("somebody", &limits));
    equal("kept what was charged after a reset", held, true)
}
