//! A broken limiter as a program of JSON lines: this test binary, started again, is that program.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write};

use serde_json::{Value, json};
use tollgate::{Ask as Question, LimitSet, Limiter as Store, ManualClock, Subject, Time};
use tollgate_proof::conformance::{StoreMaker as _, block_on};
use tollgate_proof::history::CallOutcome;

use super::broken::kit::{Maker, STORES};
use super::broken::sim::{Ask, At, Limiter};
use super::broken::table::{LIMITERS, Row};

/// The variable with the limiter to serve: `wrong NAME` or `right NAME`.
pub(super) const SERVED: &str = "TOLLGATE_TEST_JUDGED";

/// The descriptor to which the lines go: the harness of tests has the standard output.
const LINES: &str = "/proc/self/fd/3";

/// The limits of the stores.
pub(super) const STORE_LIMITS: &str = "3/10s via sliding_log";

/// A store that is right, but for subjects that end in an address: those of a network are one.
pub(super) const NETWORKS: &str = "counts a network as one";

/// Is no test but the program, when the variable is set.
#[test]
fn served_as_a_program() {
    let Ok(served) = std::env::var(SERVED) else { return };
    let (form, name) = served.split_once(' ').unwrap();
    let lines = OpenOptions::new().write(true).open(LINES).unwrap();
    let wrong = form == "wrong";
    if let Some(row) = LIMITERS.iter().find(|row| row.name == name) {
        let able = json!({
            "judge": 1, "clock": true,
            "steps": name.contains("step"),
            "costs": row.load.costs.len() > 1 || name.contains("caches"),
            "odd_costs": row.load.costs.iter().any(|cost| *cost < 1),
            "requests": row.load.repeats,
            "limits": row.load.limits.len() > 1,
            "failover": row.load.failover.is_some(),
        });
        return serve(lines, &able, &mut Simulated::new(row, wrong));
    }
    let mistake = STORES.iter().find(|(other, ..)| *other == name).map(|(_, mistake, ..)| *mistake);
    assert!(mistake.is_some() || name == NETWORKS, "{name} is no limiter");
    let joins = wrong && mistake.is_none();
    let mistake = mistake.filter(|_| wrong).unwrap_or(super::broken::kit::Mistake::Nothing);
    let able = json!({
        "judge": 1, "clock": true, "steps": true, "costs": true, "peeks": true, "limits": true,
    });
    serve(lines, &able, &mut Stored::new(mistake, joins));
}

/// A limiter that is served.
trait Served {
    /// A step of a question; none when another follows.
    fn step(&mut self, line: &Value, step: usize) -> Option<Value>;

    fn disturb(&mut self) {}
}

/// Answers lines until there are no more. Questions that came together are under way together.
fn serve(mut lines: impl Write, able: &Value, served: &mut dyn Served) {
    writeln!(lines, "{able}").unwrap();
    let mut input = BufReader::new(std::io::stdin());
    let mut text = String::new();
    while input.read_line(&mut text).unwrap() > 0 {
        while input.buffer().contains(&b'\n') {
            input.read_line(&mut text).unwrap();
        }
        let mut open: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        text.clear();
        let mut replies = String::new();
        for step in 0.. {
            open.retain(|line| {
                if let Some(kind) = line.get("do") {
                    served.disturb();
                    replies += &format!("{}\n", json!({ "done": kind }));
                    return false;
                }
                let Some(mut reply) = served.step(line, step) else { return true };
                reply["ask"] = line["ask"].clone();
                replies += &format!("{reply}\n");
                false
            });
            if open.is_empty() {
                break;
            }
        }
        lines.write_all(replies.as_bytes()).unwrap();
        lines.flush().unwrap();
    }
}

/// A limiter of the simulation.
struct Simulated {
    make: Box<dyn Fn() -> Box<dyn Limiter>>,
    /// By subject, where a limiter knows of one alone; else there is one.
    limiters: HashMap<usize, Box<dyn Limiter>>,
    of_one_subject: bool,
    /// Whether two subjects with different separators are one.
    pairs: bool,
    names: HashMap<String, usize>,
    limits: Vec<LimitSet>,
    calls: u64,
    /// After a failover calls have numbers behind the one at which it happens.
    failed: u64,
}

impl Simulated {
    fn new(row: &'static Row, wrong: bool) -> Self {
        let limits: Vec<LimitSet> =
            row.load.limits.iter().map(|text| text.parse().unwrap()).collect();
        let first = row.load.limits[0];
        let of_one = ["sliding_log", "first-hit", ","].iter().any(|text| first.contains(text));
        Self {
            make: Box::new(move || (row.make)(wrong)),
            limiters: HashMap::new(),
            of_one_subject: of_one || limits.len() > 1,
            pairs: row.name == "joins keys by a colon",
            names: HashMap::new(),
            limits,
            calls: 0,
            failed: 0,
        }
    }

    /// The place of a subject among the load's. The first two places are the pair.
    fn subject(&mut self, text: &str) -> usize {
        let next = self.names.len() + 2;
        match text.len().checked_sub(4).map(|at| &text[at..]) {
            Some("|a:b") if self.pairs => 0,
            Some(":a|b") if self.pairs => 1,
            _ => *self.names.entry(text.to_owned()).or_insert(next),
        }
    }
}

impl Served for Simulated {
    fn step(&mut self, line: &Value, step: usize) -> Option<Value> {
        let now_us = line["now_us"].as_u64().unwrap();
        let client = usize::try_from(line["client"].as_u64().unwrap()).unwrap();
        self.calls += 1;
        let request = line.get("request").map(|id| id.as_str().unwrap().to_owned());
        let limits = line.get("limits").map(|text| text.as_str().unwrap().parse().unwrap());
        let place = limits.and_then(|set: LimitSet| self.limits.iter().position(|it| *it == set));
        let ask = Ask {
            client,
            call: self.failed + self.calls.min(40),
            subject: self.subject(line["subject"].as_str().unwrap()),
            limits: place.unwrap_or(0),
            cost: line["cost"].as_i64().unwrap(),
            request: request.map(|id| self.subject(&id) as u64),
        };
        let client_us = now_us - 40_000_000 * client as u64;
        let place = if self.of_one_subject { ask.subject } else { 0 };
        let limiter = self.limiters.entry(place).or_insert_with(&self.make);
        let reply = limiter.step(At { now_us, client_us }, &ask, step)?;
        let mut told = told(reply.outcome);
        if let Some(decided_us) = reply.now_us.filter(|it| *it != now_us) {
            told["now_us"] = json!(decided_us);
        }
        Some(told)
    }

    fn disturb(&mut self) {
        self.failed = 60;
    }
}

fn told(outcome: CallOutcome) -> Value {
    match outcome {
        CallOutcome::Allowed { remaining } => json!({"allowed": true, "remaining": remaining}),
        CallOutcome::Denied { retry_after_us, remaining } => {
            json!({"allowed": false, "remaining": remaining, "retry_after_us": retry_after_us})
        }
        CallOutcome::Never => json!({"allowed": false, "never": true}),
        CallOutcome::NotCharged => json!({"error": "it was refused"}),
        CallOutcome::Unknown => json!({"unknown": true}),
    }
}

/// A store of the kit.
struct Stored {
    clock: ManualClock,
    limiter: Store<super::broken::kit::Wrapped>,
    /// Whether the addresses of a network are one subject.
    joins: bool,
}

impl Stored {
    fn new(mistake: super::broken::kit::Mistake, joins: bool) -> Self {
        let clock = ManualClock::at_micros(0);
        let store = Maker(mistake).make(clock.clone());
        Self { limiter: Store::new(STORE_LIMITS.parse().unwrap(), store), clock, joins }
    }
}

impl Served for Stored {
    fn step(&mut self, line: &Value, _: usize) -> Option<Value> {
        self.clock.set(Time::from_micros(line["now_us"].as_u64().unwrap()));
        let text = line["subject"].as_str().unwrap();
        let network = text.rsplit_once('.').filter(|_| self.joins).map(|(network, _)| network);
        let subject = Subject::new("key", network.unwrap_or(text)).unwrap();
        let limits = line.get("limits").map(|text| text.as_str().unwrap().parse().unwrap());
        let limits: LimitSet = limits.unwrap_or_else(|| STORE_LIMITS.parse().unwrap());
        let question = Question::new(&subject).under(&limits).cost(line["cost"].as_u64().unwrap());
        let is_peek = line.get("peek").is_some();
        let question = if is_peek { question.peek() } else { question };
        let decision = block_on(self.limiter.check(question)).unwrap();
        let remaining = decision.reports().map(|report| report.remaining()).min();
        let wait_us = decision.retry_after().map(|it| u64::try_from(it.as_micros()).unwrap());
        Some(told(match () {
            () if decision.is_allowed() => CallOutcome::Allowed { remaining },
            () if decision.is_never() => CallOutcome::Never,
            () => CallOutcome::Denied { retry_after_us: wait_us, remaining },
        }))
    }
}
