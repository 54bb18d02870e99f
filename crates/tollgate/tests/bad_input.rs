//! Every bad input gets an error with the problem, its place, and the correction: the whole text of
//! each. Bad limits are data, in `data/bad_limits.txt`.
#![allow(clippy::unwrap_used)] // tests may unwrap

use tollgate::{
    Ask, Limit, LimitSet, Limiter, ManualClock, MemoryStore, Period, Quota, Strategy, Subject,
    at_once,
};

/// The memory store answers immediately.
fn now<T>(future: impl Future<Output = T>) -> T {
    at_once(future).unwrap()
}

fn limit_error(text: &str) -> String {
    match text.parse::<LimitSet>() {
        Ok(limits) => panic!("{text} is accepted as {limits}"),
        Err(error) => error.to_string(),
    }
}

/// Three lines each: the problem, the text, and under the word the correction.
#[test]
fn bad_limits_are_answered_as_written() {
    let cases: Vec<&str> = include_str!("data/bad_limits.txt").trim_end().split("\n\n").collect();
    assert_eq!(cases.len(), 113);
    for case in cases {
        let text = case.lines().nth(1).unwrap().strip_prefix("  ").unwrap();
        assert_eq!(limit_error(text), case);
    }
}

const SHAPE: &str = "a limit is written `[NAME:] N/D [options] [via STRATEGY]`, as in `10/s` or \
                     `100/s burst 200 via token_bucket`";

#[test]
fn texts_that_are_not_shown_are_told_in_a_line() {
    assert_eq!(limit_error(""), format!("a limit is missing: {SHAPE}"));
    assert_eq!(
        limit_error(&"x".repeat(9_000)),
        "the text of the limits has 9000 bytes: at most 8192 are read"
    );
    let many: Vec<String> = (0..33).map(|i| format!("l{i}: 1/s via gcra")).collect();
    let error = limit_error(&many.join(", "));
    let what = "a set has 1 to 32 limits, not 33: write them joined by `,`, as in `10/s, 240/h`";
    assert_eq!(error, what);
    let none = LimitSet::new(Vec::new()).unwrap_err().to_string();
    assert_eq!(none, what.replace("33", "0"));
}

#[test]
fn a_bare_quota_above_a_thousand_is_offered_every_strategy() {
    assert!("1000/h".parse::<LimitSet>().is_ok());
    // No strategy follows from a debt, nor from a unit.
    let error = limit_error("50000000/30d of microdollars debt 1000000");
    assert!(error.contains("would remember every event"), "{error}");
    let error = limit_error("1001/h");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "a bare quota above 1000 would remember every event of each subject",
            "  1001/h",
            "  ^^^^^^ say what you want with `via`:",
        ]
    );
    let window = |via: &str, most: u64, sustained: &str, bytes: &str| {
        format!(
            "    via {via:<15} at most {most} in any 1h; sustained {sustained}; bytes per subject: \
             {bytes}"
        )
    };
    let rate = "1001 per 1h";
    assert_eq!(lines[3], window("uniform", 1_001, rate, "16"));
    assert_eq!(lines[4], window("fixed_window", 2_002, rate, "16"));
    let log = "    via sliding_log     at most 1001 in any 1h; sustained 1001 per 1h; bytes per \
               subject: 16 per remembered event, at most 1001 of them";
    assert!(lines[5].starts_with(log), "{}", lines[5]);
    let share = "10/11 of 1001 per 1h";
    assert_eq!(lines[6], window("sliding_window", 1_001, share, "8 x (10 + 2) = 96"));
    assert_eq!(lines[7], window("token_bucket", 2_001, rate, "16"));
    assert_eq!(lines[8], window("gcra", 2_001, rate, "16"));
    assert_eq!(lines.len(), 3 + Strategy::RATES.len());
    // Where one of them cannot, its line says why.
    let error = limit_error("1001/7us");
    let cannot = "    via sliding_window  not here: 7us cannot be cut into 10 equal sub-buckets";
    assert_eq!(error.lines().nth(6), Some(cannot));
    // Everything that is offered is accepted.
    for strategy in Strategy::RATES {
        assert!(format!("1001/h via {strategy}").parse::<LimitSet>().is_ok(), "{strategy}");
    }
}

#[test]
fn a_misspelt_word_is_recognised() {
    for (text, what, meant) in [
        ("10/s brust 5 via gcra", "unknown word `brust`", "did you mean `burst`?"),
        ("10/s presicion 1s", "unknown word `presicion`", "did you mean `precision`?"),
        ("10/s vai gcra", "unknown word `vai`", "did you mean `via`?"),
        (
            "10/s via sliding_windows",
            "unknown strategy `sliding_windows`",
            "did you mean `sliding_window`?",
        ),
        ("10/s via tokenbucket", "unknown strategy `tokenbucket`", "write `via token_bucket`"),
    ] {
        let error = limit_error(text);
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines[..2], [what, &format!("  {text}")], "{error}");
        assert!(lines[2].contains(meant), "{error}");
    }
}

#[test]
fn a_strategy_beside_a_via_is_given_twice() {
    let error = LimitSet::parse_with("5/s via gcra", Strategy::Uniform).unwrap_err().to_string();
    let lines = [
        "the strategy is given twice",
        "  5/s via gcra",
        "          ^^^^ leave out this `via`, or the `uniform` given beside the limit",
    ];
    assert_eq!(error.lines().collect::<Vec<_>>(), lines);
}

/// The caret is under its word also behind characters of several bytes.
#[test]
fn the_caret_counts_characters() {
    let error = limit_error("10/s via é日本, 0/s");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines[1], "  10/s via é日本, 0/s");
    assert!(lines[2].starts_with("           ^^^ the strategies are"), "{error}");
    let hidden = limit_error("10/s\u{7} \u{1b}[31mred via gcra");
    assert!(!hidden.contains(['\u{7}', '\u{1b}']), "control characters reach the terminal");
}

#[test]
fn numbers_given_in_code_are_refused_too() {
    let period = Period::from_micros(10_000_000).unwrap();
    let error =
        |units, strategy| Limit::new(Quota::new(units, period), strategy).unwrap_err().to_string();
    let zero = error(0, Strategy::Gcra);
    assert!(zero.starts_with("a quota of 0 would never admit anything\n"), "{zero}");
    let large = error((1 << 40) + 1, Strategy::SlidingLog);
    assert!(large.starts_with("a quota of 1099511627777 is too large\n"), "{large}");
    assert_eq!(Period::from_micros(0), None);
    assert_eq!(Period::from_micros(367 * 86_400_000_000), None);
    let named = "5/s".parse::<Limit>().unwrap().named("a b").unwrap_err().to_string();
    let lines = [
        "this is not the name of a limit",
        "  a b",
        "  ^^^ a name is a letter, then letters, digits, `_`, `-` or `.`, at most 64",
    ];
    assert_eq!(named.lines().collect::<Vec<_>>(), lines);
}

fn memory(limits: &str) -> Limiter<MemoryStore> {
    let store = MemoryStore::builder().clock(ManualClock::at_micros(0)).build();
    Limiter::new(limits.parse().unwrap(), store)
}

#[test]
fn bad_costs_and_questions() {
    let limiter = memory("5/s");
    let cost = |cost| limiter.check(Ask::new("a").cost(cost)).now().unwrap_err().to_string();
    let zero = "a check costs at least 1: to look without charging, use `peek`";
    assert_eq!(cost(0), zero);
    assert_eq!(
        cost((1 << 40) + 1),
        "a cost of 1099511627777 is too large: the largest is 2^40 = 1099511627776"
    );
    assert!(cost(u64::MAX).starts_with("a cost of 18446744073709551615 is too large"));
    let twice = limiter.check(Ask::new("a").and("key:a")).now().unwrap_err().to_string();
    assert_eq!(twice, "`a` is asked twice under the same limits: ask once, with a larger cost");
    let none: Vec<(&str, &LimitSet)> = Vec::new();
    let none = limiter.check(Ask::from(none)).now().unwrap_err().to_string();
    assert_eq!(none, "a check is over 1 to 16 subjects, not 0");
    let many = (0..16).fold(Ask::new("a"), |ask, i| ask.and(format!("b:{i}")));
    let many = limiter.check(many).now().unwrap_err().to_string();
    assert_eq!(many, "a check is over 1 to 16 subjects, not 17");
    for delta in [0, i64::MIN, i64::MAX, (1 << 40) + 1] {
        let error = now(limiter.admin().adjust("a", delta)).unwrap_err().to_string();
        let what = format!(
            "an adjustment of {delta} is out of range: give a number from 1 to 2^40 to give units \
             back, or negative to take them"
        );
        assert_eq!(error, what);
    }
    let two = now(limiter.admin().reset(Ask::new("a").and("b"))).unwrap_err().to_string();
    assert_eq!(two, "this is done for one subject at a time");
    // None of it was charged.
    assert_eq!(limiter.check(Ask::new("a").peek()).now().unwrap().remaining(), 5);
}

#[test]
fn bad_subjects() {
    let name = "use letters, digits, `_`, `-` and `.`, as in `user:42`";
    let missing = "a subject is `dim:value`, several joined by `,`, e.g. `user:42,route:login`";
    let escape = "`%` starts an escape of two hexadecimal digits";
    for (text, what, caret, remedy) in [
        ("user:", "a value is missing", "^^^^^", missing),
        ("a:1,,b:2", "a value is missing", "    ^", missing),
        ("a:1,a:2", "the dimension `a` is given twice", "^^^^^^^", "give each dimension once"),
        ("a:%4", escape, "  ^^", "write `%25` for a percent sign"),
        ("a:%zz", escape, "  ^^^", "write `%25` for a percent sign"),
        ("a b:1", "`a b` is not the name of a dimension", "^^^^^", name),
    ] {
        let error = Subject::parse(text).unwrap_err().to_string();
        assert_eq!(error, format!("{what}\n  {text}\n  {caret} {remedy}"));
    }
    let empty = "an absent identity must not share one count: decide what to do without it";
    let error = memory("5/s").check("user:").now().unwrap_err().to_string();
    assert_eq!(error, format!("the value of `user` is empty\n  user:\n  ^^^^^ {empty}"));
    let error = memory("5/s").check("").now().unwrap_err().to_string();
    assert_eq!(error, format!("the value of `key` is empty: {empty}"));
    let error = Subject::new("user", vec![b'x'; 70_000]).unwrap_err().to_string();
    let long =
        "the subject has 70005 bytes in its written form: at most 65536: hash long values first";
    assert_eq!(error, long);
    let many: Vec<String> = (10..27).map(|i| format!("d{i}:v")).collect();
    let error = Subject::parse(&many.join(",")).unwrap_err().to_string();
    let first = "a subject has at most 16 dimensions";
    assert_eq!(error.lines().next(), Some(first));
    assert!(error.ends_with(" name only those that the count belongs to"), "{error}");
}
