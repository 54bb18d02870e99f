//! Fifty callers of a fake model over `serve`, in several processes: they reserve an estimate, ask
//! the model, and commit what it used. Some cancel, hang up, or are killed between the two.
//!
//! The processes are this very test program, started again with a variable that says what to do.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_proof::Random;

use crate::Place;
use crate::serving::{Client, LONG, Serving};

/// The addresses of the service and of the model.
const ADDRESSES: &str = "TOLLGATE_TEST_MODEL_CALLER";

const PROCESSES: usize = 10;
const CALLERS_EACH: usize = 5;
const CALLERS: usize = PROCESSES * CALLERS_EACH;
/// The same number, of holds that are open at a time.
const OPEN: u64 = CALLERS as u64;

/// How long the load goes on.
const LOAD: Duration = Duration::from_secs(6);

/// The budget of the callers. No unit comes back while the test runs.
const BUDGET: u64 = 40_000;
const ESTIMATE: u64 = 40;
const MOST: u64 = 100;
const TTL_MS: u64 = 700;

/// A limit that nobody reaches: its rest shows the used units, debt and all.
const AUDIT: u64 = 1_000_000;

fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms)); // tidy: sleep-ok the length of a load
}

fn say(line: &str) {
    // In one piece: callers share the pipe.
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

fn question(budget: u64) -> Value {
    let limits = [
        format!("{budget}/366d anchor first-hit debt {AUDIT} via fixed_window"),
        format!("audit: {AUDIT}/366d anchor first-hit via fixed_window"),
    ];
    json!({ "subject": "model", "limit": limits })
}

fn reserve(budget: u64) -> String {
    let mut question = question(budget);
    (question["cost"], question["ttl"]) = (ESTIMATE.into(), format!("{TTL_MS}ms").into());
    question.to_string()
}

/// A model: a client that sends a line gets the number of tokens that the answer took.
fn model() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test program.
    thread::spawn(move || {
        for (number, stream) in (1_u64..).zip(listener.incoming()) {
            let Ok(stream) = stream else { continue };
            thread::spawn(move || {
                let mut dice = Random::new(number);
                let mut out = stream.try_clone().unwrap();
                for _ in BufReader::new(stream).lines().map_while(Result::ok) {
                    pause(1 + dice.below(60));
                    let used = dice.below(MOST + 1);
                    // A caller that hung up or was killed gets no answer.
                    if out.write_all(format!("{used}\n").as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Asks the service and hangs up before the answer.
fn hang_up(service: SocketAddr, path: &str, body: &str) {
    let Ok(mut stream) = TcpStream::connect(service) else { return };
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

/// Asks the model, and waits for the number of used tokens; `None` where the caller hangs up on it.
fn ask_model(model: SocketAddr, hangs_up: bool) -> Option<u64> {
    let mut stream = TcpStream::connect(model).ok()?;
    stream.write_all(b"a question\n").ok()?;
    if hangs_up {
        return None;
    }
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    line.trim().parse().ok()
}

fn call_for_ever(service: SocketAddr, model: SocketAddr, mut dice: Random) {
    let (reserve, mut number) = (reserve(BUDGET), 0_u64);
    let caller = format!("{}-{}", std::process::id(), dice.below(u64::MAX));
    let mut client = Client::connect(service).unwrap();
    loop {
        if dice.below(20) == 0 {
            // Nobody has this hold: it ends by itself.
            hang_up(service, "/v1/reserve", &reserve);
        }
        let Ok((200, said)) = client.ask("POST", "/v1/reserve", &reserve) else { return };
        let said: Value = serde_json::from_str(&said).unwrap();
        let Some(hold) = said["hold"].as_str() else {
            say("denied");
            pause(20);
            continue;
        };
        number += 1;
        let id = format!("{caller}-{number}");
        say(&format!("reserved {id}"));
        let kind = dice.below(12);
        let Some(actual) = ask_model(model, kind == 0) else { continue };
        let settle = match kind {
            1 => {
                let release = json!({ "hold": hold }).to_string();
                let _ = client.ask("POST", "/v1/release", &release);
                continue;
            }
            2 => json!({ "hold": hold, "actual": 0 }),
            _ => json!({ "hold": hold, "actual": actual }),
        };
        let (settle, actual) = (settle.to_string(), settle["actual"].as_u64().unwrap());
        say(&format!("committing {id} {actual}"));
        if kind == 3 {
            hang_up(service, "/v1/commit", &settle);
            continue;
        }
        // Twice is once.
        for _ in 0..2 {
            match client.ask("POST", "/v1/commit", &settle) {
                Ok((200, _)) => say(&format!("committed {id} {actual}")),
                // A model that took longer than the hold: nothing was charged.
                Ok((409, _)) => {}
                other => return say(&format!("FAILED {other:?}")),
            }
        }
    }
}

/// Not a separate test: the calls of the other test's callers. Started by hand it does nothing.
#[test]
fn when_started_as_a_caller_it_calls() {
    let Ok(addresses) = std::env::var(ADDRESSES) else { return };
    let (service, model) = addresses.split_once(' ').unwrap();
    let (service, model) = (service.parse().unwrap(), model.parse().unwrap());
    thread::scope(|scope| {
        for place in 0..CALLERS_EACH as u64 {
            let seed = u64::from(std::process::id()) << 8 | (place + 1);
            scope.spawn(move || call_for_ever(service, model, Random::new(seed)));
        }
    });
}

/// A process, and the lines that it wrote until it ended.
struct Process {
    child: Child,
    lines: JoinHandle<Vec<String>>,
}

impl Process {
    fn start(service: SocketAddr, model: SocketAddr) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "model_callers::when_started_as_a_caller_it_calls", "--nocapture"])
            .env(ADDRESSES, format!("{service} {model}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let lines = thread::spawn(move || out.lines().map_while(Result::ok).collect());
        Self { child, lines }
    }

    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.join().unwrap()
    }
}

fn ask(client: &mut Client, path: &str, body: &str) -> Value {
    let (status, said) = client.ask("POST", path, body).unwrap();
    assert_eq!(status, 200, "{path} {body}: {said}");
    serde_json::from_str(&said).unwrap()
}

/// The used units, including debt. No hold is open.
fn used(client: &mut Client, budget: u64) -> u64 {
    let said = ask(client, "/v1/peek", &question(budget).to_string());
    AUDIT - said["limits"][1]["remaining"].as_u64().unwrap()
}

#[test]
fn fifty_callers_spend_at_most_the_budget_and_the_debt_of_what_is_open() {
    let place = Place::new();
    let serving = Serving::start(&place, &[]);
    let (service, model) = (serving.address(), model());
    let start = || Process::start(service, model);
    let mut running: Vec<Process> = (0..PROCESSES).map(|_| start()).collect();
    let (mut lines, mut dice, begun) = (Vec::new(), Random::new(7), Instant::now());
    while begun.elapsed() < LOAD {
        pause(50 + dice.below(350));
        lines.extend(running.remove(0).kill());
        running.push(start());
    }
    lines.extend(running.into_iter().flat_map(Process::kill));

    let (mut committing, mut committed) = (HashMap::new(), HashMap::new());
    let (mut reserved, mut denied) = (0, 0);
    for line in &lines {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["reserved", _] => reserved += 1,
            ["denied"] => denied += 1,
            ["committing", id, actual] => {
                committing.insert(id.to_owned(), actual.parse::<u64>().unwrap());
            }
            ["committed", id, actual] => {
                committed.insert(id.to_owned(), actual.parse::<u64>().unwrap());
            }
            ["FAILED", ..] => panic!("{line}"),
            _ => {}
        }
    }
    // The last caller takes what is left. Unsettled holds have expired then.
    let (client, until) = (&mut serving.client(), Instant::now() + LONG);
    for number in 0_u64.. {
        let said = ask(client, "/v1/reserve", &reserve(BUDGET));
        if let Some(hold) = said["hold"].as_str() {
            let commit = json!({ "hold": hold, "actual": ESTIMATE }).to_string();
            ask(client, "/v1/commit", &commit);
            committing.insert(format!("last-{number}"), ESTIMATE);
            committed.insert(format!("last-{number}"), ESTIMATE);
        } else if said["until_hold"] == false {
            break;
        }
        assert!(Instant::now() < until, "holds of the killed do not end: {said}");
    }
    let used = used(client, BUDGET);
    let sum = |units: &HashMap<String, u64>| units.values().sum::<u64>();
    let (least, most) = (sum(&committed), sum(&committing));
    // All debt is at most what the open holds had beyond their estimates.
    let bound = BUDGET + OPEN * (MOST - ESTIMATE);
    println!(
        "{reserved} reserved, {denied} denied; {used} units used, {least} acknowledged, at most \
         {most}; the bound is {bound}"
    );
    assert!((least..=most).contains(&used), "{used} of {least} to {most}");
    assert!(used <= bound, "{used} above {bound}");
    assert!(used > BUDGET - ESTIMATE, "{used}: a reserve fits, and was denied");
    assert!(reserved > OPEN, "{reserved}: that is not a load");
    serving.end();
}

#[test]
fn fifty_adversaries_reach_the_bound_of_the_debt_and_no_more() {
    let place = Place::new();
    let serving = Serving::start(&place, &[]);
    let budget = OPEN * ESTIMATE;
    let barrier = Barrier::new(CALLERS);
    let hour = |budget| reserve(budget).replace(&format!("{TTL_MS}ms"), "1h");
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                let client = &mut serving.client();
                let said = ask(client, "/v1/reserve", &hour(budget));
                let commit = json!({ "hold": said["hold"], "actual": MOST }).to_string();
                barrier.wait();
                // All of the budget is held: nothing is admitted.
                assert_eq!(ask(client, "/v1/reserve", &hour(budget))["allowed"], false);
                barrier.wait();
                // Every caller asks for the maximum, and repeats it.
                assert_eq!(ask(client, "/v1/commit", &commit)["already"], false);
                assert_eq!(ask(client, "/v1/commit", &commit)["already"], true);
                assert_eq!(ask(client, "/v1/reserve", &hour(budget))["allowed"], false);
            });
        }
    });
    let bound = budget + OPEN * (MOST - ESTIMATE);
    assert_eq!(used(&mut serving.client(), budget), bound);
    serving.end();
}
