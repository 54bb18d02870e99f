//! A replay of the bundled log agrees with the oracle, for every strategy. The log is read here a
//! second time, by a separate parser that knows no more than this log's format.

#![allow(clippy::unwrap_used)]

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tollgate::Strategy;
use tollgate_logs::replay::{CaseReport, Plan, Report, StrategyChoice, replay};
use tollgate_logs::{Reading, Traffic};
use tollgate_proof::conformance::rule_of;
use tollgate_proof::oracle::{MultiOracle, Oracle, Rule};

const SECOND: u64 = 1_000_000;
const LIMITS: [(&str, u64); 3] =
    [("5/10s", 10 * SECOND), ("100/1h", 3_600 * SECOND), ("30/1m", 60 * SECOND)];

fn log_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/semicomplete_access.log.gz")
}

fn traffic() -> Traffic {
    Reading::default().read(&log_path(), |_| ()).unwrap()
}

/// The log as this test reads it: (microseconds, client) in the order of the file.
fn lines() -> Vec<(u64, String)> {
    let mut text = Vec::new();
    let file = std::fs::File::open(log_path()).unwrap();
    MultiGzDecoder::new(file).read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).lines().map(line).collect()
}

/// `CLIENT - - [17/May/2015:10:05:03 +0000] ...`
fn line(line: &str) -> (u64, String) {
    let (client, rest) = line.split_once(' ').unwrap();
    let stamp = rest.split(['[', ']']).nth(1).unwrap();
    let (stamp, zone) = stamp.split_once(' ').unwrap();
    let (date, clock) = stamp.split_once(':').unwrap();
    let parts: Vec<&str> = date.split('/').collect();
    assert_eq!((parts[1], parts[2], zone), ("May", "2015", "+0000"), "only this month is known");
    // 1 May 2015 is 16,556 days after 1 January 1970.
    let days = 16_556 + parts[0].parse::<u64>().unwrap() - 1;
    let seconds = clock.split(':').fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap());
    ((days * 86_400 + seconds) * SECOND, client.to_owned())
}

/// The same in order of time, ties as in the file.
fn in_order(lines: &[(u64, String)]) -> Vec<(u64, &str)> {
    let mut events: Vec<(u64, &str)> = lines.iter().map(|(at, who)| (*at, who.as_str())).collect();
    events.sort_by_key(|event| event.0);
    events
}

/// A bare quota under `strategy`, with that strategy's defaults.
fn rule(strategy: Strategy, quota: &str) -> Rule {
    rule_of(&format!("{quota} via {strategy}").parse().unwrap()).unwrap()
}

/// The counts of a replay, once more and slowly, from each client's admitted times.
#[derive(Debug, PartialEq, Eq)]
struct Tally {
    admitted: u64,
    denied: u64,
    peaks: Vec<u64>,
    clients_denied: u64,
    top_denied: Vec<(String, u64)>,
}

impl Tally {
    fn from_verdicts(verdicts: &[(u64, &str, bool)], durations_us: &[u64]) -> Self {
        let mut admitted: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        let mut denied: BTreeMap<&str, u64> = BTreeMap::new();
        for &(at, who, allow) in verdicts {
            if allow {
                admitted.entry(who).or_default().push(at);
            } else {
                *denied.entry(who).or_default() += 1;
            }
        }
        let peak = |d_us: &u64| {
            let most = |times: &Vec<u64>| {
                let within = |t: u64| times.iter().filter(|s| **s + d_us > t && **s <= t).count();
                times.iter().map(|t| within(*t)).max().unwrap_or(0)
            };
            admitted.values().map(most).max().unwrap_or(0) as u64
        };
        let mut top: Vec<(String, u64)> = denied.iter().map(|(c, n)| (c.to_string(), *n)).collect();
        top.sort_by_key(|(client, count)| (Reverse(*count), client.clone()));
        top.truncate(10);
        Self {
            admitted: admitted.values().map(|times| times.len() as u64).sum(),
            denied: denied.values().sum(),
            peaks: durations_us.iter().map(peak).collect(),
            clients_denied: denied.len() as u64,
            top_denied: top,
        }
    }

    fn reported(case: &CaseReport) -> Self {
        Self {
            admitted: case.admitted,
            denied: case.denied,
            peaks: case.peaks.iter().map(|peak| peak.peak).collect(),
            clients_denied: case.clients_denied,
            top_denied: case.top_denied.clone(),
        }
    }
}

fn assert_counts(report: &Report, lines: &[(u64, String)]) {
    let out_of_order = lines.windows(2).filter(|pair| pair[1].0 < pair[0].0).count();
    assert_eq!(report.events, lines.len() as u64);
    assert_eq!((report.out_of_order, report.unparsed), (out_of_order as u64, 0));
    let times = || lines.iter().map(|line| line.0);
    assert_eq!(report.first_last_us, times().min().zip(times().max()));
}

#[test]
fn every_strategy_agrees_with_the_oracle_on_the_bundled_log() {
    let (traffic, lines) = (traffic(), lines());
    let events = in_order(&lines);
    let mut tallies = Vec::new();
    for (text, d_us) in LIMITS {
        let plan = Plan::new(&[text], StrategyChoice::All).unwrap();
        let report = replay(&traffic, &plan, |_| ()).unwrap();
        assert_counts(&report, &lines);
        assert_eq!((report.cases.len(), report.refused.len()), (Strategy::RATES.len(), 0));
        for (strategy, case) in Strategy::RATES.iter().zip(&report.cases) {
            let rule = rule(*strategy, text);
            let mut oracles: BTreeMap<&str, Oracle> = BTreeMap::new();
            let mut verdicts = Vec::new();
            for &(at, who) in &events {
                let fresh = || Oracle::grouped(rule).unwrap();
                let oracle = oracles.entry(who).or_insert_with(fresh);
                verdicts.push((at, who, oracle.check(at, 1).admitted));
            }
            let tally = Tally::from_verdicts(&verdicts, &[d_us]);
            assert_eq!(case.strategy, strategy.name());
            assert_eq!(Tally::reported(case), tally, "{text} via {strategy}");
            assert_eq!(case.peak_in_window(), tally.peaks[0]);
            tallies.push(tally);
        }
    }
    // The comparison is worth something: limits bite here, and strategies differ.
    assert!(tallies.iter().all(|tally| tally.admitted > 1_000 && tally.denied > 0));
    assert!(tallies.iter().any(|tally| tally.top_denied.len() == 10));
    let distinct: std::collections::BTreeSet<u64> = tallies.iter().map(|t| t.admitted).collect();
    assert!(distinct.len() > tallies.len() / 2, "{distinct:?}");
}

#[test]
fn several_limits_agree_with_the_oracle() {
    let (traffic, lines) = (traffic(), lines());
    let events = in_order(&lines);
    let plan = Plan::new(&["5/10s", "100/1h; 30/1m"], StrategyChoice::All).unwrap();
    let report = replay(&traffic, &plan, |_| ()).unwrap();
    for (strategy, case) in Strategy::RATES.iter().zip(&report.cases) {
        let rules = LIMITS.map(|(text, _)| rule(*strategy, text));
        let mut oracle = MultiOracle::new(&rules).unwrap();
        let mut verdicts = Vec::new();
        for &(at, who) in &events {
            let asked = [(who, 0), (who, 1), (who, 2)];
            verdicts.push((at, who, oracle.check(at, &asked, 1).unwrap().admitted));
        }
        let tally = Tally::from_verdicts(&verdicts, &LIMITS.map(|(_, d_us)| d_us));
        assert_eq!(Tally::reported(case), tally, "{strategy}");
    }
}
