//! `examples/llm` as it stands, before a fake model: budgets of requests, tokens and money, whoever
//! hangs up or is killed.

mod call;
mod fronts;
mod model;

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_testbed::RedisServer;

use super::rolling::{self, Replicas};
use super::{Plan, Proxy as _, envoy, proxied};
use crate::Place;
use crate::serving::{Client, LONG, Serving};
use call::{End, MAX_TOKENS, PATH, Pieces, call, question};
use fronts::{Envoy, Front, NginxBefore, policies};
use model::{Model, Usage};

/// The used units of the tenant: requests, tokens, microdollars.
fn used(service: SocketAddr) -> [u64; 3] {
    let left = left(service);
    core::array::from_fn(|place| fronts::LIMITS[place] - left[place])
}

/// The remaining units of each limit; the slots last.
fn left(service: SocketAddr) -> Vec<u64> {
    let fields = json!({ "path": PATH, "field.tenant": "acme" });
    let said = ask(service, "/v1/peek", &json!({ "fields": fields, "kind": "reserve" }));
    let limits = said["limits"].as_array().unwrap_or_else(|| panic!("{said}"));
    limits.iter().map(|it| it["remaining"].as_u64().unwrap()).collect()
}

fn ask(service: SocketAddr, path: &str, body: &Value) -> Value {
    let (status, said) =
        Client::connect(service).unwrap().ask("POST", path, &body.to_string()).unwrap();
    assert_eq!(status, 200, "{path} {body}: {said}");
    serde_json::from_str(&said).unwrap()
}

/// Charges the tokens that are left.
fn spend(service: SocketAddr) {
    let fields = json!({ "path": PATH, "field.tenant": "acme" });
    let cost = json!({ "tokens": left(service)[1] });
    ask(service, "/v1/charge", &json!({ "fields": fields, "cost": cost }));
}

/// A call that is denied, and does not come to the model.
fn denied(door: SocketAddr, model: &Model) {
    let name = format!("{door}-denied");
    assert_eq!(call(door, &question(&name), None), End::Denied);
    assert_eq!(model.written(&name), None);
}

/// Waits until every slot is free: every hold was settled, or has ended.
fn settled(service: SocketAddr) {
    let until = Instant::now() + LONG;
    while left(service)[3] != fronts::SLOTS {
        assert!(Instant::now() < until, "holds stay open: {:?}", left(service));
        thread::yield_now();
    }
}

/// The fewest and the most units that these calls may have been charged.
#[derive(Debug, Default)]
struct Bounds {
    least: [u64; 3],
    most: [u64; 3],
}

impl Bounds {
    fn add(&mut self, model: &Model, name: &str, end: End, may_lose_commits: bool) {
        let body = question(name);
        // The largest estimate of any front: a token for four bytes of the whole question.
        let prompt = body.to_string().len() as u64 / 4 + 1;
        let estimate = Usage { prompt, answer: MAX_TOKENS };
        let part = |answer| Usage { prompt: if answer > 0 { 1 } else { 0 }, answer };
        let (least, most, requests) = match end {
            End::Denied => (part(0), part(0), [0, 0]),
            End::Whole(usage) if may_lose_commits => (usage, estimate, [1, 1]),
            End::Whole(usage) => (usage, usage, [1, 1]),
            End::Part(pieces) => (part(pieces), estimate, [1, 1]),
            End::Broken => {
                let reached = model.written(name).is_some();
                (part(0), estimate, [u64::from(reached), 1])
            }
        };
        let add = |sum: &mut [u64; 3], requests, usage: Usage| {
            let more = [requests, usage.tokens(), usage.microdollars()];
            core::iter::zip(sum, more).for_each(|(sum, more)| *sum += more);
        };
        add(&mut self.least, requests[0], least);
        add(&mut self.most, requests[1], most);
    }
}

/// A call over HTTP: the client itself reserves, and commits.
fn call_over_http(service: SocketAddr, model: &Model, name: &str, hangs_up: Option<u64>) -> End {
    let body = question(name);
    let content = body["messages"][0]["content"].as_str().unwrap();
    let fields = json!({
        "path": PATH, "field.tenant": "acme",
        "field.prompt_tokens": (content.len() / 4 + 1).to_string(),
        "field.max_tokens": MAX_TOKENS.to_string(),
    });
    let reserve = json!({ "fields": fields }).to_string();
    let asked = Client::connect(service).and_then(|mut it| it.ask("POST", "/v1/reserve", &reserve));
    let Ok((200, said)) = asked else { return End::Broken };
    let said: Value = serde_json::from_str(&said).unwrap();
    let Some(hold) = said["hold"].as_str() else { return End::Denied };
    let mut pieces = Pieces::default();
    let got = call::status(model.address, &body, |bytes| {
        pieces.read(bytes);
        hangs_up.is_none_or(|most| pieces.number < most)
    });
    assert_eq!(got.unwrap(), 200);
    // Who hangs up is charged what came, and the prompt.
    let prompt = content.len() as u64 / 5 + 1;
    let usage = pieces.usage.unwrap_or(Usage { prompt, answer: pieces.number });
    let actual = json!({ "tokens": usage.tokens(), "microdollars": usage.microdollars() });
    let commit = json!({ "hold": hold, "actual": actual }).to_string();
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        // 409: the service was away for longer than the hold, and the estimate was charged.
        if let Ok((200 | 409, _)) =
            Client::connect(service).and_then(|mut it| it.ask("POST", "/v1/commit", &commit))
        {
            break;
        }
        thread::yield_now();
    }
    pieces.usage.map_or(End::Part(pieces.number), End::Whole)
}

#[test]
fn two_hundred_calls_through_four_doors_stay_within_every_budget() {
    let (model, redis, place) = (Model::open(), RedisServer::start(), Place::new());
    let policies = policies(&place, "5s");
    let serve = |more: &[&str]| {
        Serving::start(&place, &[&["--store", &redis.url(), "--config", &policies], more].concat())
    };
    let killed = serve(&[]);
    let service = serve(&["--grpc", "127.0.0.1:0"]);
    let (first, second) = (killed.address(), service.address());
    let mut fastapi = Front::fastapi(&place, second, model.address);
    let express = Front::express(&place, second, model.address);
    let envoy = Envoy::start(&place, &service, model.address);
    let doors: [Option<SocketAddr>; 3] = [
        fastapi.as_ref().map(|it| it.address),
        express.as_ref().map(|it| it.address),
        envoy.as_ref().map(|it| it.address),
    ];
    let one = |number: u64| {
        let name = format!("call-{number}");
        let hangs_up = number.is_multiple_of(3).then_some(1 + number % 20);
        let door = usize::try_from(number % 4).unwrap();
        let end = match doors.get(door).copied().flatten() {
            Some(door) => call(door, &question(&name), hangs_up),
            None => call_over_http(first, &model, &name, hangs_up),
        };
        (name, door, end)
    };
    // 200 callers at a time, each of whom calls twice.
    let ends: Vec<(String, usize, End)> = thread::scope(|scope| {
        let caller = |number| move || [number, number + 203].map(one);
        let calls: Vec<_> = (0..200).map(|number| scope.spawn(caller(number))).collect();
        let until = Instant::now() + LONG;
        while model.calls() < 60 {
            assert!(Instant::now() < until, "only {} calls", model.calls());
            thread::sleep(Duration::from_millis(1)); // tidy: sleep-ok the moment of a kill
        }
        // With answers under way.
        if let Some(fastapi) = &mut fastapi {
            fastapi.program.kill();
        }
        let mut killed = killed;
        killed.program.kill();
        let address = first.to_string();
        let again = Serving::start(
            &place,
            &["--store", &redis.url(), "--config", &policies, "--listen", &address],
        );
        let ends = calls.into_iter().flat_map(|call| call.join().unwrap()).collect();
        drop(again);
        ends
    });
    settled(second);
    let mut bounds = Bounds::default();
    for (name, door, end) in &ends {
        // FastAPI was killed, and so was the service that callers over HTTP ask.
        bounds.add(&model, name, *end, matches!(door, 0 | 3));
    }
    let used = used(second);
    let of = |kind: fn(&End) -> bool| ends.iter().filter(|(_, _, end)| kind(end)).count();
    println!(
        "{} whole, {} in part, {} denied, {} broken; used {used:?} of {bounds:?}",
        of(|it| matches!(it, End::Whole(_))),
        of(|it| matches!(it, End::Part(_))),
        of(|it| *it == End::Denied),
        of(|it| *it == End::Broken),
    );
    for place in 0..3 {
        let (least, most) = (bounds.least[place], bounds.most[place]);
        assert!((least..=most).contains(&used[place]), "{used:?} {bounds:?}");
    }
    assert!(of(|it| matches!(it, End::Whole(_))) > 40);
    assert!(core::iter::zip(used, fronts::LIMITS).all(|(used, limit)| used <= limit));
    // Nobody used more than was reserved, so no limit was ever exceeded.
    let (_, page) = service.client().ask("GET", "/metrics", "").unwrap();
    assert!(page.contains("tollgate_hold_overruns_total 0"), "{page}");
    spend(second);
    doors[1..].iter().flatten().for_each(|door| denied(*door, &model));
}

/// Whole answers, parts and denials, each charged to the token.
fn exact(door: SocketAddr, service: SocketAddr, model: &Model) {
    let mut sum = [0; 3];
    for number in 0..4 {
        let name = format!("{door}-{number}");
        let End::Whole(usage) = call(door, &question(&name), None) else { panic!("{name}") };
        assert_eq!(model.written(&name), Some(usage));
        settled(service);
        let more = [1, usage.tokens(), usage.microdollars()];
        core::iter::zip(&mut sum, more).for_each(|(sum, more)| *sum += more);
        assert_eq!(used(service), sum, "{name}");
    }
    let End::Part(pieces) = call(door, &question("hangs-up"), Some(3)) else { panic!() };
    settled(service);
    let tokens = used(service)[1] - sum[1];
    let written = model.written("hangs-up").unwrap();
    let most = question("hangs-up").to_string().len() as u64 + written.answer;
    assert!((pieces + 1..=most).contains(&tokens), "{tokens} of {written:?}");
    spend(service);
    denied(door, model);
    assert_eq!(left(service)[3], fronts::SLOTS);
}

/// A call that no budget ever admits is no 429, which clients send again.
fn never_admitted(door: SocketAddr) {
    let mut body = question("too-large");
    body["max_tokens"] = 1_000_000.into();
    assert_eq!(call::status(door, &body, |_| true).unwrap(), 400);
}

#[test]
fn the_service_in_python_charges_what_was_used() {
    let (model, place) = (Model::open(), Place::new());
    let policies = policies(&place, "5m");
    let service = Serving::start(&place, &["--store", "memory://", "--config", &policies]);
    let front = Front::fastapi(&place, service.address(), model.address);
    let Some(front) = front else { return };
    exact(front.address, service.address(), &model);
    never_admitted(front.address);
}

#[test]
fn the_service_in_node_charges_what_was_used() {
    let (model, place) = (Model::open(), Place::new());
    let policies = policies(&place, "5m");
    let service = Serving::start(&place, &["--store", "memory://", "--config", &policies]);
    let front = Front::express(&place, service.address(), model.address);
    let Some(front) = front else { return };
    exact(front.address, service.address(), &model);
    never_admitted(front.address);
}

#[test]
fn envoy_charges_what_was_used() {
    let (model, place) = (Model::open(), Place::new());
    let policies = policies(&place, "5m");
    let args = ["--store", "memory://", "--config", &policies, "--grpc", "127.0.0.1:0"];
    let service = Serving::start(&place, &args);
    let Some(envoy) = Envoy::start(&place, &service, model.address) else { return };
    exact(envoy.address, service.address(), &model);
}

#[test]
fn nginx_charges_what_headers_report_and_the_estimate_of_what_streams() {
    let model = Model::open();
    let policies = fronts::text("5m");
    let plan = Plan {
        policies: &policies,
        backend: Some(model.address),
        is_direct: true,
        ..Plan::default()
    };
    let Some(setup) = super::Setup::planned::<NginxBefore>(&plan) else { return };
    let (door, service) = (setup.proxy, setup.asked);
    let mut body = question("reported");
    body["stream"] = false.into();
    assert_eq!(call::status(door, &body, |_| true).unwrap(), 200);
    settled(service);
    let usage = model.written("reported").unwrap();
    assert_eq!(used(service), [1, usage.tokens(), usage.microdollars()]);
    // The estimate of the policy, since nginx knows no numbers of the question.
    assert!(matches!(call(door, &question("streams"), None), End::Whole(_)));
    settled(service);
    assert_eq!(used(service), [2, usage.tokens() + 4_000, usage.microdollars() + 60_000]);
    assert!(matches!(call(door, &question("hangs-up"), Some(2)), End::Part(_)));
    settled(service);
    assert_eq!(used(service)[0], 3);
    spend(service);
    denied(door, &model);
}

/// Each call is charged once, and no hold stays open. nginx reads headers of whole answers, Envoy
/// reads what streams.
fn survives_a_rolling_restart(
    replicas: &mut Replicas,
    model: &Model,
    door: SocketAddr,
    streams: bool,
) {
    let before = left(replicas.address(0));
    let number = AtomicU64::new(0);
    let charged = Mutex::new([0; 3]);
    let answers = rolling::under_load(
        |_| {
            let name = format!("rolling-{}", number.fetch_add(1, Ordering::Relaxed));
            let mut body = question(&name);
            body["stream"] = streams.into();
            // A short answer, so that there are many.
            body["max_tokens"] = 3.into();
            let status = call::status(door, &body, |_| true)?;
            if status == 200 {
                let usage = model.written(&name).unwrap();
                let more = [1, usage.tokens(), usage.microdollars()];
                core::iter::zip(&mut *charged.lock().unwrap(), more)
                    .for_each(|(sum, it)| *sum += it);
            }
            Ok(status)
        },
        |meanwhile| replicas.roll(meanwhile, "tollgate_holds_placed_total"),
    );
    println!("answers: {answers:?}");
    // Nobody reaches a limit.
    assert!(answers.keys().eq(&[200]), "{answers:?}");
    settled(replicas.address(0));
    let after = left(replicas.address(1));
    let used: [u64; 3] = core::array::from_fn(|place| before[place] - after[place]);
    assert_eq!(used, charged.into_inner().unwrap());
}

#[test]
fn a_rolling_restart_behind_nginx_charges_each_call_once() {
    let Some(program) = NginxBefore::find() else { return };
    let model = Model::open();
    let Some(mut replicas) = Replicas::start(&fronts::without_end(), &[]) else { return };
    let (old, new) = rolling::second::<NginxBefore>(&replicas);
    let at = (model.address, replicas.address(0));
    let folder = replicas.place.path();
    let (door, _running) = proxied::<NginxBefore>(&program, folder, &[(old, &new)], at);
    survives_a_rolling_restart(&mut replicas, &model, door, false);
}

#[test]
fn a_rolling_restart_behind_envoy_charges_each_call_once() {
    let Some(program) = envoy::find() else { return };
    let model = Model::open();
    let flags = ["--linger", "2s"];
    let Some(mut replicas) = Replicas::start(&fronts::without_end(), &flags) else { return };
    let text = envoy::with_second("llm/envoy.yaml", &replicas);
    let at = [model.address, replicas.address(0), replicas.grpc[0]];
    let (door, _running) = envoy::before(&program, &replicas.place, &text, at);
    survives_a_rolling_restart(&mut replicas, &model, door, true);
}

#[test]
fn the_page_shows_the_policies_as_they_are() {
    let page = super::example("../docs/llm.md");
    let policies = super::example("llm/policies.toml");
    let (_, shown) = policies.split_once("version = 1\n\n").unwrap();
    assert!(page.contains(shown), "docs/llm.md shows other policies than the example");
}

#[test]
fn models_of_different_prices_spend_one_budget() {
    let place = Place::new();
    let policies = crate::clients::folder("../../examples/llm/models.toml").display().to_string();
    let service = Serving::start(&place, &["--store", "memory://", "--config", &policies]);
    let fields = |model: &str| {
        json!({ "path": PATH, "field.tenant": "acme", "field.model": model,
                "field.prompt_tokens": "100", "field.max_tokens": "100" })
    };
    for (model, price, money, requests) in
        [("large", 100 * 3 + 100 * 15, 49_998_200, 59), ("small", 15 + 60, 49_998_125, 599)]
    {
        let held = ask(service.address(), "/v1/reserve", &json!({ "fields": fields(model) }));
        let left: Vec<u64> = held["limits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["remaining"].as_u64().unwrap())
            .collect();
        assert_eq!(left[1..], [money, requests], "{model}");
        let commit = json!({ "hold": held["hold"], "actual": { "tokens": 200 } });
        let settled = ask(service.address(), "/v1/commit", &commit);
        let actual = json!({ "requests": 1, "microdollars": price, "tokens": 200 });
        assert_eq!(settled["actual"], actual, "{model}");
    }
}
