//! Tests of the advice: against replays of the engine, and against logs whose truth is known.

use std::io::Cursor;
use std::num::NonZeroUsize;
use std::path::Path;

use proptest::prelude::*;
use tollgate::{LimitSet, Strategy, Unit};

use super::simulate::{Who, simulate};
use super::table::{Clients, bucket_us, limit_of};
use super::*;
use crate::order::Sorting;
use crate::read::Reading;
use crate::replay::{Case, Plan, Report, StrategyChoice, replay};
use crate::source::Lines;

fn read(log: String, reading: Reading) -> Traffic {
    let lines = Lines::from_reader(Cursor::new(log.into_bytes()), Path::new("x"), None).unwrap();
    reading.read_lines(lines, |_| ()).unwrap()
}

/// A log of clients `c0`, `c1` and so on, at these milliseconds, with these costs.
fn log(events: impl IntoIterator<Item = (u64, u32, u32)>) -> String {
    let line = |(at_ms, client, cost): (u64, u32, u32)| {
        let (seconds, ms) = (at_ms / 1_000 + 1_000_000_000, at_ms % 1_000);
        format!("{{\"who\":\"c{client}\",\"ts\":{seconds}.{ms:03},\"n\":{cost}}}\n")
    };
    events.into_iter().map(line).collect()
}

/// How such a log is read.
fn by_name() -> Reading {
    Reading::by(By::Field("who".to_owned()))
}

fn with_costs() -> Reading {
    by_name().with_cost(Some(By::Field("n".into())))
}

/// Options that ask for a window.
fn windows() -> Options {
    Options { max_wait: None, lists_clients: true, ..Options::default() }
}

fn advised(traffic: &Traffic, options: &Options) -> Advice {
    advise(traffic, options, &mut |_| Ok(())).unwrap()
}

fn replayed(traffic: &Traffic, limit: &str) -> Report {
    replay(traffic, &Plan::new(&[limit], StrategyChoice::AsWritten).unwrap(), |_| ()).unwrap()
}

fn share(text: &str) -> Tolerance {
    text.parse().unwrap()
}

/// `people` ask `most` times within a minute at most, each at different times; `robots` ask fifty
/// times as often. Ten minutes.
fn known(people: u32, most: u64, robots: u32) -> String {
    let mut events = Vec::new();
    for client in 0..people {
        for minute in 0..10 {
            // In every third minute as often as it ever does, else less.
            let count = if (minute + u64::from(client)) % 3 == 0 { most } else { most / 2 };
            for n in 0..count {
                // Within 40 s, and the next burst begins a minute later: no window holds two.
                let at = minute * 120_000 + n * 40_000 / most + u64::from(client) * 7;
                events.push((at, client, 1));
            }
        }
    }
    for robot in people..people + robots {
        events.extend((0..1_200_000 / 1_000).map(|n| (n * 1_000, robot, 1)));
        events.extend((0..most * 50).map(|n| (n * 10, robot, 1)));
    }
    events.sort_unstable();
    log(events)
}

#[test]
fn the_recommendation_is_the_truth_of_a_known_log() {
    for (people, most, robots) in [(300, 12, 4), (100, 30, 0), (40, 7, 2)] {
        let traffic = read(known(people, most, robots), by_name());
        let advice = advised(&traffic, &windows());
        let minute = &advice.windows[1];
        assert_eq!((minute.busiest.p50, minute.busiest.max), (most, most));
        assert_eq!(minute.outliers_count, u64::from(robots), "robots are apart");
        assert!(minute.outliers.iter().all(|it| it.busiest >= most * 50), "and named");
        let recommended = &advice.recommended;
        assert_eq!(recommended.limit, format!("{most}/m via sliding_log"));
        assert_eq!(recommended.worst_window, most);
        assert_eq!((recommended.clients_denied, recommended.requests_denied), (0, 0));
        assert_eq!(recommended.outliers_denied, u64::from(robots));
        // The promised denials are those of a replay.
        let case = &replayed(&traffic, &recommended.limit).cases[0];
        assert_eq!(case.clients_denied, u64::from(robots));
        assert_eq!(case.denied, recommended.outliers_requests_denied);
        // One unit less denies the people.
        let less = &replayed(&traffic, &format!("{}/1m via sliding_log", most - 1)).cases[0];
        assert_eq!(less.clients_denied, u64::from(people + robots));
    }
}

/// People open pages of 75 assets, a monitor asks once a minute, and an abuser 20 times a second.
fn pages(people: u32, with_abuser: bool) -> String {
    let mut events = Vec::new();
    for client in 0..people {
        for page in 0..4 {
            let begin = page * 900_000 + u64::from(client) * 1_237;
            events.extend((0..75).map(|n| (begin + n * 40, client, 1)));
        }
    }
    events.extend((0..60).map(|minute| (minute * 60_000, people, 1)));
    if with_abuser {
        events.extend((0..3_600 * 20).map(|n| (n * 50, people + 1, 1)));
    }
    events.sort_unstable();
    log(events)
}

#[test]
fn a_burst_lets_pages_load_and_an_abuser_not() {
    for with_abuser in [false, true] {
        let traffic = read(pages(200, with_abuser), by_name());
        let advice = advised(&traffic, &Options::default());
        let it = &advice.recommended;
        assert_eq!((it.clients_denied, it.requests_denied), (0, 0), "{}", it.limit);
        assert_eq!(it.outliers_denied, u64::from(with_abuser), "{}", it.limit);
        assert!((70..=75).contains(&it.units) && it.limit.contains(" burst "), "{}", it.limit);
        assert!(it.longest_wait_us <= 10_000_000, "{}", it.longest_wait_us);
        if with_abuser {
            assert_eq!(it.outliers[0].client, "c201");
            // Of 20 a second, a few in an hour get through.
            assert!(it.outliers_requests_denied > 71_000, "{}", it.outliers_requests_denied);
        }
    }
}

/// Each limit with a burst denies as many clients as it says, and one unit less too many.
#[test]
fn a_burst_is_the_least_that_keeps_to_the_share() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/data/semicomplete_access.log.gz");
    let traffic = Reading::default().read(&path, |_| ()).unwrap();
    for (text, max_wait) in [("0.1%", "10s"), ("0%", "1m"), ("2%", "100ms")] {
        let options = Options {
            target: Target::Clients(share(text)),
            max_wait: Some(max_wait.parse().unwrap()),
            sets_outliers_apart: false,
            ..Options::default()
        };
        let advice = advised(&traffic, &options);
        let may_be_denied = share(text).of_rounded_down(advice.clients);
        for row in &advice.rates {
            assert!(row.wait_us <= max_wait.parse::<Period>().unwrap().as_micros());
            let case = &replayed(&traffic, &row.limit).cases[0];
            assert_eq!(case.clients_denied, row.clients_denied, "{}", row.limit);
            assert!(row.clients_denied <= may_be_denied, "{}", row.limit);
            assert!((row.least..=(2 * row.least).max(10)).contains(&row.burst), "{row:?}");
            let burst = format!("burst {} ", row.burst);
            let less = row.limit.replace(&burst, &format!("burst {} ", row.least - 1));
            if row.least > 1 {
                let case = &replayed(&traffic, &less).cases[0];
                assert!(case.clients_denied > may_be_denied, "{less}");
            }
        }
        let it = &advice.recommended;
        let case = &replayed(&traffic, &it.limit).cases[0];
        assert_eq!((case.clients_denied, case.denied), (it.clients_denied, it.requests_denied));
    }
}

/// Every row of the chosen window agrees with the engine, and one unit less denies more than may
/// be.
#[test]
fn every_limit_denies_what_it_promises_and_one_unit_less_too_many() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/data/semicomplete_access.log.gz");
    let traffic = Reading::default().read(&path, |_| ()).unwrap();
    for sets_outliers_apart in [true, false] {
        for (target, period) in [
            (Target::Clients(share("0.1%")), "10s"),
            (Target::Clients(share("2%")), "1m"),
            (Target::Requests(share("1%")), "1m"),
            (Target::Requests(share("5%")), "1h"),
        ] {
            let options = Options {
                target,
                periods: vec![period.parse().unwrap()],
                sets_outliers_apart,
                ..windows()
            };
            let advice = advised(&traffic, &options);
            let window = &advice.windows[0];
            let mut tried = 0;
            for row in &window.limits {
                let Some(limit) = &row.limit else {
                    assert_eq!(row.strategy, "uniform", "{:?}", row.refused);
                    continue;
                };
                let at = |limit: &str| {
                    let case = replayed(&traffic, limit).cases.remove(0);
                    (case.clients_denied, case.denied)
                };
                let (clients, requests) = at(limit);
                assert_eq!(clients, row.clients_denied + row.outliers_denied, "{limit}");
                let counted = row.requests_denied.unwrap() + row.outliers_requests_denied.unwrap();
                assert_eq!(requests, counted, "{limit}");
                // The curve agrees at its own points.
                for CurvePoint { units, clients: above, .. } in row.curve.iter().step_by(7) {
                    let strategy = tollgate::Strategy::named(row.strategy).unwrap();
                    let Ok(limits) =
                        limit_of(strategy, (*units).max(1), options.periods[0], Unit::REQUESTS)
                    else {
                        continue;
                    };
                    assert_eq!(at(&limits.to_string()).0, *above, "{limits}");
                }
                let ordinary = advice.clients - window.outliers_count;
                let less = row.units - 1;
                if sets_outliers_apart || less == 0 {
                    continue;
                }
                let strategy = tollgate::Strategy::named(row.strategy).unwrap();
                let fewer = limit_of(strategy, less, options.periods[0], Unit::REQUESTS)
                    .unwrap()
                    .to_string();
                let (clients, requests) = at(&fewer);
                match target {
                    Target::Clients(share) => {
                        assert!(row.clients_denied <= share.of_rounded_down(ordinary), "{limit}");
                        assert!(clients > share.of_rounded_down(ordinary), "{fewer}");
                    }
                    Target::Requests(share) => {
                        assert!(requests > share.of_rounded_down(advice.requests), "{fewer}");
                        assert_eq!(row.too_few, Some(less));
                    }
                }
                tried += 1;
            }
            assert!(sets_outliers_apart || tried >= 5, "{tried} strategies");
        }
    }
}

#[test]
fn an_even_client_is_no_burst_and_one_of_a_second_is() {
    let even = log((0..1_200).flat_map(|n| [(n * 500, 0, 1), (n * 500 + 1, 1, 1)]));
    let advice = advised(&read(even, by_name()), &windows());
    // Two a second: the mean of the minute.
    assert_eq!((advice.windows[0].busiest.max, advice.windows[0].burst_tenths), (2, Some(10)));
    let once = log((0..40).flat_map(|n| [(n / 20 * 900_000 + n % 20, 0, 1), (n * 1_000, 1, 1)]));
    let advice = advised(&read(once, by_name()), &windows());
    // Twenty together are sixty times their mean over the minute; the median of two is the lower.
    assert_eq!(advice.windows[0].busiest.max, 20);
    assert_eq!(advice.windows[0].burst_tenths, Some(15));
    assert_eq!(advice.half_of_load, 1);
}

#[test]
fn what_says_nothing_is_refused_with_the_reason() {
    let error = |log: String, options: &Options| {
        let traffic = read(log, by_name());
        advise(&traffic, options, &mut |_| Ok(())).unwrap_err().to_string()
    };
    let options = windows();
    assert!(error(String::new(), &options).contains("no event"));
    let one = log((0..100).map(|n| (n * 1_000, 0, 1)));
    assert!(error(one.clone(), &options).contains("of one client by ip"));
    let second = log((0..100).map(|n| (n, u32::try_from(n).unwrap(), 1)));
    assert!(error(second, &options).contains("within one second"));
    let none = Options { periods: Vec::new(), ..options.clone() };
    let two = log((0..100).map(|n| (n * 1_000, u32::try_from(n % 2).unwrap(), 1)));
    assert!(error(two.clone(), &none).contains("--per 1s,1m,1h"));
    // Some requests come together, so no gate lets them all through.
    let twice = log((0..100).map(|n| (n / 2 * 1_000, u32::try_from(n / 2 % 2).unwrap(), 1)));
    let uniform = Options { strategy: Some(Strategy::Uniform), ..options.clone() };
    assert!(error(twice, &uniform).contains("no limit fits"), "uniform");
    // One count for all is one client, and says enough.
    let traffic = read(one, Reading::by(By::All));
    let advice = advised(&traffic, &Options { by: By::All, ..windows() });
    assert_eq!(advice.recommended.clients_denied, 0);
    assert!(advice.recommended.policy.contains("\"everybody=all\""));
    let stopped =
        advise(&traffic, &Options { by: By::All, ..windows() }, &mut |_| Err(Error::Stopped));
    assert!(matches!(stopped, Err(Error::Stopped)));
}

#[test]
fn a_sample_is_looked_at_as_if_its_clients_were_alone() {
    let events = |keep: &dyn Fn(u32) -> bool| {
        let all = (0..3_000_u64).map(|n| (n * 37 % 90_000, u32::try_from(n * n % 211).unwrap(), 1));
        let mut all: Vec<_> = all.filter(|(_, client, _)| keep(*client)).collect();
        all.sort_unstable();
        log(all)
    };
    let most = NonZeroUsize::new(40).unwrap();
    let whole = read(events(&|_| true), by_name().with_max_clients(most));
    let one_in = whole.clients.one_in();
    assert!(one_in > 1);
    let sampled = advised(&whole, &windows());
    assert!(sampled.clients <= 40 && sampled.sampled.one_in == one_in);
    let names: Vec<&str> = sampled.rows.iter().map(|row| row.client.as_str()).collect();
    let part = events(&|client| names.contains(&format!("c{client}").as_str()));
    let alone = advised(&read(part, by_name()), &windows());
    assert_eq!(alone.sampled.one_in, 1);
    assert_eq!(sampled.requests, alone.requests);
    assert_eq!(sampled.rows, alone.rows);
    assert_eq!(sampled.sampled.events_left_out + sampled.requests, sampled.events);
    assert_eq!(sampled.recommended.limit, alone.recommended.limit);
    assert_eq!(sampled.recommended.requests_denied, alone.recommended.requests_denied);
}

#[test]
fn a_client_is_a_row_that_a_spreadsheet_reads() {
    let log = log((0..20).map(|n| (n * 6_000, u32::try_from(n % 2).unwrap(), 1)));
    let advice = advised(&read(log, by_name()), &windows());
    let windows: Vec<&str> = advice.windows.iter().map(|it| it.window.as_str()).collect();
    let header = ClientRow::header(&windows);
    let cells = header.split(',').count();
    assert_eq!(cells, 5 + 3 * (2 + Strategy::RATES.len()));
    assert!(header.starts_with("client,requests,units,first_us,last_us,busiest_1s,rank_ppm_1s,"));
    let row = advice.rows[0].csv();
    assert_eq!(row.split(',').count(), cells);
    assert!(row.starts_with("c0,10,10,1000000000000000,1000000108000000,1,1000000,"), "{row}");
    assert_eq!(crate::text::csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
    assert_eq!(crate::text::csv_cell("=1+1"), "'=1+1");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With its least number of units a client is never denied by the engine, and with one less it
    /// is: under every strategy, with costs, in memory and on disk.
    #[test]
    fn the_least_units_are_the_engines(
        gaps in proptest::collection::vec(
            (prop_oneof![0..40_u64, 0..3_000_u64], 0..3_u32, prop_oneof![Just(1), 1..4_u32]),
            2..60,
        ),
        period in prop_oneof![Just("1s"), Just("10s"), Just("700ms")],
        memory in 3..80_usize,
    ) {
        let mut at = 0;
        let events: Vec<(u64, u32, u32)> = gaps.into_iter().map(|(gap, client, cost)| {
            at += gap;
            (at, client, cost)
        }).chain([(200_000, 0, 1), (200_000, 1, 1)]).collect();
        let sorting = Sorting::default().with_memory_events(NonZeroUsize::new(memory).unwrap());
        let traffic = read(log(events), with_costs().with_sorting(sorting));
        let options = Options {
            periods: vec![period.parse().unwrap()],
            ..windows()
        };
        let advice = advised(&traffic, &options);
        for (place, strategy) in Strategy::RATES.iter().enumerate() {
            let denied = |units: u64, client: u32| {
                let set = limit_of(*strategy, units, options.periods[0], options.unit);
                let set: LimitSet = set.unwrap();
                let mut plan = Plan::new(&["1/s"], StrategyChoice::AsWritten).unwrap();
                plan.cases = vec![Case::new(set)];
                let report = replay(&traffic, &plan, |_| ()).unwrap();
                let name = format!("c{client}");
                report.cases[0].top_denied.iter().any(|(denied, _)| *denied == name)
            };
            for row in &advice.rows {
                let client: u32 = row.client[1..].parse().unwrap();
                match row.least[0][place] {
                    Some(least) => {
                        prop_assert!(!denied(least, client), "{least}/{period} via {strategy}");
                        if least > 1 {
                            prop_assert!(denied(least - 1, client), "{least} via {strategy}");
                        }
                    }
                    None => {
                        prop_assert_eq!(*strategy, Strategy::Uniform);
                        prop_assert!(denied(period_us(&options), client));
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A simulation leaves out clients that are never denied, and ends when its answer is known.
    /// Its counts are those of all clients over the whole log.
    #[test]
    fn a_simulation_of_the_denied_clients_is_one_of_all(
        gaps in proptest::collection::vec((0..400_u64, 0..6_u32, 1..3_u32), 2..120),
        units in 1..12_u64,
        one_in in 2..5_usize,
    ) {
        let mut at = 0;
        let events: Vec<(u64, u32, u32)> = gaps.into_iter().map(|(gap, client, cost)| {
            at += gap;
            // Few ask often, as in real logs.
            (at, client * client / 5, cost)
        }).collect();
        let traffic = read(log(events), with_costs());
        let sample = Sample::new(&traffic);
        let period: Period = "1s".parse().unwrap();
        let windows = [(period.as_micros(), bucket_us(period))];
        let scan = Scan::new(&traffic, &sample, (&windows, false), &mut |_| Ok(())).unwrap();
        let is_outlier: Vec<bool> = (0..sample.len()).map(|place| place % one_in == 0).collect();
        let (window, profiles) = (&scan.windows[0], &scan.profiles[..]);
        let clients = Clients {
            window,
            period,
            unit: Unit::REQUESTS,
            profiles,
            is_outlier: &is_outlier,
        };
        for strategy in Strategy::RATES {
            let limits = limit_of(*strategy, units, period, Unit::REQUESTS).unwrap();
            let denied = |is_denied: &[bool], most: u64| {
                let who = Who { sample: &sample, is_outlier: &is_outlier, is_denied };
                simulate(&traffic, who, (&limits, *strategy), most, &mut |_| Ok(())).unwrap()
            };
            let all = denied(&vec![true; sample.len()], u64::MAX).unwrap();
            let some = clients.are_denied(*strategy, units);
            prop_assert_eq!(denied(&some, all.requests), Some(all.clone()), "{}", limits);
            let counted = some.iter().filter(|is_denied| **is_denied).count() as u64;
            prop_assert_eq!(counted, all.clients + all.outliers, "{}", limits);
            if let Some(fewer) = all.requests.checked_sub(1) {
                prop_assert_eq!(denied(&some, fewer), None, "{}", limits);
            }
        }
    }
}

/// As many units as a gate can have: one for each microsecond.
fn period_us(options: &Options) -> u64 {
    options.periods[0].as_micros()
}
