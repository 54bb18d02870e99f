//! Experiments against counts that are taken again, slowly, and the promises of their pages.

mod builtin;
mod file;
mod live;

use proptest::prelude::*;
use tollgate::Strategy;

use super::results::Denied;
use super::*;
use tollgate_logs::Error;
use tollgate_logs::decide::{Decider, InMemory, Verdict};
use tollgate_logs::event::Event;

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
    fn begin(&mut self, parts: &[PerLimits]) -> Result<(), Error> {
        self.memory.begin(parts)
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

#[test]
fn what_a_denied_client_saw_is_told() {
    let text = "version = 1\nduration = \"20s\"\n\
        workload = [{ name = \"few\", arrivals = \"bursts\", size = 3, every = \"10s\" }]\n\
        case = [{ limits = [{ per = \"client\", limit = \"1/9s\" }] }]\n";
    let case = &results(text).cases[0];
    let [Denied { denied, admitted, first_us, last_us, longest_wait_us, .. }] =
        &case.most_denied[..]
    else {
        panic!("{:?}", case.most_denied)
    };
    assert_eq!((*denied, *admitted), (4, 2));
    assert_eq!((*first_us, *last_us, *longest_wait_us), (0, 10_000_000, Some(9_000_000)));
    let told = case.told_wait_us.as_ref().unwrap();
    for told in [told.p50, told.p99, told.max] {
        assert!(told.abs_diff(9_000_000) <= 9_000, "three digits of 9 s: {told}");
    }
    let never = text.replace("1/9s", "1/9s via gcra").replace("size = 3", "size = 1");
    assert_eq!(results(&never).cases[0].told_wait_us, None, "nobody was denied");
}

/// The chart covers the whole time, however much happens before the worst client comes.
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
    assert_eq!(experiment.cases.len(), Strategy::RATES.len() + 1);
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
        // Admitted units are in the window for as long as that is, also while nobody asks.
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
fn a_stopped_run_has_what_was_measured_so_far() {
    struct Stops(InMemory, usize);
    impl Decider for Stops {
        fn begin(&mut self, parts: &[PerLimits]) -> Result<(), Error> {
            self.1 += 1;
            self.0.begin(parts)
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
