//! Histories of nodes with leases.

use super::*;
use tollgate_proof::Random;

/// A burst of ten and ten a second; each node holds at most three units for 100 ms.
const LIMITS: &str = "\"10/1s via gcra lease 3 for 100ms\"";

/// So many allowed calls of a client, each from the one instant to the other.
fn calls(client: &str, ids: core::ops::Range<u64>, from_us: u64, to_us: u64) -> String {
    ids.map(|id| {
        format!(
            "call id={id} client={client} invoked={from_us} returned={to_us} subject=x \
             limits={LIMITS} cost=1 outcome=allowed\n"
        )
    })
    .collect()
}

fn verdict(text: &str, nodes: Option<u64>) -> Verdict {
    report_with(text, &Bounds { nodes, ..Bounds::default() }).verdict(Promise::Bound)
}

#[test]
fn what_two_nodes_held_is_within_the_bound_and_one_more_is_not() {
    // At most min(10 + 2 x 3, what 100 ms more admit: 10 + 1), which is 11.
    let held = calls("a", 0..6, 1_000, 2_000) + &calls("b", 6..11, 1_000, 2_000);
    assert_eq!(verdict(&held, None), Verdict::Held);
    let broken = held.clone() + &calls("b", 11..12, 1_500, 2_500);
    assert_eq!(verdict(&broken, None), Verdict::Broken);
    let report = report(&broken);
    assert_eq!(shown(&report, Promise::Bound).len(), 12, "{report}");
}

#[test]
fn the_nodes_are_the_clients_unless_their_number_is_stated() {
    // Without nodes nothing is held beyond the limit itself.
    let text = calls("a", 0..11, 1_000, 2_000);
    assert_eq!(verdict(&text, Some(1)), Verdict::Held);
    assert_eq!(verdict(&text, Some(0)), Verdict::Broken);
}

#[test]
fn calls_that_may_lie_close_or_not_decide_nothing() {
    let text = calls("a", 0..11, 1_000, 2_000) + &calls("b", 11..14, 1_000, 4_000_000);
    assert_eq!(verdict(&text, None), Verdict::Unknown);
}

#[test]
fn what_leaves_the_window_makes_room() {
    let text = calls("a", 0..11, 1_000, 2_000) + &calls("a", 11..20, 1_100_000, 1_101_000);
    assert_eq!(verdict(&text, None), Verdict::Held);
    let early = calls("a", 0..11, 1_000, 2_000) + &calls("a", 11..20, 500_000, 501_000);
    assert_eq!(verdict(&early, None), Verdict::Broken);
}

#[test]
fn a_lost_store_allows_a_capacity_and_what_nodes_held() {
    let lost = "fault kind=flush began=1000 ended=2000 target=store lost_states=1\n";
    let within = lost.to_owned() + &calls("a", 0..24, 1_000, 2_000);
    assert_eq!(verdict(&within, None), Verdict::Held);
    let beyond = within + &calls("a", 24..25, 1_000, 2_000);
    assert_eq!(verdict(&beyond, None), Verdict::Broken);
}

/// Units charged before a loss are spent until their lease ends, and the units that the store
/// admits again come on top.
#[test]
fn after_a_loss_leases_are_spent_until_they_end() {
    let lost = "fault kind=flush began=1000 ended=2000 target=store lost_states=1\n";
    let after = |from_us| lost.to_owned() + &calls("a", 0..16, from_us, from_us + 500);
    assert_eq!(verdict(&after(2_100), Some(2)), Verdict::Held);
    assert_eq!(verdict(&after(200_000), Some(2)), Verdict::Broken);
}

/// A count without a lease in the same calls is judged by its own bound.
#[test]
fn a_count_without_a_lease_beside_one_with_is_exact() {
    let call = |id: u64| {
        format!(
            "call id={id} client=a invoked=1000 returned=2000 subject=x limits={LIMITS} subject=y \
             limits=\"2/1s via gcra\" cost=1 outcome=allowed\n"
        )
    };
    assert_eq!(verdict(&(call(1) + &call(2)), None), Verdict::Held);
    assert_eq!(verdict(&(call(1) + &call(2) + &call(3)), None), Verdict::Broken);
}

/// Each call is judged by the numbers that its node had.
#[test]
fn numbers_that_change_while_leases_are_out_are_judged_apart() {
    let named = |limits: &str| format!("limits=\"api: {limits}\"");
    let old = calls("a", 0..11, 1_000, 2_000);
    let old = old.replace(&format!("limits={LIMITS}"), &named("10/1s via gcra lease 3 for 100ms"));
    let new = calls("b", 11..16, 1_500, 2_500);
    let new = new.replace(&format!("limits={LIMITS}"), &named("5/1s via gcra lease 2 for 100ms"));
    assert_eq!(verdict(&(old.clone() + &new), Some(2)), Verdict::Held);
    let more = calls("b", 16..17, 1_500, 2_500);
    let more = more.replace(&format!("limits={LIMITS}"), &named("5/1s via gcra lease 2 for 100ms"));
    assert_eq!(verdict(&(old + &new + &more), Some(2)), Verdict::Broken);
}

/// A broken history shows an interval that exceeds the bound, and the important lengths are checked
/// from every call.
#[test]
fn the_sweep_finds_what_a_look_at_every_call_finds() {
    let mut random = Random::new(7);
    let (mut broken, mut not_broken) = (0, 0);
    for _ in 0..400 {
        let (number, spread) = (8 + random.below(18), 1 + random.below(1_500_000));
        let one = |id: u64| {
            let from = random.below(spread);
            calls(
                if id.is_multiple_of(2) { "a" } else { "b" },
                id..id + 1,
                from,
                from + random.below(50),
            )
        };
        let text: String = (0..number).map(one).collect();
        let history: History = text.parse().unwrap();
        let set = history.calls[0].parts[0].limits.clone();
        let most = |length_us: u64| {
            let length = tollgate::Period::from_micros(length_us).unwrap();
            set.lease().unwrap().most_in(&set.limits()[0], length, 2)
        };
        let exceeds = |length_us: u64| {
            history.calls.iter().any(|first| {
                let (from, end) = (first.invoked_us, first.invoked_us + length_us);
                let is_inside =
                    |call: &&Call| call.invoked_us >= from && call.returned_us.unwrap() < end;
                history.calls.iter().filter(is_inside).count() as u64 > most(length_us)
            })
        };
        let report = report_with(&text, &Bounds { nodes: Some(2), ..Bounds::default() });
        if report.verdict(Promise::Bound) == Verdict::Broken {
            broken += 1;
            let part = shown(&report, Promise::Bound);
            let part = || history.calls.iter().filter(|call| part.contains(&call.id));
            let from = part().map(|call| call.invoked_us).min().unwrap();
            let to = part().filter_map(|call| call.returned_us).max().unwrap();
            assert!(part().count() as u64 > most(to - from + 1), "{report}");
        } else {
            not_broken += 1;
            for length_us in [100_000, 1_000_000, 1_100_000] {
                assert!(!exceeds(length_us), "{length_us}: {text}");
            }
        }
    }
    assert!(broken > 20 && not_broken > 20, "{broken} {not_broken}");
}
