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
fn around_an_edge_both_bursts_are_seen_from_close_by() {
    let results = run_of(&sides(1).unwrap());
    let zoom = results.zoom.unwrap();
    assert_eq!((zoom.edge_us, zoom.reach_us, zoom.bucket_us), (3_600_000_000, 2_000, 100));
    let case = |name: &str| results.cases.iter().find(|case| case.name == name).unwrap();
    for (name, before, after) in [("fixed window", 100, 100), ("sliding log", 100, 0)] {
        let buckets = &case(name).zoom;
        assert_eq!(buckets.len(), 40, "{name}");
        let admitted = |side: &[results::Bucket]| side.iter().map(|it| it.admitted).sum::<u64>();
        let sides = buckets.split_at(20);
        assert_eq!((admitted(sides.0), admitted(sides.1)), (before, after), "{name}");
        let asked: u64 = buckets.iter().map(|it| it.admitted + it.denied).sum();
        assert_eq!(asked, 200, "{name}: nobody asks for it elsewhere");
        // For 1 ms before the edge, and at it.
        assert!(buckets[..10].iter().all(|it| *it == results::Bucket::default()), "{name}");
        assert_eq!(buckets[20].admitted + buckets[20].denied, 100, "{name}");
    }
    assert_eq!(run_of(&zoo(40, 30, 1).unwrap()).zoom, None, "nobody asks at edges");
}

#[test]
fn in_the_zoo_the_gang_passes_its_gates_and_the_others_hold() {
    for seed in 0..5 {
        let results = run_of(&zoo(400, 300, seed).unwrap());
        let [gates, log, queue] = &results.cases[..] else { panic!("{:?}", results.findings) };
        // One traffic: ten visitors each second, the gang, and bob.
        for case in &results.cases {
            let [visitors, gang, bob] = &case.groups[..] else { panic!("{case:?}") };
            assert_eq!((gang.attempts, bob.attempts), (400, 400), "{}", case.name);
            assert!((340..460).contains(&visitors.attempts), "{}", visitors.attempts);
        }
        let of = |case: &results::CaseResult, place: usize| case.groups[place].admitted;
        // Each caller of the gang, and each visitor once in 10 s; bob once.
        assert!((36..=40).contains(&of(gates, 0)), "{}", of(gates, 0));
        assert_eq!([1, 2].map(|place| of(gates, place)), [400, 1]);
        assert!(gates.denied > 650, "who asks more than once is denied");
        assert!(gates.peak > Some(400) && gates.peak <= Some(420), "{:?}", gates.peak);
        assert!(log.peak == Some(300) && queue.peak <= Some(300), "{:?}", queue.peak);
        // The fastest takes what it can get.
        let most = |case: &results::CaseResult| case.most_admitted.clone().unwrap();
        assert!(most(log).client == "bob" && most(log).admitted > 150, "{:?}", most(log));
        assert_eq!((most(gates).admitted, most(gates).is_alone), (4, false));
        // Also in the queue, where visitors come off worse while others ask in a loop.
        assert!(most_denied_of(queue, "visitors") > 5, "{:?}", queue.most_denied);
        let queue = queue.queue.as_ref().unwrap();
        assert_eq!((queue.bound, queue.workers, queue.work_us), (10, 3, 100_000));
        assert!(queue.depth_max == 10 && queue.refused > 400, "{queue:?}");
        assert!(results.findings[0].starts_with("uniform gates let 4"), "{:?}", results.findings);
        assert!(results.findings[1].ends_with("at most): sliding log, leaky bucket."));
    }
    assert!(zoo(400, 0, 1).is_err());
}

fn most_denied_of(case: &results::CaseResult, group: &str) -> u64 {
    let denied = case.most_denied.iter().filter(|it| it.client.starts_with(group));
    denied.map(|it| it.denied).max().unwrap_or(0)
}

/// The workers take no more than the site can handle, whatever the number.
#[test]
fn the_workers_of_the_zoo_do_as_much_as_is_allowed_and_no_more() {
    for allowed in [1, 2, 3, 7, 30, 299, 1_000] {
        let results = run_of(&zoo(2_000, allowed, 1).unwrap());
        let queue = &results.cases[2];
        let peak = queue.peak.unwrap();
        assert!(peak <= allowed && peak * 10 > allowed * 8, "{allowed}: {peak}");
    }
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
fn the_keys_and_bytes_of_a_case_of_the_zoo_are_its_own() {
    let results = run_of(&zoo(400, 300, 1).unwrap());
    let held: Vec<_> = results.cases.iter().map(|case| (case.keys, case.bytes)).collect();
    let [(Some(gates), Some(gate_bytes)), (Some(1), Some(log_bytes)), (None, None)] = held[..]
    else {
        panic!("{held:?}")
    };
    // The 400 of the gang and ten visitors, and nobody of an earlier case.
    assert!((400..=411).contains(&gates), "{held:?}");
    // 300 times in one log, and gates of a few words each: together they take more.
    assert!((2_400..12_000).contains(&log_bytes) && gate_bytes > 4 * log_bytes, "{held:?}");
    for case in results.cases.iter().filter(|case| case.keys.is_some()) {
        let each = case.bytes.unwrap() as f64 / case.keys.unwrap() as f64;
        assert!(case.bytes_per_subject.unwrap() >= each - 0.001, "{}", case.name);
    }
    let kept = crate::chart::kept(&results).unwrap();
    let says =
        format!("With uniform gates, {gates} keys took {gate_bytes} bytes; with sliding log");
    assert!(kept.says().starts_with(&says), "{}", kept.says());
    let alike = run_of(&sides(1).unwrap());
    assert!(crate::chart::kept(&alike).is_none(), "each has the one of its attacker");
}
