//! Tests of a replay against counts that are taken again, slowly.

use std::io::Cursor;
use std::num::NonZeroUsize;
use std::path::Path;

use proptest::prelude::*;
use tollgate::{Limiter, ManualClock, MemoryStore, Strategy, Time};

use super::*;
use crate::event::{ClientId, Clients};
use crate::order::{Sorter, Sorting};
use crate::parse::By;
use crate::read::{Reading, Summary};
use crate::source::Lines;

/// Traffic of clients named `c0`, `c1` and so on, at these microseconds.
fn traffic(events: &[(u64, u32)], memory_events: usize) -> Traffic {
    let sorting = Sorting::default().with_memory_events(NonZeroUsize::new(memory_events).unwrap());
    let mut sorter = Sorter::new(sorting);
    let mut clients = Clients::new();
    for n in 0..=events.iter().map(|event| event.1).max().unwrap_or(0) {
        clients.intern(format!("c{n}").as_bytes()).unwrap();
    }
    for &(at_us, client) in events {
        sorter.push(Event::new(at_us, ClientId::new(client))).unwrap();
    }
    let stats = sorter.stats();
    let summary = Summary {
        lines: stats.events,
        events: stats.events,
        out_of_order: stats.out_of_order,
        first_last_us: stats.first_last_us,
        clients: clients.len(),
        whole_seconds: stats.whole_seconds,
        ..Summary::default()
    };
    Traffic { summary, clients, ordered: sorter.finish().unwrap(), descriptions: None }
}

fn read(log: &[u8]) -> Traffic {
    let lines = Lines::from_reader(Cursor::new(log.to_vec()), Path::new("x"), None);
    let by = By::Field("host".to_owned());
    Reading::by(by).read_lines(lines.unwrap(), |_| ()).unwrap()
}

fn run(traffic: &Traffic, limits: &[&str], choice: StrategyChoice) -> Report {
    replay(traffic, &Plan::new(limits, choice).unwrap(), |_| ()).unwrap()
}

fn as_written(events: &[(u64, u32)], limit: &str) -> CaseReport {
    run(&traffic(events, 1_000), &[limit], StrategyChoice::AsWritten).cases.remove(0)
}

#[test]
fn the_peak_counts_half_open_windows_and_one_client() {
    // Fixed windows of 10 us admit 2 + 2 around their border, and both clients together 8.
    let events = [8, 9, 10, 11].map(|at| [(at, 0), (at, 1)]).concat();
    let case = as_written(&events, "2/10us via fixed_window");
    assert_eq!((case.admitted, case.denied, case.peak_in_window()), (8, 0, 4));
    // 0 and 10 are not in one window of 10 us; 1 and 10 are.
    assert_eq!(as_written(&[(0, 0), (10, 0)], "2/10us via fixed_window").peak_in_window(), 1);
    assert_eq!(as_written(&[(1, 0), (10, 0)], "2/10us via fixed_window").peak_in_window(), 2);
}

#[test]
fn ties_are_ranked_by_the_bytes_of_the_name() {
    // 12 clients with one denial each, c3 with two; c10 and c11 come before c2 by their bytes.
    let mut events: Vec<(u64, u32)> = (0..12).rev().flat_map(|n| [(5, n), (5, n)]).collect();
    events.push((5, 3));
    let case = as_written(&events, "1/10s");
    assert_eq!((case.admitted, case.denied, case.clients_denied), (12, 13, 12));
    let names: Vec<&str> = case.top_denied.iter().map(|top| top.0.as_str()).collect();
    assert_eq!(names, ["c3", "c0", "c1", "c10", "c11", "c2", "c4", "c5", "c6", "c7"]);
    assert_eq!(case.top_denied[0].1 + case.top_denied[1].1, 3);
    // The n-th of 60 clients has n denials: the last ten are named, the greatest first.
    let events: Vec<(u64, u32)> = (0..60).flat_map(|n| vec![(5, n); n as usize + 1]).collect();
    let case = as_written(&events, "1/10s");
    let expected: Vec<(String, u64)> = (50..60).rev().map(|n| (format!("c{n}"), n)).collect();
    assert_eq!((case.top_denied, case.clients_denied), (expected, 59));
    let case = as_written(&events[..6], "1/10s");
    assert_eq!(case.top_denied, [("c2".to_owned(), 2), ("c1".to_owned(), 1)]);
    // Events are decided in the order of their stamps, not of the file.
    let case = as_written(&[(7, 0), (5, 1), (5, 0), (6, 1)], "1/2us");
    assert_eq!(case.top_denied, [("c1".to_owned(), 1)]);
    assert_eq!((case.admitted, case.denied), (3, 1));
}

#[test]
fn clients_of_any_bytes_are_counted_apart_and_shown_printable() {
    let mut log = Vec::new();
    let long = vec![b'%'; 30_000]; // as a subject this would be 90,000 bytes: too long
    for name in [&b"\xff"[..], b"\xfe", b"a,b", &long, b"\xff"] {
        log.extend_from_slice(name);
        log.extend_from_slice(b" - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5\n");
    }
    let report = run(&read(&log), &["1/10s"], StrategyChoice::AsWritten);
    let case = &report.cases[0];
    assert_eq!((report.clients, case.admitted, case.denied), (4, 4, 1));
    assert_eq!(case.top_denied, [("\\xff".to_owned(), 1)]);
}

#[test]
fn a_quota_that_one_strategy_refuses_runs_under_the_others() {
    let traffic = traffic(&[(0, 0), (1, 0)], 10);
    let report = run(&traffic, &["7/3us"], StrategyChoice::All);
    let refused: Vec<Strategy> = report.refused.iter().map(|r| r.strategy).collect();
    assert_eq!(refused, [Strategy::SlidingWindow]);
    assert!(report.refused[0].why.to_string().contains("precision"), "{}", report.refused[0].why);
    let ran: Vec<&str> = report.cases.iter().map(|case| case.strategy.as_str()).collect();
    let others = Strategy::RATES.iter().filter(|it| **it != Strategy::SlidingWindow);
    assert_eq!(ran, others.map(|it| it.name()).collect::<Vec<_>>());
    let json = serde_json::to_value(report.to_json()).unwrap();
    assert_eq!(json["strategies"].as_array().unwrap().len(), ran.len());
}

#[test]
fn what_no_strategy_takes_is_an_error() {
    let error = |limits: &[&str], choice| Plan::new(limits, choice).unwrap_err().to_string();
    for choice in [StrategyChoice::All, StrategyChoice::One(Strategy::Gcra)] {
        assert!(error(&["5/10s via gcra"], choice).contains("gcra"));
        assert!(error(&["5/10x"], choice).contains("unit of time"));
        assert!(error(&["5/10s", "20/10s"], choice).contains("name them"));
        assert!(error(&[], choice).contains("a limit is missing"));
    }
    assert!(error(&[], StrategyChoice::AsWritten).contains("a limit is missing"));
    assert!(error(&["5000/1h"], StrategyChoice::AsWritten).contains("5000"));
    assert_eq!(
        Plan::new(&["5000/1h"], StrategyChoice::All).unwrap().cases.len(),
        Strategy::RATES.len()
    );
    assert_eq!("all".parse(), Ok(StrategyChoice::All));
    assert_eq!("gcra".parse(), Ok(StrategyChoice::One(Strategy::Gcra)));
    let unknown = "gcr\n".parse::<StrategyChoice>().unwrap_err().to_string();
    assert!(unknown.contains("sliding_log") && unknown.contains("`gcr\\n`"), "{unknown}");
}

#[test]
fn several_limits_are_all_or_nothing_with_a_peak_each() {
    // At 0, 1, .. 9: the gate lets every second through, the window takes 3 of those.
    let events: Vec<(u64, u32)> = (0..10).map(|at| (at, 0)).collect();
    let limits = ["1/2us via uniform", "3/10us via sliding_log"];
    let report = run(&traffic(&events, 10), &limits, StrategyChoice::AsWritten);
    let case = &report.cases[0];
    assert_eq!(case.strategy, "uniform,sliding_log");
    assert_eq!(case.limit, "1/2us via uniform, 3/10us via sliding_log");
    assert_eq!((case.admitted, case.denied), (3, 7));
    let two =
        Plan::new(&["5/s via gcra, 9/m via uniform, 7/h via gcra"], StrategyChoice::AsWritten);
    assert_eq!(two.unwrap().cases[0].strategy, "gcra,uniform");
    let peaks: Vec<(&str, u64)> = case.peaks.iter().map(|p| (p.limit.as_str(), p.peak)).collect();
    assert_eq!(peaks, [("1/2us via uniform", 1), ("3/10us via sliding_log", 3)]);
    assert_eq!(case.peak_in_window(), 1);
}

#[test]
fn nothing_to_replay_is_no_error() {
    let report = run(&read(b"nonsense\n"), &["5/10s"], StrategyChoice::All);
    assert_eq!((report.events, report.unparsed, report.cases.len()), (0, 1, 6));
    for case in &report.cases {
        assert_eq!((case.admitted, case.denied, case.peak_in_window()), (0, 0, 0));
        assert!(case.top_denied.is_empty());
        assert_eq!(case.decisions_per_second(), 0);
    }
}

#[test]
fn progress_goes_through_every_case() {
    // A whole number of batches, and one event more.
    for len in [0, 1, 2 * BATCH_EVENTS, 2 * BATCH_EVENTS + 1] {
        let events: Vec<(u64, u32)> = (0..len as u64).map(|at| (at, 0)).collect();
        let traffic = traffic(&events, 1_000);
        let plan = Plan::new(&["5/10s"], StrategyChoice::All).unwrap();
        let mut calls = Vec::new();
        replay(&traffic, &plan, |progress| calls.push(progress)).unwrap();
        assert!(calls.is_sorted_by_key(|p| (p.case, p.events)));
        for case in 0..6 {
            let last = calls.iter().rfind(|p| p.case == case).unwrap();
            assert_eq!((last.cases, last.events, last.total_events), (6, len as u64, len as u64));
        }
    }
}

#[test]
fn decisions_per_second_are_events_by_time() {
    let mut case = as_written(&[(0, 0), (1, 0), (2, 0)], "1/10us");
    case.elapsed = Duration::from_millis(2);
    assert_eq!(case.decisions_per_second(), 1_500);
    case.elapsed = Duration::ZERO; // a clock may not see so little
    assert_eq!(case.decisions_per_second(), 3_000_000_000);
}

/// One client's most admitted events in any `(t - D, t]`, from the definition.
fn naive_peak(admitted: &[(u64, u32)], period_us: u64) -> u64 {
    let within = |&(t, who): &(u64, u32)| {
        admitted.iter().filter(|(s, w)| *w == who && *s <= t && s + period_us > t).count() as u64
    };
    admitted.iter().map(within).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn the_peak_is_that_of_the_definition(
        events in proptest::collection::vec((0..300_u64, 0..4_u32, any::<bool>()), 0..200),
        period_us in 1..120_u64,
        memory_events in 5..300_usize,
    ) {
        let plain: Vec<(u64, u32)> = events.iter().map(|(at, who, _)| (*at, *who)).collect();
        let traffic = traffic(&plain, memory_events);
        let mut in_order = events;
        in_order.sort_by_key(|event| event.0);
        let mut peak = Peak::new(&traffic, period_us, true).unwrap();
        let mut admitted = Vec::new();
        for (at, who, allow) in in_order {
            peak.count(Event::new(at, ClientId::new(who)), allow).unwrap();
            if allow {
                admitted.push((at, who));
            }
            prop_assert_eq!(peak.most(), naive_peak(&admitted, period_us));
        }
    }

    /// A separate limiter per client and case, asked by name: the same totals, in memory and with
    /// the events on disk.
    #[test]
    fn a_replay_equals_limiters_asked_one_by_one(
        events in proptest::collection::vec((0..400_u64, 0..5_u32), 1..150),
        memory_events in 5..300_usize,
    ) {
        let report = run(&traffic(&events, memory_events), &["3/40us, 9/200us"],
            StrategyChoice::All);
        let mut in_order = events;
        in_order.sort_by_key(|event| event.0);
        for case in &report.cases {
            let limits: tollgate::LimitSet = case.limit.parse().unwrap();
            let mut admitted = Vec::new();
            for client in 0..5 {
                let clock = ManualClock::at_micros(0);
                let store = MemoryStore::builder().clock(clock.clone()).build();
                let limiter = Limiter::new(limits.clone(), store);
                for &(at, who) in in_order.iter().filter(|event| event.1 == client) {
                    clock.set(Time::from_micros(at));
                    if limiter.check(format!("name:{who}")).now().unwrap().is_allowed() {
                        admitted.push((at, who));
                    }
                }
            }
            prop_assert_eq!(case.admitted, admitted.len() as u64);
            prop_assert_eq!(case.denied, (in_order.len() - admitted.len()) as u64);
            prop_assert_eq!(case.peaks[0].peak, naive_peak(&admitted, 40));
            prop_assert_eq!(case.peaks[1].peak, naive_peak(&admitted, 200));
        }
    }
}
