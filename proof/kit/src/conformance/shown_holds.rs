//! The open holds in an inspection: which there are, and how old each is.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case fails by panicking")]

use core::time::Duration;

use tollgate::{Ask, Hold};

use super::StoreMaker;
use super::world::{START_US, World, block_on, set};

/// An inspection shows the open holds; each can be given back.
pub(super) fn an_inspection_shows_open_holds<M: StoreMaker>(maker: &M) {
    for limits in ["1000/m via gcra, 200 at once hold 9s", "1000/m via sliding_log"] {
        let world = World::new(maker, limits, START_US);
        let shown = || {
            let held = world.inspect("job").map(|held| (held.open, held.holds));
            held.unwrap_or_default()
        };
        let mut open: Vec<Hold> = Vec::new();
        for number in 0..44 {
            let ttl = Duration::from_millis(8_000 - number * 10);
            let held = block_on(world.limiter.hold(Ask::new("job").cost(1 + number).reserve(ttl)));
            open.extend(held.unwrap().hold);
        }
        // 44 reserves of 1 to 44 units: 990 of them.
        assert_eq!(open.len(), 44, "{limits}");
        let (total, holds) = shown();
        assert_eq!((total, holds.len()), (44, 44), "{limits}");
        let first = &holds[0].hold;
        assert_eq!(
            (first.id, first.cost.plain()),
            (open[43].id, Some(44)),
            "{limits}: the first to end is first"
        );
        assert_eq!(first.end_us, open[43].end.as_micros());
        // The shown text gives back a hold that nobody has any more.
        let count = (tollgate::Subject::literal("job").unwrap(), set(limits));
        let end = tollgate::Time::from_micros(first.end_us);
        let stuck = Hold::new(first.id, 0, first.cost.clone(), end, [count]);
        assert!(block_on(world.limiter.release(&stuck)).unwrap(), "{limits}");
        assert_eq!(shown().0, 43);
        // A hold that is due is not shown, although nobody has removed it yet.
        world.at(open[40].end.as_micros());
        let (total, holds) = shown();
        assert_eq!((total, holds[0].hold.id), (40, open[39].id), "{limits}");
        world.at(START_US + 9_000_000);
        assert_eq!(shown(), (0, Vec::new()), "{limits}");
    }
    // No more than a page is shown.
    let world = World::new(maker, "200 at once hold 9s", START_US);
    for _ in 0..105 {
        assert!(block_on(world.limiter.hold(Ask::new("job").acquire())).unwrap().hold.is_some());
    }
    let held = world.inspect("job").unwrap();
    assert_eq!((held.open, held.holds.len()), (105, tollgate::MAX_SHOWN_HOLDS));
}

/// An inspection shows how old each open hold is: since when it is open, however often it was
/// renewed and wherever the clock went.
pub(super) fn an_inspection_shows_how_old_holds_are<M: StoreMaker>(maker: &M) {
    const MS: u64 = 1_000;
    for limits in ["1000/m via gcra, 200 at once hold 9s", "1000/m via sliding_log"] {
        let world = World::new(maker, limits, START_US);
        let place = |cost, ttl_ms| {
            let ttl = Duration::from_millis(ttl_ms);
            block_on(world.limiter.hold(Ask::new("job").cost(cost).reserve(ttl)))
                .unwrap()
                .hold
                .unwrap()
        };
        let renew = |hold: &mut Hold, ttl_ms| {
            let ttl = Some(Duration::from_millis(ttl_ms));
            assert!(block_on(world.limiter.renew(hold, ttl)).unwrap(), "{limits}");
        };
        // The costs of the holds, and how many milliseconds each is old.
        let ages = || -> Vec<(u64, u64)> {
            let each = world.shown("job").into_iter().map(|(_, cost, age_us)| {
                assert_eq!(age_us % MS, 0, "{limits}: exact to the microsecond");
                (cost, age_us / MS)
            });
            each.collect()
        };
        let at = |ms: u64| world.at(START_US + ms * MS);
        let mut first = place(1, 2_000);
        assert_eq!(ages(), [(1, 0)], "{limits}");
        at(1);
        // Two of one time; the later one's fencing number is larger than the time.
        let mut second = place(2, 5_000);
        place(3, 6_000);
        assert_eq!(ages(), [(1, 1), (2, 0), (3, 0)], "{limits}");
        at(1_500);
        renew(&mut first, 7_000);
        assert_eq!(ages(), [(2, 1_499), (3, 1_499), (1, 1_500)], "{limits}");
        at(3_000);
        // Shorter than it was, and once more.
        renew(&mut first, 1_000);
        renew(&mut second, 2_500);
        assert_eq!(ages(), [(1, 3_000), (2, 2_999), (3, 2_999)], "{limits}");
        // A clock that is a little behind, and one that steps back: no hold is younger for it.
        at(2_400);
        assert_eq!(ages(), [(1, 3_000), (2, 2_999), (3, 2_999)], "{limits}");
        world.at(START_US - 10_000 * MS);
        assert_eq!(ages(), [(1, 3_000), (2, 2_999), (3, 2_999)], "{limits}");
        place(4, 9_000);
        assert_eq!(ages()[3], (4, 0), "{limits}");
        world.at(START_US - 9_400 * MS);
        renew(&mut second, 4_000);
        assert_eq!(ages(), [(1, 3_600), (3, 3_599), (2, 3_599), (4, 600)], "{limits}");
        assert!(block_on(world.limiter.release(&first)).unwrap(), "{limits}");
        assert_eq!(ages(), [(3, 3_599), (2, 3_599), (4, 600)], "{limits}");
        // A hold over two counts is as old on each, also where the clock of one was ahead.
        world.at(START_US - 9_900 * MS);
        let both = Ask::new("job").and("other").cost(5);
        let both = block_on(world.limiter.hold(both.reserve(Duration::from_secs(9)))).unwrap();
        assert!(both.hold.is_some());
        assert_eq!(world.shown("other").first().map(|it| (it.1, it.2)), Some((5, 0)), "{limits}");
    }
    if super::named_holds::keeps_names(maker) {
        named_holds_are_as_old(maker);
    }
}

/// A hold with a name is as old as its first answer; another hold of the name starts again.
fn named_holds_are_as_old<M: StoreMaker>(maker: &M) {
    let world = World::new(maker, "3 at once hold 9s", START_US);
    let ages_ms = || -> Vec<u64> {
        world.shown("job").into_iter().map(|(.., age_us)| age_us / 1_000).collect()
    };
    let at = |ms: u64| world.at(START_US + ms * 1_000);
    let acquire = || {
        let ask = Ask::new("job").named(super::named_holds::name(1));
        block_on(world.limiter.hold(ask.acquire())).unwrap().hold.expect("a slot")
    };
    acquire();
    at(2_000);
    let mut hold = acquire();
    assert_eq!((hold.answer, ages_ms()), (2, vec![2_000]));
    assert!(block_on(world.limiter.renew(&mut hold, None)).unwrap());
    at(4_000);
    let mut again = acquire();
    assert_eq!((again.answer, ages_ms()), (3, vec![4_000]));
    assert!(block_on(world.limiter.renew(&mut again, None)).unwrap());
    // By its name alone, too.
    at(5_000);
    let ask = Ask::new("job").named(super::named_holds::name(1));
    let mut named = ask.named_hold(world.limiter.limits()).unwrap();
    let short = Some(Duration::from_millis(1_500));
    assert!(block_on(world.limiter.renew(&mut named, short)).unwrap());
    at(6_000);
    assert_eq!(ages_ms(), [6_000]);
    // It ends, and another one takes its name immediately.
    at(6_500);
    assert_eq!(acquire().answer, 1);
    at(6_700);
    assert_eq!(ages_ms(), [200]);
}
