//! Experiments against counts that are taken again, slowly, and what their pages promise.

use proptest::prelude::*;
use tollgate::Strategy;

use super::live::{Answer, Live, ServerUsage};
use super::*;
use crate::decide::{Decider, InMemory, Verdict};
use crate::error::Error;
use crate::event::Event;

fn run_of(experiment: &Experiment) -> Results {
    run(experiment, &mut InMemory::default(), |_| ()).unwrap()
}

fn results(text: &str) -> Results {
    run_of(&Experiment::parse("test.toml", text).unwrap())
}

/// Decides in memory, and keeps what was asked and answered.
#[derive(Default)]
struct Witness {
    memory: InMemory,
    seen: Vec<(Event, Verdict)>,
}

impl Decider for Witness {
    fn begin(&mut self, parts: &[Part], keeps: bool) -> Result<(), Error> {
        self.memory.begin(parts, keeps)
    }

    fn decide(&mut self, events: &[Event], verdicts: &mut Vec<Verdict>) -> Result<(), Error> {
        self.memory.decide(events, verdicts)?;
        self.seen.extend(events.iter().copied().zip(verdicts.iter().copied()));
        Ok(())
    }
}

#[test]
fn buckets_are_round_and_not_too_many() {
    for (duration_s, bucket_us) in [
        (1, 10_000),
        (10, 100_000),
        (60, 500_000),
        (600, 5_000_000),
        (3_600, 30_000_000),
        (86_400, 900_000_000),
        (604_800, 7_200_000_000),
    ] {
        assert_eq!(bucket_of(duration_s * 1_000_000), bucket_us, "{duration_s} s");
    }
    assert_eq!(bucket_of(1), 1);
    assert_eq!(START_US % 86_400_000_000, 0);
}

#[test]
fn the_bytes_of_a_test_of_the_zoo_are_its_own() {
    let results = run_of(&zoo(400, 300, 1).unwrap());
    let held: Vec<_> = results.cases.iter().map(|case| (case.keys, case.bytes)).collect();
    let [(Some(1), Some(log)), (Some(400), Some(gates)), again, new] = held[..] else {
        panic!("{held:?}")
    };
    // 300 times in one log, and 400 gates of a few words each: together they take more.
    assert!((2_400..12_000).contains(&log) && gates > 4 * log, "{held:?}");
    assert_eq!(again, (Some(1), Some(log)), "no caller of the test before is counted in");
    assert!(new.0 >= Some(400), "{held:?}");
    for case in &results.cases {
        let each = case.bytes.unwrap() as f64 / case.keys.unwrap() as f64;
        assert!(case.bytes_per_subject.unwrap() >= each - 0.001, "{}", case.name);
    }
    assert_eq!(results.cases[2].bytes_per_subject, Some(log as f64));
}

#[test]
fn an_experiment_without_a_capacity_has_findings_too() {
    let text = "version = 1\nduration = \"60s\"\n\
        workload = [{ name = \"a\", arrivals = \"edge\", window = \"10s\", size = 20 }]\n\
        case = [{ limits = [{ per = \"client\", limit = \"10/10s\" }],\n\
                 strategies = [\"fixed_window\", \"uniform\"] }]\n";
    let results = results(text);
    assert_eq!(
        results.findings,
        [
            "Most denied: uniform (214 of 220 attempts, 97.3%); \
             fewest: fixed_window (160 of 220 attempts, 72.7%).",
            "fixed_window let one client have 20 within 10 s, 2.00 times the 10 of its limit.",
        ]
    );
    let one = text.replace("\"fixed_window\", ", "");
    let [denied] = &self::results(&one).findings[..] else { panic!("one") };
    assert_eq!(denied, "uniform denied 214 of 220 attempts, 97.3%.");
}

#[test]
fn who_was_denied_most_is_named_first() {
    let text = "version = 1\nduration = \"10s\"\n\
        workload = [{ name = \"few\", arrivals = \"bursts\", size = 3, every = \"1h\" },\n\
                    { name = \"many\", arrivals = \"bursts\", size = 90, every = \"1h\", clients = 20 }]\n\
        case = [{ limits = [{ per = \"client\", limit = \"1/10s\" }] }]\n";
    let case = &results(text).cases[0];
    let told: Vec<(&str, u64)> =
        case.most_denied.iter().map(|it| (&*it.client, it.denied)).collect();
    assert_eq!(told.len(), 10);
    assert_eq!(told[..2], [("many 1", 4), ("many 2", 4)]);
    assert_eq!(case.raster.clients[0], "many 1", "and drawn first");
}

/// What is drawn is the whole time, however much happens before the worst client comes.
#[test]
fn who_comes_late_and_is_denied_most_is_drawn_first_and_to_the_end() {
    let text = "version = 1\nduration = \"60s\"\n\
        [[workload]]\nname = \"many\"\narrivals = \"steady\"\nrate = \"1000/s\"\nclients = 5\n\
        [[workload]]\nname = \"flood\"\narrivals = \"steady\"\nrate = \"900/s\"\nfrom = \"30s\"\n\
        [[case]]\nlimits = [{ per = \"client\", limit = \"1/s via gcra\" }]\n";
    let case = &results(text).cases[0];
    let denied: Vec<&str> = case.most_denied.iter().map(|it| &*it.client).collect();
    assert_eq!(case.raster.clients, denied);
    let columns = |row: u32| -> Vec<u32> {
        let cells = case.raster.cells.iter().filter(|cell| cell.row == row);
        cells.map(|cell| cell.column).collect()
    };
    assert_eq!((case.raster.column_us, case.raster.cut), (100_000, false));
    assert_eq!(columns(0), (300..600).collect::<Vec<_>>(), "flood, from its first attempt on");
    assert_eq!(columns(1), (0..600).collect::<Vec<_>>());
}

const RETRIES: &str = r#"
    version = 1
    duration = "30s"
    capacity = "20/5s"

    [[workload]]
    name = "polite"
    clients = 5
    arrivals = "poisson"
    rate = "4/s"
    retry = "obey"
    times = 3

    [[workload]]
    name = "storm"
    clients = 3
    arrivals = "bursts"
    size = 20
    every = "7s"
    retry = "at_once"
    times = 4
    pause = "50ms"

    [[workload]]
    name = "patient"
    clients = 2
    arrivals = "steady"
    rate = "2/s"
    from = "3s"
    until = "20s"
    retry = "back_off"

    [[case]]
    limits = [{ per = "resource", limit = "20/5s" }]
    strategies = "all"

    [[case]]
    name = "both"
    limits = [
        { per = "resource", limit = "20/5s via sliding_log" },
        { per = "client", limit = ["3/5s via gcra", "1/500ms via uniform"] },
    ]
"#;

#[test]
fn the_measures_are_those_of_the_attempts() {
    let experiment = Experiment::parse("retries.toml", RETRIES).unwrap();
    assert_eq!(experiment.cases.len(), Strategy::ALL.len() + 1);
    for case in &experiment.cases {
        let mut one = experiment.clone();
        one.cases = vec![case.clone()];
        let mut witness = Witness::default();
        let results = run(&one, &mut witness, |_| ()).unwrap();
        let [result] = &results.cases[..] else { panic!("{results:?}") };
        let seen = witness.seen;
        assert!(seen.is_sorted_by_key(|(attempt, _)| attempt.at_us), "{}", case.name);
        let admitted: Vec<Event> =
            seen.iter().filter(|(_, verdict)| verdict.is_admitted).map(|(it, _)| *it).collect();
        assert_eq!(result.attempts, seen.len() as u64);
        assert_eq!(
            (result.admitted, result.attempts),
            (admitted.len() as u64, result.denied + result.admitted)
        );
        assert_eq!(result.requests, result.admitted + result.never_served, "{}", case.name);
        assert!(result.retries > 0 && result.retries == result.attempts - result.requests);
        let most = |window_us: u64, of: &dyn Fn(&Event, &Event) -> bool| {
            let within = |end: &Event| {
                let inside = |it: &&Event| {
                    it.at_us <= end.at_us && it.at_us + window_us > end.at_us && of(it, end)
                };
                admitted.iter().filter(inside).count() as u64
            };
            admitted.iter().map(within).max().unwrap_or(0)
        };
        assert_eq!(result.peak, Some(most(5_000_000, &|_, _| true)), "{}", case.name);
        let each = |one: &Event, other: &Event| one.client == other.client;
        for limit in &result.limits {
            let window_us = if limit.limit.starts_with("1/500ms") { 500_000 } else { 5_000_000 };
            let expected = match limit.per.as_str() {
                "client" => most(window_us, &each),
                _ => most(window_us, &|_, _| true),
            };
            assert_eq!(limit.peak, expected, "{}: {}", case.name, limit.limit);
            assert!(limit.holds, "{}: {limit:?}", case.name);
        }
        let sums =
            result.buckets.iter().fold((0, 0), |sum, it| (sum.0 + it.admitted, sum.1 + it.denied));
        assert_eq!(sums, (result.admitted, result.denied));
        assert_eq!(result.buckets.iter().map(|it| it.occupancy).max(), result.peak);
        // What was admitted is in the window for as long as that is, also while nobody asks.
        for (place, bucket) in result.buckets.iter().enumerate() {
            let start = experiment.start_us + place as u64 * experiment.bucket_us;
            let inside = |it: &&Event| it.at_us <= start && it.at_us + 5_000_000 > start;
            let held = admitted.iter().filter(inside).count() as u64;
            assert!(bucket.occupancy >= held, "{}: bucket {place}", case.name);
            if bucket.admitted == 0 {
                assert!(bucket.occupancy <= held, "{}: bucket {place}", case.name);
            }
        }
        let clients = [("polite", 5), ("storm", 3), ("patient", 2)];
        let names = clients
            .iter()
            .flat_map(|(of, clients)| (1..=*clients).map(move |number| format!("{of} {number}")));
        let names: Vec<String> = names.collect();
        let mut cells = std::collections::BTreeMap::new();
        for (attempt, verdict) in &seen {
            let name = &names[attempt.client.index() as usize];
            let row = result.raster.clients.iter().position(|client| client == name).unwrap();
            let column = (attempt.at_us - experiment.start_us) / 50_000;
            let outcome = cells.entry((row, column)).or_insert((false, false));
            *outcome = (outcome.0 || verdict.is_admitted, outcome.1 || !verdict.is_admitted);
        }
        let raster = result.raster.cells.iter().map(|cell| {
            let place = (cell.row as usize, u64::from(cell.column));
            (place, (cell.admitted, cell.denied))
        });
        assert!(raster.eq(cells), "{}", case.name);
        assert_eq!((result.raster.clients.len(), result.raster.cut), (10, false));
        let of_groups: u64 = result.groups.iter().map(|group| group.attempts).sum();
        assert_eq!(of_groups, result.attempts);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let json = |text: &str| serde_json::to_string(&results(text)).unwrap();
    let (first, again) = (json(RETRIES), json(RETRIES));
    assert_eq!(first, again);
    assert_ne!(first, json(&RETRIES.replace("version = 1", "version = 1\nseed = 2")));
}

/// Runs each case as in real time, on a store that takes no time.
fn live(experiment: &Experiment) -> Results {
    let mut results = Results::new(experiment);
    let mut decider = InMemory::default();
    for (place, case) in experiment.cases.iter().enumerate() {
        decider.begin(&case.parts, experiment.keeps_counts && place > 0).unwrap();
        let mut live = Live::new(experiment, case).unwrap();
        while let Some(now_us) = live.next_due().unwrap() {
            let question = live.take(now_us).unwrap().unwrap();
            let client = crate::event::ClientId::new(question.client());
            let event = Event::new(experiment.start_us + now_us, client);
            let mut verdicts = Vec::new();
            decider.decide(&[event], &mut verdicts).unwrap();
            let verdict = verdicts[0];
            let (sent_us, answered_us) = (now_us, now_us);
            let decided_us = experiment.start_us + now_us;
            live.answered(question, Answer { sent_us, decided_us, answered_us, verdict });
        }
        results.cases.push(live.finish(None));
    }
    results.conclude(experiment);
    results
}

#[test]
fn real_time_on_a_store_that_takes_none_is_simulated_time() {
    let experiments =
        [Experiment::parse("x", RETRIES).unwrap(), zoo(40, 30, 1).unwrap(), sides(1).unwrap()];
    for experiment in experiments {
        let simulated = run_of(&experiment);
        let mut live = live(&experiment);
        for (live, simulated) in live.cases.iter_mut().zip(&simulated.cases) {
            let took = live.live.take().unwrap();
            assert_eq!((took.latency_us.unwrap().max, took.failed, took.in_flight), (0, 0, 1));
            // Nobody was asked for it.
            live.bytes_per_subject = simulated.bytes_per_subject;
            (live.keys, live.bytes) = (simulated.keys, simulated.bytes);
        }
        assert_eq!(live, simulated);
    }
}

#[test]
fn what_gets_no_answer_is_neither_admitted_nor_denied() {
    let experiment = Experiment::parse("x", RETRIES).unwrap();
    let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
    let (mut attempt, mut failed) = (0, 0);
    while let Some(due_us) = live.next_due().unwrap() {
        assert!(due_us == 0 || live.take(due_us - 1).unwrap().is_none(), "not before it is due");
        let question = live.take(due_us).unwrap().unwrap();
        attempt += 1;
        if attempt % 3 == 0 {
            failed += 1;
            live.failed(question, "no answer within 50 ms");
            continue;
        }
        // Denied for ever: nobody comes back.
        let verdict = Verdict { is_admitted: attempt % 3 == 1, retry_after_us: None };
        let (sent_us, answered_us) = (due_us + 4, due_us + 9);
        let decided_us = experiment.start_us + due_us + 5;
        live.answered(question, Answer { sent_us, decided_us, answered_us, verdict });
    }
    let case = live.finish(Some(ServerUsage { cpu_us: 500, calls: 50, commands: 150 }));
    assert_eq!(case.attempts, case.admitted + case.denied + failed);
    assert_eq!(case.attempts, attempt);
    let took = case.live.unwrap();
    assert_eq!((took.failed, took.failure.as_deref()), (failed, Some("no answer within 50 ms")));
    assert_eq!((took.latency_us.unwrap().p50, took.late_us.unwrap().p50), (9, 4));
    let answered = (attempt - failed) as f64;
    assert!((took.calls.unwrap() - 50.0 / answered).abs() < 1e-3);
}

#[test]
fn who_asks_again_waits_from_its_answer_and_was_served_when_that_was_there() {
    let text = "version = 1\nduration = \"10s\"\n\
                workload = [{ arrivals = \"bursts\", size = 2, every = \"1h\", retry = \"obey\" }]\n\
                case = [{ limits = [{ per = \"client\", limit = \"1/s via gcra\" }] }]\n";
    let experiment = Experiment::parse("x", text).unwrap();
    let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
    let begin_us = experiment.start_us + 777;
    live.begin(begin_us);
    let [straggler, denied] = [0, 0].map(|now| live.take(now).unwrap().unwrap());
    assert_eq!(live.next_due().unwrap(), None);
    let verdict = Verdict { is_admitted: false, retry_after_us: Some(1_000_000) };
    let (sent_us, decided_us, answered_us) = (3, begin_us + 50, 100);
    live.answered(denied, Answer { sent_us, decided_us, answered_us, verdict });
    assert_eq!(live.next_due().unwrap(), Some(1_000_100));
    // The straggler holds back what is counted, and is one of two that wait.
    let again = live.take(1_000_100).unwrap().unwrap();
    let verdict = Verdict { is_admitted: true, retry_after_us: None };
    let (sent_us, decided_us, answered_us) = (1_000_200, begin_us + 1_000_300, 1_000_400);
    live.answered(again, Answer { sent_us, decided_us, answered_us, verdict });
    // Decided before the others, by a clock that is a little behind; and answered after the end.
    let (sent_us, decided_us, answered_us) = (1, begin_us - 20, 12_000_000);
    live.answered(straggler, Answer { sent_us, decided_us, answered_us, verdict });
    let case = live.finish(None);
    assert_eq!((case.requests, case.attempts, case.admitted), (2, 3, 2));
    assert_eq!(case.longest_wait_us, Some(12_000_000), "until the answer was there");
    let live = case.live.unwrap();
    assert_eq!((live.in_flight, live.clock_steps), (2, 0));
    // 1.00032 s apart by the store's clock: as far as it promises, and not a microsecond nearer.
    assert_eq!((case.limits[0].peak, case.limits[0].holds), (1, true));
}

#[test]
fn what_is_decided_after_the_end_is_in_the_series_too() {
    let text = "version = 1\nduration = \"1s\"\nbucket = \"100ms\"\n\
                workload = [{ arrivals = \"steady\", rate = \"10/s\" }]\n\
                case = [{ limits = [{ per = \"client\", limit = \"9/s via gcra\" }] }]\n";
    let experiment = Experiment::parse("x", text).unwrap();
    let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
    let verdict = Verdict { is_admitted: true, retry_after_us: None };
    for late_us in [0, 1_000_000, 900_000, 9_000_000_000_000] {
        let question = live.take(u64::MAX).unwrap().unwrap();
        let decided_us = experiment.start_us + question.due_us() + late_us;
        live.answered(question, Answer { sent_us: 0, decided_us, answered_us: 0, verdict });
    }
    let case = live.finish(None);
    let admitted: Vec<u64> = case.buckets.iter().map(|bucket| bucket.admitted).collect();
    assert_eq!(admitted.len(), 20, "twice as many as planned, and no more");
    assert_eq!((admitted[0], admitted[11], admitted[19]), (1, 2, 1), "{admitted:?}");
}

#[test]
fn who_comes_on_the_wrong_side_of_an_edge_is_told() {
    let text = "version = 1\nduration = \"25s\"\n\
                workload = [{ arrivals = \"edge\", size = 2, window = \"10s\", before = \"5ms\" }]\n\
                case = [{ limits = [{ per = \"client\", limit = \"9/10s via gcra\" }] }]\n";
    let experiment = Experiment::parse("x", text).unwrap();
    let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
    let verdict = Verdict { is_admitted: true, retry_after_us: None };
    let mut due = Vec::new();
    while let Some(due_us) = live.next_due().unwrap() {
        let question = live.take(due_us).unwrap().unwrap();
        due.push(due_us);
        // Between the two that come before an edge, and at it.
        let decided_us = experiment.start_us + due_us + 3_000;
        live.answered(question, Answer { sent_us: 0, decided_us, answered_us: due_us, verdict });
    }
    assert_eq!(due[..4], [9_995_000, 9_997_500, 10_000_000, 10_000_000]);
    let mut results = Results::new(&experiment);
    results.live = Some(results::LiveRun::new("memory://".into(), None));
    results.cases.push(live.finish(None));
    results.conclude(&experiment);
    assert_eq!(results.cases[0].live.as_ref().unwrap().missed_edges, 2);
    let told = results.findings.join(" ");
    assert!(told.contains("2 attempts came on the wrong side of an edge"), "{told}");
}

#[test]
fn what_deciding_took_is_told_beside_the_operation() {
    let told = |operation: &str| {
        let text = RETRIES.replace("version = 1", &format!("version = 1\n{operation}"));
        let experiment = Experiment::parse("x", &text).unwrap();
        let mut live = Live::new(&experiment, &experiment.cases[0]).unwrap();
        let verdict = Verdict { is_admitted: true, retry_after_us: None };
        for took_us in [0, 2_000] {
            let question = live.take(u64::MAX).unwrap().unwrap();
            let answered_us = question.due_us() + took_us;
            let decided_us = experiment.start_us + answered_us;
            live.answered(question, Answer { sent_us: 0, decided_us, answered_us, verdict });
        }
        let mut results = Results::new(&experiment);
        results.live = Some(results::LiveRun::new("memory://".into(), experiment.operation_us));
        results.cases.push(live.finish(None));
        results.conclude(&experiment);
        results.findings.iter().find(|it| it.starts_with("An answer took")).unwrap().clone()
    };
    assert!(told("").ends_with(": no more than 20 % of an operation of 5 ms and longer."));
    let within = told("operation = \"10ms\"");
    assert!(within.contains("10.0 % of an operation of 10 ms, within the 20 %"), "{within}");
    let over = told("operation = \"4ms\"");
    assert!(over.contains("25.0 % of an operation of 4 ms, more than the 20 %"), "{over}");
}

#[test]
fn who_obeys_waits_just_long_enough() {
    // One a second gets through; the second of each pair waits for its second, to the microsecond.
    let results = results(
        r#"
        version = 1
        duration = "10s"
        workload = [{ arrivals = "bursts", size = 2, every = "2s", retry = "obey", times = 1 }]
        case = [{ limits = [{ per = "client", limit = "1/s via gcra" }] }]
        "#,
    );
    let case = &results.cases[0];
    assert_eq!((case.requests, case.admitted, case.retries), (10, 10, 5));
    assert_eq!((case.never_served, case.longest_wait_us), (0, Some(1_000_000)));
    assert_eq!(case.peak, None, "there is no capacity");
}

#[test]
fn who_comes_back_after_the_end_was_not_served() {
    let results = results(
        r#"
        version = 1
        duration = "3s"
        workload = [{ arrivals = "bursts", size = 3, every = "1h", retry = "obey", times = 9 }]
        case = [{ limits = [{ per = "client", limit = "1/2s via uniform" }] }]
        "#,
    );
    let case = &results.cases[0];
    assert_eq!((case.requests, case.admitted, case.never_served), (3, 2, 1));
}

#[test]
fn at_the_edge_of_a_window_fixed_ones_let_twice_through_and_sliding_ones_do_not() {
    let results = results(
        r#"
        version = 1
        duration = "1m"
        capacity = "50/10s"
        workload = [{ arrivals = "edge", window = "10s", size = 50 }]
        case = [{ limits = [{ per = "client", limit = "50/10s" }], strategies = "all" }]
        "#,
    );
    let peak = |name: &str| {
        let case = results.cases.iter().find(|case| case.name == name).unwrap();
        assert!(case.limits[0].holds, "{case:?}");
        case.peak.unwrap()
    };
    assert_eq!(peak("fixed_window"), 100);
    assert_eq!(peak("sliding_log"), 50);
    assert!(peak("sliding_window") <= 50);
    assert_eq!(peak("uniform"), 1);
}

#[test]
fn the_sides_of_an_hour_are_what_003_says() {
    let results = run_of(&sides(1).unwrap());
    let peaks: Vec<(&str, Option<u64>)> =
        results.cases.iter().map(|case| (case.name.as_str(), case.peak)).collect();
    assert_eq!(peaks[0], ("fixed window", Some(200)));
    assert_eq!(peaks[1], ("fixed windows of an hour and a minute", Some(20)));
    assert!(peaks[2].1 <= Some(100) && peaks[3].1 == Some(100), "{peaks:?}");
    assert!(results.findings[0].contains("200 through within 1 h, 2.00 times the 100"));
}

#[test]
fn in_the_zoo_the_gang_passes_its_gates_and_the_log_holds() {
    for seed in 0..5 {
        let results = run_of(&zoo(400, 300, seed).unwrap());
        let numbers: Vec<(u64, u64, Option<u64>)> =
            results.cases.iter().map(|it| (it.attempts, it.admitted, it.peak)).collect();
        assert_eq!(numbers[0], (400, 300, Some(300)));
        assert_eq!(numbers[1], (400, 400, Some(400)));
        // It goes on with the counts of the first test.
        assert!(numbers[2].1 < 400 && numbers[2].2 <= Some(300), "{numbers:?}");
        assert_eq!(numbers[3], (400, 400, Some(400)));
        assert!(results.findings[0].starts_with("2 uniform per caller let 400 through"));
        assert!(results.findings.iter().any(|it| it.starts_with("Never more than 300")));
    }
    // Both tests of the log together never break the limit, as one limiter's.
    let mut witness = Witness::default();
    let mut experiment = zoo(400, 300, 1).unwrap();
    experiment.cases.retain(|case| case.name.contains("log"));
    run(&experiment, &mut witness, |_| ()).unwrap();
    let admitted: Vec<u64> =
        witness.seen.iter().filter(|it| it.1.is_admitted).map(|it| it.0.at_us).collect();
    for end in &admitted {
        let inside = admitted.iter().filter(|at| *at <= end && **at + 10_000_000 > *end).count();
        assert!(inside <= 300);
    }
    assert!(zoo(400, 0, 1).is_err());
}

#[test]
fn the_greedy_one_takes_the_share_of_the_others_unless_each_has_its_own() {
    let results = results(
        r#"
        version = 1
        duration = "60s"
        capacity = "100/10s"
        [[workload]]
        name = "polite"
        clients = 9
        arrivals = "poisson"
        rate = "9/s"
        [[workload]]
        name = "greedy"
        arrivals = "steady"
        rate = "100/s"
        [[case]]
        name = "shared"
        limits = [{ per = "resource", limit = "100/10s via sliding_log" }]
        [[case]]
        name = "each"
        limits = [{ per = "client", limit = "10/10s via sliding_log" }]
        "#,
    );
    let [shared, each] = &results.cases[..] else { panic!() };
    assert!(shared.fairness < Some(0.5), "{:?}", shared.fairness);
    assert!(each.fairness > Some(0.95), "{:?}", each.fairness);
    assert!(shared.groups[0].admitted < each.groups[0].admitted);
    assert_eq!((shared.used_share, shared.peak), (Some(1.0), Some(100)));
    assert!(results.findings.iter().any(|it| it.contains("shared") && it.contains("fair share")));
}

#[test]
fn a_stopped_run_has_what_was_measured_so_far() {
    struct Stops(InMemory, usize);
    impl Decider for Stops {
        fn begin(&mut self, parts: &[Part], keeps: bool) -> Result<(), Error> {
            self.1 += 1;
            self.0.begin(parts, keeps)
        }
        fn decide(&mut self, asks: &[Event], verdicts: &mut Vec<Verdict>) -> Result<(), Error> {
            if self.1 == 3 { Err(Error::Stopped) } else { self.0.decide(asks, verdicts) }
        }
    }
    let experiment = Experiment::parse("x", RETRIES).unwrap();
    let results = run(&experiment, &mut Stops(InMemory::default(), 0), |_| ()).unwrap();
    assert_eq!((results.cases.len(), results.complete), (3, false));
    assert!(results.cases[1].attempts > 0 && results.cases[2].attempts == 0);
    assert!(run_of(&experiment).complete);
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_line() {
    let case = "[[case]]\nlimits = [{ per = \"client\", limit = \"1/s\" }]\n";
    let head = "version = 1\nduration = \"1m\"\n";
    let steady = "[[workload]]\narrivals = \"steady\"\nrate = \"1/s\"\n";
    let works = format!("{head}{steady}{case}");
    assert!(Experiment::parse("x", &works).is_ok());
    for (text, says) in [
        (
            works.replace("steady", "stedy"),
            "x:3: workload: there are no arrivals `stedy`: one of steady, poisson",
        ),
        (works.replace("rate", "size"), "x:5: `size` is a whole number, not the text \"1/s\""),
        (
            works.replace("rate =", "clients = 5000000000\nrate ="),
            "x:5: `clients` is a whole number up to 4294967295, not 5000000000",
        ),
        (works.replace("rate =", "zipf = \"a\"\nrate ="), "x:5: `zipf` is a number, not the text"),
        (works.replace("\"1m\"", "60"), "x:2: `duration` is a text in quotes, not 60"),
        (works.replace("\"1/s\" }", "1 }"), "x:7: `limit` is a text in quotes, or a list of them"),
        (works.replace("limits = [{", "limits = \"1/s\" #"), "x:7: `limits` is a list in [ ], not"),
        (
            works.replace("rate =", "within = \"1s\"\nrate ="),
            "`within` says nothing of steady, which has rate, zipf",
        ),
        (works.replace("rate = \"1/s\"\n", ""), "x:3: workload: steady needs `rate`"),
        (works.replace("rate", "rat"), "unknown field `rat`"),
        (works.replace("\"1/s\"\n[", "\"1/parsec\"\n["), "`rate` is so many in so long, as 10/s"),
        (works.replace("1m", "1 parsec"), "x:2: `1 parsec` is no duration"),
        (works.replace("version = 1", "version = 2"), "x:1: this is for version = 1"),
        (works.replace("version = 1\n", ""), "missing field `version`"),
        (works.replace("client", "clients"), "x:6: `per` is \"resource\" or \"client\""),
        (works.replace("limit = \"1/s\"", "limit = \"1/x\""), "unit of time"),
        (
            format!("{works}strategies = [\"gcr\"]\n"),
            "there is no strategy `gcr`: did you mean `gcra`? The strategies are uniform, fixed",
        ),
        // Names that algorithms have elsewhere, as `via` translates them in a limit.
        (
            format!("{works}strategies = [\"leaky_bucket\"]\n"),
            "there is no strategy `leaky_bucket`: a leaky bucket that meters is `gcra`, one that \
             spaces events evenly `uniform`",
        ),
        (
            format!("{works}strategies = [\"gcra\", \"moving_window\"]\n"),
            "there is no strategy `moving_window`: write `sliding_log`",
        ),
        (format!("{head}{case}"), "there is no [[workload]]"),
        (format!("{head}{steady}"), "there is no [[case]]"),
        (format!("version = 1\n{steady}{case}"), "`duration` is missing"),
        (
            works.replace("rate", "retry = \"later\"\nrate"),
            "there is no retry `later`: one of never",
        ),
        (works.replace("rate", "times = 3\nrate"), "retry = \"never\" has no such `times`"),
        (works.replace("rate", "from = \"2m\"\nrate"), "`until` is not after `from`"),
        (works.replace("rate", "zipf = -1.0\nrate"), "`zipf` is an exponent"),
        (works.replace("rate", "clients = 0\nrate"), "`clients` is 1 to"),
        (
            works.replace(
                "arrivals = \"steady\"\nrate = \"1/s\"",
                "arrivals = \"edge\"\nwindow = \"1s\"\nsize = 9000000000000000000",
            ),
            "`size` is 1 to 1000000000",
        ),
        (
            works.replace(
                "arrivals = \"steady\"\nrate = \"1/s\"",
                "arrivals = \"gang\"\nclients = 5000\neach = 5000",
            ),
            "a gang makes at most",
        ),
        (format!("bucket = \"1us\"\n{works}"), "more than 100000 buckets"),
        (format!("capacity = \"many\"\n{works}"), "x:1: `capacity` is so many in so long"),
        (
            works.replace("arrivals = \"steady\"\nrate = \"1/s\"", "log = \"/nowhere.log\""),
            "/nowhere.log: no such file",
        ),
        (
            works.replace("1/s\" }]", "1/s via gcra\" }]\nstrategies = \"all\""),
            "each limit has its own `via`",
        ),
    ] {
        let error = Experiment::parse("x", &text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}\n{error}");
    }
}

#[test]
fn a_log_is_a_workload_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let mut lines = String::new();
    for n in 0..60 {
        lines += &format!("{{\"ip\":\"192.0.2.{}\",\"ts\":{}}}\n", n % 3, 1_800_000_000 + n);
    }
    std::fs::write(&log, &lines).unwrap();
    let file = folder.path().join("e.toml");
    let text = "version = 1\nworkload = [{ log = \"access.log\" }, { arrivals = \"steady\", rate = \
                \"1/s\" }]\ncase = [{ limits = [{ per = \"client\", limit = \"1/3s via uniform\" }] }]\n";
    std::fs::write(&file, text).unwrap();
    let experiment = Experiment::load(&file).unwrap();
    assert_eq!(experiment.duration_us, 59_000_001, "as long as the log");
    let results = run_of(&experiment);
    let case = &results.cases[0];
    assert_eq!((case.groups[0].requests, case.groups[0].admitted), (60, 60));
    assert_eq!((case.groups[1].requests, case.groups[1].admitted), (60, 20));
    assert!(case.raster.clients.contains(&"192.0.2.1".to_owned()), "{:?}", case.raster.clients);
    std::fs::write(&log, "nonsense\n").unwrap();
    let error = Experiment::load(&file).unwrap_err().to_string();
    assert!(error.contains("none of its 1 lines"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_the_traffic_the_promises_hold(
        seed in any::<u64>(),
        units in 1_u64..40,
        rate in 1_u64..60,
        size in 1_u64..60,
        retry in prop::sample::select(vec!["never", "at_once", "obey", "back_off"]),
    ) {
        let text = format!(
            "version = 1\nseed = {}\nduration = \"40s\"\ncapacity = \"{units}/10s\"\n\
             [[workload]]\narrivals = \"edge\"\nwindow = \"10s\"\nsize = {size}\nclients = 2\n\
             [[workload]]\narrivals = \"poisson\"\nrate = \"{rate}/s\"\nretry = \"{retry}\"\n\
             [[case]]\nstrategies = \"all\"\nlimits = [{{ per = \"resource\", limit = \"{units}/10s\" }}]\n",
            seed >> 1,
        );
        for case in results(&text).cases {
            prop_assert!(case.limits[0].holds, "{}: {:?}", case.name, case.limits[0]);
            prop_assert_eq!(case.requests, case.admitted + case.never_served);
        }
    }
}
