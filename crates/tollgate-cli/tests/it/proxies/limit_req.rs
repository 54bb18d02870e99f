//! nginx's own `limit_req` beside the service behind the same nginx: the statements of the page
//! about both.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use super::nginx::Nginx;
use super::slots::{answer, read};
use super::wire::Client;
use super::{Plan, Setup, nginx_slots, replaced};
use crate::page::{block, rows};

const PAGE: &str = include_str!("../../../../../docs/coming-from-nginx.md");

/// The limit that the page's policy has.
const LIMIT: &str = "5/m burst 5 via gcra";

/// How far a clock of whole milliseconds may be off, at both ends.
const SLACK: Duration = Duration::from_millis(2);

const LOGIN: &str = "GET /login";

/// nginx with these directives where the example asks the service.
fn theirs(zones: &str, limits: &str) -> Option<Setup> {
    let zones = format!("{zones} upstream tollgate {{");
    Setup::changed::<Nginx>(&[
        ("upstream tollgate {", &zones),
        ("auth_request /_tollgate;", limits),
    ])
}

/// The example with the service, under these policies.
fn ours(policies: &str) -> Option<Setup> {
    Setup::planned::<Nginx>(&Plan { policies, ..Plan::default() })
}

/// The page's policy with another limit.
fn policy(limit: &str) -> String {
    replaced(block(PAGE, "toml", 0).to_owned(), &[(LIMIT, limit)])
}

/// The lines of the page's configuration that begin so.
fn directive(begin: &str) -> &'static str {
    let mut lines = block(PAGE, "nginx", 0).lines().map(str::trim);
    lines.find(|line| line.starts_with(begin)).unwrap()
}

/// The time of one request at a rate of nginx.
fn interval(rate: &str) -> Duration {
    let (number, unit) = rate.split_once("r/").unwrap();
    let seconds = if unit == "m" { 60 } else { 1 };
    Duration::from_secs(seconds) / number.parse::<u32>().unwrap()
}

/// Asks past the burst, and at a fast rate until three more were admitted: each answer must be that
/// of the limit at that moment. How many were admitted.
fn as_the_limit_says(setup: &Setup, interval: Duration, at_once: u32) -> u32 {
    let start = Instant::now();
    let tolerance = interval * (at_once - 1);
    // When the next request would find everything free again: at the earliest, at the latest.
    let mut free_at = (Duration::ZERO, Duration::ZERO);
    let (mut asked, mut admitted) = (0, 0);
    let is_fast = interval < Duration::from_millis(200);
    while asked < at_once + 5 || (is_fast && admitted < at_once + 3) {
        let sent = start.elapsed();
        let answer = setup.ask(Client(1), LOGIN);
        let answered = start.elapsed();
        asked += 1;
        if answer.status == 200 {
            let wait = free_at.0.saturating_sub(answered);
            assert!(wait <= tolerance + SLACK, "{admitted} were admitted, then one too early");
            free_at = (free_at.0.max(sent) + interval, free_at.1.max(answered) + interval);
            admitted += 1;
        } else {
            assert_eq!(answer.status, 429, "{answer:?}");
            let wait = free_at.1.saturating_sub(sent);
            assert!(wait + SLACK > tolerance, "{admitted} were admitted, and one too few");
        }
    }
    admitted
}

#[test]
fn each_row_of_the_page_admits_the_same_on_both_sides() {
    let rows: Vec<_> = rows(PAGE).filter(|row| row[0].contains("r/")).collect();
    let rows: Vec<_> = rows.iter().filter(|row| row.len() == 4).collect();
    assert_eq!(rows.len(), 7);
    assert!(directive("limit_req_zone").contains(&format!("rate={};", rows[0][0])));
    assert!(directive("limit_req zone").contains(&rows[0][1]));
    assert_eq!(rows[0][2], LIMIT);
    for row in rows {
        let [rate, arguments, limit, at_once] = &row[..] else { panic!("{row:?}") };
        let zone = format!("limit_req_zone $binary_remote_addr zone=login:10m rate={rate};");
        let limits = format!("limit_req zone=login {arguments}; limit_req_status 429;");
        let Some(theirs) = theirs(&zone, &limits) else { return };
        let ours = ours(&policy(limit)).unwrap();
        let (interval, at_once) = (interval(rate), at_once.parse().unwrap());
        for setup in [&theirs, &ours] {
            let admitted = as_the_limit_says(setup, interval, at_once);
            assert!(admitted >= at_once, "{row:?}: {admitted}");
        }
        let [theirs, ours] = beside_each_other(&theirs, &ours, interval);
        println!("{row:?}: nginx {theirs}, Tollgate {ours}");
        assert!(ours.abs_diff(theirs) <= 1 + theirs / 50, "{row:?}: {theirs}, {ours}");
        assert!(theirs >= at_once, "{row:?}: {theirs}");
    }
}

/// Asks both at the same moments, more often than any limit admits: how many each admitted. In the
/// time of four intervals a rate that is half as fast again admits two more. That is too long for a
/// rate by the minute, of which the burst is compared.
fn beside_each_other(theirs: &Setup, ours: &Setup, interval: Duration) -> [u32; 2] {
    const EACH: Duration = Duration::from_millis(10);
    let time = (interval * 9 / 2).clamp(EACH * 50, EACH * 230);
    let times = u32::try_from(time.as_millis() / EACH.as_millis()).unwrap();
    let start = Instant::now() + EACH;
    let ask = |setup: &Setup| {
        (0..times).fold(0, |admitted, number| {
            let wait = (start + EACH * number).saturating_duration_since(Instant::now());
            thread::sleep(wait); // tidy: sleep-ok nginx counts in the time of this machine
            admitted + u32::from(setup.ask(Client(2), LOGIN).status == 200)
        })
    };
    thread::scope(|scope| {
        let both = [theirs, ours].map(|setup| scope.spawn(move || ask(setup)));
        both.map(|asked| asked.join().unwrap())
    })
}

/// The slots of a policy beside `limit_conn`.
#[test]
fn each_limit_of_concurrent_requests_serves_the_same_on_both_sides() {
    let rows: Vec<_> = rows(PAGE).filter(|row| row[0].starts_with("each ")).collect();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let [zone, limit, at_once] = &row[..] else { panic!("{row:?}") };
        let at_once: usize = at_once.parse().unwrap();
        let conn = block(PAGE, "nginx", 1);
        let line =
            |begin| conn.lines().map(str::trim).find(|line| line.starts_with(begin)).unwrap();
        let zones = format!("{} upstream tollgate {{", line("limit_conn_zone"));
        let limits = format!("limit_conn {zone}; {}", line("limit_conn_status"));
        assert!(conn.contains("limit_conn each 3;"));
        let backend = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = [("upstream tollgate {", &*zones), ("auth_request /_tollgate;", &limits)];
        let plan = Plan {
            switches: &theirs,
            backend: Some(backend.local_addr().unwrap()),
            ..Plan::default()
        };
        let Some(setup) = Setup::planned::<Nginx>(&plan) else { return };
        assert_eq!(at_once, served_at_once(&setup, &backend), "nginx, {row:?}");
        let Some((setup, backend)) = nginx_slots::by_address(limit) else { return };
        assert_eq!(at_once, served_at_once(&setup, &backend), "Tollgate, {row:?}");
    }
}

/// How many of thirty requests are served at the same time, twice: what has ended makes room.
fn served_at_once(setup: &Setup, backend: &TcpListener) -> usize {
    const REQUESTS: usize = 30;
    let rounds = [(); 2].map(|()| {
        thread::scope(|scope| {
            let ask = || setup.ask(Client(1), "GET /").status;
            let asked: Vec<_> = (0..REQUESTS).map(|_| scope.spawn(ask)).collect();
            backend.set_nonblocking(true).unwrap();
            let mut work = Vec::new();
            // Those beyond the limit have their answer, and the others are at work.
            while asked.iter().filter(|asked| asked.is_finished()).count() + work.len() < REQUESTS {
                work.extend(backend.accept().ok());
                thread::yield_now();
            }
            let served = work.len();
            for (work, _) in work {
                work.set_nonblocking(false).unwrap();
                answer(read(work));
            }
            let statuses: Vec<u16> = asked.into_iter().map(|asked| asked.join().unwrap()).collect();
            let count = |status| statuses.iter().filter(|known| **known == status).count();
            assert_eq!((count(200), count(429)), (served, REQUESTS - served), "{statuses:?}");
            // nginx gives back what it took after its answer.
            thread::sleep(Duration::from_millis(100)); // tidy: sleep-ok nginx shows no counts
            served
        })
    });
    assert_eq!(rounds[0], rounds[1]);
    rounds[0]
}

/// nginx counts an internal redirect once without ids: it remembers the limit with the request.
#[test]
fn a_redirect_within_nginx_is_one_request_to_limit_req() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), "the index").unwrap();
    let limit = format!("limit_req zone=login burst=3 nodelay; root {};", folder.path().display());
    let zone = "limit_req_zone $binary_remote_addr zone=login:10m rate=1r/m; upstream tollgate {";
    let switches = [
        ("upstream tollgate {", zone),
        ("auth_request /_tollgate;", &*limit),
        ("proxy_pass http://127.0.0.1:3000;", "index index.html; # http://127.0.0.1:3000;"),
    ];
    let Some(setup) = Setup::changed::<Nginx>(&switches) else { return };
    assert_eq!(setup.admitted(Client(1), &["GET /"]), 4);
}

#[test]
fn a_denial_has_the_status_and_the_headers_of_the_page() {
    let (zone, limit) = (directive("limit_req_zone"), directive("limit_req zone"));
    let Some(default) = theirs(zone, limit) else { return };
    let with_status = theirs(zone, &format!("{limit} limit_req_status 429;")).unwrap();
    let ours = ours(block(PAGE, "toml", 0)).unwrap();
    for (setup, status, is_ours) in
        [(default, 503, false), (with_status, 429, false), (ours, 429, true)]
    {
        for _ in 0..5 {
            let answer = setup.ask(Client(1), LOGIN);
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.header("ratelimit").is_some(), is_ours, "{answer:?}");
        }
        let answer = setup.ask(Client(1), LOGIN);
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.header("ratelimit").is_some(), is_ours, "{answer:?}");
        let wait = answer.header("retry-after").map(|text| text.parse::<u32>().unwrap());
        assert_eq!(wait.is_some(), is_ours, "{answer:?}");
        assert!(wait.is_none_or(|wait| (1..=12).contains(&wait)), "{answer:?}");
    }
}

/// Five for each client and ten for all: a request that the one denies is not counted by the other.
#[test]
fn a_request_that_one_limit_denies_charges_none_on_both_sides() {
    let zones = "limit_req_zone $server_name$uri zone=all:10m rate=1r/m; \
                 limit_req_zone $binary_remote_addr zone=each:10m rate=1r/m;";
    let (all, each) =
        ("limit_req zone=all burst=9 nodelay;", "limit_req zone=each burst=4 nodelay;");
    let both = "limits = [{ subject = \"host\", limit = \"1/m burst 10 via gcra\" }, \
                { subject = \"ip\", limit = \"1/m burst 5 via gcra\" }]";
    let policy = block(PAGE, "toml", 0);
    let line = policy.lines().find(|line| line.starts_with("limits = ")).unwrap();
    let Some(all_first) = theirs(zones, &format!("{all} {each}")) else { return };
    let each_first = theirs(zones, &format!("{each} {all}")).unwrap();
    let ours = ours(&policy.replace(line, both)).unwrap();
    for setup in [all_first, each_first, ours] {
        let admitted = [1, 2, 3].map(|client| {
            let asked = (0..8).map(|_| setup.ask(Client(client), LOGIN).status);
            asked.filter(|status| *status == 200).count()
        });
        assert_eq!(admitted, [5, 5, 0]);
    }
}

#[test]
fn without_nodelay_nginx_holds_a_request_and_the_service_answers_at_once() {
    let zone = "limit_req_zone $binary_remote_addr zone=login:10m rate=10r/s;";
    let Some(theirs) = theirs(zone, "limit_req zone=login burst=1;") else { return };
    let ours = ours(&policy("1/h via uniform")).unwrap();
    let start = Instant::now();
    assert_eq!([1, 2].map(|_| theirs.ask(Client(1), LOGIN).status), [200, 200]);
    assert!(start.elapsed() + SLACK >= Duration::from_millis(100));
    assert_eq!([1, 2].map(|_| ours.ask(Client(1), LOGIN).status), [200, 429]);
}

#[test]
fn a_dry_run_and_a_shadow_deny_nobody() {
    let (zone, limit) = (directive("limit_req_zone"), directive("limit_req zone"));
    let Some(theirs) = theirs(zone, &format!("{limit} limit_req_dry_run on;")) else { return };
    let shadow = policy(LIMIT).replace("on_failure", "shadow = true\non_failure");
    let ours = ours(&shadow).unwrap();
    for setup in [theirs, ours] {
        assert_eq!(setup.admitted(Client(1), &[LOGIN]), 10);
    }
}
