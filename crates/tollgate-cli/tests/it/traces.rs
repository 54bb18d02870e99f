//! `serve --otlp`: the spans that a collector of OpenTelemetry gets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use rustix::process::Signal;

use crate::Place;
use crate::serving::{LONG, Serving};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector that answers with these statuses, then with 200.
struct Collector {
    url: String,
    posts: Receiver<Vec<u8>>,
}

impl Collector {
    fn start(statuses: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, posts) = channel();
        thread::spawn(move || {
            let mut statuses = statuses.iter().copied().chain(std::iter::repeat(200));
            for stream in listener.incoming() {
                serve(&stream.unwrap(), &sender, &mut statuses);
            }
        });
        Self { url, posts }
    }

    /// The spans of the next post.
    fn next(&self) -> Vec<Span> {
        spans(&self.posts.recv_timeout(LONG).unwrap())
    }

    /// Everything that was sent, once nobody sends any more.
    fn all(&self) -> Vec<Vec<u8>> {
        self.posts.try_iter().collect()
    }
}

fn serve(stream: &TcpStream, posts: &Sender<Vec<u8>>, statuses: &mut impl Iterator<Item = u16>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        assert_eq!(line, "POST /v1/traces HTTP/1.1\r\n");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let status = statuses.next().unwrap();
        write!(&mut &*stream, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n").unwrap();
        // The callers are gone at the end of a test.
        let _ = posts.send(body);
    }
}

fn spans(post: &[u8]) -> Vec<Span> {
    let request = ExportTraceServiceRequest::decode(post).unwrap();
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

fn ask(address: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\
         traceparent: 00-{TRACE}-{PARENT}-01\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

/// The attributes as `key=value`, in order.
fn attributes(span: &Span) -> Vec<String> {
    let value = |attribute: &KeyValue| match attribute.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let mut told: Vec<String> = span
        .attributes
        .iter()
        .map(|attribute| format!("{}={}", attribute.key, value(attribute)))
        .collect();
    told.sort();
    told
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_command_of_resp_is_a_span_and_its_decision_one_within_it() {
    let place = Place::new();
    let collector = Collector::start(&[]);
    let serving = Serving::start(&place, &["--otlp", &collector.url, "--resp", "127.0.0.1:0"]);
    let address = serving.line_after("redis      ");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let command = |words: &[&str]| {
        let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let words: Vec<String> = words.collect();
        format!("*{}\r\n{}", words.len(), words.concat())
    };
    // Pipelined: each has its own span.
    let throttle = command(&["CL.THROTTLE", "user:ann", "0", "1", "3600"]);
    let wrong = command(&["GCRA", "user:ann", "x", "1", "3600"]);
    let all = format!("{}{throttle}{throttle}{wrong}{}", command(&["PING"]), command(&["QUIT"]));
    stream.write_all(all.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("+PONG") && said.ends_with("+OK\r\n"), "{said}");
    serving.end();

    let posts = collector.all();
    let is_told = |post: &Vec<u8>| post.windows(3).any(|bytes| bytes == b"ann");
    assert!(!posts.iter().any(is_told), "no subject is sent");
    let spans: Vec<Span> = posts.iter().flat_map(|post| spans(post)).collect();
    let (commands, decisions): (Vec<&Span>, Vec<&Span>) =
        spans.iter().partition(|span| span.name != "decide");
    let names: Vec<&str> = commands.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["CL.THROTTLE", "CL.THROTTLE", "GCRA"]);
    let results = ["answer", "answer", "error"];
    for (span, result) in commands.iter().zip(results) {
        let expected =
            ["network.protocol.name=resp".to_owned(), format!("tollgate.result={result}")];
        assert_eq!(attributes(span), expected);
    }
    let of: Vec<&[u8]> = decisions.iter().map(|span| &*span.parent_span_id).collect();
    assert_eq!(of, [&*commands[0].span_id, &*commands[1].span_id]);
    let outcomes: Vec<String> = decisions.iter().flat_map(|span| attributes(span)).collect();
    let expected = ["allowed", "denied"].map(|outcome| {
        ["tollgate.authority=store".to_owned(), format!("tollgate.outcome={outcome}")]
    });
    assert_eq!(outcomes, expected.concat());
}

#[test]
fn a_question_is_a_span_below_the_callers_and_each_decision_one_within_it() {
    let place = Place::new();
    let collector = Collector::start(&[]);
    let serving = Serving::start(&place, &["--otlp", &collector.url]);
    let address = serving.address();
    let question = r#"{"subject": "user:ann", "limit": "1/h"}"#;
    assert!(ask(address, "POST /v1/check", question).contains("\"allowed\":true"));
    assert!(ask(address, "POST /v1/check?deny_status=429", question).starts_with("HTTP/1.1 429"));
    let batch = format!(r#"{{"checks": [{question}, {{"fields": {{"ip": "192.0.2.7"}}}}]}}"#);
    assert!(ask(address, "POST /v1/peek", &batch).contains("results"));
    assert!(ask(address, "GET /user/ann", "").starts_with("HTTP/1.1 404"));
    assert!(ask(address, "GET /healthz", "").starts_with("HTTP/1.1 200"));
    assert!(ask(address, "GET /v1/auth", "").starts_with("HTTP/1.1 200"));
    serving.end();

    let posts = collector.all();
    for post in &posts {
        let is_told = |word: &str| post.windows(word.len()).any(|bytes| bytes == word.as_bytes());
        assert!(!is_told("ann") && !is_told("192.0.2.7"), "no subject is sent");
        assert!(is_told("service.name") && is_told("tollgate"));
    }
    let spans: Vec<Span> = posts.iter().flat_map(|post| spans(post)).collect();
    let (requests, decisions): (Vec<&Span>, Vec<&Span>) =
        spans.iter().partition(|span| span.name != "decide");
    let names: Vec<&str> = requests.iter().map(|span| &*span.name).collect();
    assert_eq!(
        names,
        ["POST /v1/check", "POST /v1/check", "POST /v1/peek", "GET other", "GET /v1/auth"]
    );
    for span in &requests {
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
        assert_eq!(span.kind, 2, "a server's");
        assert!(span.status.clone().unwrap_or_default().code != 2, "no error of the service");
    }
    assert_eq!(
        attributes(requests[1]),
        ["http.request.method=POST", "http.response.status_code=429", "http.route=/v1/check"]
    );
    let within = |request: &Span| -> Vec<String> {
        let ours = decisions.iter().filter(|span| span.parent_span_id == request.span_id);
        let ours = ours.inspect(|span| {
            assert!(span.start_time_unix_nano >= request.start_time_unix_nano);
            assert!(span.end_time_unix_nano <= request.end_time_unix_nano);
        });
        ours.map(|span| attributes(span).join(" ")).collect()
    };
    let decided = |outcome: &str| format!("tollgate.authority=store tollgate.outcome={outcome}");
    assert_eq!(within(requests[0]), [decided("allowed")]);
    assert_eq!(within(requests[1]), [decided("denied")]);
    assert_eq!(within(requests[3]), Vec::<String>::new());
    assert_eq!(within(requests[4]), [format!("{} tollgate.policy=demo", decided("allowed"))]);
}

/// Each rule has one unit, and the second request of each is denied.
const RULES: &str = "
domain: shop
descriptors:
  - key: user
    descriptors:
      - key: path
        value: /a
        rate_limit: { unit: year, requests_per_unit: 1 }
  - key: tier
    rate_limit: { unit: year, requests_per_unit: 1, name: tiers }
  - key: trial
    shadow_mode: true
    rate_limit: { unit: year, requests_per_unit: 1, name: trials }
  - key: shut
    rate_limit: { unit: year, requests_per_unit: 0 }
";

const TOGETHER: &str = "
domain: bank
meaning: tollgate
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 9 }
  - key: account
    rate_limit: { unit: year, requests_per_unit: 1 }
";

#[test]
fn a_denial_of_envoys_rules_names_its_rule_in_the_log_and_in_its_span() {
    let place = Place::new();
    let collector = Collector::start(&[]);
    let rules = place.path().join("rules");
    std::fs::create_dir(&rules).unwrap();
    std::fs::write(rules.join("shop.yaml"), RULES).unwrap();
    std::fs::write(rules.join("bank.yaml"), TOGETHER).unwrap();
    let rules = rules.display().to_string();
    let args = ["--otlp", &collector.url, "--log", "json", "--envoy-config", &rules];
    let serving = Serving::start(&place, &args);
    let address = serving.address();
    let entry = |(key, value): &(&str, &str)| format!(r#"{{"key":"{key}","value":"{value}"}}"#);
    let ask_twice = |domain: &str, descriptors: &[&[(&str, &str)]], limit: &str| {
        let descriptor = |entries: &&[(&str, &str)]| {
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!(r#"{{"entries":[{}]{limit}}}"#, entries.join(","))
        };
        let descriptors: Vec<String> = descriptors.iter().map(descriptor).collect();
        let descriptors = descriptors.join(",");
        let question = format!(r#"{{"domain":"{domain}","descriptors":[{descriptors}]}}"#);
        [0, 1].map(|_| ask(address, "POST /json", &question)[9..12].to_owned())
    };
    let one_a_year = r#","limit":{"requests_per_unit":1,"unit":"YEAR"}"#;
    assert_eq!(ask_twice("shop", &[&[("user", "ann"), ("path", "/a")]], ""), ["200", "429"]);
    assert_eq!(ask_twice("shop", &[&[("tier", "ann")]], ""), ["200", "429"]);
    assert_eq!(ask_twice("shop", &[&[("trial", "ann")]], ""), ["200", "200"]);
    assert_eq!(ask_twice("shop", &[&[("shut", "ann")]], ""), ["429", "429"]);
    assert_eq!(ask_twice("shop", &[&[("own", "ann")]], one_a_year), ["200", "429"]);
    let both: [&[(&str, &str)]; 2] = [&[("user", "ann")], &[("account", "ann")]];
    assert_eq!(ask_twice("bank", &both, ""), ["200", "429"]);
    serving.signal(Signal::TERM);
    let (_, log) = serving.ended();

    let denied = [
        ["shop", "shop.user.path_/a", "store"],
        ["shop", "tiers", "store"],
        ["shop", "trials", "shadow"],
        ["shop", "shop.shut", "policy"],
        ["shop", "shop.shut", "policy"],
        ["shop", "", "store"],
        ["bank", "bank.account", "store"],
    ];
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines = lines.filter(|line| line["message"] == "denied");
    let logged: Vec<[String; 3]> = lines
        .inspect(|line| assert_eq!(line["trace_id"], TRACE, "{line}"))
        .map(|line| {
            ["domain", "rule", "authority"].map(|key| line[key].as_str().unwrap_or("").to_owned())
        })
        .collect();
    assert_eq!(logged, denied, "{log}");
    let all = collector.all();
    let spans = all.iter().flat_map(|post| spans(post)).filter(|span| span.name == "decide");
    let spans = spans.map(|span| attributes(&span));
    let spans: Vec<Vec<String>> =
        spans.filter(|told| told.contains(&"tollgate.outcome=denied".to_owned())).collect();
    // What is in shadow has decided nothing.
    let enforced = denied.iter().filter(|[.., authority]| *authority == "store");
    let expected: Vec<Vec<String>> = enforced
        .map(|[domain, rule, authority]| {
            let rule = Some(*rule).filter(|rule| !rule.is_empty());
            [
                Some(format!("tollgate.authority={authority}")),
                Some(format!("tollgate.domain={domain}")),
                Some("tollgate.outcome=denied".to_owned()),
                rule.map(|rule| format!("tollgate.rule={rule}")),
            ]
            .into_iter()
            .flatten()
            .collect()
        })
        .collect();
    assert_eq!(spans, expected);
}

#[test]
fn a_caller_that_is_not_sampled_is_not_traced() {
    let place = Place::new();
    let collector = Collector::start(&[]);
    let serving = Serving::start(&place, &["--otlp", &collector.url]);
    let address = serving.address();
    let head = format!("GET /v1/policies HTTP/1.1\r\ntraceparent: 00-{TRACE}-{PARENT}-00\r\nx: y");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{head}\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
    assert!(ask(address, "GET /v1/openapi.yaml", "").contains("200 OK"));
    serving.end();
    let names: Vec<String> =
        collector.all().iter().flat_map(|post| spans(post)).map(|span| span.name).collect();
    assert_eq!(names, ["GET /v1/openapi.yaml"]);
}

#[test]
fn a_collector_that_takes_nothing_holds_nothing_up_and_is_told_once() {
    let place = Place::new();
    let collector = Collector::start(&[400, 400]);
    let mut command = Serving::command(&place, &["--otlp", &collector.url]);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "1");
    let serving = Serving::start_command(command);
    for _ in 0..3 {
        assert!(ask(serving.address(), "GET /v1/policies", "").contains("200 OK"));
        assert!(!collector.next().is_empty());
    }
    let log = serving.end();
    assert_eq!(log.matches("traces do not arrive at").count(), 1, "{log}");
    assert!(log.contains("it answers 400"), "{log}");
    assert_eq!(log.matches("again").count(), 1, "{log}");

    // Nothing listens there.
    let serving = Serving::start(&place, &["--otlp", "http://127.0.0.1:1"]);
    let question = r#"{"subject": "user:ann", "limit": "1000/h"}"#;
    for _ in 0..200 {
        assert!(ask(serving.address(), "POST /v1/check", question).contains("\"allowed\":true"));
    }
    let log = serving.end();
    assert_eq!(log.matches("traces do not arrive at http://127.0.0.1:1/v1/traces").count(), 1);
    assert!(log.contains("refused"), "{log}");
}
