//! Holds by policies: slots in fronts that only check, and their counters.

use std::time::Duration;

use tollgate::{Ask, HoldKind, LimitSet};
use tollgate_policy::Authority;

use super::*;

const SLOTS: &str = "when = { field.kind = \"job\" }\n\
                     limits = [{ subject = \"ip\", limit = \"2 at once hold 10s\" }]";

const JOB: [(&str, &str); 2] = [("field.kind", "job"), ("ip", "10.0.0.1")];

/// `one` has the failure rule `allow`, which must not admit what cannot be asked.
#[test]
fn a_front_that_only_checks_denies_slots_on_every_path() {
    for lines in [SLOTS, "limits = [{ subject = \"ip\", limit = \"2 at once\" }]"] {
        let (gate, _) = gate(&one(lines));
        for _ in 0..3 {
            let answer = ask(&gate, &JOB);
            assert_eq!(answer.outcome(), Outcome::FailedClosed);
            assert!(answer.error().unwrap().to_string().contains("acquire a slot"));
            let prepared = gate.prepare(&JOB);
            assert!(!gate.ask_now(&prepared).unwrap().is_allowed());
            // A path to the method would be of one lifetime alone.
            #[allow(clippy::redundant_closure_for_method_calls)]
            let fast = gate.check_at_once(
                Some(&JOB),
                |_, prefix| Some(prefix.with("10.0.0.1").unwrap()),
                |answer| answer.is_allowed(),
            );
            assert!(fast.is_none_or(|(_, is_allowed)| !is_allowed));
        }
        // The same where its failure rule is a share of this process.
        let local = one(lines).replace("\"allow\"", "\"1/2\"");
        if let Ok(policies) = Policies::parse(&local, Format::Toml) {
            assert!(!ask(&gate_of(policies).0, &JOB).is_allowed());
        }
    }
    let (gate, _) = gate(&one(SLOTS));
    let slots: LimitSet = "2 at once".parse().unwrap();
    let terms = tollgate_policy::Terms::new(tollgate_policy::OnFailure::Allow);
    assert!(block_on(gate.inline().check(Ask::new("a").under(&slots), terms)).is_err());
    let subject = tollgate::Subject::literal("a").unwrap();
    let counted = tollgate::Counted::new(&subject, &slots);
    let held = block_on(gate.inline().hold(Ask::new("a").under(&slots).acquire(), terms));
    assert!(held.unwrap().hold.is_some(), "the subject has a state now");
    let mut together = gate.inline().batch().unwrap();
    assert!(gate.inline().check_in(&mut together, counted, 1, |_| ()).is_err());
    gate.inline().report(together);
}

#[test]
fn holds_are_counted_as_checks_are() {
    let (gate, clock) = gate(&one(SLOTS));
    let acquire = || block_on(gate.hold(gate.prepare(&JOB), HoldKind::Acquire, None)).unwrap();
    let mut first = acquire().hold.unwrap();
    let second = acquire().hold.unwrap();
    let denied = acquire();
    assert_eq!((denied.answer.outcome(), denied.hold), (Outcome::Denied, None));
    assert!(denied.answer.is_until_hold());
    assert_eq!(denied.answer.retry_after(), Some(Duration::from_secs(10)));
    assert!(block_on(gate.holds().renew(&mut first, None)).unwrap());
    assert!(block_on(gate.holds().release(&first)).unwrap());
    assert!(!block_on(gate.holds().release(&first)).unwrap());
    clock.advance(Duration::from_secs(10));
    assert!(block_on(gate.holds().commit(&second, 0)).is_err());
    let counters = &gate.counters().policies()[0].1;
    assert_eq!(counters.get(Outcome::Allowed, Authority::Store), 2);
    assert_eq!(counters.get(Outcome::Denied, Authority::Store), 1);
    let holds = gate.counters().holds;
    assert_eq!(
        [holds.placed(HoldKind::Acquire), holds.settled(), holds.renewed(), holds.not_open()],
        [2, 1, 1, 2]
    );
    // Nothing to hold: no policy, and a rate alone for an acquire.
    let other = [("ip", "10.0.0.1")];
    let held = block_on(gate.hold(gate.prepare(&other), HoldKind::Acquire, None)).unwrap();
    assert_eq!((held.answer.outcome(), held.hold), (Outcome::NoPolicy, None));
}

#[test]
fn a_store_that_fails_leaves_it_to_the_failure_rule() {
    for (rule, outcome) in [("allow", Outcome::FailedOpen), ("deny", Outcome::FailedClosed)] {
        let text = one(SLOTS).replace("\"allow\"", &format!("\"{rule}\""));
        let store = Failing::new();
        store.fails.store(true, std::sync::atomic::Ordering::Relaxed);
        let gate = Gate::new(parse(&text), store).unwrap();
        let held = block_on(gate.hold(gate.prepare(&JOB), HoldKind::Acquire, None)).unwrap();
        assert_eq!((held.answer.outcome(), held.hold), (outcome, None));
    }
}
