//! The properties of each strategy, and the place of each of its bounds.
#![allow(clippy::unwrap_used)] // tests may unwrap

use tollgate::engine::{self, Mode, Part, VecStates};
use tollgate::{Carried, Limit, LimitSet, Strategy, Time, Traits};

fn traits(limit: &str) -> Traits {
    let limit: Limit = limit.parse().unwrap();
    limit.strategy().traits(limit.quota())
}

#[test]
fn every_strategy_says_what_a_quota_means() {
    for (limit, worst, sustained, bytes, burst) in [
        ("4/2s via uniform", 4, "4 per 2s", "16", "none: one each 500ms"),
        ("3/2s via uniform", 3, "3 per 2s", "16", "none: one each 2s/3"),
        ("4/2s burst 9 via gcra", 12, "4 per 2s", "16", "9 at once, then one each 500ms"),
        ("4/2s burst 9 via token_bucket", 12, "4 per 2s", "16", "9 at once, then one each 500ms"),
        (
            "4/2s burst 9 refill interval via token_bucket",
            13,
            "4 per 2s",
            "16",
            "9 at once, 4 more each 2s",
        ),
        (
            "4/2s burst 3 refill interval via token_bucket",
            6,
            "3 per 2s",
            "16",
            "3 at once, 4 more each 2s",
        ),
        (
            "4/2s burst 4 refill interval via token_bucket",
            8,
            "4 per 2s",
            "16",
            "4 at once, 4 more each 2s",
        ),
        (
            "4/2s via fixed_window",
            8,
            "4 per 2s",
            "16",
            "4 at once, and as many again across a window's edge",
        ),
        (
            "4/2s anchor first-hit via fixed_window",
            7,
            "4 per 2s",
            "16",
            "4 at once, and as many again across a window's edge",
        ),
        (
            "4/2s via sliding_log",
            4,
            "4 per 2s",
            "16 per remembered event, at most 4 of them",
            "4 at once, then none until they leave the window",
        ),
        (
            "4/2s via sliding_window",
            4,
            "10/11 of 4 per 2s",
            "8 x (10 + 2) = 96",
            "4 at once, then as the sub-buckets leave the window",
        ),
        (
            "4/2s precision 500ms rounding interpolate via sliding_window",
            7,
            "4 per 2s",
            "8 x (4 + 2) = 48",
            "4 at once, then as the sub-buckets leave the window",
        ),
        (
            "4/2s precision 2s rounding truncate via sliding_window",
            8,
            "4 per 2s",
            "8 x (1 + 2) = 24",
            "4 at once, then as the sub-buckets leave the window",
        ),
    ] {
        let said = traits(limit);
        assert_eq!(said.worst_window, worst, "{limit}");
        assert_eq!(said.sustained, sustained, "{limit}");
        assert_eq!(said.bytes, bytes, "{limit}");
        assert_eq!(said.burst, burst, "{limit}");
        assert!(!said.retry.is_empty(), "{limit}");
    }
}

#[test]
fn every_strategy_is_listed_with_its_page() {
    let names: Vec<_> = Strategy::RATES.iter().map(|s| s.name()).collect();
    let expected =
        ["uniform", "fixed_window", "sliding_log", "sliding_window", "token_bucket", "gcra"];
    assert_eq!(names, expected);
    for strategy in Strategy::RATES {
        assert!(strategy.page().starts_with("# "), "{strategy}");
    }
    let log = Strategy::SlidingLog;
    assert_eq!(log.summary(), "never more than N in any D, exactly: every event is remembered");
}

/// The largest numbers that are accepted, and the smallest that are refused.
#[test]
fn bounds_lie_where_the_definitions_say() {
    let most = |text: &str| text.parse::<LimitSet>().is_ok();
    // B*n < 2^53: with D = 1 us and N = 2^26 + 1, n = N, and B may be (2^53 - 1)/n.
    let n = (1_u64 << 26) + 1;
    let burst = ((1 << 53) - 1) / n;
    assert!(most(&format!("{n}/1us burst {burst} via gcra")));
    assert!(!most(&format!("{n}/1us burst {} via gcra", burst + 1)));
    // Exactly 2^53 is refused: n = 2^26, B = 2^27.
    assert!(!most(&format!("{}/1us burst {} via gcra", 1 << 26, 1 << 27)));
    // Counted in lowest terms: 2^30 per 1,024 us is 2^20 per us.
    assert!(most(&format!("{}/1024us via gcra", 1 << 30)));
    // B*T <= 2^51 us.
    for refill in ["greedy", "interval"] {
        let of = |burst: u64| format!("1/1us burst {burst} refill {refill} via token_bucket");
        assert!(most(&of(1 << 40)), "{refill}");
        let of = |burst: u64| format!("1/2048us burst {burst} refill {refill} via token_bucket");
        assert!(most(&of(1 << 40)), "{refill}");
        let of = |burst: u64| format!("1/2049us burst {burst} refill {refill} via token_bucket");
        assert!(!most(&of(1 << 40)), "{refill}");
        let fits = (1_u64 << 51) / 2049;
        assert!(most(&of(fits)), "{refill}");
        assert!(!most(&of(fits + 1)), "{refill}");
    }
    // An interval that brings several: the last one may be filled only in part.
    assert!(most("3/1d burst 78186 refill interval via token_bucket"));
    assert!(!most("3/1d burst 78187 refill interval via token_bucket"));
    // At most 1,000 sub-buckets, that divide the duration.
    assert!(most("5/1s precision 1ms via sliding_window"));
    assert!(!most("5/1001ms precision 1ms via sliding_window"));
    for (text, hint) in [
        ("5/7us via sliding_window", "`precision 1us`"),
        ("5/1s precision 300ms via sliding_window", "`precision 250ms`"),
        ("5/1s precision 2s via sliding_window", "`precision 1s`"),
        ("5/10s precision 3ms via sliding_window", "`precision 10ms`"),
    ] {
        let error = text.parse::<LimitSet>().unwrap_err().to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
}

/// Entries that no longer count are dropped when one comes in, not before.
#[test]
fn a_log_is_trimmed_by_admitted_checks_only() {
    let limits: LimitSet = "3/10us via sliding_log".parse().unwrap();
    let mut held = VecStates::fresh(&limits);
    let ask = |held: &mut VecStates, at: u64, cost: u64| {
        let mut parts = [Part::new(&limits, held)];
        engine::decide(&mut parts, Time::from_micros(at), cost.into(), Mode::Whole, None)
            .unwrap()
            .granted
    };
    assert_eq!([ask(&mut held, 0, 1), ask(&mut held, 4, 1), ask(&mut held, 4, 1)], [1, 1, 1]);
    assert_eq!(engine::fresh_at_us(&limits, &mut held), 14);
    let before = held.clone();
    assert_eq!(ask(&mut held, 11, 2), 0);
    assert_eq!(held, before);
    assert_eq!(ask(&mut held, 11, 1), 1);
    let log = &mut held.logs[0];
    use tollgate::strategy::Log;
    assert_eq!((log.len(), log.base()), (2, 1), "two microseconds are held");
}

/// When a charge can no longer be given back, and not a microsecond earlier.
#[test]
fn a_mark_of_a_refund_is_kept_as_long_as_the_charge_counts() {
    for (limit, at_us, cost, until_us) in [
        ("1/10us via uniform", 105, 1, 115),
        ("3/10us via gcra", 100, 2, 107),
        ("3/10us via gcra", 100, 3, 110),
        ("5/10us refill interval via token_bucket", 105, 2, 110),
        ("5/10us via fixed_window", 105, 2, 110),
        ("5/10us anchor first-hit via fixed_window", 105, 2, 115),
        ("5/10us via sliding_log", 105, 2, 115),
        ("5/10us precision 5us via sliding_window", 107, 2, 120),
        ("5/10us precision 5us rounding truncate via sliding_window", 107, 2, 115),
    ] {
        let limits: LimitSet = limit.parse().unwrap();
        let until = engine::spent_until_us(&limits.limits()[0], at_us, cost);
        assert_eq!(until, until_us, "{limit}");
    }
}

/// When a state is the same as a fresh one.
#[test]
fn a_state_is_fresh_when_nothing_counts() {
    for (limit, cost, fresh_at_us) in [
        ("1/10us via uniform", 1, 115),
        ("3/10us via gcra", 2, 112),
        ("5/10us burst 12 refill interval via token_bucket", 11, 130),
        ("5/10us via fixed_window", 2, 110),
        ("5/10us anchor first-hit via fixed_window", 2, 115),
        ("5/10us via sliding_log", 2, 115),
        ("5/10us precision 5us via sliding_window", 2, 120),
        ("5/10us precision 5us rounding truncate via sliding_window", 2, 115),
    ] {
        let limits: LimitSet = limit.parse().unwrap();
        let mut held = VecStates::fresh(&limits);
        assert_eq!(engine::fresh_at_us(&limits, &mut held), 0, "{limit}");
        let mut parts = [Part::new(&limits, &mut held)];
        let now = Time::from_micros(105);
        let outcome = engine::decide(&mut parts, now, cost.into(), Mode::Whole, None).unwrap();
        assert_eq!(outcome.granted, cost, "{limit}");
        assert_eq!(engine::fresh_at_us(&limits, &mut held), fresh_at_us, "{limit}");
        assert_eq!(outcome.fields[0].reset_after_us, fresh_at_us - 105, "{limit}");
    }
}

/// The ends of holds charge up to the whole debt, at any time: no unit of it counts longer than a
/// store keeps the count.
#[test]
fn all_that_can_be_used_counts_no_longer_than_is_said() {
    for (limit, longest_us) in [
        ("1/10us via uniform", 20),
        ("3/10us debt 4 via gcra", 24),
        ("4/10us burst 4 refill interval via token_bucket", 20),
        ("5/10us burst 12 refill interval via token_bucket", 50),
        ("5/10us via fixed_window", 10),
        ("5/10us anchor first-hit via fixed_window", 10),
        ("5/10us via sliding_log", 10),
        ("5/10us precision 5us via sliding_window", 15),
        ("5/10us precision 5us rounding truncate via sliding_window", 10),
        ("5/10us via sliding_log, 4/10us burst 4 refill interval via token_bucket", 20),
    ] {
        let limits: LimitSet = limit.parse().unwrap();
        assert_eq!(engine::longest_count_us(&limits), longest_us, "{limit}");
        for at_us in 1_000..1_030 {
            for earlier_us in 0..12 {
                let mut held = VecStates::fresh(&limits);
                for (time_us, cost) in [(at_us - earlier_us, 3), (at_us, u64::MAX)] {
                    engine::charge(
                        &limits,
                        &mut held,
                        cost.into(),
                        true,
                        Time::from_micros(time_us),
                    );
                }
                let counts_us = engine::fresh_at_us(&limits, &mut held) - at_us;
                assert!(counts_us <= longest_us, "{limit}: {counts_us} at {at_us}");
            }
        }
    }
}

/// The size of a state: a word more would be kept for every subject.
#[test]
fn states_have_the_words_they_need() {
    for (limit, words, logs) in [
        ("1/10us via uniform", 2, 0),
        ("3/10us via gcra", 2, 0),
        ("5/10us via token_bucket", 2, 0),
        ("5/10us refill interval via token_bucket", 2, 0),
        ("5/10us via fixed_window", 2, 0),
        ("5/10us via sliding_log", 0, 1),
        ("5/10us via sliding_window", 12, 0),
    ] {
        let limits: LimitSet = limit.parse().unwrap();
        assert_eq!((limits.words(), limits.logs()), (words, logs), "{limit}");
    }
}

/// The first window of all begins at 0, which is also the word of a fresh state.
#[test]
fn a_state_from_the_epoch_is_no_fresh_one() {
    for limit in ["5/10us via fixed_window", "5/10us anchor first-hit via fixed_window"] {
        let limits: LimitSet = limit.parse().unwrap();
        let mut held = VecStates::fresh(&limits);
        let mut parts = [Part::new(&limits, &mut held)];
        assert_eq!(
            engine::decide(&mut parts, Time::default(), 1.into(), Mode::Whole, None)
                .unwrap()
                .granted,
            1
        );
        assert_eq!(engine::fresh_at_us(&limits, &mut held), 10, "{limit}");
    }
}

/// One unit in the straddling bucket is all that counts, and it does.
#[test]
fn a_single_unit_counts_until_it_has_left() {
    for (rounding, reset_us) in [("conservative", 5), ("interpolate", 5), ("truncate", 0)] {
        let limit = format!("5/10us precision 5us rounding {rounding} via sliding_window");
        let limits: LimitSet = limit.parse().unwrap();
        let mut held = VecStates::fresh(&limits);
        let mut ask = |at, mode| {
            let mut parts = [Part::new(&limits, &mut held)];
            engine::decide(&mut parts, Time::from_micros(at), 1.into(), mode, None).unwrap().fields
                [0]
        };
        assert_eq!(ask(102, Mode::Whole).remaining, 4);
        let straddling = ask(110, Mode::Peek);
        assert_eq!(straddling.reset_after_us, reset_us, "{rounding}");
        assert_eq!(straddling.remaining, if reset_us == 0 { 5 } else { 4 }, "{rounding}");
    }
}

/// A bucket of one microsecond straddles in full, and for that one microsecond.
#[test]
fn a_bucket_of_one_microsecond_straddles() {
    let limits: LimitSet =
        "5/10us precision 1us rounding interpolate via sliding_window".parse().unwrap();
    let mut held = VecStates::fresh(&limits);
    let mut ask = |at, mode| {
        let mut parts = [Part::new(&limits, &mut held)];
        engine::decide(&mut parts, Time::from_micros(at), 1.into(), mode, None).unwrap().fields[0]
    };
    assert_eq!(ask(102, Mode::Whole).remaining, 4);
    for (at, remaining, reset_us) in [(111, 4, 2), (112, 4, 1), (113, 5, 0)] {
        let fields = ask(at, Mode::Peek);
        assert_eq!((fields.remaining, fields.reset_after_us), (remaining, reset_us), "{at}");
    }
}

/// Used units are carried over where the old places do not exist under the new numbers: a single
/// unit as well, and nothing when nothing was used.
#[test]
fn one_unit_is_carried_to_other_places() {
    for (was, is) in [
        ("precision 5us via sliding_window", "precision 2us via sliding_window"),
        ("via token_bucket", "refill interval via token_bucket"),
        ("refill interval via token_bucket", "via token_bucket"),
    ] {
        let was: LimitSet = format!("x: 5/10us {was}").parse().unwrap();
        let is: LimitSet = format!("x: 5/10us {is}").parse().unwrap();
        for (cost, remaining) in [(0, 5), (1, 4), (2, 3)] {
            let (mut old, mut new) = (VecStates::fresh(&was), VecStates::fresh(&is));
            let now = Time::from_micros(101);
            if cost > 0 {
                let mut parts = [Part::new(&was, &mut old)];
                assert_eq!(
                    engine::decide(&mut parts, now, cost.into(), Mode::Whole, None)
                        .unwrap()
                        .granted,
                    cost
                );
            }
            engine::migrate(&is, &mut new, &was, &mut old, now);
            let mut parts = [Part::new(&is, &mut new)];
            let fields =
                engine::decide(&mut parts, now, 1.into(), Mode::Peek, None).unwrap().fields[0];
            assert_eq!(fields.remaining, remaining, "{was} to {is}, {cost} consumed");
            if cost == 0 {
                assert_eq!(new, VecStates::fresh(&is));
            }
        }
    }
}

/// Other words for the same numbers are no change. The state is taken as it is, and a denial
/// repairs what a clock's step back left in the future.
#[test]
fn the_same_numbers_in_other_words_are_the_same_count() {
    for (was, is) in [
        ("x: 60/1m via uniform", "x: 1/1s via uniform"),
        ("x: 20/20s burst 1 via gcra", "x: 1/1s via gcra"),
    ] {
        let (was, is): (LimitSet, LimitSet) = (was.parse().unwrap(), is.parse().unwrap());
        let mut old = VecStates::fresh(&was);
        let mut parts = [Part::new(&was, &mut old)];
        assert_eq!(
            engine::decide(&mut parts, Time::from_micros(10_000_000), 1.into(), Mode::Whole, None)
                .unwrap()
                .granted,
            1
        );
        let mut new = VecStates::fresh(&is);
        let now = Time::from_micros(5_000_000);
        let carried = engine::migrate(&is, &mut new, &was, &mut old, now);
        assert_eq!(carried[..], [Carried::Same]);
        assert_eq!(new, old);
        let mut parts = [Part::new(&is, &mut new).carrying(carried)];
        let outcome = engine::decide(&mut parts, now, 1.into(), Mode::Whole, None).unwrap();
        assert_eq!((outcome.granted, outcome.changed), (0, true), "{is}");
        // A state in the future is cut to the burst and its debt, a unit each.
        assert_eq!(outcome.fields[0].retry_after_us, Some(2_000_000));
    }
}

/// A charge from before the burst was lowered gives back the debt of a full bucket, and no more.
#[test]
fn a_charge_above_the_present_burst_is_given_back() {
    let was: LimitSet = "x: 1000000000000/366d via gcra".parse().unwrap();
    let is: LimitSet = "x: 1/366d via gcra".parse().unwrap();
    let mut held = VecStates::fresh(&is);
    let now = Time::from_micros(1_000_000);
    let mut parts = [Part::new(&is, &mut held)];
    assert_eq!(engine::decide(&mut parts, now, 1.into(), Mode::Whole, None).unwrap().granted, 1);
    let cost = 1_000_000_000_000;
    let whole = engine::Portion::whole(cost.into());
    let part = &mut Part::new(&is, &mut held);
    let given = engine::refund(part, &was, (&[1_000_000], now), &whole, now);
    assert_eq!(given[..], [1]);
    assert_eq!(held, VecStates::fresh(&is));
}

#[test]
fn a_log_says_whether_it_is_empty() {
    use tollgate::strategy::{Entry, Log};
    let mut log = engine::VecLog::default();
    assert!(log.is_empty());
    log.push(Entry { at_us: 1, total: 1 });
    assert!(!log.is_empty());
}

/// The part of a unit that is still to come back is scaled to the new time of a unit, exactly, and
/// rounded up to a whole microsecond.
#[test]
fn the_part_of_a_unit_is_scaled() {
    let was: LimitSet = "x: 3/10us burst 9 via gcra".parse().unwrap();
    for (is, elapsed_us, reset_us) in [
        // Three units are 10 us. After 5 us half a unit and a whole one are left,
        ("x: 1/1000000us burst 9 via gcra", 5, 1_500_000),
        ("x: 3/20us burst 9 via gcra", 5, 11),
        ("x: 7/1us burst 9 via gcra", 5, 2),
        // and after 6 us a fifth of a unit and a whole one.
        ("x: 1/1000000us burst 9 via gcra", 6, 1_200_000),
        ("x: 1/1000us burst 9 via gcra", 6, 1_200),
    ] {
        let is: LimitSet = is.parse().unwrap();
        let (mut old, mut new) = (VecStates::fresh(&was), VecStates::fresh(&is));
        let mut parts = [Part::new(&was, &mut old)];
        let charged =
            engine::decide(&mut parts, Time::from_micros(300), 3.into(), Mode::Whole, None)
                .unwrap();
        assert_eq!(charged.granted, 3);
        let now = Time::from_micros(300 + elapsed_us);
        engine::migrate(&is, &mut new, &was, &mut old, now);
        let mut parts = [Part::new(&is, &mut new)];
        let fields = engine::decide(&mut parts, now, 1.into(), Mode::Peek, None).unwrap().fields[0];
        assert_eq!(fields.reset_after_us, reset_us, "{is}");
    }
}
