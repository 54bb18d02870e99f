//! Holds at the edges: the bytes that are kept, equal ends, clocks that are behind, and sums, sets
//! and numbers that do not belong together.

use super::NOW_US;
use super::holds::{ID, World, expect, id, sums_of};
use crate::lua::fake::{Reply, Stored};
use crate::lua::histories::{Difference, Texts};

/// Limits: the fast path knows the first and not the second.
const BOTH: [&str; 2] = ["x: 7/m via gcra", "x: 7/m via sliding_log"];

/// The numbers of each limit of a reply: the remaining units, the wait, until all is free, whether
/// a hold is in the way, when a charge is recorded, and the effect of new numbers.
fn rows(reply: &Reply) -> Vec<Vec<i64>> {
    reply.integers()[4..].chunks(6).map(<[i64]>::to_vec).collect()
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap()
}

/// Ids of other kinds than a reserve.
fn charging(number: u64) -> String {
    format!("63{number:030x}")
}

fn acquired(number: u64) -> String {
    format!("61{number:030x}")
}

/// The member of a set that an id of hexadecimal digits is, with a cost.
fn member(id: &str, cost: u64) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).unwrap();
    let mut bytes: Vec<u8> = (0..id.len()).step_by(2).map(byte).collect();
    if cost > 1 {
        bytes.extend_from_slice(&cost.to_be_bytes()[2..]);
    }
    bytes
}

/// A hold is kept as 16 bytes by its end, and a cost above 1 behind them; its sums by kind.
pub(super) fn written(texts: &Texts) -> Result<(), Difference> {
    let stop = NOW_US + 2_000_000;
    for limits in [BOTH[0], BOTH[1], "x: 7 at once"] {
        let mut world = World::new(texts, limits);
        for cost in [1, 2, 3] {
            for (kind, units, charges, slots) in
                [("72", cost, 0, 1), ("63", cost, cost, 1), ("61", 0, 0, cost)]
            {
                if kind == "61" && !limits.contains("at once") {
                    continue;
                }
                let id = format!("{kind}a1b2c3d4e5f60718293a4b5c6d7e8f");
                world.fake.clear();
                world.place(&id, cost, 2_000_000);
                let wanted = Stored::Sorted([(stop, member(&id, cost))].into());
                expect(&format!("{limits}: {id}"), world.fake.get(&world.open()), Some(wanted))?;
                let version = if charges > 0 { 3 } else { 1 };
                let sums = vec![version, 1, units, charges, slots, NOW_US, NOW_US, stop, stop];
                expect(&format!("{limits}: the sums of {id}"), world.sums(), sums)?;
                world.settle_of(&id, cost, "0");
                expect(&format!("{limits}: {id} settled"), world.fake.get(&world.open()), None)?;
                let sums = world.sums()[..5].to_vec();
                expect(&format!("{limits}: the sums then"), sums, vec![1, 0, 0, 0, 0])?;
            }
        }
    }
    Ok(())
}

/// A clock that is a second behind has not stepped back; by a microsecond more it has, and takes
/// the ends along.
pub(super) fn behind(texts: &Texts) -> Result<(), Difference> {
    for limits in [BOTH[0], BOTH[1], "x: 7 at once"] {
        for (behind, at) in [(1_000_000, NOW_US), (1_000_001, NOW_US - 1_000_001)] {
            let mut world = World::new(texts, limits);
            world.ask(&id(1), None);
            world.fake.at(NOW_US - behind);
            world.fast = limits != BOTH[1] && behind == 1_000_000;
            let reply = world.ask(&id(2), None);
            let Reply::List(_) = &reply else { return Err(format!("{limits}: {reply:?}")) };
            let stop = at + 2_000_000;
            expect(&format!("{limits}: the end"), reply.integers()[3], int(stop))?;
            let sums = world.sums()[5..].to_vec();
            expect(&format!("{limits}: {behind}"), sums, vec![NOW_US + 1, at, stop, stop])?;
            let both = [(stop, member(&id(1), 1)), (stop, member(&id(2), 1))];
            let wanted = Some(Stored::Sorted(both.into()));
            expect(&format!("{limits}: the set"), world.fake.get(&world.open()), wanted)?;
        }
    }
    Ok(())
}

/// A time that a double cannot represent is an error even where nothing is counted since; the
/// largest that it can represent is not.
pub(super) fn inexact(texts: &Texts) -> Result<(), Difference> {
    for limits in ["8/10s via fixed_window", "9/4s burst 5 refill interval via token_bucket"] {
        for (time, admitted) in [((1_u64 << 53) - 1, true), (1 << 53, false)] {
            let mut world = World::new(texts, limits);
            world.ask(&id(1), None);
            let Some(Stored::Text(mut state)) = world.fake.get(&world.key) else {
                return Err(format!("{limits}: no state"));
            };
            state.truncate(state.len() - 13);
            state.extend([&time.to_be_bytes()[1..], &[0; 6]].concat());
            world.fake.put(&world.key, Stored::Text(state));
            world.fast = admitted;
            let reply = world.ask(&id(2), None);
            let found = match &reply {
                Reply::List(_) => admitted,
                Reply::Error(text) => !admitted && text.contains("TOLLGATE the state is damaged"),
                _ => false,
            };
            expect(&format!("{limits}: {time}: {reply:?}"), found, true)?;
        }
    }
    Ok(())
}

/// The reply reports the numbers' change. Logs that another strategy counts under now are gone,
/// even where a server dropped the state that named them.
pub(super) fn numbers(texts: &Texts) -> Result<(), Difference> {
    let logs = "x: 7/m via sliding_log, y: 5/m via sliding_log";
    let pairs = "x: 7/m via gcra, y: 5/m via fixed_window";
    for (before, after, policy, is_evicted, carried) in [
        ("x: 7/m via gcra", "x: 7/m via gcra", "", false, 0),
        ("x: 7/m via gcra", "x: 7/s via gcra", "", false, 1),
        ("x: 7/m via sliding_log", "x: 9/m via sliding_log", "", false, 1),
        ("x: 7/m via fixed_window", "x: 7/m via gcra", "", false, 2),
        (logs, pairs, "", false, 2),
        (logs, pairs, "", true, 2),
        (logs, pairs, "api>", false, 2),
    ] {
        let mut world = World::new(texts, before);
        world.key = world.key.replace("}:", &format!("}}:{policy}"));
        world.ask("", None);
        let log = format!("{}~x", world.key);
        expect(&log, world.fake.get(&log).is_some(), before == logs)?;
        if is_evicted {
            world.fake.evict(&world.key);
        }
        world.limits = after.to_owned();
        for row in rows(&world.ask(ID, None)) {
            expect(&format!("{before} -> {after}"), row[5], carried)?;
        }
        let lists = world.fake.keys().into_values().filter(|held| matches!(held, Stored::List(_)));
        let wanted = usize::from(after.contains("log"));
        expect(&format!("{before} -> {after}: logs"), lists.count(), wanted)?;
        // Now the numbers are those that it was written with.
        for row in rows(&world.ask(&id(2), None)) {
            expect(&format!("{after} again"), row[5], 0)?;
        }
    }
    Ok(())
}

/// The last end is that of the holds still open, also where several end together.
pub(super) fn last_ends(texts: &Texts) -> Result<(), Difference> {
    for limits in [BOTH[0], BOTH[1], "x: 7 at once"] {
        let mut world = World::new(texts, limits);
        for order in [[2, 3, 4], [4, 3, 2], [3, 2, 4]] {
            world.fake.clear();
            world.place(&id(1), 1, 1_000_000);
            for number in [2, 3, 4] {
                world.place(&id(number), 1, 2_000_000);
            }
            for (number, last) in order.into_iter().zip([2_000_000, 2_000_000, 1_000_000]) {
                world.settle(&id(number), "0");
                let what = format!("{limits}: without {number} of {order:?}");
                expect(&what, world.sums()[8], NOW_US + last)?;
            }
        }
        // A hold that is placed when none is open ends last, though another would have ended later.
        world.settle(&id(1), "0");
        world.place(&id(5), 1, 500_000);
        let end = NOW_US + 500_000;
        expect(&format!("{limits}: alone"), world.sums()[7..].to_vec(), vec![end, end])?;
    }
    Ok(())
}

/// A commit above a limit's debt is cut, and its answer counts the units that others keep.
pub(super) fn owed(texts: &Texts) -> Result<(), Difference> {
    let mut world = World::new(texts, "x: 7/m debt 0 via gcra");
    world.place(&id(1), 3, 2_000_000);
    world.place(&id(2), 1, 2_000_000);
    let settled = world.settle(&id(2), "8").integers();
    expect("more than may be owed", settled[..6].to_vec(), vec![2, 8, 0, 1, 0, -1])
}

/// More slots are taken than there are any more: none is left, not fewer.
pub(super) fn fewer_slots(texts: &Texts) -> Result<(), Difference> {
    let mut world = World::new(texts, "x: 4 at once");
    for number in 1..=4 {
        world.ask(&id(number), None);
    }
    world.limits = "x: 2 at once".to_owned();
    expect("a denial", world.ask(&id(5), None).integers()[0], 0)?;
    world.fast = true;
    // Three are still open; five units would never be admitted.
    let settled = world.settle(&id(1), "5").integers();
    expect("the slots", settled, vec![2, 5, 1, 0, 0, -1, 2_000_000])
}

/// Sums live as long as their holds and the charges of those, rounded up to a millisecond, and as
/// long as the next fencing number must be larger; and always a second more.
pub(super) fn fenced(texts: &Texts) -> Result<(), Difference> {
    for limits in [BOTH[0], BOTH[1], "x: 7 at once"] {
        let mut world = World::new(texts, limits);
        let sums = format!("{}@sums", world.key);
        for (ahead, left) in [(200_000, 1_800), (1_500_000, 1_000)] {
            world.fake.clear();
            world.fake.at(NOW_US);
            world.place(ID, 1, 1_600_001);
            expect(&format!("{limits}: open"), world.fake.lifetime(&sums), Some(2_601))?;
            world.fake.at(NOW_US + ahead);
            world.settle(ID, "0");
            expect(&format!("{limits}: {ahead}"), world.fake.lifetime(&sums), Some(left))?;
        }
    }
    Ok(())
}

/// The first integers that a state can have are not taken for nothing.
pub(super) fn beginning_of_time(texts: &Texts) -> Result<(), Difference> {
    for actual in ["1", "3"] {
        let mut world = World::new(texts, "x: 3/1us burst 9 via gcra");
        world.fake.at(0);
        world.fast = true;
        world.ask(ID, None);
        world.settle(ID, actual);
        expect(&format!("a state of {actual}"), world.fake.get(&world.key).is_some(), true)?;
        expect("the first fencing number", world.sums()[..6].to_vec(), vec![1, 0, 0, 0, 0, 1])?;
    }
    Ok(())
}

/// A server dropped holds, and not their sums: those are computed again when an end is due.
pub(super) fn dropped(texts: &Texts) -> Result<(), Difference> {
    for limits in BOTH {
        let later = NOW_US + 3_000_000;
        let mut world = World::new(texts, limits);
        for (kept, peeked) in
            [(vec![1, 2], 6), (vec![2, 3], 4), (vec![2], 6), (vec![1], 7), (vec![], 7)]
        {
            world.fake.clear();
            world.fake.at(NOW_US);
            world.place(&id(1), 1, 1_000_000);
            world.place(&charging(2), 1, 3_000_000);
            world.place(&id(3), 2, 3_000_000);
            let each = kept.iter().map(|number| match number {
                1 => (NOW_US + 1_000_000, member(&id(1), 1)),
                2 => (later, member(&charging(2), 1)),
                _ => (later, member(&id(3), 2)),
            });
            world.fake.put(&world.open(), Stored::Sorted(each.collect()));
            world.fake.at(NOW_US + 1_000_000);
            let what = format!("{limits}: {kept:?}");
            let peek = rows(&world.question("peek", "", 1, 0));
            expect(&format!("{what}: a peek"), peek[0][0], peeked)?;
            let (end, fence) = (NOW_US + 2_000_000, world.sums()[5]);
            let settled = world.settle(&id(4), "0").integers();
            expect(&format!("{what}: one that is not open"), settled[..2].to_vec(), vec![0, 0])?;
            let [open, units, charges] = match kept[..] {
                [2, 3] => [2, 3, 1],
                [1, 2] | [2] => [1, 1, 1],
                _ => [0; 3],
            };
            let [first, last] = if open > 0 { [later; 2] } else { [0; 2] };
            let now_us = NOW_US + 1_000_000;
            let version = if charges > 0 { 3 } else { 1 };
            let sums = vec![version, open, units, charges, open, fence, now_us, first, last];
            expect(&format!("{what}: the sums"), world.sums(), sums)?;
            world.place(&id(4), 1, 1_000_000);
            let last = last.max(end);
            let more = [open + 1, units + 1, charges, open + 1, now_us, now_us, end, last];
            let sums = [&[version][..], &more].concat();
            expect(&format!("{what}: one more"), world.sums(), sums)?;
        }
    }
    Ok(())
}

/// A server dropped the sums, and neither the set nor the state: the holds are counted again. Where
/// it dropped the state too, or a clock stepped back to before the set was over, they are over, and
/// none is left behind.
pub(super) fn orphans(texts: &Texts) -> Result<(), Difference> {
    for limits in ["x: 2 at once", "x: 2/m via gcra", "x: 2/m via sliding_log"] {
        for (state, fast) in [(true, false), (false, false), (false, true)] {
            let mut world = World::new(texts, limits);
            let what = format!("{limits}: with its state {state}, fast {fast}");
            world.place(&charging(1), 1, 2_000_000);
            world.place(&id(2), 1, 2_000_000);
            world.fake.evict(&format!("{}@sums", world.key));
            if !state {
                world.fake.evict(&world.key);
            }
            world.fast = fast;
            let third = world.place(&id(3), 1, 2_000_000);
            if fast {
                // Cases that are not simple are left to the general functions.
                expect(&what, third, Reply::Text(b"none".to_vec()))?;
                continue;
            }
            let open = if state { [0, 2] } else { [1, 1] };
            let granted = u64::try_from(third.integers()[0]).unwrap_or(9);
            expect(&what, [granted, world.sums()[1]], open)?;
            world.fast = false;
            let settled = world.settle(&id(2), "0").integers();
            expect(&what, settled[0], if state { 2 } else { 0 })?;
            let left = rows(&world.question("peek", "", 1, 0));
            expect(&what, left[0][0], 1)?;
        }
    }
    Ok(())
}

/// A server dropped the set, and then a hold was placed: when that is settled, those that are gone
/// end no later than it did.
pub(super) fn evicted(texts: &Texts) -> Result<(), Difference> {
    // The charge of the end counts for ten seconds, or to the end of its minute.
    for (limits, until) in
        [("x: 6/m via gcra", 12_000_000), ("x: 6/m via fixed_window", 54_876_544)]
    {
        let mut world = World::new(texts, limits);
        world.place(&charging(1), 1, 1_000_000);
        world.fake.evict(&world.open());
        world.place(&id(2), 1, 2_000_000);
        let settled = world.settle(&id(2), "0").integers();
        expect(limits, settled, vec![2, 0, 1, 0, 5, 0, until])?;
        let sums = world.sums();
        let last = NOW_US + 2_000_000;
        expect(limits, [&sums[..5], &sums[8..]].concat(), vec![3, 1, 1, 1, 1, last])?;
        let denied = rows(&world.question("whole", "", 6, 0));
        expect(limits, denied[0][..4].to_vec(), vec![5, until, until, 1])?;
        // When the first would have ended, all are counted again.
        world.fake.at(NOW_US + 1_000_000);
        world.place(&id(3), 1, 2_000_000);
        expect(limits, world.sums()[..5].to_vec(), vec![1, 1, 1, 0, 1])?;
    }
    Ok(())
}

/// A state that names holds, when those are forgotten, names none once it is written.
pub(super) fn forgotten(texts: &Texts) -> Result<(), Difference> {
    for limits in BOTH {
        let mut world = World::new(texts, limits);
        for _ in 0..6 {
            world.ask("", None);
        }
        world.ask(ID, None);
        let names_holds = |world: &World<'_>| {
            let state = match world.fake.get(&world.key) {
                Some(Stored::Text(state)) => state,
                Some(Stored::List(rows)) => rows[0].clone(),
                other => panic!("{limits}: {other:?}"),
            };
            state.windows(2).any(|two| two == b"h|")
        };
        expect(&format!("{limits}: a hold"), names_holds(&world), true)?;
        world.fake.at(NOW_US + 8_000_000);
        world.fake.forget();
        expect(&format!("{limits}: forgotten"), world.sums(), Vec::new())?;
        let denied = world.question("whole", "", 7, 0).integers();
        expect(&format!("{limits}: a denial"), denied[0], 0)?;
        expect(&format!("{limits}: no hold"), names_holds(&world), false)?;
    }
    Ok(())
}

/// Sums that say less than their holds keep: no less than nothing is kept when one has ended.
pub(super) fn less_kept(texts: &Texts) -> Result<(), Difference> {
    let mut world = World::new(texts, "x: 6/m via gcra");
    world.ask("", None);
    world.place(&id(1), 3, 2_000_000);
    world.place(&id(2), 1, 20_000_000);
    let (first, last) = (NOW_US + 2_000_000, NOW_US + 20_000_000);
    world.put_sums(sums_of([1, 2, 1, 0, 2, NOW_US, NOW_US, first, last]));
    let denied = rows(&world.question("whole", "", 6, 0));
    // All six are back when the one that was charged is.
    expect("a denial", denied[0][..2].to_vec(), vec![4, 10_000_000])
}

/// A denial looks at 64 ends, and finds what fits before the last of those; else it waits for the
/// last of all. So does a peek, from the first end on that is not due.
pub(super) fn most_ends(texts: &Texts) -> Result<(), Difference> {
    let ttl = |number: u64| 1_000_000 + 1_000 * number;
    let mut world = World::new(texts, "x: 68 at once");
    for number in 1..=68 {
        world.place(&acquired(number), 1, ttl(number));
    }
    for (cost, end) in [(62, 62), (63, 63), (64, 68), (68, 68)] {
        let denied = rows(&world.place(&acquired(99), cost, 1_000_000));
        expect(&format!("{cost} slots"), denied[0][..2].to_vec(), vec![0, int(ttl(end))])?;
    }
    world.fake.at(NOW_US + ttl(2));
    for (cost, end) in [(64, 64), (65, 65), (66, 68), (68, 68)] {
        let peek = rows(&world.question("peek", "", cost, 0));
        let wait = int(ttl(end) - ttl(2));
        expect(&format!("a peek of {cost}"), peek[0][..2].to_vec(), vec![2, wait])?;
    }
    // The charge of a hold that is not looked at counts after the last end, and nothing else does.
    for (charges, wait) in [(false, 0), (true, 1_000_000)] {
        let mut world = World::new(texts, "x: 66/66s via gcra");
        for number in 1..=66 {
            let id = if charges && number == 66 { charging(number) } else { id(number) };
            world.place(&id, 1, ttl(number));
        }
        let denied = rows(&world.question("whole", "", 66, 0));
        expect("all units", denied[0][..2].to_vec(), vec![0, int(ttl(66)) + wait])?;
    }
    Ok(())
}

/// Where a window ends with the last hold that a denial looks at, it waits for the last of all.
pub(super) fn end_of_window(texts: &Texts) -> Result<(), Difference> {
    let mut world = World::new(texts, "x: 100/10s via fixed_window");
    let until = 10_000_000 - NOW_US % 10_000_000;
    for number in 1..=66 {
        let ttl = match number {
            64 => until,
            65.. => until + 1_000_000,
            _ => 1_000_000 + number,
        };
        world.place(&id(number), 1, ttl);
    }
    // Nothing is left of this window.
    world.place(&id(99), 1, 1_000_000);
    world.settle(&id(99), "100");
    let denied = rows(&world.question("whole", "", 20, 0));
    expect("twenty units", denied[0][..2].to_vec(), vec![0, int(until) + 1_000_000])
}

/// More holds than a denial looks at end together: all of them have ended then.
pub(super) fn ends_together(texts: &Texts) -> Result<(), Difference> {
    for (limits, kind) in [("x: 70 at once", "61"), ("x: 70/h via gcra", "72")] {
        let mut world = World::new(texts, limits);
        for number in 1..=70 {
            world.place(&format!("{kind}{number:030x}"), 1, 2_000_000);
        }
        let denied = rows(&world.place(&format!("{kind}{:030x}", 99), 70, 1_000_000));
        expect(limits, denied[0][..4].to_vec(), vec![0, 2_000_000, 2_000_000, 1])?;
    }
    Ok(())
}

/// A right that is missing is named before anything is written.
pub(super) fn rights(texts: &Texts) -> Result<(), Difference> {
    for limits in BOTH {
        for name in ["ZADD", "ZREM", "SET", "PEXPIRE", "DEL"] {
            for what in ["place", "settle"] {
                let mut world = World::new(texts, limits);
                world.place(ID, 1, 2_000_000);
                let before = world.fake.keys();
                world.fake.deny(Some(name));
                let reply = match what {
                    "place" => world.place(&id(2), 1, 2_000_000),
                    _ => world.settle(ID, "1"),
                };
                // A script asks for all its keys; its fast path for those it uses.
                let is_fast = limits == BOTH[0];
                let goes_on = match what {
                    "place" => is_fast && ["ZREM", "DEL"].contains(&name),
                    _ => is_fast && name == "ZADD",
                };
                if goes_on {
                    expect(what, matches!(reply, Reply::List(_)), true)?;
                    continue;
                }
                let wanted = format!("NOPERM TOLLGATE {}", name.to_lowercase());
                let case = format!("{limits}: {what} without {name}");
                expect(&case, reply, Reply::Error(wanted))?;
                expect(&case, world.fake.keys() == before, true)?;
            }
        }
    }
    Ok(())
}
