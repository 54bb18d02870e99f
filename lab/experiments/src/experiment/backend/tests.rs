//! Backends against what they are taken for: counted again, slowly and without one; and against
//! formulas of queueing theory.

use proptest::prelude::*;

use super::*;
use crate::experiment::results::{BackendResult, CaseResult, Results};
use crate::experiment::run;
use tollgate_logs::decide::{InMemory, PerLimits};
use tollgate_logs::event::Event;

const SECOND: u64 = 1_000_000;

fn results(text: &str) -> Results {
    let experiment = Experiment::parse("backend.toml", text).unwrap();
    run(&experiment, &mut InMemory::default(), |_| ()).unwrap()
}

fn backend(case: &CaseResult) -> &BackendResult {
    case.backend.as_ref().unwrap()
}

fn assert_near(found: f64, expected: f64, share: f64) {
    assert!((found - expected).abs() <= share * expected, "{found}, and {expected} is expected");
}

/// The time that requests take with one server and a fixed service time: Pollaczek and Khinchine.
#[test]
fn one_server_takes_as_long_as_the_formula_says_and_littles_law_holds() {
    let results = results(
        r#"
        version = 1
        duration = "1500s"
        backend = { servers = 1, work = "10ms" }
        workload = [{ arrivals = "poisson", rate = "80/s" }]
        case = [{ limits = [] }]
        "#,
    );
    let case = &results.cases[0];
    assert_eq!((case.name.as_str(), case.denied), ("no limit", 0));
    let found = backend(case);
    let mean_us = found.latency_us.as_ref().unwrap().mean;
    let (busy, work_us) = (0.8, 10_000.0);
    assert_near(mean_us, work_us + busy * work_us / (2.0 * (1.0 - busy)), 0.05);
    // The mean number in flight is the rate times the mean latency (J. Little, 1961).
    let in_flight = found.in_flight_mean.unwrap();
    assert_near(in_flight, found.done as f64 / 1_500e6 * mean_us, 0.001);
    assert_eq!(found.done + found.left, case.admitted);
    assert_eq!((found.recovered_us, found.overran), (None, 0), "it was never slow");
}

/// The share that is lost where nobody waits: Erlang's formula B.
#[test]
fn as_much_is_denied_as_erlang_says() {
    let results = results(
        r#"
        version = 1
        duration = "200s"
        backend = { servers = 30, work = "50ms" }
        workload = [{ arrivals = "poisson", rate = "300/s" }]
        case = [{ limits = [{ per = "resource", limit = "20 at once" }] }]
        "#,
    );
    let case = &results.cases[0];
    let offered = 300.0 * 0.05;
    let blocked = (1..=20).fold(1.0, |lost, n| offered * lost / (f64::from(n) + offered * lost));
    assert_near(case.denied as f64 / case.attempts as f64, blocked, 0.08);
    let found = backend(case);
    assert_eq!((found.in_flight_max, found.latency_us.as_ref().unwrap().max), (20, 50_000));
    let limit = &case.limits[0];
    assert_eq!((limit.peak, limit.promise, limit.holds), (20, 20, true));
}

/// The outcomes of requests at these times.
struct Slow {
    end_us: u64,
    work_us: u64,
    slow: (u64, u64, u64),
    slots: Option<(usize, u64)>,
    /// When each server is free.
    free: Vec<u64>,
    /// Of each that was admitted, when it came, was begun, and was done.
    jobs: Vec<[u64; 3]>,
    denied: u64,
    peak: u64,
}

impl Slow {
    fn open(&self, now_us: u64, hold_us: u64) -> usize {
        let is_open = |[came, _, done]: &&[u64; 3]| (*done).min(came + hold_us) > now_us;
        self.jobs.iter().filter(is_open).count()
    }

    fn come(&mut self, now_us: u64) {
        if let Some((slots, hold_us)) = self.slots {
            let open = self.open(now_us, hold_us);
            if open >= slots {
                self.denied += 1;
                return;
            }
            self.peak = self.peak.max(open as u64 + 1);
        }
        let free = self.free.iter_mut().min().unwrap();
        let begun = now_us.max(*free);
        let (from, until, slow) = self.slow;
        *free = begun + if begun >= from && begun < until { slow } else { self.work_us };
        self.jobs.push([now_us, begun, *free]);
    }

    fn in_flight(&self, now_us: u64) -> u64 {
        let is_here = |[came, _, done]: &&[u64; 3]| *came <= now_us && *done > now_us;
        self.jobs.iter().filter(is_here).count() as u64
    }

    fn waits(&self, now_us: u64) -> bool {
        self.jobs.iter().any(|[came, begun, _]| *came <= now_us && *begun > now_us)
    }

    fn overran(&self) -> u64 {
        let Some((_, hold_us)) = self.slots else { return 0 };
        let over = |[came, _, done]: &&[u64; 3]| came + hold_us <= (*done).min(self.end_us);
        self.jobs.iter().filter(over).count() as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_backend_is_what_it_is_taken_for(
        seed in 0_u64..1_000_000,
        servers in 1_u32..6,
        work_ms in 1_u64..300,
        slow_ms in 1_u64..1_500,
        (from_s, for_s) in (0_u64..8, 1_u64..4),
        rate in 1_u64..40,
        slots in proptest::option::of((1_usize..9, 1_u64..2_000)),
        bursts in any::<bool>(),
    ) {
        let arrivals = if bursts {
            format!("arrivals = \"bursts\"\nsize = {rate}\nevery = \"1s\"")
        } else {
            format!("arrivals = \"poisson\"\nrate = \"{rate}/s\"")
        };
        let limits = slots.map_or_else(String::new, |(slots, hold)| {
            format!("{{ per = \"resource\", limit = \"{slots} at once hold {hold}ms\" }}")
        });
        let until_s = from_s + for_s;
        let text = format!(
            "version = 1\nseed = {seed}\nduration = \"10s\"\nbucket = \"500ms\"\n\
             [backend]\nservers = {servers}\nwork = \"{work_ms}ms\"\n\
             slow = [{{ from = \"{from_s}s\", until = \"{until_s}s\", work = \"{slow_ms}ms\" }}]\n\
             [[workload]]\n{arrivals}\n[[case]]\nlimits = [{limits}]\n"
        );
        let experiment = Experiment::parse("x", &text).unwrap();
        let results = results(&text);
        let case = &results.cases[0];
        let found = backend(case);
        let end = 10 * SECOND;
        let mut slow = Slow {
            end_us: end,
            work_us: work_ms * 1_000,
            slow: (from_s * SECOND, until_s * SECOND, slow_ms * 1_000),
            slots: slots.map(|(slots, hold_ms)| (slots, hold_ms * 1_000)),
            free: vec![0; servers as usize],
            jobs: Vec::new(),
            denied: 0,
            peak: 0,
        };
        let mut asks = Run::new(&experiment, &experiment.cases[0], BATCH).unwrap();
        while let Some(attempt) = asks.pop().unwrap() {
            slow.come(attempt.at_us);
        }
        prop_assert_eq!((case.admitted, case.denied), (slow.jobs.len() as u64, slow.denied));
        let done: Vec<[u64; 3]> = slow.jobs.iter().copied().filter(|job| job[2] < end).collect();
        prop_assert_eq!((found.done, found.left), (done.len() as u64, case.admitted - found.done));
        prop_assert_eq!(found.overran, slow.overran());
        if let Some((slots, _)) = slow.slots {
            let limit = &case.limits[0];
            prop_assert!(limit.holds && limit.peak <= slots as u64);
            prop_assert_eq!((limit.peak, limit.promise), (slow.peak, slots as u64));
            // Only a hold that ended while its work went on lets more in.
            prop_assert!(found.overran > 0 || found.in_flight_max <= slots as u64);
        }
        let area: u64 = slow.jobs.iter().map(|[came, _, done]| (*done).min(end) - came).sum();
        prop_assert!((found.in_flight_mean.unwrap() - area as f64 / end as f64).abs() < 1e-4);
        // It changes at these moments alone.
        let moments = || slow.jobs.iter().flatten().copied().filter(|at| *at < end);
        let most = moments().map(|at| slow.in_flight(at)).max();
        prop_assert_eq!(found.in_flight_max, most.unwrap_or(0));
        let last = until_s * SECOND;
        let after = moments().chain([last]).filter(|at| (last..end).contains(at));
        let idle = after.filter(|at| !slow.waits(*at));
        prop_assert_eq!(found.recovered_us, idle.min().map(|at| at - last));
        for (place, bucket) in found.buckets.iter().enumerate() {
            let from = place as u64 * 500_000;
            let within = |at: &u64| (from..from + 500_000).contains(at);
            let of_it = done.iter().filter(|job| within(&job[2]));
            let mut took: Vec<u64> = of_it.map(|job| job[2] - job[0]).collect();
            took.sort_unstable();
            let at = |of_100: usize| match took.len() {
                0 => 0,
                len => took[(len * of_100).div_ceil(100) - 1],
            };
            let read = (bucket.done, bucket.p50_us, bucket.p99_us);
            prop_assert_eq!(read, (took.len() as u64, at(50), at(99)), "bucket {}", place);
            let most = moments().filter(within).chain([from]).map(|at| slow.in_flight(at)).max();
            prop_assert_eq!(Some(bucket.in_flight), most, "bucket {}", place);
        }
    }
}

#[test]
fn slots_of_each_client_are_counted_by_themselves() {
    let text = r#"
        version = 1
        duration = "10s"
        backend = { servers = 9, work = "400ms" }
        workload = [{ arrivals = "bursts", size = 12, every = "1s", clients = 3 }]
        case = [{ limits = [
            { per = "client", limit = "2 at once" },
            { per = "resource", limit = ["100/s via gcra", "5 at once"] },
        ] }]
    "#;
    let results = results(text);
    let case = &results.cases[0];
    // Of four of each client two go in, and one of the last, since five are at work.
    assert_eq!((case.admitted, backend(case).in_flight_max), (50, 5));
    let peaks: Vec<_> = case.limits.iter().map(|it| (it.peak, it.promise, it.holds)).collect();
    assert_eq!((peaks[0], peaks[2]), ((2, 2, true), (5, 5, true)));
    assert_eq!(peaks[1].0, 5, "a rate beside it is counted in its window");
}

#[test]
fn a_denied_client_that_comes_again_finds_a_slot() {
    let results = results(
        r#"
        version = 1
        duration = "10s"
        backend = { servers = 1, work = "300ms" }
        workload = [{ arrivals = "bursts", size = 5, every = "1h", retry = "at_once", times = 50 }]
        case = [{ limits = [{ per = "resource", limit = "1 at once" }] }]
        "#,
    );
    let case = &results.cases[0];
    assert_eq!((case.requests, case.admitted, case.never_served), (5, 5, 0));
    assert_eq!(case.longest_wait_us, Some(1_200_000), "one after the other");
    assert_eq!(backend(case).latency_us.as_ref().unwrap().max, 300_000);
}

#[test]
fn the_example_shows_what_each_limit_does_to_a_slow_backend() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lab/slow_backend.toml");
    let experiment = Experiment::load(std::path::Path::new(file)).unwrap();
    let results = run(&experiment, &mut InMemory::default(), |_| ()).unwrap();
    let [none, rate, slots, both] = &results.cases[..] else { panic!() };
    // The surge is too much without a limit; a rate limit denies it.
    let in_flight = |case, from: usize, until: usize| {
        backend(case).buckets[from..until].iter().map(|it| it.in_flight).max().unwrap()
    };
    assert!(in_flight(none, 0, 20) > 900 && in_flight(rate, 0, 20) < 80);
    // It knows nothing of the time that work takes.
    for case in [none, rate] {
        let found = backend(case);
        assert!(found.in_flight_max > 4_000, "{found:?}");
        assert!(found.recovered_us.unwrap() > 20 * SECOND, "{found:?}");
        assert!(found.latency_us.as_ref().unwrap().p99 > 15 * SECOND);
    }
    for case in [slots, both] {
        let found = backend(case);
        assert_eq!((found.in_flight_max, found.overran), (20, 0));
        assert!(found.recovered_us.unwrap() < SECOND / 2, "{found:?}");
        assert!(found.latency_us.as_ref().unwrap().max <= SECOND);
        let denied =
            |from, until| case.buckets[from..until].iter().map(|it: &_| it.denied).sum::<u64>();
        assert!(denied(20, 40) > 3_000);
        assert!(denied(41, 90) * 50 < 250 * 49, "no more than 2 of 100 when all is well");
    }
    assert!(results.cases.iter().flat_map(|case| &case.limits).all(|limit| limit.holds));
    let says = results.findings.join("\n");
    assert!(says.contains("concurrency limit: at most 20 in flight at 16 servers; half"), "{says}");
    assert!(says.contains("rate limit: when the backend was fast again, it took 2"), "{says}");
    let text = crate::report::text(&results, 100);
    assert!(
        text.contains(
            "the backend: one queue in front of 16 servers, 40 ms a request; 400 ms from"
        ),
        "{text}"
    );
    assert!(text.contains("In flight at the backend"), "{text}");
    let json = serde_json::to_value(&results).unwrap();
    assert_eq!(json["cases"][2]["backend"]["in_flight_max"], 20);
    assert_eq!(json["cases"][2]["backend"]["slow"][0]["work_us"], 400_000);
}

#[test]
fn a_hold_that_is_too_short_is_told() {
    let results = results(
        r#"
        version = 1
        duration = "10s"
        backend = { servers = 9, work = "500ms" }
        workload = [{ arrivals = "steady", rate = "10/s" }]
        case = [{ limits = [{ per = "resource", limit = "2 at once hold 100ms" }] }]
        "#,
    );
    let case = &results.cases[0];
    let found = backend(case);
    assert_eq!(case.denied, 0, "each slot is free again after 100 ms");
    assert!(found.in_flight_max > 2 && found.overran >= found.done, "{found:?}");
    assert_eq!((case.limits[0].promise, case.limits[0].holds), (2, true), "{:?}", case.limits);
    let says = results.findings.join("\n");
    assert!(says.contains("ended while the work went on, so that more were at work"), "{says}");
}

#[test]
fn what_is_wrong_with_a_backend_is_told_with_its_line() {
    let head =
        "version = 1\nduration = \"1m\"\n[[workload]]\narrivals = \"steady\"\nrate = \"1/s\"\n";
    let slots = "[[case]]\nlimits = [{ per = \"resource\", limit = \"2 at once\" }]\n";
    let table = "[backend]\nservers = 2\nwork = \"1s\"\n";
    let phase = "[[backend.slow]]\nfrom = \"10s\"\nuntil = \"20s\"\nwork = \"2s\"\n";
    let works = format!("{head}{slots}{table}{phase}");
    assert!(Experiment::parse("x", &works).is_ok());
    for (text, says) in [
        (
            format!("{head}{slots}"),
            "x:6: `2 at once hold 30s` counts work in progress, and nothing says how long \
             work takes: add a backend",
        ),
        (format!("{head}[[case]]\nlimits = []\n"), "x:6: `limits` has none"),
        (
            works.replace("servers = 2", "servers = 0"),
            "x:9: backend: `servers` is 1 to 100000, not",
        ),
        (works.replace("servers = 2", "servers = \"2\""), "x:9: `servers` is a whole number up to"),
        (works.replace("servers = 2\n", ""), "missing field `servers`"),
        (works.replace("servers", "server"), "unknown field `server`"),
        (works.replace("work = \"1s\"", "work = \"0s\""), "x:10: backend: `work` is more than 0"),
        (works.replace("work = \"1s\"", "work = \"2d\""), "x:10: backend: `work` is more than 0"),
        (
            works.replace("work = \"1s\"", "work = \"1x\""),
            "x:10: backend: `work`: `1x` is not a dura",
        ),
        (works.replace("\"10s\"", "\"10x\""), "x:12: backend: `from`: `10x` is not a duration"),
        (works.replace("\"20s\"", "\"10s\""), "x:13: backend: `until` is not after `from`"),
        (works.replace("\"20s\"", "20"), "x:13: `until` is a text in quotes, not 20"),
        (works.replace("\"2s\"", "\"0s\""), "x:14: backend: `work` is more than 0"),
        (
            works.replace("\"10s\"", "\"60s\"").replace("\"20s\"", "\"70s\""),
            "x:12: backend: `from` is not before the end",
        ),
        (
            format!("{works}{}", phase.replace("\"10s\"", "\"19s\"").replace("\"20s\"", "\"25s\"")),
            "x:16: backend: `from` is before the end of the phase before it",
        ),
        (
            works.replace(slots, "[[case]]\nqueue = { bound = 1, work = \"1s\" }\n"),
            "x:7: case: `queue` has its own workers: leave `queue` or the [backend] out",
        ),
        (
            works.replace("2 at once\" }]", "2/s via gcra\" }]\nnodes = { number = 2 }"),
            "x:8: case: `nodes` are simulated without a backend",
        ),
    ] {
        let error = Experiment::parse("x", &text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}\n{error}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let text = |seed: u64| {
        format!(
            "version = 1\nseed = {seed}\nduration = \"20s\"\n\
             backend = {{ servers = 3, work = \"90ms\" }}\n\
             workload = [{{ arrivals = \"poisson\", rate = \"40/s\", clients = 4, \
             retry = \"back_off\" }}]\n\
             case = [{{ limits = [{{ per = \"resource\", limit = \"4 at once\" }}] }}]\n"
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
            panic!("a backend asks nobody")
        }
        fn decide(
            &mut self,
            _: &[Event],
            _: &mut Vec<Verdict>,
        ) -> Result<(), tollgate_logs::Error> {
            panic!("a backend asks nobody")
        }
        fn go_on(&mut self) -> Result<(), tollgate_logs::Error> {
            self.0 += 1;
            if self.0 == 3 { Err(tollgate_logs::Error::Stopped) } else { Ok(()) }
        }
    }
    let text = "version = 1\nduration = \"1h\"\nbackend = { servers = 1, work = \"1ms\" }\n\
                workload = [{ arrivals = \"steady\", rate = \"100/s\" }]\n\
                case = [{ limits = [] }]\n";
    let experiment = Experiment::parse("x", text).unwrap();
    let results = run(&experiment, &mut Stops(0), |_| ()).unwrap();
    assert_eq!((results.cases.len(), results.complete), (1, false));
    let found = backend(&results.cases[0]);
    assert!(found.done > 1_000 && found.done < 360_000, "{}", found.done);
}
