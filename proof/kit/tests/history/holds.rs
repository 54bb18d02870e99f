//! Histories with holds: right ones are explained, and wrong ones are not.

use tollgate_proof::history::{History, Promise, Report, Verdict};

use super::report;

const SLOTS: &str = "subject=job limits=\"2 at once hold 30s\" cost=1 ttl=30000000";
const UNITS: &str = "subject=bob limits=\"10/1h via fixed_window\"";

fn verdict(text: &str) -> (Verdict, Report) {
    let report = report(text);
    let read: History = text.parse::<History>().unwrap().to_string().parse().unwrap();
    assert_eq!(read, text.parse().unwrap());
    (report.verdict(Promise::Holds), report)
}

#[track_caller]
fn explained(text: &str) {
    let (verdict, report) = verdict(text);
    assert_eq!(verdict, Verdict::Held, "{report}");
}

/// Nothing explains it; the report says `reason`, and shows the calls.
#[track_caller]
fn impossible(text: &str, reason: &str, calls: &[u64]) {
    let (verdict, report) = verdict(text);
    assert_eq!(verdict, Verdict::Broken, "{report}");
    let finding = report.findings().iter().find(|one| one.promise == Promise::Holds).unwrap();
    assert!(finding.reason.contains(reason), "{}", finding.reason);
    let shown: Vec<u64> = finding.part.holds.iter().map(|call| call.id).collect();
    assert_eq!(shown, calls, "{report}");
}

/// Two take both slots, and a third takes the one that the first gives back while it asks.
fn slots(third_invoked: u64, third_now: u64) -> String {
    format!(
        "hold id=1 client=a invoked=10 returned=20 hold=a step=acquire {SLOTS} now=15 \
         outcome=allowed remaining=1 fence=15\n\
         hold id=2 client=b invoked=12 returned=22 hold=b step=acquire {SLOTS} now=16 \
         outcome=allowed remaining=0 fence=16\n\
         hold id=3 client=c invoked=30 returned=40 hold=c step=acquire {SLOTS} now=35 \
         outcome=denied retry_after=29999980 remaining=0\n\
         hold id=4 client=a invoked=50 returned=60 hold=a step=settle actual=0 outcome=done \
         remaining=1\n\
         hold id=5 client=c invoked={third_invoked} returned=70 hold=d step=acquire {SLOTS} \
         now={third_now} outcome=allowed remaining=0 fence=55\n"
    )
}

#[test]
fn a_slot_is_taken_as_soon_as_it_may_be_free() {
    for now in [50, 55, 60, 70] {
        explained(&slots(45, now));
    }
    // Before the release began nobody can have had its slot.
    impossible(&slots(45, 49), "3 slots of job are held at 49: 2 are all", &[1, 2, 5]);
}

#[test]
fn one_more_holder_is_found() {
    let more = slots(45, 55)
        + &format!(
            "hold id=6 client=d invoked=80 returned=90 hold=e step=acquire {SLOTS} now=85 \
             outcome=allowed remaining=0 fence=85\n"
        );
    impossible(&more, "3 slots of job", &[2, 5, 6]);
    // At the end of a hold its slot is free, and not a microsecond before.
    for (now, right) in [(30_000_016, true), (30_000_015, false)] {
        let (invoked, returned) = (now - 1, now + 9);
        let later = slots(45, 55)
            + &format!(
                "hold id=6 client=d invoked={invoked} returned={returned} hold=e step=acquire \
                 {SLOTS} now={now} outcome=allowed fence={now}\n"
            );
        match right {
            true => explained(&later),
            false => impossible(&later, "3 slots of job", &[2, 5, 6]),
        }
    }
    // A renewal keeps it.
    let renewed = slots(45, 55)
        + &format!(
            "hold id=6 client=b invoked=100 returned=120 hold=b step=renew ttl=30000000 \
             outcome=until end=30000110\n\
             hold id=7 client=d invoked=30000040 returned=30000090 hold=e step=acquire {SLOTS} \
             now=30000085 outcome=allowed fence=30000085\n"
        );
    explained(&renewed);
    impossible(&renewed.replace("now=30000085 ", "now=30000054 "), "3 slots of job", &[2, 5, 7]);
}

#[test]
fn a_fence_rises() {
    impossible(
        &slots(45, 55).replace("fence=55", "fence=16"),
        "the fence 16 came after 16",
        &[2, 5],
    );
    impossible(
        &slots(45, 55).replace("fence=16", "fence=11"),
        "the fence 11 came after 15",
        &[1, 2],
    );
}

#[test]
fn a_slot_that_is_kept_from_others_is_found() {
    // Both were given back, and the third is denied.
    let text =
        slots(45, 55).replace("outcome=allowed remaining=0 fence=55", "outcome=denied remaining=0");
    explained(&text.replace("now=55", "now=50"));
    impossible(
        &text.replace("invoked=45", "invoked=65").replace("now=55", "now=66"),
        "denied",
        &[2, 5],
    );
}

/// Six of ten are reserved, one is charged beside them, and five are committed.
fn units() -> String {
    format!(
        "hold id=1 client=a invoked=10 returned=20 hold=a step=reserve {UNITS} cost=6 \
         ttl=1000000 now=15 outcome=allowed remaining=4 fence=15\n\
         call id=2 client=b invoked=30 returned=40 {UNITS} cost=1 now=35 outcome=allowed \
         remaining=3\n\
         hold id=3 client=a invoked=50 returned=60 hold=a step=settle actual=5 outcome=done \
         remaining=4\n\
         hold id=4 client=a invoked=70 returned=80 hold=a step=settle actual=5 outcome=already \
         before=5\n\
         call id=5 client=b invoked=90 returned=99 {UNITS} cost=5 now=95 outcome=denied \
         remaining=4\n"
    )
}

#[test]
fn a_commit_is_charged_once() {
    explained(&units());
    // Twice: five more are missing.
    impossible(
        &units().replace("outcome=denied remaining=4", "outcome=denied remaining=0"),
        "call 5: 4 remain, not 0",
        &[],
    );
    // Never: five more are left.
    impossible(
        &units().replace("outcome=denied remaining=4", "outcome=allowed remaining=4"),
        "call 5: 5 were admitted where 4 remained",
        &[],
    );
    // The second is charged as well.
    impossible(
        &units().replace("outcome=already before=5", "outcome=done remaining=0"),
        "call 4: it was settled for 5 before",
        &[4],
    );
    // It says another number than was charged.
    impossible(
        &units().replace("before=5", "before=6"),
        "call 4: it was settled for 5 before",
        &[4],
    );
    // A hold that is open is reported as closed.
    impossible(
        &units().replace("actual=5 outcome=done remaining=4", "actual=5 outcome=not_open"),
        "call 3: it was open",
        &[1, 3],
    );
}

#[test]
fn what_is_held_is_admitted_to_nobody() {
    let more = units()
        .replace("cost=1 now=35 outcome=allowed remaining=3", "cost=5 now=35 outcome=allowed");
    impossible(&more, "call 2: 5 were admitted where 4 remained", &[1]);
    let never = format!(
        "hold id=1 client=a invoked=1 returned=9 hold=a step=reserve {UNITS} \
        cost=11 ttl=1000000 now=5 outcome=never\n"
    );
    explained(&never);
    impossible(&never.replace("cost=11", "cost=10"), "it is not above a limit", &[1]);
}

/// A hold that ends by itself, and one whose end charges.
fn ends(word: &str, at: u64, outcome: &str) -> String {
    format!(
        "hold id=1 client=a invoked=10 returned=20 hold=a step={word} {UNITS} cost=6 ttl=1000 \
         now=15 outcome=allowed remaining=4 fence=15\n\
         call id=2 client=b invoked={at} returned={at} {UNITS} cost=1 now={at} outcome={outcome}\n"
    )
}

#[test]
fn an_end_is_judged_at_its_time() {
    explained(&ends("reserve", 1_014, "allowed remaining=3"));
    explained(&ends("reserve", 1_015, "allowed remaining=9"));
    impossible(&ends("reserve", 1_014, "allowed remaining=9"), "3 remain, not 9", &[1]);
    impossible(&ends("reserve", 1_015, "allowed remaining=3"), "9 remain, not 3", &[1]);
    explained(&ends("reserve_charging", 1_015, "allowed remaining=3"));
    impossible(&ends("reserve_charging", 1_015, "allowed remaining=9"), "3 remain, not 9", &[1]);
    // A commit near the end may find it open or not; one that began after it may not.
    for (answer, invoked, right) in [
        ("done remaining=4", 1_010, true),
        ("not_open", 1_010, true),
        ("not_open", 1_015, true),
        ("done remaining=4", 1_015, false),
    ] {
        let text = ends("reserve", 500, "denied remaining=4").replace("cost=1", "cost=5")
            + &format!(
                "hold id=3 client=a invoked={invoked} returned=1020 hold=a step=settle actual=6 \
                 outcome={answer}\n"
            );
        match right {
            true => explained(&text),
            false => impossible(&text, "call 3: it was not open", &[1, 3]),
        }
    }
}

#[test]
fn a_call_without_an_answer_may_have_been_carried_out_or_not() {
    // Its commit got lost: both is possible until a later answer shows it.
    let unknown = |left: u64| {
        units()
            .replace("outcome=done remaining=4", "outcome=unknown")
            .replace(
                "hold=a step=settle actual=5 outcome=already before=5",
                "hold=a step=renew ttl=5 outcome=unknown",
            )
            .replace(
                "cost=5 now=95 outcome=denied remaining=4",
                &format!("cost=1 now=95 outcome=allowed remaining={left}"),
            )
    };
    explained(&unknown(3));
    explained(&unknown(2));
    let (verdict, report) = verdict(&unknown(9));
    assert_ne!(verdict, Verdict::Held, "{report}");
    // A reserve whose answer was lost holds until its end, or was never made.
    let lost = |left: u64| {
        format!(
            "hold id=1 client=a invoked=10 hold=a step=reserve {UNITS} cost=6 ttl=1000 \
             outcome=unknown\n\
             call id=2 client=b invoked=30 returned=40 {UNITS} cost=1 now=35 outcome=allowed \
             remaining={left}\n"
        )
    };
    explained(&lost(3));
    explained(&lost(9));
    assert_ne!(super::report(&lost(5)).verdict(Promise::Holds), Verdict::Held);
}

#[test]
fn several_limits_and_counts_are_all_or_nothing() {
    let both = "subject=ann limits=\"5/1h via fixed_window\" subject=all \
                limits=\"9/1h via fixed_window, 2 at once hold 9s\"";
    let text = |second: &str| {
        format!(
            "hold id=1 client=a invoked=10 returned=20 hold=a step=reserve {both} cost=4 \
             ttl=1000 now=15 outcome=allowed remaining=1 fence=15\n\
             hold id=2 client=b invoked=30 returned=40 hold=b step=reserve {both} cost=2 \
             ttl=1000 now=35 outcome=denied remaining=1\n\
             hold id=3 client=a invoked=50 returned=60 hold=a step=settle actual=4 outcome=done \
             remaining=1\n\
             hold id=4 client=b invoked=70 returned=80 hold=b2 step=reserve {both} cost=1 \
             ttl=1000 now=75 outcome=allowed remaining={second} fence=75\n"
        )
    };
    explained(&text("0"));
    impossible(&text("1"), "0 remain, not 1", &[4]);
}

#[test]
fn a_denial_tells_the_slots_or_the_units_of_a_limit_that_denies() {
    let part = "subject=ann limits=\"3/1h via fixed_window, 2 at once hold 9s\"";
    let text = |cost: u64, left: u64| {
        let mut text = String::new();
        for (id, left) in [(1, 1), (2, 0)] {
            let (invoked, now, returned) = (id * 20, id * 20 + 5, id * 20 + 10);
            text += &format!(
                "hold id={id} client=a invoked={invoked} returned={returned} hold={id} \
                 step=reserve {part} cost=1 ttl=1000 now={now} outcome=allowed remaining={left} \
                 fence={now}\n"
            );
        }
        text + &format!(
            "hold id=3 client=a invoked=70 returned=80 hold=3 step=reserve {part} cost={cost} \
             ttl=1000 now=75 outcome=denied remaining={left}\n"
        )
    };
    // A unit and no slot are left.
    explained(&text(2, 1));
    explained(&text(2, 0));
    impossible(&text(2, 2), "0 remain, not 2", &[1, 2, 3]);
    explained(&text(1, 0));
    impossible(&text(1, 1), "0 remain, not 1", &[1, 2, 3]);
}

#[test]
fn a_hold_that_nobody_placed_is_not_open() {
    let text = |outcome: &str| {
        format!("hold id=1 client=a invoked=1 returned=2 hold=x step=settle actual=1 {outcome}\n")
    };
    explained(&text("outcome=not_open"));
    impossible(&text("outcome=done"), "it was not open", &[1]);
    impossible(&text("outcome=already before=1"), "it was not open", &[1]);
}

#[test]
fn what_is_not_decided_is_said() {
    let open = |text: &str, reason: &str| {
        let report = report(text);
        assert_eq!(report.verdict(Promise::Holds), Verdict::Unknown, "{report}");
        assert!(report.to_string().contains(reason), "{report}");
    };
    let fault = "fault kind=flush began=41 ended=42 target=x lost_states=1\n";
    open(&format!("{fault}{}", units()), "state was lost");
    open(&units().replace("10/1h", "11/1h").replacen("11/1h", "10/1h", 1), "numbers of a limit");
    open(&units().replace("now=15", "now=9"), "not within the call");
    // Even then nobody holds more than there is.
    impossible(&format!("{fault}{}", slots(45, 49)), "3 slots of job", &[1, 2, 5]);
}

#[test]
fn lines_that_are_no_calls_are_refused() {
    for (line, message) in [
        ("hold id=1 client=a invoked=1 returned=2 hold=x step=steal", "step=steal"),
        ("hold id=1 client=a invoked=1 hold=x step=settle actual=1 outcome=done", "no `returned=`"),
        (
            "hold id=1 client=a invoked=2 returned=1 hold=x step=renew ttl=1 outcome=not_open",
            "ends",
        ),
        (
            "hold id=1 client=a invoked=2 returned=3 hold=x step=renew ttl=1 outcome=so",
            "outcome=so",
        ),
    ] {
        let error = line.parse::<History>().unwrap_err().to_string();
        assert!(error.contains(message), "{line}: {error}");
    }
}
