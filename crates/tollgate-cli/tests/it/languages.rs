//! The programs of `examples/go` and `examples/java`, run unchanged against a service.
//!
//! TOLLGATE_PEER_JEDIS is a class path with Jedis, which nothing here can install.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use tollgate_testbed::Program;

use crate::Place;
use crate::clients::folder;
use crate::serving::{Client, Serving};

/// Names the jars of Jedis.
const JEDIS: &str = "TOLLGATE_PEER_JEDIS";

/// Where Debian's packages of Go sources lie, and the client of Redis among them.
pub(crate) const GO_SOURCES: &str = "/usr/share/gocode";
const REDIGO: &str = "/usr/share/gocode/src/github.com/gomodule/redigo/redis";

/// For where a program's deadline is not what is looked at: a machine that is busy is slow.
const NO_HURRY_MS: &str = "30000";

/// A program of `examples/go`, built; none where there is no Go.
fn go(place: &Place, name: &str) -> Option<Command> {
    let built = place.path().join(name);
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&built).arg(format!("./{name}"));
    build.current_dir(folder("../../examples/go"));
    // The dependencies of a library come from Debian's packages, and from nowhere else.
    build.envs([("GO111MODULE", "off"), ("GOPATH", GO_SOURCES), ("GOFLAGS", "")]);
    build.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"));
    let Ok(output) = build.output() else {
        println!("SKIPPED: go is not installed: apt-get install golang-go");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(Command::new(built))
}

/// Said where there is no compiler of Java.
pub(crate) const NO_JAVAC: &str =
    "SKIPPED: javac is not installed: apt-get install default-jdk-headless";

/// A program of `examples/java`, as its source; `None` without a compiler of Java.
fn java(name: &str, class_path: &str) -> Option<Command> {
    if Command::new("javac").arg("--version").output().is_err() {
        println!("{NO_JAVAC}");
        return None;
    }
    let mut java = Command::new("java");
    // It lives for a second: compiled in haste it is quicker.
    java.args(["-XX:TieredStopAtLevel=1", "-cp", class_path]);
    java.arg(folder("../../examples/java").join(name));
    Some(java)
}

/// The same program with the same arguments.
fn again(command: &Command) -> Command {
    let mut one = Command::new(command.get_program());
    one.args(command.get_args());
    one
}

/// The exit code, stdout and stderr.
fn run(command: &Command, server: (&str, &str), subject: &str) -> (i32, String, String) {
    let output = again(command).arg(subject).env(server.0, server.1).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Whether it was denied, with a wait of this many seconds, less those that the test took.
fn waits(out: &str, seconds: u64) -> bool {
    let wait = out.strip_prefix("denied: retry in ").and_then(|rest| rest.strip_suffix(" s\n"));
    wait.is_some_and(|it| (seconds - 600..=seconds).contains(&it.parse().unwrap()))
}

/// Of three in an hour, two are charged here and one by the program, which then is denied.
fn asks_over_http(program: &Command, admitted: &str) {
    let place = Place::new();
    let serving = Serving::start(&place, &[]);
    let url = format!("http://{}", serving.address());
    let server = ("TOLLGATE_URL", &*url);
    // A character that would end a JSON string early is part of the subject.
    let subject = "user:a\"b\\c";
    let ask = serde_json::json!({ "subject": subject, "limit": "3/h", "cost": 2 }).to_string();
    assert_eq!(serving.client().check(&ask).unwrap()["remaining"], 1);
    assert_eq!(run(program, server, subject), (0, admitted.to_owned(), String::new()));
    let (code, out, err) = run(program, server, subject);
    assert!(waits(&out, 3_600), "{out}{err}");
    assert_eq!(code, 1);
    // A mistake in the question is an error, and not a denial.
    let (code, out, err) = run(program, server, "");
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.starts_with("no answer: ") && err.contains("subject"), "{err}");
    serving.end();
    let (code, out, err) = run(program, server, subject);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.starts_with("no answer: "), "{err}");
}

#[test]
fn go_asks_over_http() {
    let place = Place::new();
    let Some(program) = go(&place, "check") else { return };
    asks_over_http(&program, "admitted: 0 of 3 remain\n");
}

#[test]
fn java_asks_over_http() {
    let Some(program) = java("Check.java", "") else { return };
    asks_over_http(&program, "admitted\n");
}

/// Three concurrently, and the fourth is denied; a client with a wrong password gets no answer.
fn asks_over_resp(program: &Command) {
    const PASSWORD: &str = "a-password-of-many-bytes";
    let place = Place::new();
    let mut command = Serving::command(&place, &["--resp", "127.0.0.1:0"]);
    command.env("TOLLGATE_RESP_PASSWORD", PASSWORD);
    let serving = Serving::start_command(command);
    let url = format!("redis://:{PASSWORD}@{}", serving.line_after("redis      "));
    for left in (0..3).rev() {
        let (code, out, err) = run(program, ("REDIS_URL", &url), "user:42");
        assert_eq!((code, out), (0, format!("admitted: {left} of 3 remain\n")), "{err}");
    }
    let (code, out, err) = run(program, ("REDIS_URL", &url), "user:42");
    assert!(waits(&out, 1_800), "{out}{err}");
    assert_eq!(code, 1);
    let wrong = url.replace(PASSWORD, "another");
    let (code, out, err) = run(program, ("REDIS_URL", &wrong), "user:42");
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("no answer: ") && err.contains("WRONGPASS"), "{err}");
}

#[test]
fn go_asks_over_resp() {
    if !Path::new(REDIGO).exists() {
        println!("SKIPPED: redigo is missing: apt-get install golang-github-gomodule-redigo-dev");
        return;
    }
    let place = Place::new();
    let Some(program) = go(&place, "throttle") else { return };
    asks_over_resp(&program);
}

#[test]
fn java_asks_over_resp() {
    let Ok(jedis) = std::env::var(JEDIS) else {
        println!("WANTED: {JEDIS} names no class path with Jedis");
        return;
    };
    let Some(program) = java("Throttle.java", &jedis) else { return };
    asks_over_resp(&program);
}

/// A web server of the examples; ended with the test.
struct Web {
    _program: Program,
    address: SocketAddr,
}

impl Web {
    /// Starts one that asks the service at this address.
    fn start(command: &Command, service: SocketAddr, envs: &[(&str, &str)]) -> Self {
        let mut command = again(command);
        command.env("TOLLGATE_URL", format!("http://{service}")).envs(envs.iter().copied());
        command.envs([("LISTEN", "127.0.0.1:0"), ("PORT", "0")]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut program = Program::start(&mut command).unwrap();
        let lines = program.lines(|_| true).unwrap();
        let address = lines[0].strip_prefix("listening on ").unwrap();
        Self { _program: program, address: address.parse().unwrap() }
    }

    /// The status, and the seconds of `Retry-After`, on a new connection.
    fn visit(&self, path: &str) -> (u16, Option<u64>) {
        let (status, numbers) = self.numbers(path, ["retry-after"]);
        (status, numbers[0])
    }

    /// The status, and the numbers in these headers.
    fn numbers<const N: usize>(&self, path: &str, names: [&str; N]) -> (u16, [Option<u64>; N]) {
        let (status, headers, _) =
            Client::connect(self.address).unwrap().whole("GET", path, "").unwrap();
        let headers = headers.to_ascii_lowercase();
        let number = |name: &str| {
            let begins = format!("{name}: ");
            let found = headers.lines().find_map(|line| line.strip_prefix(&begins));
            found.map(|number| number.parse().unwrap())
        };
        (status, names.map(number))
    }
}

/// Asks before each request, over one connection; and decides while there is no answer.
fn asks_before_each_request(program: &Command) {
    let place = Place::new();
    let policies = place.path().join("policies.toml");
    let text = "version = 1\n[[policies]]\nname = \"login\"\non_failure = \"deny\"\n\
                when = { path = \"/login\", method = \"GET\" }\n\
                limits = [{ subject = \"ip\", limit = \"2/h\" }]\n";
    std::fs::write(&policies, text).unwrap();
    let serving = Serving::start(&place, &["--config", policies.to_str().unwrap()]);
    let closed = Web::start(program, serving.address(), &[("DEADLINE_MS", NO_HURRY_MS)]);
    for (path, left) in [("/login", Some(1)), ("/", None), ("/login?again=1", Some(0))] {
        let (status, [remaining, wait]) =
            closed.numbers(path, ["x-ratelimit-remaining", "retry-after"]);
        assert_eq!((status, remaining, wait), (200, left, None), "{path}");
    }
    let count = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"];
    assert_eq!(closed.numbers("/", count), (200, [None; 4]), "no limit is about it");
    let (status, [limit, remaining, reset, wait]) = closed.numbers("/login", count);
    assert_eq!((limit, remaining, reset), (Some(2), Some(0), wait));
    assert!(status == 429 && wait.is_some_and(|it| (3_000..=3_600).contains(&it)), "{wait:?}");
    // The service does not judge it: that is not an outage, also for a program that lets requests
    // through then.
    assert_eq!(closed.visit("/%2flogin"), (400, None));
    // It was asked six times, on one connection; the other one asks for this page.
    let (_, metrics) = serving.client().ask("GET", "/metrics", "").unwrap();
    let accepted = "\ntollgate_connections_accepted_total 2\n";
    assert!(metrics.contains(accepted), "{metrics}");

    let open =
        Web::start(program, serving.address(), &[("FAIL", "open"), ("DEADLINE_MS", NO_HURRY_MS)]);
    assert_eq!(open.visit("/login").0, 429);
    assert_eq!(open.visit("/%2flogin"), (400, None));
    serving.end();
    assert_eq!(open.visit("/login"), (200, None));
    assert_eq!(closed.visit("/login"), (503, None));
}

/// A service that accepts and says nothing holds up nobody.
fn has_a_deadline(program: &Command) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let web = Web::start(program, silent.local_addr().unwrap(), &[]);
    assert_eq!(web.visit("/"), (503, None));
    let open = Web::start(program, silent.local_addr().unwrap(), &[("FAIL", "open")]);
    assert_eq!(open.visit("/"), (200, None));
}

#[test]
fn a_web_server_in_go_asks_before_each_request() {
    let place = Place::new();
    let Some(program) = go(&place, "middleware") else { return };
    asks_before_each_request(&program);
    has_a_deadline(&program);
}

#[test]
fn a_web_server_in_java_asks_before_each_request() {
    let Some(program) = java("Middleware.java", "") else { return };
    asks_before_each_request(&program);
    has_a_deadline(&program);
}
