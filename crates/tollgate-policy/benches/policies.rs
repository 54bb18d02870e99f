//! How long finding the policies of a request takes, and the whole gate beside the limiter alone.
//! All sides take turns in one process; each figure is the median of the rounds.
//!
//! `cargo bench -p tollgate-policy --bench policies`

#![allow(clippy::unwrap_used)] // a benchmark that cannot be set up has no figures

use std::borrow::Cow;
use std::future::Future;
use std::hint::black_box;
use std::time::{Duration, Instant};

use tollgate::operation::Post;
use tollgate::{Ask, Limiter, MemoryStore, Notice, Store as _, at_once};
use tollgate_policy::{Condition, Effect, Field, Fields, Format, Gate, Policies, Ruling};

const ROUNDS: usize = 31;
const CALLS: usize = 20_000;
const HOUR: Duration = Duration::from_secs(3_600);

/// A request as a front of HTTP has it.
struct Request {
    ip: String,
    host: &'static str,
    method: &'static str,
    path: String,
}

impl Fields for Request {
    #[inline]
    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(match field {
            Field::Ip => &self.ip,
            Field::Host => self.host,
            Field::Method => self.method,
            Field::Path => &self.path,
            _ => return None,
        }))
    }
}

/// `count` policies: a third by exact path, a third by prefix, a third by host and method; the last
/// takes every request.
fn policies(count: usize, combine: &str) -> Policies {
    let mut text = format!("version = 1\nmatch = \"{combine}\"\n");
    for i in 0..count {
        let when = match i {
            _ if i + 1 == count => String::new(),
            _ if i % 3 == 0 => format!("when = {{ path = \"/v1/items/{i}\", method = \"GET\" }}"),
            _ if i % 3 == 1 => format!("when = {{ path = \"/v1/groups/{i}/*\" }}"),
            _ => format!("when = {{ host = \"h{i}.example.com\", method = [\"GET\", \"PUT\"] }}"),
        };
        text.push_str(&format!(
            "[[policies]]\nname = \"p{i}\"\non_failure = \"allow\"\nshard = \"never\"\n{when}\n\
             limits = [{{ subject = \"ip\", limit = \"1000000000/s via gcra\" }}]\n"
        ));
    }
    Policies::parse(&text, Format::Toml).unwrap_or_else(|problems| panic!("{problems}"))
}

/// `count` policies with a `*` within their paths: half differ before it, and half behind it.
fn globs(count: usize) -> Policies {
    let policy = |i: usize| {
        let path = match i % 2 {
            0 => format!("/v1/items/{i}/*/parts"),
            _ => format!("/users/*/r{i}"),
        };
        format!(
            "[[policies]]\nname = \"p{i}\"\non_failure = \"allow\"\nwhen = {{ path = \"{path}\" }}\n\
             limits = [{{ subject = \"ip\", limit = \"1000000000/s via gcra\" }}]\n"
        )
    };
    let text = (0..count).map(policy).collect::<String>();
    let text = format!("version = 1\nmatch = \"first\"\n{text}");
    Policies::parse(&text, Format::Toml).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Requests that each meet one of them.
fn requests_of_globs(count: usize) -> Vec<Request> {
    let mut requests = requests(1);
    for (i, request) in requests.iter_mut().enumerate() {
        let at = i * 7919 % count;
        request.path = match at % 2 {
            0 => format!("/v1/items/{at}/{i}/parts"),
            _ => format!("/users/{i}/r{at}"),
        };
    }
    requests
}

fn requests(count: usize) -> Vec<Request> {
    let request = |i: usize| {
        let at = i * 7 % count.max(1);
        let at = at - at % 3;
        Request {
            ip: format!("10.0.{}.{}", i / 250 % 250, i % 250),
            host: "api.example.com",
            method: "GET",
            // Found exactly, found by prefix, and found by nothing but the last.
            path: match i % 3 {
                0 => format!("/v1/items/{at}"),
                1 => format!("/v1/groups/{}/members/{i}", at + 1),
                _ => format!("/v2/other/{i}"),
            },
        }
    };
    (0..1_024).map(request).collect()
}

/// The memory store answers immediately: no runtime is measured.
fn now<T>(future: impl Future<Output = T>) -> T {
    at_once(future).unwrap()
}

/// One policy for who is in a list of so many networks, in a file.
fn listed(count: usize) -> Policies {
    let folder = tempfile::tempdir().unwrap();
    let nets = (0..count).map(|n| format!("1.{}.{}.{}/32\n", n >> 16, n >> 8 & 255, n & 255));
    std::fs::write(folder.path().join("list.txt"), nets.collect::<String>()).unwrap();
    let path = folder.path().join("p.toml");
    let text = "version = 1\n[[policies]]\nname = \"p\"\non_failure = \"allow\"\n\
                when = { ip = { file = \"list.txt\" } }\n\
                limits = [{ subject = \"ip\", limit = \"1000000000/s via gcra\" }]\n";
    std::fs::write(&path, text).unwrap();
    Policies::load(&path).unwrap_or_else(|problems| panic!("{problems}"))
}

type Side<'a> = (String, Box<dyn FnMut(usize) + 'a>);

#[expect(clippy::too_many_lines, reason = "one benchmark for each part")]
fn main() {
    let one = policies(1, "first");
    let limits = one.policies()[0].entries[0].limits.clone();
    let all = requests(1);
    let texts: Vec<String> = all.iter().map(|request| format!("ip:{}", request.ip)).collect();
    let limiter = Limiter::new(limits.clone(), MemoryStore::new());
    let future = Limiter::new(limits, MemoryStore::new());
    let mut sides: Vec<Side<'_>> = Vec::new();
    for combine in ["first", "all"] {
        for count in [1, 100, 10_000] {
            let (policies, requests) = (policies(count, combine), requests(count));
            let side = move |i: usize| {
                let request = &requests[i % requests.len()];
                black_box(policies.count_matching(black_box(request)));
            };
            sides.push((format!("match {combine}, {count} policies"), Box::new(side)));
        }
    }
    for count in [10, 100_000] {
        let (policies, mut requests) = (listed(count), requests(1));
        for (i, request) in requests.iter_mut().enumerate() {
            // Half of them are in it.
            let n = i * 7919 % count;
            let first = i % 2 + 1;
            request.ip = format!("{first}.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255);
        }
        let side = move |i: usize| {
            let request = &requests[i % requests.len()];
            black_box(policies.count_matching(black_box(request)));
        };
        sides.push((format!("a list of {count} networks"), Box::new(side)));
    }
    let side = |i: usize| {
        let text = texts[i % texts.len()].as_str();
        black_box(limiter.check(text).now().unwrap().is_allowed());
    };
    sides.push(("limiter alone, now".to_owned(), Box::new(side)));
    let side = |i: usize| {
        let ask = Ask::new(texts[i % texts.len()].as_str());
        black_box(now(future.check(ask)).unwrap().is_allowed());
    };
    sides.push(("limiter alone, check".to_owned(), Box::new(side)));
    for count in [1, 100, 10_000] {
        let gate = Gate::new(policies(count, "first"), MemoryStore::new()).unwrap();
        let requests = requests(count);
        let side = move |i: usize| {
            let request = &requests[i % requests.len()];
            black_box(now(gate.check(request)).is_allowed());
        };
        sides.push((format!("gate, {count} policies"), Box::new(side)));
    }
    for count in [10, 10_000] {
        let (policies, requests) = (globs(count), requests_of_globs(count));
        let side = move |i: usize| {
            let request = &requests[i % requests.len()];
            black_box(policies.count_matching(black_box(request)));
        };
        sides.push((format!("match first, {count} policies with globs"), Box::new(side)));
    }
    for count in [10, 10_000] {
        let gate = Gate::new(globs(count), MemoryStore::new()).unwrap();
        let requests = requests_of_globs(count);
        let side = move |i: usize| {
            let answer = now(gate.check(&requests[i % requests.len()]));
            assert_eq!(black_box(answer).parts().len(), 1);
        };
        sides.push((format!("gate, {count} policies with globs"), Box::new(side)));
    }
    // Bans that match none of the requests: the cost for all others while there are some.
    for count in [1, 10_000] {
        let store = MemoryStore::new();
        let gate = Gate::new(policies(1, "first"), store.clone()).unwrap();
        for n in 0..count {
            let net = format!("203.{}.{}.0/24", n >> 8, n & 255);
            let ban = Condition::parse("ip", [net.as_str()]).unwrap();
            let ban = Ruling::new(Effect::Ban, vec![ban]).unwrap();
            let text = format!(r#"{{"effect":"ban","when":{{"ip":["{net}"]}}}}"#);
            match n {
                // The last one is ruled, which reads all of them.
                _ if n + 1 == count => now(gate.admin().rule(&ban, HOUR)).unwrap(),
                _ => {
                    now(store.perform(&Post::new(&Notice::new(&net, text, HOUR).unwrap())))
                        .unwrap();
                }
            }
        }
        let requests = requests(1);
        let side = move |i: usize| {
            let request = &requests[i % requests.len()];
            black_box(now(gate.check(request)).is_allowed());
        };
        sides.push((format!("gate, 1 policy, {count} bans"), Box::new(side)));
    }
    let mut times = vec![Vec::new(); sides.len()];
    for round in 0..=ROUNDS {
        for (times, (_, side)) in times.iter_mut().zip(&mut sides) {
            let start = Instant::now();
            (0..CALLS).for_each(&mut *side);
            // The first round warms up.
            if round > 0 {
                times.push(start.elapsed().as_nanos() / CALLS as u128);
            }
        }
    }
    for (mut times, (name, _)) in times.into_iter().zip(sides) {
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 10];
        println!("{name:<28} {:>5} ns   ({} to {})", at(5), at(1), at(9));
    }
}
