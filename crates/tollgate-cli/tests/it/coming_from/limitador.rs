//! limitador-server beside the service: the page's limits, its table, and the differences.
//!
//! TOLLGATE_PEER_LIMITADOR names the program. Without it, only our side is asked, loudly.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tollgate_testbed::{Program, free_port};

use super::{JSON, asked_as_envoy, file, serve};
use crate::Place;
use crate::page::{block, rows};
use crate::proxies::STARTS_WITHIN;
use crate::serving::{Client, Serving};

pub(super) const PAGE: &str = include_str!("../../../../../docs/coming-from-limitador.md");

const PEER: &str = "TOLLGATE_PEER_LIMITADOR";

/// limitador under the page's limits, and its address; none where it is not named.
fn peer(place: &Place) -> Option<(Program, SocketAddr)> {
    let Ok(program) = std::env::var(PEER) else {
        println!("WANTED: {PEER} names no limitador-server, so only one side is asked");
        return None;
    };
    let limits = file(place, "limits.yaml", block(PAGE, "yaml", 0));
    let (rls, http) = (free_port(), free_port());
    let mut command = Command::new(program);
    for (name, address) in [("rls", rls), ("http", http)] {
        command.args([format!("--{name}-ip"), address.ip().to_string()]);
        command.args([format!("--{name}-port"), address.port().to_string()]);
    }
    command.arg(limits).arg("memory").stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Program::start(&mut command).unwrap();
    running.listens(http, STARTS_WITHIN).unwrap_or_else(|why| panic!("{PEER} {why}"));
    Some((running, http))
}

/// The page's limits as policies, as its first command writes them.
fn policies(place: &Place) -> String {
    file(place, "limits.yaml", block(PAGE, "yaml", 0));
    let mut command = place.tollgate(&["config", "import", "limitador", "limits.yaml"]);
    let output = command.current_dir(place.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The service under the page's limits.
fn ours(place: &Place) -> Serving {
    let path = file(place, "policies.toml", &policies(place)).display().to_string();
    serve(place, &["--config", &path])
}

/// One request of the page.
struct Request {
    method: String,
    user: String,
    delta: Value,
}

impl Request {
    fn new(method: &str, user: &str, delta: impl Into<Value>) -> Self {
        Self { method: method.into(), user: user.into(), delta: delta.into() }
    }

    /// The request for limitador.
    fn values(&self) -> Value {
        let mut values = json!({"method": self.method});
        if !self.user.is_empty() {
            values["user_id"] = self.user.as_str().into();
        }
        json!({"namespace": "shop", "values": values, "delta": self.delta})
    }

    /// The request for us.
    fn fields(&self) -> Value {
        let mut fields = json!({"field.domain": "shop", "method": self.method});
        if !self.user.is_empty() {
            fields["field.user_id"] = self.user.as_str().into();
        }
        json!({"fields": fields, "cost": self.delta})
    }
}

fn ask_ours(client: &mut Client, body: &Value) -> (u16, String) {
    client.ask("POST", "/v1/check?deny_status=429", &body.to_string()).unwrap()
}

fn ask_peer(client: &mut Client, body: &Value) -> (u16, String) {
    let asked = client.whole_with(JSON, "POST", "/check_and_report", &body.to_string());
    let (status, head, _) = asked.unwrap();
    (status, head)
}

#[test]
fn the_import_writes_the_policies_of_the_page() {
    assert_eq!(policies(&Place::new()), block(PAGE, "toml", 0));
}

#[test]
fn the_table_of_the_page_holds_on_both_sides() {
    let place = Place::new();
    let serving = ours(&place);
    let mut client = serving.client();
    let mut peer = peer(&place).map(|(running, at)| (running, Client::connect(at).unwrap()));
    let is_row = |row: &Vec<String>| ["POST", "GET"].contains(&row[0].as_str());
    let rows: Vec<_> = rows(PAGE).filter(is_row).collect();
    assert_eq!(rows.len(), 9);
    for row in rows {
        let [method, user, delta, status] = &row[..] else { panic!("{row:?}") };
        let request = Request::new(method, user, delta.parse::<u64>().unwrap());
        let status: u16 = status.parse().unwrap();
        let (said, body) = ask_ours(&mut client, &request.fields());
        assert_eq!(said, status, "{row:?}: {body}");
        if let Some((_, client)) = &mut peer {
            assert_eq!(ask_peer(client, &request.values()).0, status, "limitador: {row:?}");
        }
    }
}

/// By the page's own lines, with other addresses. Our two ask for one count.
#[test]
fn the_questions_of_the_page_are_answered() {
    let place = Place::new();
    let serving = ours(&place);
    let peer = peer(&place);
    let lines = block(PAGE, "sh", 1).replace("\\\n", " ");
    let lines: Vec<_> = lines.split("curl ").filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(lines.len(), 3);
    let ask = |line: &str, old: &str, at: SocketAddr| {
        assert!(line.contains(old), "{line}");
        let line = line.replace(old, &at.to_string());
        let line = format!("curl -s -o answer -w '%{{http_code}}' {line}");
        let mut sh = Command::new("sh");
        let output = sh.args(["-c", &line]).current_dir(place.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let peers = |line| peer.as_ref().map(|(_, at)| ask(line, "localhost:8080", *at));
    let ours = |line| ask(line, "localhost:8700", serving.address());
    for (turn, expected) in ["200", "200", "200", "200", "200", "429"].iter().enumerate() {
        assert_eq!(ours(lines[1 + turn % 2]), *expected, "{turn}");
        assert!(peers(lines[0]).is_none_or(|status| status == *expected), "{turn}");
    }
}

#[test]
fn a_window_opens_with_the_first_request_on_both_sides() {
    let place = Place::new();
    let serving = ours(&place);
    let peer = peer(&place);
    let begin = Instant::now();
    let request = Request::new("POST", "ann", 1);
    let (_, body) = ask_ours(&mut serving.client(), &request.fields());
    let said: Value = serde_json::from_str(&body).unwrap();
    let ours = said["reset_after"]["seconds"].as_f64().unwrap();
    let theirs = peer.map(|(_running, at)| {
        let mut body = request.values();
        body["response_headers"] = "DraftVersion03".into();
        let mut client = Client::connect(at).unwrap();
        ask_peer(&mut client, &body);
        let (_, head) = ask_peer(&mut client, &body);
        let reset = head.lines().find_map(|line| line.strip_prefix("x-ratelimit-reset: "));
        reset.unwrap_or_else(|| panic!("{head}")).parse::<f64>().unwrap()
    });
    // limitador cuts a second.
    let least = 59.0 - begin.elapsed().as_secs_f64();
    for reset in [Some(ours), theirs].into_iter().flatten() {
        assert!((least..=60.0).contains(&reset), "{reset} s, and not {least}");
    }
}

#[test]
fn what_differs_is_what_the_page_lists() {
    let place = Place::new();
    let serving = ours(&place);
    let mut client = serving.client();
    let mut peer = peer(&place).map(|(running, at)| (running, Client::connect(at).unwrap()));
    let of = |delta: i64| {
        let request = Request::new("POST", "eve", delta);
        (request.fields(), request.values())
    };
    let mut with_more = of(1);
    with_more.0["more"] = 1.into();
    with_more.1["more"] = 1.into();
    let mut elsewhere = of(1);
    elsewhere.0["fields"]["field.domain"] = "other".into();
    elsewhere.1["namespace"] = "other".into();
    let cases = [
        ("delta` 0", of(0)),
        ("delta` -1", of(-1)),
        ("an unknown key beside them", with_more),
        ("another namespace", elsewhere),
    ];
    for (name, (fields, values)) in cases {
        let row = rows(PAGE).find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}"));
        let (status, body) = ask_ours(&mut client, &fields);
        assert!(row[2].starts_with(&status.to_string()), "{name}: {status} {body}");
        assert!(name != "another namespace" || body.contains("\"no_policy\""), "{body}");
        if let Some((_, client)) = &mut peer {
            let (status, _) = ask_peer(client, &values);
            assert!(row[1].starts_with(&status.to_string()), "limitador: {name}: {status}");
        }
    }
}

/// The same question in Envoy's words, to the same count.
#[test]
fn policies_answer_envoy_too() {
    let place = Place::new();
    let serving = ours(&place);
    let mut client = serving.client();
    let (status, body) = ask_ours(&mut client, &Request::new("POST", "ann", 4).fields());
    assert_eq!(status, 200, "{body}");
    for expected in [200, 429] {
        let entries = [("method", "POST"), ("user_id", "ann")];
        let (status, said) = asked_as_envoy(&mut client, "shop", &entries);
        assert_eq!(status, expected, "{said}");
    }
}
