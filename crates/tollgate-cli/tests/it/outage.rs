//! A Redis that is away for 10 s, and goes and comes, under a service with each failure rule: the
//! admitted units beside the stated ones, the time of answers, the log, and the way back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Place;
use crate::redis;
use crate::serving::{LONG, Serving};

/// The limit of each policy, and its share of a quarter.
const RATE: u64 = 100;
const SHARE: u64 = RATE / 4;

/// The concurrent callers of one service.
const CALLERS: usize = 3;

const DEADLINE: Duration = Duration::from_millis(200);

/// The time that a busy machine may take beyond a deadline, as `docs/faults.md` states it.
const SLACK: Duration = Duration::from_millis(100);

/// One answer.
#[derive(Clone, Debug)]
struct Seen {
    began: Instant,
    ended: Instant,
    allowed: bool,
    outcome: String,
    authority: String,
}

impl Seen {
    fn took(&self) -> Duration {
        self.ended - self.began
    }
}

/// A service with this failure rule.
fn serve(place: &Place, name: &str, rule: &str, url: &str) -> Serving {
    let path = place.path().join(format!("{name}.toml"));
    let text = format!(
        "version = 1\n[[policies]]\nname = \"{name}\"\non_failure = {rule}\n\
         deadline = \"{}ms\"\nlimits = [{{ subject = \"ip\", limit = \"{RATE}/s via gcra\" }}]\n",
        DEADLINE.as_millis()
    );
    std::fs::write(&path, text).unwrap();
    let args = ["--config", path.to_str().unwrap(), "--store", url, "--log", "json"];
    Serving::start(place, &args)
}

/// Asks one service until it is over, each time a little later.
fn ask(serving: &Serving, is_over: &AtomicBool) -> Vec<Seen> {
    let (mut client, mut seen) = (serving.client(), Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let said = client.check(r#"{"fields": {"ip": "192.0.2.7"}}"#).unwrap();
        let text = |key: &str| said[key].as_str().unwrap().to_owned();
        seen.push(Seen {
            began,
            ended: Instant::now(),
            allowed: said["allowed"].as_bool().unwrap(),
            outcome: text("outcome"),
            authority: text("authority"),
        });
        thread::sleep(Duration::from_millis(3)); // tidy: sleep-ok a client's pace
    }
    seen
}

/// Asks all services while this happens.
fn meanwhile<T>(services: &[Serving], happens: impl FnOnce() -> T) -> (Vec<Vec<Seen>>, T) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let asking: Vec<Vec<_>> = services
            .iter()
            .map(|one| (0..CALLERS).map(|_| scope.spawn(move || ask(one, is_over))).collect())
            .collect();
        let result = happens();
        is_over.store(true, Ordering::Relaxed);
        let joined = asking.into_iter().map(|callers| {
            let each = callers.into_iter().flat_map(|caller| caller.join().unwrap());
            let mut all: Vec<Seen> = each.collect();
            all.sort_by_key(|seen| seen.began);
            all
        });
        (joined.collect(), result)
    })
}

/// The lines of the log that are about the store, and the counts in between.
fn lines(log: &str) -> Vec<Value> {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["message"].as_str().is_some_and(|text| text.starts_with("the store ")))
        .collect()
}

fn wait(time: Duration) {
    thread::sleep(time); // tidy: sleep-ok how long it lasts
}

#[test]
fn a_share_is_all_that_is_admitted_while_redis_is_away() {
    let place = Place::new();
    let Some((redis, url)) = redis::start(place.path(), &[]) else { return };
    let rules = [
        ("allow", "\"allow\"", "failure_rule"),
        ("deny", "\"deny\"", "failure_rule"),
        ("local", "{ local = \"25 %\" }", "local_share"),
    ];
    let services = rules.map(|(name, rule, _)| serve(&place, name, rule, &url));
    let (all, (killed, back, _redis)) = meanwhile(&services, || {
        wait(Duration::from_secs(2));
        let killed = Instant::now();
        drop(redis);
        wait(Duration::from_secs(10));
        let (redis, _) = redis::start(place.path(), &[]).unwrap();
        let back = Instant::now();
        // It is back when it has answered for a second without a failure.
        wait(Duration::from_secs(5));
        (killed, back, redis)
    });
    println!("| rule | admitted | stated | p99 | log lines | back after |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (((name, _, authority), seen), serving) in rules.into_iter().zip(&all).zip(services) {
        let by_rule: Vec<&Seen> = seen.iter().filter(|seen| seen.authority != "store").collect();
        assert!(by_rule.len() > 300, "{name}: {} answers", by_rule.len());
        assert!(by_rule.iter().all(|seen| seen.authority == authority), "{name}");
        let (first, last) =
            (by_rule[0].began, by_rule.iter().map(|seen| seen.ended).max().unwrap());
        assert!(first >= killed - Duration::from_secs(1), "{name}");
        let admitted = by_rule.iter().filter(|seen| seen.allowed).count() as u64;
        let away_us = u64::try_from((last - first).as_micros()).unwrap();
        let stated = match name {
            "allow" => by_rule.len() as u64,
            "deny" => 0,
            // A burst, and the units that come back in the time.
            _ => SHARE + (SHARE * away_us).div_ceil(1_000_000),
        };
        let outcome = |seen: &&Seen| match name {
            "allow" => seen.outcome == "failed_open",
            "deny" => seen.outcome == "failed_closed",
            _ => seen.outcome == if seen.allowed { "allowed" } else { "denied" },
        };
        assert!(by_rule.iter().all(outcome), "{name}");
        assert!(admitted <= stated, "{name}: {admitted} of {stated}");
        // The bound matters here: the store had almost nothing left.
        assert!(
            admitted * 10 >= (stated - stated.min(SHARE)) * 9,
            "{name}: {admitted} of {stated}"
        );
        let mut took: Vec<Duration> = by_rule.iter().map(|seen| seen.took()).collect();
        took.sort_unstable();
        let p99 = took[took.len() * 99 / 100];
        assert!(p99 <= DEADLINE + SLACK, "{name}: {p99:?}");
        let back_after = last.saturating_duration_since(back);
        assert!(back_after < Duration::from_secs(5), "{name}: {back_after:?}");
        assert_eq!(seen.last().unwrap().authority, "store", "{name}");
        let log = serving.end();
        let lines = lines(&log);
        let texts: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(texts.len(), 2, "{name}: {texts:?}");
        assert!(
            texts[0].starts_with("the store does not answer, and failure rules do"),
            "{texts:?}"
        );
        assert!(texts[1].starts_with("the store answers again, after 1"), "{texts:?}");
        // As many as callers saw.
        let keys = match name {
            "local" => ["allowed_by_shares", "denied_by_shares"],
            _ => ["allowed", "denied"],
        };
        let counted = keys.map(|key| lines[1][key].as_u64().unwrap());
        assert_eq!(counted, [admitted, by_rule.len() as u64 - admitted], "{texts:?}");
        let (p99, back_after) = (p99.as_secs_f64() * 1e3, back_after.as_secs_f64());
        println!("| `{name}` | {admitted} | {stated} | {p99:.1} ms | 2 | {back_after:.1} s |");
    }
}

/// Five outages of a second, half a second apart.
#[test]
fn an_outage_that_comes_and_goes_admits_one_burst() {
    let place = Place::new();
    let Some((redis, url)) = redis::start(place.path(), &[]) else { return };
    let services = [serve(&place, "local", "{ local = \"25 %\" }", &url)];
    let began = Instant::now();
    while services[0].client().check(r#"{"fields": {"ip": "::1"}}"#).unwrap()["authority"]
        != "store"
    {
        assert!(began.elapsed() < LONG, "it never counts");
    }
    let (all, _redis) = meanwhile(&services, || {
        let mut redis = Some(redis);
        for _ in 0..5 {
            drop(redis.take());
            wait(Duration::from_secs(1));
            redis = Some(redis::start(place.path(), &[]).unwrap().0);
            wait(Duration::from_millis(1_500));
        }
        redis
    });
    let local: Vec<&Seen> = all[0].iter().filter(|seen| seen.authority == "local_share").collect();
    // As often as it went away: the store's answers lie between.
    let away = all[0].chunk_by(|one, other| one.authority == other.authority);
    let outages = away.filter(|run| run.len() > 30 && run[0].authority == "local_share").count();
    assert!(outages >= 3, "{outages} outages were seen");
    let last = local.iter().map(|seen| seen.ended).max().unwrap();
    let time_us = u64::try_from((last - local[0].began).as_micros()).unwrap();
    let admitted = local.iter().filter(|seen| seen.allowed).count() as u64;
    let stated = SHARE + (SHARE * time_us).div_ceil(1_000_000);
    println!("{admitted} were admitted in {outages} outages, stated are {stated}");
    assert!(admitted <= stated, "{admitted} of {stated}");
    assert!(admitted > SHARE, "it admits what comes back, too");
}
