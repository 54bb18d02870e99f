//! Queues against what they are taken for: counted again, slowly and without one.

use proptest::prelude::*;

use super::*;
use crate::experiment::results::{CaseResult, QueueResult, Results};
use crate::experiment::{PerLimits, Queueing, Rate, run};
use tollgate_logs::decide::InMemory;
use tollgate_logs::event::Event;

const SECOND: u64 = 1_000_000;

fn results(text: &str) -> Results {
    let experiment = Experiment::parse("queue.toml", text).unwrap();
    run(&experiment, &mut InMemory::default(), |_| ()).unwrap()
}

fn queue(case: &CaseResult) -> &QueueResult {
    case.queue.as_ref().unwrap()
}

#[test]
fn as_many_are_accepted_as_the_workers_do_and_twice_the_workers_take_twice_as_many() {
    let queueing = Queueing {
        offers: Rate::new(50, SECOND),
        workers: vec![1, 2, 4, 5, 8],
        ..Queueing::default()
    };
    let results = run(&queueing.experiment(1).unwrap(), &mut InMemory::default(), |_| ()).unwrap();
    // 50 a second are offered; five workers finish all of them.
    let expected = [(10.0, 40.0), (20.0, 30.0), (40.0, 10.0), (50.0, 0.0), (50.0, 0.0)];
    for (case, (accepted, refused)) in results.cases.iter().zip(expected) {
        let found = queue(case);
        let of = |rate: Option<f64>, expected: f64| (rate.unwrap() - expected).abs() < 1e-9;
        assert!(of(found.accepted_per_s, accepted), "{}: {found:?}", case.name);
        assert!(of(found.refused_per_s, refused), "{}: {found:?}", case.name);
        assert!(of(found.done_per_s, accepted), "{}: {found:?}", case.name);
        // Over all time: finished jobs, jobs in hand, and those that fill the queue.
        let room = 10 + u64::from(found.workers);
        assert!(found.accepted >= found.done && found.accepted <= found.done + room, "{found:?}");
        assert_eq!(found.accepted + found.refused, 3_000);
        assert_eq!(found.depth_max, if refused > 0.0 { 10 } else { 0 }, "{}", case.name);
        // Ten go up to it, as many at a time as there are workers.
        let turns = 10_u64.div_ceil(u64::from(found.workers));
        let longest = if refused > 0.0 { turns * SECOND / 10 } else { 0 };
        assert!(found.waited_us.as_ref().unwrap().max <= longest, "{found:?}");
        assert_eq!((case.admitted, case.denied), (found.accepted, found.refused));
    }
    assert_eq!(
        results.findings[0],
        "1 worker: 50.0 a second are offered; 1 worker of 100 ms a job \
         does 10.0 a second at most: 10.0 a second are accepted, 40.0 refused, and 10.0 done."
    );
    assert!(
        results
            .findings
            .iter()
            .any(|it| it == "2 workers: 2.00 times the workers, 2.00 times as many accepted.")
    );
    assert!(results.findings.iter().any(|it| it == "8 workers: no job waits."));
}

#[test]
fn what_makes_no_sense_is_told() {
    let said = |change: fn(&mut Queueing)| {
        let mut queueing = Queueing::default();
        change(&mut queueing);
        queueing.experiment(1).unwrap_err().to_string()
    };
    assert!(said(|it| it.workers.clear()).contains("there is nothing to see"));
    assert!(said(|it| it.workers = vec![2, 2]).contains("2 twice"));
    assert!(said(|it| it.workers = vec![0]).contains("`workers` is 1 to 100000, not 0"));
    assert!(said(|it| it.bound = 0).contains("`bound` is 1 to 10000000 jobs, not 0"));
    assert!(said(|it| it.work_us = 0).contains("`work` is more than 0"));
    assert!(said(|it| it.work_us = 86_400 * SECOND).contains("`work` is less than a day"));
    assert!(said(|it| it.duration_us = 0).contains("takes no time"));
}

/// The outcomes of offers at these times, for workers that each become free at some time.
struct Slow {
    bound: usize,
    counts: Counts,
    work_us: u64,
    /// When each worker is free.
    free: Vec<u64>,
    /// Of each that was accepted, when, and when a worker took it.
    taken: Vec<(u64, u64)>,
    refused: u64,
    most: u64,
}

impl Slow {
    fn depth(&self, now_us: u64) -> usize {
        let until = |taken: u64| match self.counts {
            Counts::All => taken + self.work_us,
            _ => taken,
        };
        self.taken.iter().filter(|(at, taken)| *at <= now_us && until(*taken) > now_us).count()
    }

    fn offer(&mut self, now_us: u64) {
        if self.depth(now_us) >= self.bound {
            self.refused += 1;
            return;
        }
        let free = self.free.iter_mut().min().unwrap();
        let taken = now_us.max(*free);
        *free = taken + self.work_us;
        self.taken.push((now_us, taken));
        self.most = self.most.max(self.depth(now_us) as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_queue_is_what_it_is_taken_for(
        seed in 0_u64..1_000_000,
        bound in 1_u64..12,
        workers in 1_u32..5,
        work_ms in 1_u64..900,
        offers in 1_u64..40,
        all in any::<bool>(),
        bursts in any::<bool>(),
    ) {
        let arrivals = if bursts {
            format!("arrivals = \"bursts\"\nsize = {offers}\nevery = \"1s\"")
        } else {
            format!("arrivals = \"poisson\"\nrate = \"{offers}/s\"")
        };
        let counts = if all { "all" } else { "waiting" };
        let text = format!(
            "version = 1\nseed = {seed}\nduration = \"10s\"\nbucket = \"100ms\"\n\
             [[workload]]\n{arrivals}\n\
             [[case]]\nqueue = {{ bound = {bound}, workers = {workers}, work = \"{work_ms}ms\", \
             counts = \"{counts}\" }}\n"
        );
        let experiment = Experiment::parse("x", &text).unwrap();
        let results = results(&text);
        let case = &results.cases[0];
        let found = queue(case);
        let mut slow = Slow {
            bound: usize::try_from(bound).unwrap(),
            counts: if all { Counts::All } else { Counts::Waiting },
            work_us: work_ms * 1_000,
            free: vec![0; workers as usize],
            taken: Vec::new(),
            refused: 0,
            most: 0,
        };
        let mut offers = Run::new(&experiment, &experiment.cases[0], BATCH).unwrap();
        while let Some(attempt) = offers.pop().unwrap() {
            slow.offer(attempt.at_us);
        }
        let end = 10 * SECOND;
        let taken: Vec<(u64, u64)> =
            slow.taken.iter().copied().filter(|(_, taken)| *taken < end).collect();
        let done = taken.iter().filter(|(_, taken)| taken + slow.work_us < end).count() as u64;
        prop_assert_eq!((found.accepted, found.refused), (slow.taken.len() as u64, slow.refused));
        prop_assert_eq!((found.delivered, found.done), (taken.len() as u64, done));
        prop_assert_eq!(found.left, found.accepted - done);
        // A job that is accepted and taken at one moment is never counted as waiting.
        prop_assert!(found.depth_max <= bound);
        prop_assert_eq!(found.depth_max, slow.most);
        let area: u64 = slow.taken.iter().map(|(at, taken)| {
            let until = if all { taken + slow.work_us } else { *taken };
            until.min(end) - at
        }).sum();
        prop_assert!((found.depth_mean.unwrap() - area as f64 / end as f64).abs() < 1e-4);
        let mut waits: Vec<u64> = taken.iter().map(|(at, taken)| taken - at).collect();
        waits.sort_unstable();
        let at = |of_1000: usize| waits[(waits.len() * of_1000).div_ceil(1_000).max(1) - 1];
        if let Some(waited) = &found.waited_us {
            let read = (waited.p50, waited.p90, waited.p99, waited.p99_9, waited.max);
            prop_assert_eq!(read, (at(500), at(900), at(990), at(999), at(1_000)));
        } else {
            prop_assert!(waits.is_empty());
        }
        // Over time.
        let sum = |of: fn(&crate::experiment::results::QueueBucket) -> u64| {
            found.buckets.iter().map(of).sum::<u64>()
        };
        prop_assert_eq!((sum(|it| it.delivered), sum(|it| it.done)), (found.delivered, done));
        for (place, bucket) in found.buckets.iter().enumerate() {
            let from = place as u64 * 100_000;
            let within = |at: &u64| (from..from + 100_000).contains(at);
            let longest = taken.iter().filter(|(_, it)| within(it)).map(|(at, it)| it - at).max();
            prop_assert_eq!(bucket.waited_us, longest.unwrap_or(0), "bucket {}", place);
            // It changes at these moments alone.
            let changes = slow.taken.iter().flat_map(|(at, it)| [*at, *it, it + slow.work_us]);
            let moments = changes.filter(within).chain([from]);
            let deepest = moments.map(|at| slow.depth(at) as u64).max();
            prop_assert_eq!(Some(bucket.depth), deepest, "bucket {}", place);
        }
        prop_assert_eq!(found.buckets.iter().map(|it| it.depth).max(), Some(found.depth_max));
    }
}

#[test]
fn a_rate_holds_back_however_many_work_and_the_next_goes_when_it_may() {
    let results = results(
        r#"
        version = 1
        duration = "20s"
        bucket = "1s"
        capacity = "5/s"
        workload = [{ arrivals = "steady", rate = "40/s" }]
        case = [{ queue = { bound = 3, workers = 50, work = "1ms", rate = "5/s via uniform" } }]
        "#,
    );
    let case = &results.cases[0];
    let found = queue(case);
    assert_eq!(case.name, "queue");
    assert_eq!(found.rate.as_deref(), Some("5/s via uniform"));
    assert!(found.buckets.iter().all(|bucket| bucket.delivered == 5), "{:?}", found.buckets);
    assert_eq!((found.accepted_per_s, found.depth_max), (Some(5.0), 3));
    // The yardstick is the output of the queue, not its input.
    assert_eq!((case.peak, case.used_share), (Some(5), Some(1.0)));
    assert!(case.buckets[0].admitted > 5 && case.buckets[0].occupancy == 5);
    assert_eq!(case.burstiness, Some(1.0));
    let says = &results.findings[1];
    assert!(
        says.contains(
            "50 workers of 1 ms a job do 50000.0 a second at most, and no more than \
         5/s via uniform: 5.0 a second are accepted"
        ),
        "{says}"
    );
}

#[test]
fn a_job_that_a_rate_holds_back_goes_to_the_microsecond_when_it_may() {
    // Nothing else happens meanwhile that somebody could look at.
    let results = results(
        r#"
        version = 1
        duration = "20s"
        bucket = "1s"
        workload = [{ arrivals = "bursts", size = 4, every = "1h" }]
        case = [{ queue = { bound = 9, workers = 3, work = "10ms", rate = "1/3s via uniform" } }]
        "#,
    );
    let found = queue(&results.cases[0]);
    let taken = found.buckets.iter().zip(0..).filter(|(bucket, _)| bucket.delivered > 0);
    assert_eq!(taken.map(|(_, second)| second).collect::<Vec<_>>(), [0, 3, 6, 9]);
    let waited = found.waited_us.as_ref().unwrap();
    assert_eq!((waited.max, waited.p50, found.left), (9 * SECOND, 3 * SECOND, 0));
}

#[test]
fn a_queue_stands_beside_limits_on_the_same_traffic() {
    let results = results(
        r#"
        version = 1
        duration = "20s"
        capacity = "10/s"
        workload = [{ arrivals = "bursts", size = 60, every = "5s", clients = 3 }]
        [[case]]
        limits = [{ per = "resource", limit = "10/s via sliding_log" }]
        [[case]]
        name = "queue"
        queue = { bound = 40, work = "100ms" }
        "#,
    );
    let [log, found] = &results.cases[..] else { panic!() };
    assert_eq!((log.requests, found.requests), (240, 240));
    // Attempts that exceed the second are denied by the one and handled later by the other.
    assert_eq!((log.admitted, found.admitted), (40, 4 * 41));
    assert_eq!((log.peak, found.peak), (Some(10), Some(10)));
    assert_eq!(queue(found).depth_max, 40);
    assert_eq!(queue(found).waited_us.as_ref().unwrap().max, 4 * SECOND);
    assert_eq!(queue(found).workers, 1, "unless said");
    let json = serde_json::to_value(&results).unwrap();
    assert!(json["cases"][0].get("queue").is_none());
    assert_eq!(json["cases"][1]["queue"]["accepted"], json["cases"][1]["admitted"]);
}

#[test]
fn the_example_shows_what_a_queue_is_good_for() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lab/queue.toml");
    let experiment = Experiment::load(std::path::Path::new(file)).unwrap();
    let results = run(&experiment, &mut InMemory::default(), |_| ()).unwrap();
    let [log, one, two, eight] = &results.cases[..] else { panic!() };
    assert!(log.admitted * 3 < one.admitted * 2 && one.admitted < two.admitted, "of bursts");
    let peaks = [log, one, two, eight].map(|case| case.peak);
    assert_eq!(peaks, [10, 10, 20, 10].map(Some), "what comes behind them");
    let done = |case| queue(case).done_per_s.unwrap();
    assert!((done(one) - 10.0).abs() < 0.1 && (done(eight) - 10.0).abs() < 0.1);
    assert!(results.findings[0].starts_with("queue of 2 workers let 20 through within 1 s"));
}

#[test]
fn who_obeys_a_full_queue_comes_back_when_it_says() {
    let text = r#"
        version = 1
        duration = "60s"
        workload = [{ arrivals = "bursts", size = 8, every = "1h", retry = "obey", times = 20 }]
        case = [{ queue = { bound = 4, workers = 1, work = "500ms" } }]
    "#;
    let results = results(text);
    let case = &results.cases[0];
    assert_eq!((case.requests, case.admitted, case.never_served), (8, 8, 0), "{case:?}");
    assert!(case.retries > 0 && case.longest_wait_us > Some(0));
    // It cannot say when, as long as nothing has left it: then nobody can wait for it.
    let all = text.replace("bound = 4", "counts = \"all\", bound = 4");
    let results = self::results(&all);
    assert_eq!((results.cases[0].admitted, results.cases[0].retries), (4, 0));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let text = |seed: u64| {
        format!(
            "version = 1\nseed = {seed}\nduration = \"20s\"\n\
             workload = [{{ arrivals = \"poisson\", rate = \"30/s\", clients = 4, \
             retry = \"back_off\" }}]\n\
             case = [{{ queue = {{ bound = 5, workers = 2, work = \"90ms\", \
             rate = \"15/s via gcra\" }} }}]\n"
        )
    };
    let json = |seed| serde_json::to_string(&results(&text(seed))).unwrap();
    assert_eq!(json(1), json(1));
    assert_ne!(json(1), json(2));
}

#[test]
fn a_stopped_run_has_what_was_measured_so_far() {
    struct Stops(u32);
    impl Decider for Stops {
        fn begin(&mut self, _: &[PerLimits]) -> Result<(), tollgate_logs::Error> {
            panic!("a queue asks nobody")
        }
        fn decide(
            &mut self,
            _: &[Event],
            _: &mut Vec<Verdict>,
        ) -> Result<(), tollgate_logs::Error> {
            panic!("a queue asks nobody")
        }
        fn go_on(&mut self) -> Result<(), tollgate_logs::Error> {
            self.0 += 1;
            if self.0 == 3 { Err(tollgate_logs::Error::Stopped) } else { Ok(()) }
        }
    }
    let queueing = Queueing { duration_us: 3_600 * SECOND, ..Queueing::default() };
    let experiment = queueing.experiment(1).unwrap();
    let results = run(&experiment, &mut Stops(0), |_| ()).unwrap();
    assert_eq!((results.cases.len(), results.complete), (1, false));
    let found = queue(&results.cases[0]);
    assert!(found.accepted > 1_000 && found.accepted_per_s.is_none(), "{}", found.accepted);
    assert!(found.depth_mean > Some(9.0), "of the time that passed");
    assert!(results.findings.is_empty(), "{:?}", results.findings);
}

#[test]
fn what_is_wrong_with_a_queue_is_told_with_its_line() {
    let works = "version = 1\nduration = \"1m\"\n[[workload]]\narrivals = \"steady\"\nrate = \
                 \"1/s\"\n[[case]]\nname = \"q\"\n[case.queue]\nbound = 10\nworkers = 2\nwork = \
                 \"100ms\"\nrate = \"5/s via gcra\"\ncounts = \"all\"\n";
    assert!(Experiment::parse("x", works).is_ok());
    for (from, to, says) in [
        ("bound = 10", "bound = 0", "x:9: q: `bound` is 1 to 10000000 jobs, not 0"),
        ("bound = 10", "bound = 10000001", "x:9: q: `bound` is 1 to"),
        ("bound = 10", "bound = \"10\"", "x:9: `bound` is a whole number, not the text \"10\""),
        ("bound = 10\n", "", "missing field `bound`"),
        ("workers = 2", "workers = 0", "x:10: q: `workers` is 1 to 100000, not 0"),
        ("workers = 2", "workers = 100001", "x:10: q: `workers` is 1 to"),
        (
            "workers = 2",
            "workers = -1",
            "x:10: `workers` is a whole number up to 4294967295, not -1",
        ),
        ("100ms", "0s", "x:11: q: `work` is more than 0"),
        ("100ms", "24h", "x:11: q: `work` is less than a day"),
        ("100ms", "soon", "x:11: q: `work`: `soon` is not a duration"),
        ("5/s via gcra", "5 each s", "x:12: q: `rate`: "),
        ("5/s via gcra", "5/s via nothing", "x:12: q: `rate`: "),
        ("\"all\"", "\"most\"", "x:13: q: `counts` is \"waiting\" or \"all\", not \"most\""),
        ("counts", "count", "unknown field `count`, expected one of `bound`"),
        (
            "name = \"q\"",
            "name = \"q\"\nlimits = [{ per = \"client\", limit = \"1/s\" }]",
            "x:6: q: a case has `limits` or a `queue`: leave `limits` out",
        ),
        (
            "name = \"q\"",
            "name = \"q\"\nstrategies = \"all\"",
            "x:6: q: a case has `limits` or a `queue`: leave `strategies` out",
        ),
    ] {
        let error = Experiment::parse("x", &works.replace(from, to)).unwrap_err().to_string();
        assert!(error.starts_with("x") && error.contains(says), "{to}: {error}");
    }
    let none = works.split("[case.queue]").next().unwrap();
    let error = Experiment::parse("x", none).unwrap_err().to_string();
    assert!(
        error.contains("x:6: a case has `limits`, e.g.") && error.contains("`queue`"),
        "{error}"
    );
}
