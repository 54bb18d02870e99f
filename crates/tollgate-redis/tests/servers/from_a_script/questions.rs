//! The questions, and how the answers of both sides are counted.

use tollgate::LimitSet;

use super::Row;
use super::driven::{Driven, START_US};

const SECOND_US: u64 = 1_000_000;
const MS_US: u64 = 1_000;

/// The sections of the page.
const TWO_LOGS: &str = "[two logs](#a-resource-and-its-consumers)";
const ZOO: &str = "[gate](#a-gate-for-each-caller)";
const LOG: &str = "[log](#a-log-for-one-resource)";
const COUNTER: &str = "[counter](#incr-and-expire)";
const BUCKETS: &str = "[sub-buckets](#several-windows-as-json)";
const TOKENS: &str = "[tokens](#a-token-bucket-in-two-keys)";

const CONSUMERS: &str = include_str!("two_logs.lua");
const GATE: &str = include_str!("gate.lua");
const JOINED: &str = include_str!("joined_log.lua");
const RENEWED: &str = include_str!("counter_renewed.lua");
const FIRST_HIT: &str = include_str!("counter.lua");
const JSON: &str = include_str!("buckets.lua");
const TWO_KEYS: &str = include_str!("tokens.lua");

pub(super) fn all(on: &mut Driven) -> Vec<Row> {
    vec![
        busy_resource(on),
        same_microsecond(on),
        lowered_limit(on),
        opening_gate(on),
        busy_log(on),
        race(on),
        renewed_life(on),
        edge_of_a_window(on),
        windows(on),
        windows_of_json(on),
        clock_ahead(on),
        busy_bucket(on),
        questions_until_admitted(on),
    ]
}

fn limits(text: &str) -> LimitSet {
    text.parse().unwrap()
}

/// Times from `from_us` on, `step_us` apart, before `until_us`; all after the start.
fn every(step_us: u64, from_us: u64, until_us: u64) -> impl Iterator<Item = u64> {
    (from_us..until_us).step_by(usize::try_from(step_us).unwrap()).map(|us| START_US + us)
}

/// The times at which a question is admitted.
fn admitted(times: impl Iterator<Item = u64>, ask: impl FnMut(&u64) -> bool) -> Vec<u64> {
    times.filter(ask).collect()
}

/// The most of these times in any half-open window of this length.
fn most_in(times: &[u64], window_us: u64) -> usize {
    let in_window = |(i, from): (usize, &u64)| {
        times[i..].iter().take_while(|at| **at < from + window_us).count()
    };
    times.iter().enumerate().map(in_window).max().unwrap_or(0)
}

/// Asks one limit of ours at these times.
fn ours(on: &mut Driven, subject: &str, limit: &str, times: impl Iterator<Item = u64>) -> Vec<u64> {
    let set = limits(limit);
    admitted(times, |at| on.tollgate(&[(subject, &set)], 1, *at).is_admitted)
}

/// Many consumers ask for one resource, a hundred times a second.
fn busy_resource(on: &mut Driven) -> Row {
    let times = || every(10 * MS_US, 810 * MS_US, 40 * SECOND_US);
    let keys = ["000:resource{1}", "000:resource{1}:consumer"];
    let theirs = admitted(times(), |at| on.pattern(CONSUMERS, *at, &keys, &["10", "20", "20"]));
    let set = limits("20/10s");
    let pair = [("resource:busy", &set), ("consumer:busy", &set)];
    let ours = admitted(times(), |at| on.tollgate(&pair, 1, *at).is_admitted);
    let most = |times: &[u64]| most_in(times, 10 * SECOND_US).to_string();
    Row {
        pattern: TWO_LOGS,
        question: "20 in 10 s, asked 100 times a second: most in any 10 s".to_owned(),
        theirs: most(&theirs),
        limit: "20/10s".to_owned(),
        ours: most(&ours),
    }
}

/// Somebody asks once a second, by a timer.
fn same_microsecond(on: &mut Driven) -> Row {
    let times = || every(SECOND_US, 250 * MS_US, 40 * SECOND_US);
    let keys = ["000:timer{1}", "000:timer{1}:consumer"];
    let theirs = admitted(times(), |at| on.pattern(CONSUMERS, *at, &keys, &["10", "5", "5"]));
    let ours = ours(on, "timer", "5/10s", times());
    Row {
        pattern: TWO_LOGS,
        question: "5 in 10 s, asked at the same microsecond of each of 40 seconds: admitted"
            .to_owned(),
        theirs: theirs.len().to_string(),
        limit: "5/10s".to_owned(),
        ours: ours.len().to_string(),
    }
}

/// The limit is lowered while more is counted than it allows.
fn lowered_limit(on: &mut Driven) -> Row {
    let keys = ["000:lowered{1}", "000:lowered{1}:consumer"];
    let mut theirs =
        |at: u64, limit: &str| on.pattern(CONSUMERS, at, &keys, &["10", limit, "1000"]);
    let before = every(MS_US, 0, 20 * MS_US).filter(|at| theirs(*at, "20")).count();
    let after = every(MS_US, SECOND_US, SECOND_US + 10 * MS_US);
    let after = after.filter(|at| theirs(*at, "10")).count();
    assert_eq!(before, 20);
    let before = ours(on, "lowered", "20/10s", every(MS_US, 0, 20 * MS_US)).len();
    assert_eq!(before, 20);
    let times = every(MS_US, SECOND_US, SECOND_US + 10 * MS_US);
    Row {
        pattern: TWO_LOGS,
        question: "20 counted, then lowered to 10 in 10 s, asked 10 times: admitted".to_owned(),
        theirs: after.to_string(),
        limit: "10/10s".to_owned(),
        ours: ours(on, "lowered", "10/10s", times).len().to_string(),
    }
}

/// One asks every ten milliseconds until the gate is open again: a little after each, since a
/// script takes time in which a key grows older.
fn opening_gate(on: &mut Driven) -> Row {
    let times = || every(1, 0, 1).chain(every(10 * MS_US, 4 * MS_US, 3 * SECOND_US));
    let seconds = |times: &[u64]| {
        let hundredths = (times[1] - times[0]) / (10 * MS_US);
        format!("{}.{:02} s", hundredths / 100, hundredths % 100)
    };
    let theirs = admitted(times(), |at| on.pattern(GATE, *at, &["001:gate"], &["2000"]));
    let ours = ours(on, "gate", "1/2s via uniform", times());
    Row {
        pattern: ZOO,
        question: "one in 2 s, asked every 10 ms: opens after".to_owned(),
        theirs: seconds(&theirs),
        limit: "1/2s via uniform".to_owned(),
        ours: seconds(&ours),
    }
}

fn busy_log(on: &mut Driven) -> Row {
    let times = || every(10 * MS_US, 0, 40 * SECOND_US);
    let args = ["10000000", "60"];
    let theirs = admitted(times(), |at| on.pattern(JOINED, *at, &["001:log"], &args));
    let ours = ours(on, "log", "60/10s", times());
    let most = |times: &[u64]| most_in(times, 10 * SECOND_US).to_string();
    Row {
        pattern: LOG,
        question: "60 in 10 s, asked 100 times a second: most in any 10 s".to_owned(),
        theirs: most(&theirs),
        limit: "60/10s".to_owned(),
        ours: most(&ours),
    }
}

/// Ten clients read the counter before any of them writes it.
fn race(on: &mut Driven) -> Row {
    let reads: Vec<_> = (0..10).map(|_| on.reply(&["GET", "002:race"])).collect();
    let mut theirs = 0;
    for count in reads {
        if count.unwrap_or(0) < 5 {
            on.reply(&["INCR", "002:race"]);
            on.reply(&["EXPIRE", "002:race", "10"]);
            theirs += 1;
        }
    }
    let ours = ours(on, "race", "5/10s", std::iter::repeat_n(START_US, 10));
    Row {
        pattern: COUNTER,
        question: "5 in 10 s, ten clients that read before one writes: admitted".to_owned(),
        theirs: theirs.to_string(),
        limit: "5/10s".to_owned(),
        ours: ours.len().to_string(),
    }
}

/// Eighty in ten seconds where a hundred are allowed.
fn renewed_life(on: &mut Driven) -> Row {
    let times = || every(125 * MS_US, 0, 150 * SECOND_US);
    let theirs = admitted(times(), |at| on.pattern(RENEWED, *at, &["002:renewed"], &["100", "10"]));
    let ours = ours(on, "renewed", "100/10s", times());
    Row {
        pattern: COUNTER,
        question: format!(
            "100 in 10 s, asked 8 times a second: admitted of {}, all of which are due",
            times().count()
        ),
        theirs: theirs.len().to_string(),
        limit: "100/10s".to_owned(),
        ours: ours.len().to_string(),
    }
}

/// One request opens a window; the others come around its end.
fn edge_of_a_window(on: &mut Driven) -> Row {
    let times =
        || every(SECOND_US, 0, SECOND_US).chain(every(10 * MS_US, 9_900 * MS_US, 10_200 * MS_US));
    let theirs = admitted(times(), |at| on.pattern(FIRST_HIT, *at, &["002:edge"], &["5", "10"]));
    let ours = ours(on, "edge", "5/10s", times());
    let most = |times: &[u64]| most_in(times, 10 * SECOND_US).to_string();
    Row {
        pattern: COUNTER,
        question: "5 in 10 s with `SET NX EX`, asked around the end of its life: most in any 10 s"
            .to_owned(),
        theirs: most(&theirs),
        limit: "5/10s".to_owned(),
        ours: most(&ours),
    }
}

/// The limits of the article, and times around the edges of its windows.
const THREE: &str = "[[1,10],[60,120],[3600,240,60]]";

fn around_edges() -> impl Iterator<Item = u64> {
    let first = every(50 * MS_US, 47_500 * MS_US, 75 * SECOND_US);
    first.chain(every(50 * MS_US, 3_599 * SECOND_US, 3_625 * SECOND_US))
}

/// The most in any second, minute and hour.
fn three(times: &[u64]) -> String {
    let each = [1, 60, 3_600].map(|seconds| most_in(times, seconds * SECOND_US).to_string());
    each.join(", ")
}

fn windows(on: &mut Driven) -> Row {
    let theirs = admitted(around_edges(), |at| {
        let now = format!("{}.{:06}", at / SECOND_US, at % SECOND_US);
        on.pattern(JSON, *at, &["003:windows"], &[THREE, &now, "1"])
    });
    let limit = "10/s, 120/m, 240/h";
    Row {
        pattern: BUCKETS,
        question:
            "10, 120, 240 in a second, a minute, an hour, asked around their edges: most in any \
                   of each"
                .to_owned(),
        theirs: three(&theirs),
        limit: limit.to_owned(),
        ours: three(&ours(on, "windows", limit, around_edges())),
    }
}

/// The same numbers with the meaning that they have there.
fn windows_of_json(on: &mut Driven) -> Row {
    let theirs = admitted(around_edges(), |at| {
        let now = format!("{}.{:06}", at / SECOND_US, at % SECOND_US);
        on.pattern(JSON, *at, &["003:json"], &[THREE, &now, "1"])
    });
    Row {
        pattern: BUCKETS,
        question: "the same, as the JSON means it".to_owned(),
        theirs: three(&theirs),
        limit: THREE.to_owned(),
        ours: three(&ours(on, "json", THREE, around_edges())),
    }
}

/// Two machines ask at one moment, and the clock of one is ahead.
fn clock_ahead(on: &mut Driven) -> Row {
    let ask = |on: &mut Driven, ahead_us: u64| {
        let now = ((START_US + ahead_us) / SECOND_US).to_string();
        let args = ["[[1,10]]", &now, "1"];
        (0..10).filter(|_| on.pattern(JSON, START_US, &["003:ahead"], &args)).count()
    };
    let theirs = ask(on, 0) + ask(on, 30 * SECOND_US);
    let ours = ours(on, "ahead", "10/s", std::iter::repeat_n(START_US, 20)).len();
    Row {
        pattern: BUCKETS,
        question: "10 in a second, two clients at one moment, one with its clock 30 s ahead: \
                   admitted of 20"
            .to_owned(),
        theirs: theirs.to_string(),
        limit: "10/s".to_owned(),
        ours: ours.to_string(),
    }
}

fn busy_bucket(on: &mut Driven) -> Row {
    let times = || every(10 * MS_US, 0, 10 * SECOND_US);
    let keys = ["004:value", "004:time"];
    let theirs = admitted(times(), |at| on.pattern(TWO_KEYS, *at, &keys, &["10", "1000", "1"]));
    let limit = "10/s via token_bucket";
    let ours = ours(on, "bucket", limit, times());
    let most = |times: &[u64]| most_in(times, SECOND_US).to_string();
    Row {
        pattern: TOKENS,
        question: "10 in a second, asked 100 times a second: most in any second".to_owned(),
        theirs: most(&theirs),
        limit: limit.to_owned(),
        ours: most(&ours),
    }
}

/// A refused client asks again: each millisecond, or when it was asked to.
fn questions_until_admitted(on: &mut Driven) -> Row {
    let keys = ["004:again", "004:again:time"];
    let mut asked = 0;
    let found = every(MS_US, 0, SECOND_US).find(|at| {
        asked += 1;
        on.pattern(TWO_KEYS, *at, &keys, &["10", "1000", "1"]) && asked > 10
    });
    // The first ten are admitted.
    let theirs = asked - 10;
    assert!(found.is_some());
    let set = limits("10/s via token_bucket");
    let mut ask = |at: u64| on.tollgate(&[("again", &set)], 1, at);
    assert!(every(MS_US, 0, 10 * MS_US).all(|at| ask(at).is_admitted));
    let (mut at, mut ours) = (START_US + 10 * MS_US, 1);
    loop {
        let answer = ask(at);
        if answer.is_admitted {
            break;
        }
        at += u64::try_from(answer.wait_us).unwrap();
        ours += 1;
    }
    Row {
        pattern: TOKENS,
        question: "the same, when nothing is left: questions until one is admitted, each ms or \
                   after the wait in the answer"
            .to_owned(),
        theirs: theirs.to_string(),
        limit: "10/s via token_bucket".to_owned(),
        ours: ours.to_string(),
    }
}
