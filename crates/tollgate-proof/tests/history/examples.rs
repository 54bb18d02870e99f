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
    let limits = "2/1s via gcra";
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
    // It allows nothing to what came before it.
    let late = "fault kind=failover began=900 ended=910 target=redis lost_states=1\n";
    let before = report(&format!("{late}{}", lines(0, 3)));
    assert_eq!(before.verdict(Promise::Bound), Verdict::Broken, "{before}");
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
    // 3 is denied by what remains after 1, before 2.
    let text = call(2, 100, limits, "cost=1 outcome=allowed remaining=0")
        + &call(3, 100, limits, "cost=2 outcome=denied remaining=1")
        + &call(1, 100, limits, "cost=2 outcome=allowed remaining=1");
    let report = report(&text);
    assert_eq!(report.verdict(Promise::Exact), Verdict::Held, "{report}");
}

#[test]
fn a_denial_that_charged_one_of_two_limits_is_named() {
    let both = "slow: 9/100h via gcra, fast: 5/1h via fixed_window";
    let text = |last: &str| {
        call(1, 100, both, "cost=4 outcome=allowed remaining=1")
            + &call(2, 110, both, "cost=3 outcome=denied remaining=1")
            + &call(3, 3_600_000_001, both, last)
    };
    // The next window of the fast limit shows what the slow one holds.
    let free = report(&text("cost=1 outcome=allowed remaining=4"));
    assert_eq!(free.verdict(Promise::AllOrNothing), Verdict::Held, "{free}");
    let charged = report(&text("cost=1 outcome=allowed remaining=1"));
    assert_eq!(charged.verdict(Promise::AllOrNothing), Verdict::Broken, "{charged}");
    assert_eq!(charged.verdict(Promise::DenialsFree), Verdict::Unknown, "{charged}");
    let open = report(&text("cost=5 outcome=denied"));
    assert_eq!(open.verdict(Promise::AllOrNothing), Verdict::Broken, "{open}");
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
        ("call id", "cull id", "`cull` is none of call, queue, fault"),
        ("cost=1", "cost=x", "cost=x is no whole number"),
        ("cost=1", "cost=0", "cost=0 is no check"),
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
