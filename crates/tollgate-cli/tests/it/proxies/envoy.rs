//! Envoy, with `examples/envoy/envoy.yaml` before real pages, and `tollgate serve --grpc` with
//! `examples/envoy/limits.yaml` beside it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tollgate_testbed::Program;

use super::rolling::{self, Replicas};
use super::wire::{Answer, Client, Pages};
use super::{STARTS_WITHIN, example, replaced, started};
use crate::Place;
use crate::serving::Serving;

/// The metric of calls that decide, not of health.
const CALLS: &str = "tollgate_grpc_calls_total{method=\"ShouldRateLimit\"";

const ONE: Client = Client(1);
const TWO: Client = Client(2);

pub(super) fn find() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/tools/envoy/lib")
        .read_dir()
        .ok()
        .and_then(|mut versions| {
            versions.find_map(|version| {
                let path = version.ok()?.path().join("site-packages/envoy/_bin/envoy");
                path.is_file().then_some(path)
            })
        });
    if program.is_none() {
        println!("SKIPPED: envoy is not installed: cargo xtask test installs it");
    }
    program
}

/// Envoy with this configuration, which is written there.
pub(super) fn command(program: &Path, config: &Path, text: &str) -> Command {
    std::fs::write(config, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-c").arg(config);
    command.args(["--concurrency", "1", "--disable-hot-restart", "-l", "warn"]);
    command
}

/// Envoy with this example, before a backend and with a service at its two addresses.
pub(super) fn before(
    program: &Path,
    place: &Place,
    text: &str,
    [backend, http, grpc]: [SocketAddr; 3],
) -> (SocketAddr, Program) {
    started(&place.path().join("envoy.log"), |listen| {
        let port = |port: u16| format!("port_value: {port} ");
        let text = replaced(
            text.to_owned(),
            &[
                ("port_value: 8080 ", &port(listen.port())),
                ("port_value: 3000 ", &port(backend.port())),
                ("port_value: 8081 ", &port(grpc.port())),
            ],
        );
        // Not every example asks over HTTP.
        let text = text.replace("port_value: 8700 ", &port(http.port()));
        command(program, &place.path().join("envoy.yaml"), &text)
    })
}

/// The example with its second replica.
pub(super) fn with_second(file: &str, replicas: &Replicas) -> String {
    let mut text = example(file);
    for (old, new) in [(8700, replicas.address(1)), (8081, replicas.grpc[1])] {
        let line = |address: &str, port: u16| {
            let at = format!("{{ address: {address}, port_value: {port} }}");
            format!("- endpoint: {{ address: {{ socket_address: {at} }} }}")
        };
        let (ours, theirs) = (line("127.0.0.1", old), format!("#{}", line("10.0.0.2", old)));
        assert_eq!(text.contains(&ours), text.contains(&theirs), "{theirs}");
        text = text.replace(&theirs, &line("127.0.0.1", new.port()));
    }
    text
}

/// Pages behind an Envoy that asks the service.
pub(super) struct Setup {
    pub(super) envoy: SocketAddr,
    pages: Pages,
    pub(super) service: Serving,
    rules: PathBuf,
    _envoy: Program,
    _place: Place,
}

impl Setup {
    /// None when Envoy is not installed; that has been said then.
    fn start(switches: &[(&str, &str)]) -> Option<Self> {
        Self::of("envoy/envoy.yaml", switches, None)
    }

    /// The same by another example, and before this backend if there is one.
    pub(super) fn of(
        file: &str,
        switches: &[(&str, &str)],
        backend: Option<SocketAddr>,
    ) -> Option<Self> {
        let program = find()?;
        let place = Place::new();
        let rules = place.path().join("limits.yaml");
        std::fs::write(&rules, example("envoy/limits.yaml")).unwrap();
        let path = rules.display().to_string();
        let args = ["--store", "memory://", "--grpc", "127.0.0.1:0", "--envoy-config", &path];
        let ids = ["--request-id-header", "X-Request-Id", "--headers", "draft"];
        let service = Serving::start(&place, &[&args[..], &ids].concat());
        let grpc: SocketAddr = service.line_after("grpc       ").parse().unwrap();
        let pages = Pages::open();
        let backend = backend.unwrap_or(pages.address);
        let text = replaced(example(file), switches);
        let (envoy, running) = before(&program, &place, &text, [backend, service.address(), grpc]);
        Some(Self { envoy, pages, service, rules, _envoy: running, _place: place })
    }

    fn ask(&self, client: Client, request: &str) -> Answer {
        client.ask(self.envoy, request)
    }

    /// The statuses of this many requests, one after the other.
    fn statuses(&self, client: Client, request: &str, times: usize) -> Vec<u16> {
        (0..times).map(|_| self.ask(client, request).status).collect()
    }
}

#[test]
fn envoy_limits_by_header_path_and_address() {
    let Some(setup) = Setup::start(&[]) else { return };
    let header = |user: &str| format!("GET /user\nx-user: {user}");
    assert_eq!(setup.statuses(ONE, &header("ann"), 4), [200, 200, 200, 429]);
    assert_eq!(setup.statuses(TWO, &header("ann"), 1), [429], "the header counts, not the address");
    assert_eq!(setup.statuses(ONE, &header("bob"), 1), [200]);
    assert_eq!(setup.statuses(ONE, &header("vip"), 9), [200; 9]);
    assert_eq!(setup.statuses(ONE, "GET /user", 9), [200; 9], "without a header, no descriptor");
    assert_eq!(setup.statuses(ONE, "GET /files/a", 3), [200, 200, 429]);
    assert_eq!(setup.statuses(ONE, "GET /files/b", 3), [200, 200, 429], "each path by itself");
    assert_eq!(setup.statuses(ONE, "GET /", 6), [200, 200, 200, 200, 200, 429]);
    assert_eq!(setup.statuses(TWO, "GET /", 1), [200]);
    // A denied request did not come to the pages.
    assert_eq!(setup.pages.visits(), 3 + 1 + 9 + 9 + 2 + 2 + 5 + 1);
}

#[test]
fn envoy_passes_on_headers_and_the_body_of_a_denial() {
    let Some(setup) = Setup::start(&[]) else { return };
    let header = "GET /user\nx-user: ann";
    let answer = setup.ask(ONE, header);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain")));
    assert!(answer.body.starts_with("the page"), "{answer:?}");
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""shop.user";q=3;w=86400"#));
    let told = answer.header("ratelimit").unwrap();
    assert!(told.starts_with(r#""shop.user";r=2;t="#), "{told}");
    assert_eq!(answer.header("retry-after"), None);
    // Envoy's own, of `current_limit`, `limit_remaining` and `duration_until_reset`.
    assert_eq!(answer.header("x-ratelimit-limit"), Some("3, 3;w=86400"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("2"));
    assert!(answer.header("x-ratelimit-reset").unwrap().parse::<u32>().unwrap() <= 86_400);
    setup.statuses(ONE, header, 2);
    let answer = setup.ask(ONE, header);
    assert_eq!((answer.status, answer.header("content-type")), (429, Some("text/plain")));
    let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(answer.body, format!("Too many requests. Ask again in {wait} s.\n"));
    let reset: u32 = answer.header("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!(wait.abs_diff(reset) <= 1, "{wait} {reset}");
    assert_eq!(answer.header("x-envoy-ratelimited"), Some("true"));
    // A client of gRPC reads the same sentence.
    let answer = setup.ask(ONE, &format!("{header}\ncontent-type: application/grpc"));
    assert_eq!((answer.status, answer.header("grpc-status")), (200, Some("14")));
    let message = answer.header("grpc-message").unwrap();
    assert!(message.starts_with("Too many requests. Ask again in "), "{message}");
    assert_eq!(answer.header("content-type"), Some("application/grpc"));
}

#[test]
fn envoy_sends_limits_hits_and_what_is_charged_at_the_end() {
    let Some(setup) = Setup::start(&[]) else { return };
    assert_eq!(setup.statuses(ONE, "GET /trial", 3), [200, 200, 429], "the route's own limit");
    assert_eq!(setup.statuses(ONE, "GET /report", 3), [200, 200, 429], "three at once, of seven");
    assert_eq!(setup.statuses(ONE, "GET /shadow", 3), [200, 200, 200]);
    // Three are charged after each response, of four: the second time more than remains.
    let mut admitted = 0;
    let began = Instant::now();
    while setup.ask(ONE, "GET /tokens").status == 200 {
        admitted += 1;
        assert!(began.elapsed() < STARTS_WITHIN, "it is never denied");
        // The charge comes after the response.
        thread::sleep(Duration::from_millis(100)); // tidy: sleep-ok a client's pace
    }
    assert_eq!(admitted, 2);
}

/// Two of three hits come back after each response, of four.
#[test]
fn envoy_gives_hits_back() {
    let Some(setup) = Setup::start(&[]) else { return };
    let question =
        r#"{"subject": "envoy:shop|generic_key=upload", "limit": "4/d via fixed_window"}"#;
    let mut client = setup.service.client();
    for remaining in [3, 2] {
        assert_eq!(setup.ask(ONE, "GET /upload").status, 200, "before {remaining} remain");
        let began = Instant::now();
        loop {
            let (_, said) = client.ask("POST", "/v1/peek", question).unwrap();
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            if said["remaining"] == remaining {
                break;
            }
            assert!(began.elapsed() < STARTS_WITHIN, "nothing comes back: {said}");
            thread::yield_now();
        }
    }
    assert_eq!(setup.ask(ONE, "GET /upload").status, 429);
}

#[test]
fn envoy_meets_new_rules_and_not_broken_ones() {
    let Some(setup) = Setup::start(&[]) else { return };
    let header = "GET /user\nx-user: ann";
    assert_eq!(setup.statuses(ONE, header, 4), [200, 200, 200, 429]);
    let old = std::fs::read_to_string(&setup.rules).unwrap();
    std::fs::write(&setup.rules, old.replace("requests_per_unit: 3", "requests_per_unit: 300"))
        .unwrap();
    setup.service.signal(Signal::HUP);
    let began = Instant::now();
    while setup.ask(ONE, header).status != 200 {
        assert!(began.elapsed() < STARTS_WITHIN, "the new rules are not in force");
    }
    std::fs::write(&setup.rules, old.replace("requests_per_unit: 3", "requests_per_hour: 3"))
        .unwrap();
    setup.service.signal(Signal::HUP);
    assert_eq!(setup.statuses(ONE, header, 9), [200; 9]);
    let log = setup.service.end();
    assert!(log.contains("Envoy's rules replaced: 8 in number"), "{log}");
}

/// Both of Envoy's ways, when nobody answers it in time.
#[test]
fn envoy_decides_when_nobody_answers() {
    for (mode, status) in [("false", 200), ("true", 500)] {
        let mode = format!("failure_mode_deny: {mode}");
        let Some(setup) = Setup::start(&[("failure_mode_deny: false", &mode)]) else { return };
        assert_eq!(setup.statuses(ONE, "GET /", 1), [200]);
        setup.service.program.freeze().unwrap();
        assert_eq!(setup.statuses(ONE, "GET /", 2), [status; 2], "{mode}");
        setup.service.program.thaw().unwrap();
        let began = Instant::now();
        while setup.ask(TWO, "GET /").header("x-ratelimit-remaining").is_none() {
            assert!(began.elapsed() < STARTS_WITHIN, "it does not come back");
        }
    }
}

/// With `--linger`, in which Envoy sees that a replica ends.
#[test]
fn a_rolling_restart_of_two_replicas_fails_nobody() {
    let Some(program) = find() else { return };
    let place = Place::new();
    let rules = place.path().join("limits.yaml");
    // For all together, and what is denied comes from a replica, since nobody else denies here.
    let rate = format!("unit: second, requests_per_unit: {}", rolling::RATE);
    let old = "value: /files/*\n    rate_limit: { unit: day, requests_per_unit: 2";
    let new = format!("value: /files/*\n    rate_limit: {{ {rate}");
    std::fs::write(&rules, replaced(example("envoy/limits.yaml"), &[(old, &new)])).unwrap();
    let flags = ["--linger", "2s", "--envoy-config", rules.to_str().unwrap()];
    let Some(mut replicas) = Replicas::start("", &flags) else { return };
    let pages = Pages::open();
    // So that a question without an answer is seen, and one that is answered late is not.
    let closed = [
        ("failure_mode_deny: false", "failure_mode_deny: true"),
        ("timeout: 0.1s", "timeout: 10s"),
    ];
    let text = replaced(with_second("envoy/envoy.yaml", &replicas), &closed);
    let at = [pages.address, replicas.address(0), replicas.grpc[0]];
    let (envoy, _running) = before(&program, &replicas.place, &text, at);
    let began = Instant::now();
    let answers = rolling::under_load(
        |connection| rolling::kept(connection, envoy, ("GET", "/files/a")),
        |meanwhile| replicas.roll(meanwhile, CALLS),
    );
    // A window of a second has begun before, and one ends after.
    let most = rolling::RATE * (began.elapsed().as_secs() + 2);
    let admitted = rolling::only_admitted_and_denied(&answers);
    assert!(admitted <= most, "{admitted} of {most}");
    assert_eq!(admitted, pages.visits() as u64);
}

/// Once Envoy knows of it, a silent replica is not asked.
#[test]
fn a_silent_replica_is_left_out() {
    let Some(program) = find() else { return };
    let place = Place::new();
    let rules = place.path().join("limits.yaml");
    std::fs::write(&rules, example("envoy/limits.yaml")).unwrap();
    let flags = ["--envoy-config", rules.to_str().unwrap(), "--headers", "draft"];
    let Some(replicas) = Replicas::start("", &flags) else { return };
    let pages = Pages::open();
    let text = with_second("envoy/envoy.yaml", &replicas);
    let at = [pages.address, replicas.address(0), replicas.grpc[0]];
    let (envoy, _running) = before(&program, &replicas.place, &text, at);
    replicas.running[1].program.freeze().unwrap();
    // Open without an answer, so what is counted has a header.
    let is_counted =
        || ONE.ask(envoy, "GET /user\nx-user: ann").header("x-ratelimit-remaining").is_some();
    let began = Instant::now();
    while !(0..6).all(|_| is_counted()) {
        assert!(began.elapsed() < STARTS_WITHIN, "it is asked all the time");
    }
    replicas.running[1].program.thaw().unwrap();
}

/// After an internal redirect Envoy runs its filters again.
#[test]
fn what_envoy_asks_twice_is_charged_once_under_its_id() {
    let route = "# By the address of the client.
                        - match: { prefix: / }
                          route:";
    let redirects = format!(
        "{route}
                            internal_redirect_policy:
                              {{ max_internal_redirects: 1, redirect_response_codes: [302] }}"
    );
    let redirects = (route, &*redirects);
    let Some(setup) = Setup::start(&[redirects]) else { return };
    assert_eq!(setup.statuses(ONE, "GET /status/302", 6), [200, 200, 200, 200, 200, 429]);
    assert_eq!(setup.pages.visits(), 2 * 5);
    // A client chooses no id.
    let chosen = "GET /\nx-request-id: mine\ntollgate-request-id: mine";
    assert_eq!(setup.statuses(TWO, chosen, 6), [200, 200, 200, 200, 200, 429]);
    // Without the descriptor both are charged.
    let without = ("descriptor_key: tollgate-request-id", "descriptor_key: other");
    let Some(setup) = Setup::start(&[redirects, without]) else { return };
    assert_eq!(setup.statuses(ONE, "GET /status/302", 3), [200, 200, 429]);
}
