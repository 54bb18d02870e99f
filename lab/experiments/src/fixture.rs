//! Results for tests of charts: four cases, two within the capacity and two beyond it.

use std::collections::{BTreeMap, VecDeque};

use crate::experiment::results::{
    Bucket, Capacity, CaseResult, Cell, Denied, Group, GroupResult, Latency, LimitResult,
    LiveResult, LiveRun, QueueBucket, QueueResult, Raster, Results,
};

const SECOND: u64 = 1_000_000;
const UNITS: usize = 300;
const WINDOW: u64 = 10 * SECOND;
const DURATION: u64 = 60 * SECOND;

/// Two greedy clients and ten steady ones ask for a minute; the capacity is `300/10s`.
pub(crate) fn results() -> Results {
    let mut log: VecDeque<u64> = VecDeque::new();
    let sliding_log = move |now: u64| {
        while log.front().is_some_and(|first| first + WINDOW <= now) {
            log.pop_front();
        }
        let admits = log.len() < UNITS;
        admits.then(|| log.push_back(now)).is_some()
    };
    let mut free_at = 0;
    let uniform = move |now: u64| {
        let admits = now >= free_at;
        if admits {
            free_at = now + WINDOW / UNITS as u64;
        }
        admits
    };
    let mut window = (0, 0);
    let fixed_window = move |now: u64| {
        if window.0 != now / WINDOW {
            window = (now / WINDOW, 0);
        }
        window.1 += 1;
        window.1 <= UNITS
    };
    let mut bucket = (0_u64, UNITS as u64 * SECOND);
    let token_bucket = move |now: u64| {
        let full = UNITS as u64 * SECOND;
        bucket = (now, full.min(bucket.1 + (now - bucket.0) * 30));
        let admits = bucket.1 >= SECOND;
        bucket.1 -= if admits { SECOND } else { 0 };
        admits
    };
    Results {
        name: "a burst at the edge".into(),
        seed: 7,
        start_us: None,
        duration_us: DURATION,
        bucket_us: SECOND,
        capacity: Some(Capacity { text: "300/10s".into(), units: UNITS as u64, window_us: WINDOW }),
        groups: vec![
            Group { name: "greedy".into(), clients: 2 },
            Group { name: "steady".into(), clients: 10 },
        ],
        zoom: None,
        cases: vec![
            case("sliding_log", sliding_log),
            case("uniform", uniform),
            case("fixed_window", fixed_window),
            case("token_bucket", token_bucket),
        ],
        findings: vec![
            "fixed_window and token_bucket let more than 300 through in 10 s.".into(),
            "uniform let the least through, and never more than 30 in a second.".into(),
        ],
        live: None,
        complete: true,
    }
}

/// Times and clients of the attempts: steady clients ask twice a second, greedy ones in bursts.
fn traffic() -> Vec<(u64, u32)> {
    let mut attempts = Vec::new();
    let mut random = 7_u64;
    let mut step_us = |mean: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        mean / 2 + (random >> 33) % mean
    };
    for client in 0..12 {
        let mut now = step_us(SECOND);
        while now < DURATION {
            attempts.push((now, client));
            let burst = (7..13).contains(&(now / SECOND)) || (35..48).contains(&(now / SECOND));
            now += step_us(match (client, burst) {
                (0 | 1, true) => SECOND / 60,
                (0 | 1, false) => 3 * SECOND,
                _ => SECOND / 2,
            });
        }
    }
    attempts.sort_unstable();
    attempts
}

#[expect(clippy::too_many_lines, reason = "one value with all its fields")]
fn case(name: &str, mut admits: impl FnMut(u64) -> bool) -> CaseResult {
    let traffic = traffic();
    let mut buckets = vec![Bucket::default(); 60];
    let mut recent: VecDeque<u64> = VecDeque::new();
    let mut groups = vec![
        GroupResult {
            requests: 0,
            attempts: 0,
            admitted: 0,
            never_served: 0,
            longest_wait_us: None
        };
        2
    ];
    let mut raster = Raster {
        clients: (0..12)
            .map(|n| if n < 2 { format!("greedy-{n}") } else { format!("steady-{n}") })
            .collect(),
        column_us: DURATION / 600,
        ..Raster::default()
    };
    let mut cells: BTreeMap<(u32, u32), (bool, bool)> = BTreeMap::new();
    let mut denied = vec![0; raster.clients.len()];
    for &(now, client) in &traffic {
        let was_admitted = admits(now);
        let column = u32::try_from(now / raster.column_us).unwrap();
        let became = cells.entry((client, column)).or_default();
        *became = (became.0 || was_admitted, became.1 || !was_admitted);
        denied[client as usize] += u64::from(!was_admitted);
        while recent.front().is_some_and(|first| first + WINDOW <= now) {
            recent.pop_front();
        }
        let bucket = &mut buckets[usize::try_from(now / SECOND).unwrap()];
        let group = &mut groups[usize::from(client > 1)];
        group.requests += 1;
        group.attempts += 1;
        if was_admitted {
            recent.push_back(now);
            group.admitted += 1;
            bucket.admitted += 1;
        } else {
            group.never_served += 1;
            bucket.denied += 1;
        }
        bucket.occupancy = bucket.occupancy.max(recent.len() as u64);
    }
    raster.cells = cells
        .into_iter()
        .map(|((row, column), (admitted, denied))| Cell {
            row,
            column,
            columns: 1,
            admitted,
            denied,
        })
        .collect();
    let sum = |part: fn(&Bucket) -> u64| buckets.iter().map(part).sum::<u64>();
    let peak = buckets.iter().map(|bucket| bucket.occupancy).max().unwrap();
    let bursts = ["fixed_window", "token_bucket"].contains(&name);
    CaseResult {
        name: name.into(),
        limits: vec![LimitResult {
            limit: format!("300/10s via {name}"),
            strategy: name.into(),
            per: "resource".into(),
            peak,
            promise: if bursts { 600 } else { 300 },
            holds: true,
        }],
        requests: traffic.len() as u64,
        attempts: traffic.len() as u64,
        admitted: sum(|bucket| bucket.admitted),
        denied: sum(|bucket| bucket.denied),
        retries: 0,
        never_served: sum(|bucket| bucket.denied),
        peak: Some(peak),
        used_share: Some(0.973_421_7),
        fairness: Some(0.812_3),
        longest_wait_us: (name != "uniform").then_some(1_234_567),
        burstiness: Some(3.251),
        keys: None,
        bytes: None,
        bytes_per_subject: None,
        live: None,
        queue: None,
        nodes: None,
        backend: None,
        told_wait_us: None,
        most_admitted: None,
        most_denied: denied_of(&raster, &denied),
        groups,
        buckets,
        zoom: Vec::new(),
        raster,
    }
}

/// The denied clients of a raster, with their denials.
fn denied_of(raster: &Raster, denied: &[u64]) -> Vec<Denied> {
    let each = raster.clients.iter().zip(denied);
    let each = each.map(|(client, denied)| Denied {
        client: client.clone(),
        denied: *denied,
        admitted: 0,
        first_us: 1_000_000,
        last_us: 2_000_000,
        longest_wait_us: Some(1_500_000),
    });
    each.filter(|it| it.denied > 0).collect()
}

/// A cell of one column of a raster.
pub(crate) fn cell(row: u32, column: u32, admitted: bool) -> Cell {
    Cell { row, column, columns: 1, admitted, denied: !admitted }
}

/// A case with only these buckets.
pub(crate) fn bare(name: &str, buckets: Vec<Bucket>) -> CaseResult {
    CaseResult {
        name: name.into(),
        limits: Vec::new(),
        requests: 0,
        attempts: 0,
        admitted: 0,
        denied: 0,
        retries: 0,
        never_served: 0,
        peak: None,
        used_share: None,
        fairness: None,
        longest_wait_us: None,
        burstiness: None,
        keys: None,
        bytes: None,
        bytes_per_subject: None,
        live: None,
        queue: None,
        nodes: None,
        backend: None,
        told_wait_us: None,
        most_admitted: None,
        most_denied: Vec::new(),
        groups: Vec::new(),
        buckets,
        zoom: Vec::new(),
        raster: Raster::default(),
    }
}

/// A queue that accepted what this case admitted; each further one is far deeper.
fn queue(case: &CaseResult, place: u64) -> QueueResult {
    let scale = 40_u64.pow(u32::try_from(place).unwrap());
    let buckets = case.buckets.iter().map(|bucket| QueueBucket {
        delivered: bucket.admitted,
        done: bucket.admitted,
        depth: bucket.denied * scale,
        waited_us: bucket.denied * scale * 70_001,
    });
    let buckets: Vec<_> = buckets.collect();
    let depth_max = buckets.iter().map(|bucket| bucket.depth).max().unwrap_or(0);
    let max = buckets.iter().map(|bucket| bucket.waited_us).max().unwrap_or(0);
    QueueResult {
        bound: depth_max.max(1),
        counts: if place == 2 { "all" } else { "waiting" }.into(),
        workers: 3,
        work_us: 33_333,
        rate: (place == 1).then(|| "30/s via uniform".into()),
        accepted: case.admitted,
        refused: case.denied,
        delivered: case.admitted,
        done: case.admitted,
        left: 0,
        steady_from_us: DURATION / 2,
        accepted_per_s: Some(29.966_7),
        refused_per_s: Some(12.5),
        done_per_s: Some(30.0),
        depth_mean: Some(4.251),
        depth_max,
        waited_us: Some(Latency {
            mean: 2.5,
            p50: max / 3,
            p90: max / 2,
            p99: max,
            p99_9: max,
            max,
        }),
        buckets,
    }
}

/// Results that are hard to display, with a name each.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(crate) fn edges() -> Vec<(&'static str, Results)> {
    let fixture = results();
    let mut edges = Vec::new();
    let mut edge = |name, change: &dyn Fn(&mut Results)| {
        let mut results = fixture.clone();
        change(&mut results);
        edges.push((name, results));
    };
    edge("no capacity", &|results| results.capacity = None);
    edge("no cases", &|results| results.cases.clear());
    edge("stopped", &|results| {
        results.cases.truncate(1);
        results.complete = false;
    });
    edge("one bucket", &|results| {
        results.bucket_us = results.duration_us;
        results.cases.iter_mut().for_each(|case| case.buckets.truncate(1));
    });
    edge("nothing happened", &|results| {
        results.groups.clear();
        results.cases = vec![bare("idle", Vec::new()), bare("bored", vec![Bucket::default()])];
    });
    edge("a broken promise", &|results| {
        let limit = &mut results.cases[2].limits[0];
        (limit.peak, limit.holds) = (601, false);
    });
    edge("nobody served", &|results| {
        let cells = results.cases[1].raster.cells.iter_mut().filter(|cell| cell.row < 3);
        cells.for_each(|cell| (cell.admitted, cell.denied) = (false, true));
        results.cases[1].raster.cut = true;
    });
    edge("no time", &|results| (results.duration_us, results.bucket_us) = (0, 0));
    edge("no window", &|results| {
        if let Some(capacity) = &mut results.capacity {
            (capacity.units, capacity.window_us) = (0, 0);
        }
    });
    edge("real time", &|results| {
        results.live = Some(LiveRun::new("redis://127.0.0.1:6379".into(), Some(5_000)));
        let mut us = 90;
        for case in &mut results.cases {
            let latency = Latency {
                mean: 2.5,
                p50: us,
                p90: us * 5,
                p99: us * 10,
                p99_9: us * 40,
                max: us * 50,
            };
            case.live = Some(LiveResult {
                late_us: Some(latency.clone()),
                latency_us: Some(latency),
                failed: 3,
                failure: Some("no answer within 50 ms".into()),
                in_flight: 17,
                missed_edges: 2,
                clock_steps: 0,
                cpu_us: Some(9.87),
                calls: Some(1.0),
                commands: Some(3.25),
                operation_share: Some(0.031),
            });
            us *= 47;
        }
    });
    edge("a queue beside limits", &|results| {
        results.cases[1].queue = Some(queue(&results.cases[1], 0));
    });
    edge("queues", &|results| {
        results.capacity = None;
        for (place, case) in results.cases.iter_mut().enumerate() {
            case.limits.clear();
            case.queue = Some(queue(case, place as u64));
        }
    });
    edge("queues that did nothing", &|results| {
        for case in &mut results.cases {
            case.queue = Some(QueueResult {
                depth_mean: None,
                waited_us: None,
                accepted_per_s: None,
                refused_per_s: None,
                done_per_s: None,
                depth_max: 0,
                buckets: Vec::new(),
                ..queue(case, 0)
            });
        }
    });
    edge("no numbers", &|results| {
        results.cases[0].used_share = Some(f64::NAN);
        results.cases[0].fairness = Some(f64::INFINITY);
    });
    edge("largest numbers", &|results| {
        results.duration_us = u64::MAX;
        results.bucket_us = u64::MAX;
        let most = Bucket { admitted: u64::MAX, denied: u64::MAX, occupancy: u64::MAX };
        results.cases = vec![bare("most", vec![most; 3])];
        let (number, rate) = (u64::MAX, Some(1e19));
        let bucket =
            QueueBucket { delivered: number, done: number, depth: number, waited_us: number };
        results.cases[0].queue = Some(QueueResult {
            bound: number,
            workers: u32::MAX,
            work_us: 1,
            accepted: number,
            depth_max: number,
            depth_mean: rate,
            accepted_per_s: Some(1e15),
            buckets: vec![bucket; 3],
            ..queue(&bare("most", Vec::new()), 0)
        });
        results.cases[0].raster = Raster {
            clients: vec!["c".into()],
            column_us: u64::MAX,
            cells: vec![
                Cell { columns: u32::MAX, ..cell(0, u32::MAX, true) },
                cell(u32::MAX, 0, true),
            ],
            cut: true,
        };
    });
    edge("100,000 buckets", &|results| {
        results.bucket_us = 600;
        for case in &mut results.cases {
            case.buckets = (0..100_000)
                .map(|n| Bucket { admitted: n % 7, denied: n % 11, occupancy: n % 300 })
                .collect();
        }
    });
    edge("200 clients", &|results| {
        for case in &mut results.cases {
            case.raster.clients = (0..200).map(|n| format!("client-{n}")).collect();
            let columns = |row| (0..600).map(move |column| cell(row, column, column % 3 == 0));
            case.raster.cells = (0..200).flat_map(columns).collect();
        }
    });
    edge("30 clients", &|results| {
        for case in &mut results.cases {
            case.raster.clients = (0..30).map(|n| format!("client-{n}")).collect();
        }
    });
    edge("a log", &|results| results.start_us = Some(1_431_857_103_000_000));
    edge("long names", &|results| {
        results.cases[1].name =
            "30/10s, and no more than 5/s, each client by itself, new ones too".into();
        for case in &mut results.cases {
            for (client, name) in case.raster.clients.iter_mut().zip(LONG_NAMES) {
                *client = name.into();
            }
        }
        results.start_us = Some(1_431_857_103_000_000);
    });
    edge("huge names", &|results| {
        let huge = "very_long_name_without_a_break".repeat(40);
        results.name.clone_from(&huge);
        results.groups[0].name.clone_from(&huge);
        results.findings.push(huge.clone());
        results.cases[0].name.clone_from(&huge);
        results.cases[0].raster.clients[0].clone_from(&huge);
        results.cases[1].name = "漢字".repeat(60);
    });
    edge("hostile names", &|results| {
        for (case, name) in results.cases.iter_mut().zip(HOSTILE) {
            case.name = name.into();
            case.limits[0].limit = name.into();
            case.raster.clients[0] = name.into();
            case.queue = Some(QueueResult { rate: Some(name.into()), ..queue(case, 1) });
        }
        results.name = HOSTILE[0].into();
        results.groups[0].name = HOSTILE[1].into();
        results.findings = HOSTILE.map(String::from).to_vec();
        if let Some(capacity) = &mut results.capacity {
            capacity.text = HOSTILE[2].into();
        }
    });
    edges
}

/// Names of clients as in logs.
pub(crate) const LONG_NAMES: [&str; 3] = [
    "2001:0db8:85a3:08d3:1319:8a2e:0370:7344",
    "/files/rubygems615/rubygems-update-1.3.5/pkg/rubygems-update-1.3.5.gem?from=index",
    "/blog/tags/puppet?flav=rss20",
];

/// Malicious names.
pub(crate) const HOSTILE: [&str; 4] = [
    "<script>alert(1)</script>",
    "\"quoted\" 'twice' & more",
    "</script><!--\u{0}\u{1b}[2J\u{ffff}\u{202e}",
    "Zähler für $x^2$ ünd 漢字 🚦",
];
