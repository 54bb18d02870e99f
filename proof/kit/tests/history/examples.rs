//! Verdicts by example.

use tollgate_proof::history::{Bounds, History, Promise, Verdict};

use super::{report, report_with, shown};

/// A line of one call of `ann` with the store's time, one unit of the limit.
fn call(id: u64, now_us: u64, limits: &str, rest: &str) -> String {
    let (invoked, returned) = (now_us - 1, now_us + 1);
    format!(
        "call id={id} client=a invoked={invoked} returned={returned} subject=ann \
         limits=\"{limits}\" now={now_us} {rest}\n"
    )
}

#[test]
fn a_bound_is_exceeded_and_shown_by_as_few_calls_as_exceed_it() {
    let mut text = String::new();
    for id in 0..50 {
        text += &call(id, 100 + id * 10, "3/100us via sliding_log", "cost=1 outcome=allowed");
    }
    let report = report(&text);
    assert_eq!(shown(&report, Promise::Bound).len(), 4, "{report}");
    assert_eq!(shown(&report, Promise::Exact).len(), 4, "{report}");
}

#[test]
fn a_lost_state_allows_one_capacity_more_and_not_two() {
    for limits in ["2/1s via gcra", "2/1s via sliding_log", "2/1h via fixed_window"] {
        let lines = |from: u64, count: u64| -> String {
            let line = |i| call(from + i, 100 + (from + i) * 10, limits, "cost=1 outcome=allowed");
            (0..count).map(line).collect()
        };
        let fault = "fault kind=failover began=115 ended=117 target=redis lost_states=1\n";
        let within = report(&format!("{fault}{}", lines(0, 4)));
        assert_eq!(within.verdict(Promise::Bound), Verdict::Held, "{within}");
        assert_ne!(within.verdict(Promise::Exact), Verdict::Broken, "{within}");
        let without = report(&lines(0, 4));
        assert_eq!(without.verdict(Promise::Bound), Verdict::Broken, "{without}");
        let beyond = report(&format!("{fault}{}", lines(0, 5)));
        assert_eq!(shown(&beyond, Promise::Bound), [2, 3, 4], "{beyond}");
        // It allows nothing to calls before it.
        let late = "fault kind=failover began=900 ended=910 target=redis lost_states=1\n";
        let before = report(&format!("{late}{}", lines(0, 3)));
        assert_eq!(before.verdict(Promise::Bound), Verdict::Broken, "{before}");
    }
}

#[test]
fn a_denial_that_charged_is_named() {
    let limits = "5/1h via fixed_window";
    let text = call(1, 100, limits, "cost=3 outcome=allowed remaining=2")
        + &call(2, 110, limits, "cost=3 outcome=denied remaining=2");
    let charged =
        report(&(text.clone() + &call(3, 120, limits, "cost=1 outcome=denied remaining=0")));
    assert_eq!(charged.verdict(Promise::DenialsFree), Verdict::Broken, "{charged}");
    let free = text + &call(3, 120, limits, "cost=1 outcome=allowed remaining=1");
    let free = report(&free);
    assert_eq!(free.verdict(Promise::DenialsFree), Verdict::Held, "{free}");
    assert_eq!(free.verdict(Promise::Exact), Verdict::Held, "{free}");
}

#[test]
fn a_denial_that_nothing_follows_is_not_decided() {
    let limits = "1/1h via gcra";
    let text = call(1, 100, limits, "cost=1 outcome=allowed remaining=0")
        + &call(2, 110, limits, "cost=1 outcome=denied remaining=0");
    let report = report(&text);
    assert_eq!(report.verdict(Promise::DenialsFree), Verdict::Unknown, "{report}");
    assert_eq!(report.verdict(Promise::Exact), Verdict::Held, "{report}");
}

#[test]
fn a_call_without_an_answer_may_have_been_charged_or_not() {
    let limits = "2/1h via gcra";
    let unknown = "call id=9 client=b invoked=101 returned=150 subject=ann \
                   limits=\"2/1h via gcra\" cost=1 outcome=unknown\n";
    let rest = |second: &str, third: &str| {
        format!("{unknown}{}{}", call(1, 200, limits, second), call(2, 210, limits, third))
    };
    for (third, verdict) in [
        ("cost=1 outcome=denied remaining=0", Verdict::Unknown),
        ("cost=1 outcome=allowed remaining=0", Verdict::Unknown),
        ("cost=2 outcome=allowed remaining=0", Verdict::Broken),
    ] {
        let report = report(&rest("cost=1 outcome=allowed", third));
        assert_eq!(report.verdict(Promise::Exact), verdict, "{third}\n{report}");
    }
    // Even with it there is room for one: this denial is wrong.
    let wrong = report(&rest("cost=1 outcome=denied", "cost=1 outcome=denied"));
    assert_eq!(wrong.verdict(Promise::Exact), Verdict::Broken, "{wrong}");
    // When it cannot come late any more, and its window is over, all is decided again.
    let fixed = unknown.replace("2/1h via gcra", "2/1s via fixed_window");
    let later = call(1, 2_000_100, "2/1s via fixed_window", "cost=2 outcome=denied remaining=1");
    let bounds = Bounds { late_us: 1_000, ..Bounds::default() };
    let late = report_with(&format!("{fixed}{later}"), &Bounds::default());
    assert_eq!(late.verdict(Promise::Exact), Verdict::Unknown, "{late}");
    let settled = call(0, 1_000, "2/1s via fixed_window", "cost=1 outcome=allowed");
    let gone = report_with(&format!("{fixed}{settled}{later}"), &bounds);
    assert_ne!(gone.verdict(Promise::Exact), Verdict::Held, "{gone}");
}

#[test]
fn a_request_id_may_be_forgotten_after_its_time() {
    let limits = "5/24h via fixed_window";
    let repeated = |minutes: u64, remaining: u64| {
        let now = 100 + minutes * 60_000_000;
        let last = format!("cost=1 outcome=allowed remaining={remaining}");
        call(1, 100, limits, "request=r cost=2 outcome=allowed remaining=3")
            + &call(2, now, limits, "request=r cost=2 outcome=allowed")
            + &call(3, now + 9, limits, &last)
    };
    for (minutes, remaining, broken) in
        [(9, 2, false), (9, 0, true), (11, 2, false), (11, 0, false), (11, 4, true)]
    {
        let report = report(&repeated(minutes, remaining));
        let found = report.verdict(Promise::Exact) == Verdict::Broken;
        assert_eq!(found, broken, "{minutes} {remaining}\n{report}");
    }
}

/// Beyond this many repeats the store charges again.
#[test]
fn a_request_id_is_repeated_a_few_times_alone() {
    let limits = "99/24h via fixed_window";
    let history = |same: u64| {
        let each = (0..=same)
            .map(|id| call(id, 100 + id, limits, "request=r cost=2 outcome=allowed remaining=97"));
        let next = same + 1;
        let charged = "request=r cost=2 outcome=allowed remaining=95";
        let after = "cost=1 outcome=allowed remaining=94";
        each.collect::<String>()
            + &call(next, 100 + next, limits, charged)
            + &call(next + 1, 101 + next, limits, after)
    };
    for (same, broken) in [(15, true), (16, false)] {
        let report = report(&history(same));
        let found = report.verdict(Promise::Exact) == Verdict::Broken;
        assert_eq!(found, broken, "{same}\n{report}");
    }
}

#[test]
fn time_that_contradicts_real_time_is_named() {
    let line = |id, invoked, now| {
        format!(
            "call id={id} client=a invoked={invoked} returned={} subject=ann limits=9/1s \
             cost=1 now={now} outcome=allowed\n",
            invoked + 10
        )
    };
    let text = line(1, 100, 5_000) + &line(2, 200, 4_000);
    let report = report(&text);
    assert_eq!(shown(&report, Promise::Order), [1, 2], "{report}");
    assert_eq!(report.verdict(Promise::Exact), Verdict::Unknown, "{report}");
    let step = "fault kind=clock_step began=150 ended=160 target=redis lost_states=0\n";
    let stepped = super::report(&format!("{step}{text}"));
    assert_eq!(stepped.verdict(Promise::Order), Verdict::Held, "{stepped}");
    // Calls that overlap may be decided in either order.
    let overlapping = super::report(&(line(1, 100, 5_000) + &line(2, 105, 4_000)));
    assert_eq!(overlapping.verdict(Promise::Order), Verdict::Held, "{overlapping}");
}

#[test]
fn calls_of_one_microsecond_are_put_in_an_order_that_explains_them() {
    let limits = "3/1h via gcra";
    // 3 is denied by the units that remain after 1, before 2.
    let text = call(2, 100, limits, "cost=1 outcome=allowed remaining=0")
        + &call(3, 100, limits, "cost=2 outcome=denied remaining=1")
        + &call(1, 100, limits, "cost=2 outcome=allowed remaining=1");
    let report = report(&text);
    assert_eq!(report.verdict(Promise::Exact), Verdict::Held, "{report}");
}

#[test]
fn a_denial_that_charged_one_of_two_limits_is_named() {
    let part = |subject: &str, limits: &str| format!("subject={subject} limits=\"{limits}\" ");
    let (ann, bob) = (part("ann", "2/1h via fixed_window"), part("bob", "9/1h via fixed_window"));
    let line = |id: u64, parts: &str, rest: &str| {
        let now = 100 + id * 10;
        let (from, to) = (now - 1, now + 1);
        format!("call id={id} client=a invoked={from} returned={to} {parts}now={now} {rest}\n")
    };
    let text = |last: &str| {
        line(1, &ann, "cost=2 outcome=allowed remaining=0")
            + &line(2, &format!("{ann}{bob}"), "cost=1 outcome=denied remaining=0")
            + &line(3, &bob, last)
    };
    let free = report(&text("cost=2 outcome=allowed remaining=7"));
    assert_eq!(free.verdict(Promise::AllOrNothing), Verdict::Held, "{free}");
    let charged = report(&text("cost=2 outcome=allowed remaining=6"));
    assert_eq!(charged.verdict(Promise::AllOrNothing), Verdict::Broken, "{charged}");
    assert_eq!(shown(&charged, Promise::AllOrNothing), [1, 2, 3], "{charged}");
    assert_eq!(charged.verdict(Promise::DenialsFree), Verdict::Unknown, "{charged}");
}

#[test]
fn a_request_id_is_charged_once() {
    let limits = "5/1h via gcra";
    let once = |remaining: u64| {
        let told = format!("cost=1 outcome=allowed remaining={remaining}");
        let first = "call id=1 client=a invoked=10 returned=20 subject=ann \
                     limits=\"5/1h via gcra\" cost=1 request=r outcome=unknown\n";
        first.to_owned()
            + &call(2, 100, limits, "request=r cost=1 outcome=allowed remaining=4")
            + &call(3, 110, limits, "request=r cost=1 outcome=allowed remaining=4")
            + &call(4, 120, limits, &told)
    };
    let good = report(&once(3));
    assert!(good.broken().is_empty(), "{good}");
    let twice = report(&once(2));
    assert_eq!(twice.verdict(Promise::Exact), Verdict::Broken, "{twice}");
}

#[test]
fn a_denial_whose_charge_would_have_gone_again_is_not_decided() {
    let limits = "2/1s via fixed_window";
    let text = call(1, 100, limits, "cost=2 outcome=allowed remaining=0")
        + &call(2, 110, limits, "cost=1 outcome=denied remaining=0")
        + &call(3, 1_000_100, limits, "cost=1 outcome=allowed remaining=1");
    let report = report(&text);
    assert_eq!(report.verdict(Promise::DenialsFree), Verdict::Unknown, "{report}");
    assert_eq!(report.verdict(Promise::Exact), Verdict::Held, "{report}");
}

#[test]
fn what_is_missing_after_a_refill_blames_no_charge() {
    let limits = "5/10s via gcra";
    let text = call(1, 100, limits, "cost=5 outcome=allowed remaining=0")
        + &call(2, 1_100, limits, "cost=1 outcome=denied remaining=0")
        + &call(3, 2_100, limits, "cost=1 outcome=denied remaining=0")
        + &call(4, 6_000_100, limits, "cost=1 outcome=allowed remaining=1");
    let report = report(&text);
    assert_eq!(report.broken(), [Promise::Exact], "{report}");
}

#[test]
fn calls_that_were_used_up_stay_in_the_part_that_shows_a_wrong_denial() {
    let limits = "5/1h via fixed_window";
    let text = call(1, 100, limits, "cost=3 outcome=allowed remaining=2")
        + &call(2, 110, limits, "cost=4 outcome=never")
        + &call(3, 120, limits, "cost=1 outcome=denied");
    let wrong = report(&text.replace("cost=4 outcome=never", "cost=6 outcome=never"));
    assert_eq!(shown(&wrong, Promise::Exact), [1, 3], "{wrong}");
    let never = report(&text);
    assert_eq!(shown(&never, Promise::Exact), [2], "{never}");
}

#[test]
fn a_window_of_the_first_hit_with_an_uncertain_charge_is_not_decided() {
    let limits = "2/10us anchor first-hit via fixed_window";
    let text = format!(
        "call id=9 client=b invoked=99 returned=100 subject=ann limits=\"{limits}\" \
         cost=1 outcome=unknown\n"
    ) + &call(1, 109, limits, "cost=1 outcome=allowed")
        // Possible when the call without an answer opened the window at 100.
        + &call(2, 112, limits, "cost=2 outcome=allowed remaining=0");
    let report = report(&text);
    assert_eq!(report.verdict(Promise::Exact), Verdict::Unknown, "{report}");
}

#[test]
fn a_call_under_way_while_the_clock_is_set_is_not_decided() {
    let step = "fault kind=clock_step began=100 ended=101 target=redis lost_states=0\n";
    let text =
        step.to_owned() + &call(1, 101, "1/1h via gcra", "cost=1 outcome=allowed remaining=0");
    let report = report(&text);
    assert_eq!(report.verdict(Promise::Exact), Verdict::Unknown, "{report}");
    assert_eq!(report.verdict(Promise::Order), Verdict::Unknown, "{report}");
}

/// A call without the store's time.
fn untimed(id: u64, [invoked, returned]: [u64; 2], limits: &str, rest: &str) -> String {
    format!(
        "call id={id} client=c{id} invoked={invoked} returned={returned} subject=ann \
         limits=\"{limits}\" {rest}\n"
    )
}

#[test]
fn without_the_stores_time_what_may_be_is_not_broken() {
    let limits = "1/100us via sliding_log";
    let both = |one, two| {
        untimed(1, one, limits, "cost=1 outcome=allowed")
            + &untimed(2, two, limits, "cost=1 outcome=allowed")
    };
    let open = report(&both([0, 150], [0, 150]));
    assert_eq!(open.verdict(Promise::Bound), Verdict::Unknown, "{open}");
    assert_eq!(open.verdict(Promise::Exact), Verdict::Held, "{open}");
    let close = report(&both([0, 50], [20, 90]));
    assert_eq!(close.verdict(Promise::Bound), Verdict::Broken, "{close}");
    let apart = report(&both([0, 50], [160, 190]));
    assert_eq!(apart.verdict(Promise::Bound), Verdict::Held, "{apart}");
    // A denial and a charge that nothing follows.
    let denied = untimed(3, [200, 210], limits, "cost=1 outcome=denied");
    let trailing = report(&(both([0, 50], [160, 190]) + &denied));
    assert_eq!(trailing.verdict(Promise::Exact), Verdict::Held, "{trailing}");
    assert_eq!(trailing.verdict(Promise::DenialsFree), Verdict::Unknown, "{trailing}");
}

#[test]
fn where_some_have_the_stores_time_real_time_still_orders() {
    let limits = "1/1h via gcra";
    // The third overlaps both, so that they are searched together.
    let text = untimed(1, [10, 20], limits, "now=300 cost=1 outcome=denied")
        + &untimed(3, [15, 105], limits, "now=300 cost=1 outcome=denied")
        + &untimed(2, [100, 310], limits, "cost=1 outcome=allowed");
    // The first returned before the second began: it cannot have been denied for it.
    let wrong = report(&text);
    assert_eq!(wrong.verdict(Promise::Exact), Verdict::Broken, "{wrong}");
    let early = report(&text.replace("invoked=100", "invoked=12"));
    assert_eq!(early.verdict(Promise::Exact), Verdict::Held, "{early}");
}

#[test]
fn calls_of_one_microsecond_keep_real_time_and_are_tried_in_every_order() {
    let line = |id, at: u64, limits: &str, rest: &str| {
        untimed(id, [at, at + 5], limits, &format!("now=500 {rest}"))
    };
    let one = "1/1h via gcra";
    let apart =
        line(1, 100, one, "cost=1 outcome=denied") + &line(2, 200, one, "cost=1 outcome=allowed");
    let report_apart = report(&apart);
    assert_eq!(report_apart.verdict(Promise::Exact), Verdict::Broken, "{report_apart}");
    let together = apart.replace("invoked=200 returned=205", "invoked=100 returned=105");
    let report_together = report(&together);
    assert_eq!(report_together.verdict(Promise::Exact), Verdict::Held, "{report_together}");
    // Only one order explains this: 1, 2, 3.
    let three = "3/1h via gcra";
    let text = line(3, 100, three, "cost=2 outcome=allowed")
        + &line(2, 100, three, "cost=3 outcome=denied remaining=2")
        + &line(1, 100, three, "cost=1 outcome=allowed");
    let report = report(&text);
    assert_eq!(report.verdict(Promise::Exact), Verdict::Held, "{report}");
}

#[test]
fn what_a_queue_leaves_open_is_not_decided() {
    let bounds = Bounds { queue_bound: Some(1), ..Bounds::default() };
    let line = |id: u64, [from, to]: [u64; 2], rest: &str| {
        format!("queue id={id} queue=q invoked={from} returned={to} {rest}\n")
    };
    let waiting = report_with(&line(1, [1, 2], "step=accepted job=a"), &bounds);
    assert_eq!(waiting.verdict(Promise::Queue), Verdict::Unknown, "{waiting}");
    let delivered = |from| {
        let text = line(1, [1, 2], "step=accepted job=a")
            + &line(2, [from, from + 9], "step=accepted job=b")
            + &line(3, [20, 30], "step=delivered job=a")
            + &line(4, [40, 50], "step=delivered job=b");
        report_with(&text, &bounds).verdict(Promise::Queue)
    };
    let text = line(1, [1, 2], "step=accepted job=a")
        + &line(2, [3, 4], "step=delivered job=a")
        + &line(3, [5, 6], "step=accepted job=b");
    assert_eq!(report_with(&text, &bounds).verdict(Promise::Queue), Verdict::Unknown);
    assert_eq!(delivered(15), Verdict::Unknown);
    assert_eq!(delivered(31), Verdict::Held);
    assert_eq!(delivered(5), Verdict::Broken);
    let unbounded =
        line(1, [1, 2], "step=accepted job=a") + &line(3, [20, 30], "step=delivered job=a");
    assert_eq!(report(&unbounded).verdict(Promise::Queue), Verdict::Unknown);
}

#[test]
fn a_queue_keeps_its_promises_or_not() {
    let bounds = Bounds { queue_bound: Some(2), ..Bounds::default() };
    let line = |id: u64, at: u64, rest: &str| {
        format!("queue id={id} queue=q invoked={at} returned={} {rest}\n", at + 5)
    };
    let good = line(1, 10, "step=accepted job=a depth=1")
        + &line(2, 20, "step=accepted job=b depth=2")
        + &line(3, 30, "step=refused job=c")
        + &line(4, 40, "step=delivered job=a")
        + &line(5, 50, "step=delivered job=b")
        + &line(6, 60, "step=acknowledged job=a")
        + &line(7, 70, "step=delivered job=b")
        + &line(8, 80, "step=acknowledged job=b")
        + &line(9, 90, "step=empty");
    let report = report_with(&good, &bounds);
    assert_eq!(report.verdict(Promise::Queue), Verdict::Held, "{report}");
    for (from, to, ids) in [
        ("step=refused job=c", "step=accepted job=c", vec![1, 2, 3]),
        ("step=refused job=c", "step=accepted job=c depth=3", vec![3]),
        ("id=4 queue=q invoked=40", "id=4 queue=q invoked=4", vec![]),
        ("step=delivered job=a", "step=delivered job=c", vec![3, 4]),
        ("step=acknowledged job=a", "step=delivered job=a", vec![]),
        ("step=delivered job=b", "step=delivered job=z", vec![2, 9]),
        ("step=acknowledged job=a", "step=acknowledged job=b", vec![6, 7]),
    ] {
        let broken = super::report_with(&good.replace(from, to), &bounds);
        match &ids[..] {
            [] => assert_ne!(broken.verdict(Promise::Queue), Verdict::Broken, "{to}\n{broken}"),
            ids => assert_eq!(shown(&broken, Promise::Queue), ids, "{to}\n{broken}"),
        }
    }
    // Last in, first out.
    let swapped = good
        .replace("invoked=40 returned=45", "invoked=50 returned=56")
        .replace("invoked=50 returned=55", "invoked=40 returned=45");
    let broken = report_with(&swapped, &bounds);
    assert_eq!(shown(&broken, Promise::Queue), [1, 2, 4, 5], "{broken}");
}

#[test]
fn lines_that_are_wrong_are_refused_with_their_number() {
    let good = call(1, 100, "1/1s", "cost=1 outcome=allowed");
    for (from, to, message) in [
        ("call id", "cull id", "`cull` is not one of call, queue, hold, fault"),
        ("cost=1", "cost=x", "cost=x is not a whole number"),
        ("cost=1", "cost=0", "cost=0 is not a check"),
        ("cost=1", "", "`cost=` is missing"),
        ("cost=1", "cost=1 cost=2", "`cost=` is not known here, or is there twice"),
        ("outcome=allowed", "outcome=maybe", "outcome=maybe is not known"),
        ("returned=101 ", "", "a decision has no `returned=`"),
        ("returned=101", "returned=9", "it ends before it begins"),
        ("\"1/1s\"", "\"1/1s", "a quoted value does not end"),
        ("\"1/1s\"", "1/none", "limits=1/none"),
    ] {
        assert!(good.contains(from), "{from}");
        let error = format!("# first\n{}", good.replacen(from, to, 1)).parse::<History>();
        let error = error.expect_err(to).to_string();
        assert!(error.starts_with("line 2: ") && error.contains(message), "{to}: {error}");
    }
    let twice = format!("{good}{good}").parse::<History>().expect_err("one id");
    assert_eq!(twice.to_string(), "line 2: another call has this id");
}
