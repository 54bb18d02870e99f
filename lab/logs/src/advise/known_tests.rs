//! Advice on generated logs whose truth is known: who is a person, a robot, a scanner, a monitor or
//! an abuser. The engine judges each recommended limit, request by request.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use tollgate::{Ask, Limiter, ManualClock, MemoryStore, Time};

use super::*;
use crate::read::Reading;
use crate::source::Lines;
use crate::split_mix::SplitMix64;

/// Whose request it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Truth {
    Person,
    Monitor,
    Robot,
    Scanner,
    Abuser,
}

const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const CRAWLER: &str = "Mozilla/5.0 (compatible; Somebot/2.1; +http://crawler.example/)";
const PROGRAM: &str = "okhttp/4.12.0";

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A request: its time in milliseconds, its client, its status and its agent.
type Request = (u64, u32, u16, &'static str);

/// A log that is made client by client.
struct World {
    random: SplitMix64,
    requests: Vec<Request>,
    truths: Vec<Truth>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self { random: SplitMix64::new(seed), requests: Vec::new(), truths: Vec::new() }
    }

    /// Another client.
    fn client(&mut self, truth: Truth) -> u32 {
        self.truths.push(truth);
        u32::try_from(self.truths.len() - 1).unwrap()
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.random.below(high - low + 1)
    }

    /// Somebody who reads up to `pages` pages, each with up to `assets` assets, in `hours`.
    fn reads(&mut self, client: u32, (pages, assets, hours): (u64, u64, u64)) {
        let mut at = self.between(0, (hours - 1) * HOUR);
        for _ in 0..self.between(1, pages) {
            self.requests.push((at, client, 200, BROWSER));
            for _ in 0..self.between(assets / 3, assets) {
                let status = if self.random.below(30) == 0 { 404 } else { 200 };
                let after = self.between(50, 2 * SECOND);
                self.requests.push((at + after, client, status, BROWSER));
            }
            at += self.between(8 * SECOND, 2 * MINUTE);
        }
    }

    /// A program that asks `times` times, once each `gap` and a little more.
    fn polls(
        &mut self,
        client: u32,
        (begin, gap, times): (u64, u64, u64),
        (status, agent): (u16, &'static str),
    ) {
        let mut at = begin;
        for _ in 0..times {
            self.requests.push((at, client, status, agent));
            at += gap + self.random.below(gap / 10 + 1);
        }
    }

    /// The requests in order.
    fn ordered(&self) -> Vec<Request> {
        let mut all = self.requests.clone();
        all.sort_unstable();
        all
    }

    fn log(&self) -> String {
        let mut log = String::new();
        for (at, client, status, agent) in self.ordered() {
            let (hour, minute, second) = (at / HOUR, at / MINUTE % 60, at / SECOND % 60);
            writeln!(
                log,
                "{{\"ip\":\"10.1.{}.{}\",\"ts\":\"2026-03-02T{hour:02}:{minute:02}:{second:02}.{:03}Z\",\
                 \"status\":{status},\"user_agent\":\"{agent}\"}}",
                client / 256,
                client % 256,
                at % SECOND,
            )
            .unwrap();
        }
        log
    }

    /// The requests and the denied ones of each client under a limit, and the longest wait.
    fn under(&self, limit: &str) -> (BTreeMap<u32, (u64, u64)>, Duration) {
        let clock = ManualClock::at_micros(0);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::new(limit.parse().unwrap(), store);
        let (mut all, mut longest) = (BTreeMap::<u32, (u64, u64)>::new(), Duration::ZERO);
        for (at, client, ..) in self.ordered() {
            clock.set(Time::from_micros((HOUR + at) * 1_000));
            let name = client.to_string();
            let decision = limiter.check(Ask::new(&name)).now().unwrap();
            let counts = all.entry(client).or_default();
            counts.0 += 1;
            if !decision.is_allowed() {
                counts.1 += 1;
                longest = longest.max(decision.retry_after().unwrap_or_default());
            }
        }
        (all, longest)
    }
}

/// Checks the advice on a log: at most the share of the people and no monitor is denied, nobody
/// waits longer than 10 s, and most of what abusers and scanners ask for is denied.
fn keeps_its_promise(world: &World, limits: bool) -> Advice {
    let lines = Lines::from_reader(Cursor::new(world.log()), Path::new("x"), None).unwrap();
    let traffic = Reading::default().with_descriptions().read_lines(lines, |_| ()).unwrap();
    assert_eq!(traffic.summary.unparsed, 0, "{:?}", traffic.summary.first_unparsed);
    let options = Options { wants_second: limits, ..Options::default() };
    let advice = advise(&traffic, &options, &mut |_| Ok(())).unwrap();
    let it = &advice.recommended;
    let (counts, longest) = world.under(&it.limit);
    let of = |truth: Truth| {
        let each =
            counts.iter().filter(move |(client, _)| world.truths[**client as usize] == truth);
        each.map(|(_, counts)| *counts).collect::<Vec<_>>()
    };
    let denied = |truth| of(truth).iter().filter(|(_, denied)| *denied > 0).count();
    let people = of(Truth::Person).len();
    assert!(denied(Truth::Person) * 1_000 <= people, "{}: {}", it.limit, denied(Truth::Person));
    assert_eq!(denied(Truth::Monitor), 0, "{}", it.limit);
    for truth in [Truth::Abuser, Truth::Scanner] {
        for (asked, denied) in of(truth) {
            assert!(denied * 2 > asked, "{}: {truth:?}, {denied} of {asked}", it.limit);
        }
    }
    if !limits {
        assert!(longest <= Duration::from_secs(10), "{}: {longest:?}", it.limit);
    }
    assert_eq!(it.doubts, Vec::<String>::new(), "{}", it.limit);
    // The groups are those of the truth, and their denials those of the engine.
    let scanners = of(Truth::Scanner).len();
    for (why, clients) in
        [(Some(Why::Scanner), scanners), (Some(Why::Robot), of(Truth::Robot).len())]
    {
        let group = it.groups.iter().find(|group| group.why == why);
        assert_eq!(group.map_or(0, |group| group.clients), clients as u64, "{why:?}");
    }
    let sum: u64 = counts.values().map(|(_, denied)| *denied).sum();
    assert_eq!(it.groups.iter().map(|group| group.requests_denied).sum::<u64>(), sum);
    advice
}

/// A site: people with pages of up to 60 assets, crawlers, scanners, monitors and one who copies
/// it.
fn site(people: u32) -> World {
    let mut world = World::new(61);
    for _ in 0..people {
        let client = world.client(Truth::Person);
        world.reads(client, (5, 60, 20));
    }
    for n in 0..3 {
        let robot = world.client(Truth::Robot);
        world.polls(robot, (n * HOUR, 2 * SECOND, 2_000), (200, CRAWLER));
    }
    for n in 0..2 {
        let scanner = world.client(Truth::Scanner);
        world.polls(scanner, ((n + 3) * HOUR, 200, 2_000), (404, BROWSER));
        let monitor = world.client(Truth::Monitor);
        world.polls(monitor, (n * 7, MINUTE - 10 * SECOND, 520), (200, PROGRAM));
    }
    let abuser = world.client(Truth::Abuser);
    world.polls(abuser, (2 * HOUR, 100, 10_000), (200, BROWSER));
    world
}

#[test]
fn a_site_with_everybody() {
    let world = site(1_020);
    let advice = keeps_its_promise(&world, false);
    // Up to five pages of 60 assets, one after the other.
    assert!((100..=300).contains(&advice.recommended.units), "{}", advice.recommended.limit);
    assert!((55..=61).contains(&advice.page_views.p99), "{:?}", advice.page_views);
}

#[test]
fn a_small_site_whose_busiest_client_is_a_scanner() {
    let mut world = World::new(62);
    for _ in 0..60 {
        let client = world.client(Truth::Person);
        world.reads(client, (4, 20, 24));
    }
    let scanner = world.client(Truth::Scanner);
    world.polls(scanner, (HOUR, 100, 239), (404, BROWSER));
    world.polls(scanner, (HOUR, 1_000, 22), (200, BROWSER));
    for n in 0..3 {
        let robot = world.client(Truth::Robot);
        world.polls(robot, (n * HOUR, 30 * SECOND, 300), (200, CRAWLER));
    }
    let advice = keeps_its_promise(&world, false);
    // Up to four pages of 20 assets, and not 239.
    assert!(advice.recommended.units <= 84, "{}", advice.recommended.limit);
}

#[test]
fn an_api_whose_programs_work_in_batches() {
    let mut world = World::new(63);
    for n in 0..100 {
        let client = world.client(Truth::Person);
        let gap = world.between(10 * SECOND, 30 * SECOND);
        world.polls(client, (n * 13, gap, 5 * HOUR / gap), (200, PROGRAM));
        // Each hour a batch.
        for hour in 0..5 {
            let begin = hour * HOUR + world.between(0, MINUTE);
            let size = world.between(20, 80);
            world.polls(client, (begin, 60, size), (201, PROGRAM));
        }
    }
    let amok = world.client(Truth::Abuser);
    world.polls(amok, (3 * HOUR, 20, 10_000), (200, PROGRAM));
    let advice = keeps_its_promise(&world, false);
    assert!((60..=200).contains(&advice.recommended.units), "{}", advice.recommended.limit);
}

#[test]
fn a_login_that_is_guessed() {
    let mut world = World::new(64);
    for _ in 0..500 {
        let client = world.client(Truth::Person);
        let (begin, failures) = (world.between(0, 9 * HOUR), world.random.below(4));
        world.polls(client, (begin, 6 * SECOND, failures), (401, BROWSER));
        world.polls(client, (begin + MINUTE, SECOND, 1), (200, BROWSER));
    }
    for n in 0..4 {
        let guesser = world.client(Truth::Scanner);
        world.polls(guesser, (n * HOUR, 2 * SECOND, 5_000), (401, BROWSER));
    }
    let advice = keeps_its_promise(&world, false);
    assert_eq!(advice.recommended.units, 10, "{}", advice.recommended.limit);
}

#[test]
fn an_office_behind_one_address_and_a_copier_in_the_long_run() {
    let mut world = World::new(65);
    for _ in 0..400 {
        let client = world.client(Truth::Person);
        world.reads(client, (5, 40, 23));
    }
    let office = world.client(Truth::Person);
    for _ in 0..12 {
        world.reads(office, (5, 40, 9));
    }
    let monitor = world.client(Truth::Monitor);
    world.polls(monitor, (0, MINUTE, 1_300), (200, PROGRAM));
    // A copier that is patient: two a second for three hours.
    let abuser = world.client(Truth::Abuser);
    world.polls(abuser, (HOUR, 480, 20_000), (200, BROWSER));
    let one = keeps_its_promise(&world, false);
    let two = keeps_its_promise(&world, true);
    let (one, two) = (&one.recommended, &two.recommended);
    assert!(two.limit.starts_with(&one.limit) && two.limit.contains(", "), "{}", two.limit);
    assert!(two.worst_window < one.worst_window, "{} {}", two.worst_window, one.worst_window);
    assert!(two.outliers_requests_denied > one.outliers_requests_denied);
}

/// Whatever is recommended from too little is marked.
#[test]
fn a_log_that_is_too_short_or_too_small_is_doubted() {
    let doubts = |world: &World| {
        let lines = Lines::from_reader(Cursor::new(world.log()), Path::new("x"), None).unwrap();
        let traffic = Reading::default().with_descriptions().read_lines(lines, |_| ()).unwrap();
        advise(&traffic, &Options::default(), &mut |_| Ok(())).unwrap().recommended.doubts
    };
    let mut two = World::new(1);
    for n in 0..2 {
        let client = two.client(Truth::Person);
        two.polls(client, (n * 2 * SECOND, SECOND, 1), (200, BROWSER));
    }
    let said = doubts(&two);
    assert!(said[0].starts_with("2 clients are few") && said[1].contains("covers 2 s"), "{said:?}");
    // Two minutes and a half of a site, and one minute of them is loud.
    let mut short = World::new(2);
    for n in 0..200 {
        let client = short.client(Truth::Person);
        short.polls(client, (n * 100, SECOND, 30), (200, BROWSER));
        short.polls(client, (150 * SECOND, 10, if n < 30 { 90 } else { 0 }), (200, BROWSER));
    }
    let said = doubts(&short);
    assert!(
        said[0].contains("covers 2 min") && said[0].ends_with("of at least 3 hours."),
        "{said:?}"
    );
    assert!(said[1].contains("One quarter"), "{said:?}");
}
