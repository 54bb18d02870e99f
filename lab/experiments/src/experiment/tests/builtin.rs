//! The experiments that are built in.

use super::*;

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
fn the_bytes_of_a_test_of_the_zoo_are_its_own() {
    let results = run_of(&zoo(400, 300, 1).unwrap());
    let held: Vec<_> = results.cases.iter().map(|case| (case.keys, case.bytes)).collect();
    let [(Some(1), Some(log)), (Some(400), Some(gates)), again, new] = held[..] else {
        panic!("{held:?}")
    };
    // 300 times in one log, and 400 gates of a few words each: together they take more.
    assert!((2_400..12_000).contains(&log) && gates > 4 * log, "{held:?}");
    let words = include_str!("../../../../../docs/lab.md").replace('\n', " ").replace(',', "");
    let says = format!("gates take {gates} bytes in memory where one log of 300 takes {log} (");
    assert!(words.contains(&says), "docs/lab.md: {says}");
    assert_eq!(again, (Some(1), Some(log)), "no caller of the test before is counted in");
    assert!(new.0 >= Some(400), "{held:?}");
    for case in &results.cases {
        let each = case.bytes.unwrap() as f64 / case.keys.unwrap() as f64;
        assert!(case.bytes_per_subject.unwrap() >= each - 0.001, "{}", case.name);
    }
    assert_eq!(results.cases[2].bytes_per_subject, Some(log as f64));
}
