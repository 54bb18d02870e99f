//! `serve`: the program as people start, ask, signal and kill it.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tollgate_testbed::Program;

use crate::Place;
use crate::redis;

/// The time after which a test hangs, on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A running service; killed with the test.
pub(crate) struct Serving {
    pub(crate) program: Program,
    /// Its output before it served.
    said: Vec<String>,
    pub(crate) address: SocketAddr,
}

impl Serving {
    pub(crate) fn start(place: &Place, args: &[&str]) -> Self {
        Self::start_command(Self::command(place, args))
    }

    /// On a free port, unless the arguments give one.
    pub(crate) fn command(place: &Place, args: &[&str]) -> Command {
        let mut all = vec!["serve"];
        for option in ["--admin", "--listen"] {
            if !args.contains(&option) {
                all.extend([option, "127.0.0.1:0"]);
            }
        }
        all.extend(args);
        let mut command = place.std(&all);
        for name in ["TOLLGATE_STORE", "TOLLGATE_TIMESERIES", "OTEL_EXPORTER_OTLP_ENDPOINT"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn start_command(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Program::start(&mut command).unwrap();
        let is_last = |line: &str| line.ends_with('/');
        let said = program.lines(is_last).unwrap();
        if !said.last().is_some_and(|line| is_last(line)) {
            let mut error = String::new();
            program.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            panic!("it ended: {said:?} {error}");
        }
        let (scheme, first) = said[0].split_once("://").unwrap();
        assert!(["listening  http", "listening  https"].contains(&scheme), "{said:?}");
        let address = first.split(',').next().unwrap().parse().unwrap();
        Self { program, said, address }
    }

    /// The rest of the line that it printed and that begins so.
    pub(crate) fn line_after(&self, begin: &str) -> &str {
        let line = self.said.iter().find_map(|line| line.strip_prefix(begin));
        line.unwrap_or_else(|| panic!("no {begin}: {:?}", self.said))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.program.signal(signal).unwrap();
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to end, which it does well, and returns its log.
    pub(crate) fn end(self) -> String {
        self.terminate();
        let (code, log) = self.ended();
        assert_eq!(code, 0, "{log}");
        log
    }

    /// The exit code, and its log.
    pub(crate) fn ended(mut self) -> (i32, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.program.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < LONG, "it does not end");
            thread::yield_now();
        };
        let mut log = String::new();
        self.program.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (status.code().unwrap_or(-1), log)
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address).unwrap()
    }

    /// One of administrators.
    pub(crate) fn admin(&self) -> Client {
        Client::connect(self.admin_address().parse().unwrap()).unwrap()
    }

    pub(crate) fn admin_address(&self) -> String {
        let address = self.said.iter().find_map(|line| line.strip_prefix("admin      http://"));
        address.unwrap().to_owned()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.program.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
    }
}

/// One connection, kept alive.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LONG))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// The status and the body; an error when the connection ended before the whole of it came.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> io::Result<(u16, String)> {
        self.whole(method, path, body).map(|(status, _, body)| (status, body))
    }

    /// The same with the headers between.
    pub(crate) fn whole(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> io::Result<(u16, String, String)> {
        self.whole_with("", method, path, body)
    }

    /// The same with headers of one's own, each with its end.
    pub(crate) fn whole_with(
        &mut self,
        headers: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> io::Result<(u16, String, String)> {
        let stream = self.0.get_mut();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(text.as_bytes())?;
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(ended)?;
        let (mut length, mut headers) = (0, String::new());
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err(ended());
            }
            // Servers of other languages write it with capitals.
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            headers.push_str(&line);
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((status, headers, String::from_utf8(body).unwrap()))
    }

    pub(crate) fn check(&mut self, body: &str) -> io::Result<Value> {
        let (_, said) = self.ask("POST", "/v1/check", body)?;
        Ok(serde_json::from_str(&said).unwrap())
    }
}

#[test]
fn without_arguments_it_answers_the_lines_that_it_prints_and_ends_by_ctrl_c() {
    let place = Place::new();
    let serving = Serving::start(&place, &[]);
    let printed = serving.said.join("\n");
    assert!(printed.contains("store      memory"), "{printed}");
    assert!(printed.contains("10 requests in 10 s for each address"), "{printed}");
    let lines: Vec<&String> = serving.said.iter().filter(|line| line.contains("curl")).collect();
    assert_eq!(lines.len(), 4, "{printed}");
    let console = format!("http://{}/console", serving.admin_address());
    assert_eq!(serving.line_after("console    "), console);
    assert!(serving.admin().ask("GET", "/console", "").unwrap().1.starts_with("<!DOCTYPE html>"));
    for (line, says) in
        lines.iter().zip(["\"remaining\":2", "\"policy\":\"demo\"", "\"demo\";r=9;", "/v1/check"])
    {
        let output = Command::new("sh").args(["-c", line]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.contains(says), "{line}: {said}");
    }
    serving.signal(Signal::INT);
    let (code, log) = serving.ended();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("SIGINT: ending") && log.contains("ended in"), "{log}");
    assert!(!log.contains("WARN"), "{log}");
}

#[test]
fn the_console_is_named_where_a_browser_can_open_it() {
    let place = Place::new();
    let socket = format!("unix:{}", place.path().join("admin.sock").display());
    for admin in ["off", &socket] {
        let serving = Serving::start(&place, &["--admin", admin]);
        assert_eq!(serving.line_after("admin      "), admin);
        let printed = serving.said.join("\n");
        assert!(!printed.contains("console"), "{printed}");
        serving.end();
    }
}

#[test]
fn wrong_arguments_say_what_would_be_right() {
    let place = Place::new();
    for (args, says) in [
        (&["--listen", "localhost"][..], "the port is missing"),
        (&["--admin", "0.0.0.0:0"], "TOLLGATE_ADMIN_TOKEN"),
        (&["--config", "/nowhere.toml"], "/nowhere.toml"),
        (&["--store", "postgres://x"], "unknown kind of store"),
        (&["--store", "memory://x"], "write `memory://` with nothing behind it"),
        (&["--store", "redis://127.0.0.1:x"], "the port is a number"),
        (&["--store-wait", "soon"], "--store-wait"),
        (&["--trust", "10.0.0.0/99"], "10.0.0.0/99"),
        (&["--client-header", "x forwarded"], "x forwarded"),
        (&["--user-header", "a b"], "a b"),
        (&["--request-id-header", "a b"], "a b"),
        (&["--request-id-header", "Idempotency-Key"], "clients choose"),
        (&["--request-id-header", "x-id", "--request-id-for", "25h"], "1ms to 24h"),
        (&["--tls-cert", "/nowhere.pem"], "--tls-key"),
        (&["--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.key"], "/nowhere.pem"),
        (&["--tls-client-ca", "/nowhere.pem"], "--tls-cert"),
        (&["--idle-timeout", "1parsec"], "1parsec"),
        (&["--max-connections", "0"], "1..=1000000"),
        (&["--log", "xml"], "xml"),
        (&["--otlp", "http://user:secret@127.0.0.1:4318"], "OTEL_EXPORTER_OTLP_HEADERS"),
        (&["--otlp", "127.0.0.1:4318"], "http://127.0.0.1:4318"),
        (&["--otlp", "grpc://127.0.0.1:4317"], "neither http nor https"),
        (&["--otlp", "http://a/v1/traces"], "leave /v1/traces out"),
        (&["--timeseries", "memory://"], "memory keeps no time series"),
        (&["--timeseries", "sqlite:///x"], "sqlite keeps no time series"),
        (&["--timeseries", "127.0.0.1:6379"], "e.g. `redis://127.0.0.1:6379`"),
        (&["--timeseries", "redis://127.0.0.1:0"], "--timeseries"),
        (&["--timeseries", "redis://127.0.0.1", "--timeseries-retention", "ever"], "ever"),
    ] {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0", "--admin", "off"];
        // The last value of an option that may be given only once counts.
        if args.contains(&"--listen") || args.contains(&"--admin") {
            all.truncate(1);
        }
        all.extend(args);
        let (code, out, error) = place.run(&all);
        assert_eq!(code, 2, "{args:?}: {out} {error}");
        assert!(error.contains(says), "{args:?}: {error}");
    }
    let mut command = place.std(&["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let output = command.env("TOLLGATE_ADMIN_TOKEN", "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("TOLLGATE_ADMIN_TOKEN is set and empty"), "{error}");
}

#[test]
fn a_changed_file_is_taken_while_it_serves() {
    let place = Place::new();
    let path = place.path().join("policies.toml");
    let file = |limit: &str| {
        format!(
            "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"deny\"\n\
             limits = [{{ subject = \"ip\", limit = \"{limit}\" }}]\n"
        )
    };
    std::fs::write(&path, file("2/h")).unwrap();
    let serving = Serving::start(&place, &["--config", path.to_str().unwrap()]);
    let mut client = serving.client();
    let ask = r#"{"policy": "p", "fields": {"ip": "192.0.2.7"}}"#;
    assert_eq!(client.check(ask).unwrap()["remaining"], 1);
    std::fs::write(&path, file("9/h")).unwrap();
    let start = Instant::now();
    let peek = |client: &mut Client| client.ask("POST", "/v1/peek", ask).unwrap().1;
    while !peek(&mut client).contains("\"remaining\":8") {
        assert!(start.elapsed() < LONG, "{}", peek(&mut client));
    }
    // Another strategy is another count.
    std::fs::write(&path, file("9/h via gcra")).unwrap();
    while !peek(&mut client).contains("\"remaining\":9") {
        assert!(start.elapsed() < LONG, "{}", peek(&mut client));
    }
    // A broken file changes nothing; SIGHUP reads it and reports the error.
    std::fs::write(&path, file("9/parsec")).unwrap();
    serving.signal(Signal::HUP);
    assert!(peek(&mut client).contains("\"remaining\":9"));
    serving.signal(Signal::TERM);
    let (code, log) = serving.ended();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("policies replaced: revision 2-"), "{log}");
    assert_eq!(log.matches("the counts of `ip` begin anew").count(), 1, "{log}");
}

/// Fields that only questions bring are no mistake.
#[test]
fn an_example_starts_without_a_warning() {
    let place = Place::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/llm/policies.toml");
    let serving = Serving::start(&place, &["--config", path]);
    serving.signal(Signal::TERM);
    let (code, log) = serving.ended();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("`field.tenant`: questions bring them in `fields`"), "{log}");
    assert!(!log.contains("WARN"), "{log}");
}

/// An API key has the tier of its hash, a changed file counts at once, and an unlimited policy is
/// shown as such.
#[test]
fn tiers_and_lists_of_files_count_while_it_serves() {
    let place = Place::new();
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    write(
        "policies.toml",
        "version = 1\n\
         match = \"first\"\n\
         [[policies]]\n\
         name = \"staff\"\n\
         when = { user = { file = \"staff.txt\" } }\n\
         limits = \"unlimited\"\n\
         [[policies]]\n\
         name = \"api\"\n\
         on_failure = \"deny\"\n\
         tiers = { file = \"tiers.csv\", by = \"api_key\" }\n\
         [[policies.limits]]\n\
         subject = \"api_key\"\n\
         limit = \"2/h\"\n\
         absent = \"deny\"\n\
         [[policies.limits.overrides]]\n\
         when = { tier = \"gold\" }\n\
         limit = \"9/h\"\n",
    );
    write("staff.txt", "ann\n");
    let (_, key, _) = place.run(&["hash-key", "k-17"]);
    let key = key.lines().next().unwrap().to_owned();
    let digits = key.trim_start_matches("hash:");
    write("tiers.csv", &format!("key,tier\nhash:{digits},gold\n"));
    let path = place.path().join("policies.toml");
    let serving = Serving::start(&place, &["--config", path.to_str().unwrap()]);
    let mut client = serving.client();
    let staff = client.check(r#"{"fields": {"user": "ann"}}"#).unwrap();
    assert_eq!((&staff["outcome"], &staff["policy"]), (&"unlimited".into(), &"staff".into()));
    let ask = |user: &str, key: &str| {
        format!(r#"{{"fields": {{"user": "{user}", "api_key": "{key}"}}}}"#)
    };
    assert_eq!(client.check(&ask("bob", "k-17")).unwrap()["remaining"], 8);
    assert_eq!(client.check(&ask("bob", "k-18")).unwrap()["remaining"], 1);
    let peek = |client: &mut Client| client.ask("POST", "/v1/peek", &ask("bob", "k-17")).unwrap().1;
    write("tiers.csv", "key,tier\n");
    let start = Instant::now();
    while !peek(&mut client).contains("\"remaining\":1") {
        assert!(start.elapsed() < LONG, "{}", peek(&mut client));
    }
    let policies = client.ask("GET", "/v1/policies", "").unwrap().1;
    assert!(policies.contains(r#""tiers":"tiers.csv (0 keys) by api_key""#), "{policies}");
    assert!(policies.contains(r#""unlimited":true"#), "{policies}");
    write("tiers.csv", &format!("key,tier\nhash:{digits},golld\n"));
    serving.signal(Signal::TERM);
    assert_eq!(serving.ended().0, 0);
    let (code, out, error) = place.run(&["config", "check", path.to_str().unwrap()]);
    let error = format!("{out}{error}");
    let says = "tiers.csv, line 2: no override of `api` is for the tier `golld`";
    assert!(code == 2 && error.contains(says) && error.contains("did you mean `gold`?"), "{error}");
}

#[test]
fn what_is_suspect_in_the_policies_is_told_at_the_start() {
    let place = Place::new();
    let path = place.path().join("policies.toml");
    let text = "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"deny\"\n\
                when = { method = \"get\" }\n\
                limits = [{ subject = \"ip\", limit = \"10/s\" }, \
                { subject = \"pool=all\", limit = \"99/s\" }]\n";
    std::fs::write(&path, text).unwrap();
    let serving = Serving::start(&place, &["--config", path.to_str().unwrap()]);
    serving.signal(Signal::TERM);
    let (code, log) = serving.ended();
    assert_eq!(code, 0, "{log}");
    let told = "policies.toml:5:19: `get` is not `GET`: methods are compared exactly: write `GET`";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    let line = log.lines().find(|line| line.contains(told)).unwrap();
    assert!(line.contains("WARN"), "{line}");
    assert!(!log.contains("cluster"), "memory is not a cluster: {log}");
}

#[test]
fn logs_are_lines_or_json() {
    let place = Place::new();
    let serving = Serving::start(&place, &["--log", "json"]);
    serving.signal(Signal::TERM);
    let (code, log) = serving.ended();
    assert_eq!(code, 0, "{log}");
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    assert!(lines.iter().any(|line| line["message"] == "SIGTERM: ending"), "{log}");
    assert!(lines.iter().all(|line| line["level"].is_string() && line["timestamp"].is_string()));
}

#[test]
fn what_administrators_do_is_logged_with_hashed_subjects() {
    let place = Place::new();
    let serving = Serving::start(&place, &["--log", "json"]);
    let mut admin = serving.admin();
    let question = r#""subject": "user:ann", "limit": "1/h""#;
    for (path, body, status) in [
        ("/v1/admin/reset", format!("{{{question}}}"), 200),
        ("/v1/admin/adjust", format!("{{{question}, \"by\": -1}}"), 200),
        ("/v1/admin/adjust", format!("{{{question}}}"), 400),
        ("/v1/admin/reload", String::new(), 409),
    ] {
        assert_eq!(admin.ask("POST", path, &body).unwrap().0, status, "{path} {body}");
    }
    let log = serving.end();
    assert!(!log.contains("ann"), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let acts: Vec<&Value> = lines.iter().filter(|line| line["act"].is_string()).collect();
    let told: Vec<_> = acts
        .iter()
        .map(|line| (line["act"].as_str().unwrap(), line["by"].as_i64(), line["status"].as_u64()))
        .collect();
    assert_eq!(
        told,
        [
            ("reset", None, None),
            ("adjust", Some(-1), None),
            ("adjust", None, Some(400)),
            ("reload", None, Some(409))
        ]
    );
    let hash = |line: &Value| line["subjects"].as_str().map(str::len);
    assert_eq!([hash(acts[0]), hash(acts[1]), hash(acts[3])], [Some(16), Some(16), None]);
    assert_eq!(acts[0]["subjects"], acts[1]["subjects"]);
    assert_eq!(acts[0]["peer"], "127.0.0.1");
}

#[test]
fn denials_are_logged_with_hashed_subjects_and_a_flood_is_not() {
    let place = Place::new();
    for (how, plain) in [(None, false), (Some("plain"), true), (Some("off"), false)] {
        let mut args = vec!["--log", "json"];
        args.extend(how.iter().flat_map(|how| ["--log-denials", how]));
        let serving = Serving::start(&place, &args);
        let mut client = serving.client();
        for _ in 0..500 {
            client.check(r#"{"subject": "user:ann", "limit": "1/h"}"#).unwrap();
            client.check(r#"{"fields": {"ip": "192.0.2.7"}}"#).unwrap();
        }
        serving.signal(Signal::TERM);
        let (_, log) = serving.ended();
        let lines: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let denied: Vec<&Value> = lines.iter().filter(|line| line["message"] == "denied").collect();
        if how == Some("off") {
            assert!(denied.is_empty(), "{log}");
            continue;
        }
        // Ten immediately, and ten more for each second that it took.
        assert!((10..500).contains(&denied.len()), "{}", denied.len());
        assert_eq!(log.contains("user:ann"), plain, "{log}");
        // Its denials may all be among those that were not logged.
        assert!(plain || !log.contains("192.0.2.7"), "{log}");
        let first = denied[0];
        assert_eq!(first["outcome"], "denied");
        assert_eq!(first["limit"], "sliding_log/1h");
        let subject = first["subject"].as_str().unwrap();
        assert!(plain || subject.len() == 16 && subject.bytes().all(|b| b.is_ascii_hexdigit()));
        // The same subject is the same word, another one another.
        let words: std::collections::BTreeSet<&str> =
            denied.iter().map(|line| line["subject"].as_str().unwrap()).collect();
        assert!(words.len() <= 2, "{words:?}");
    }
}

/// One line when the store is lost, one when it is back, and the policy that denied by its name.
#[test]
fn the_loss_of_the_store_and_its_return_are_told_once() {
    let place = Place::new();
    let Some((redis, url)) = redis::start(place.path(), &[]) else { return };
    let path = place.path().join("policies.toml");
    let policy = |name: &str, rule: &str| {
        format!(
            "[[policies]]\nname = \"{name}\"\non_failure = \"{rule}\"\n\
             limits = [{{ subject = \"ip\", limit = \"1000000/s via gcra\" }}]\n"
        )
    };
    let file = ["version = 1\nmatch = \"all\"\n", &policy("everybody", "allow")].concat();
    std::fs::write(&path, [file, policy("login", "deny")].concat()).unwrap();
    let args = ["--config", path.to_str().unwrap(), "--store", &url, "--log", "json"];
    let serving = Serving::start(&place, &args);
    let mut client = serving.client();
    let mut auth = || client.ask("GET", "/v1/auth", "").unwrap();
    let start = Instant::now();
    while auth().0 != 200 {
        assert!(start.elapsed() < LONG, "{:?}", auth());
    }
    redis.freeze();
    // The log has a sample of the answers: this one is within it.
    let question = r#"{"subject": "a", "limit": "9/h", "on_failure": "allow"}"#;
    assert_eq!(serving.client().check(question).unwrap()["outcome"], "failed_open");
    let mut denied = 0;
    for _ in 0..20 {
        let (status, body) = auth();
        assert_eq!(status, 503, "{body}");
        assert!(body.contains(r#""violated-policies":["login"]"#), "{body}");
        denied += 1;
    }
    redis.thaw();
    // It is back when it has answered for a second without a failure.
    let mut back = None::<Instant>;
    while back.is_none_or(|back| back.elapsed() < Duration::from_millis(1_500)) {
        match auth().0 {
            200 => drop(back.get_or_insert_with(Instant::now)),
            _ => (denied, back) = (denied + 1, None),
        }
        assert!(start.elapsed() < LONG, "it does not come back");
    }
    let log = serving.end();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |what: &str| {
        let lines = lines.iter().filter(|line| line["level"] == "WARN");
        let texts = lines.filter_map(|line| Some((line, line["message"].as_str()?)));
        texts.filter(|(_, text)| text.starts_with(what)).map(|(line, _)| line).collect::<Vec<_>>()
    };
    let lost = said("the store does not answer, and failure rules do in its place: ");
    assert_eq!(lost.len(), 1, "{log}");
    assert!(lost[0]["message"].as_str().unwrap().contains("no answer from Redis"), "{log}");
    let back = said("the store answers again, after ");
    assert_eq!(back.len(), 1, "{log}");
    assert_eq!((back[0]["allowed"].as_u64(), back[0]["denied"].as_u64()), (Some(1), Some(denied)));
    let open = lines.iter().find(|line| line["message"] == "allowed without the store");
    let why = open.expect("a line of what passed without the store")["why"].as_str().unwrap();
    assert!(why.contains("Redis"), "{log}");
    let is_it = |line: &&Value| line["outcome"] == "failed_closed" && line["policy"] == "login";
    let refused = lines.iter().find(is_it).unwrap();
    assert!(refused["why"].as_str().unwrap().contains("Redis"), "{log}");
}
