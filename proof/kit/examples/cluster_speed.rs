//! The cost of a check on a Redis Cluster beside one on a single server: time of this process and
//! of the servers, and how the load is spread.
//!
//! `cargo run --profile dist -p tollgate-proof --example cluster_speed`
//!
//! All servers are started here. The sides take turns; the figures are medians of the rounds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "without servers it has no figures")]

use std::fs;
use std::time::{Duration, Instant};

use futures_util::stream::{StreamExt as _, iter};
use tollgate::{LimitSet, Limiter, Subject};
use tollgate_redis::usage::Usage;
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::{ClusterOptions, RedisCluster, RedisServer};

/// Counts that last, and counts that are gone before the subject comes again: its key is then made
/// again, and on a cluster Redis keeps a list of the keys of each slot.
const LASTING: &str = "1000/1d via gcra";
const BRIEF: &str = "1000000/1s via gcra";

const SUBJECTS: usize = 100_000;
const AT_ONCE: usize = 256;
const ROUNDS: usize = 5;

/// The kernel counts the time of a process in hundredths of a second.
const TICK_US: u64 = 10_000;

struct Side {
    name: &'static str,
    limiter: Limiter<RedisStore>,
    servers: Vec<Options>,
    rounds: Vec<Round>,
}

#[derive(Clone)]
struct Round {
    client_us: f64,
    server_us: f64,
    per_second: f64,
    calls: Vec<u64>,
}

fn client_us() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // The times in the program and in the kernel, after the state and ten other fields.
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    ticks * TICK_US
}

async fn usage(servers: &[Options]) -> Vec<Usage> {
    let mut all = Vec::new();
    for server in servers {
        all.push(Usage::read(server).await.unwrap());
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
async fn measure(side: &mut Side, subjects: &[Subject]) {
    let before = usage(&side.servers).await;
    let (client, start) = (client_us(), Instant::now());
    let limiter = &side.limiter;
    iter(subjects)
        .for_each_concurrent(AT_ONCE, |subject| async move {
            assert!(limiter.check(subject).await.unwrap().is_allowed());
        })
        .await;
    let (client, clock) = (client_us() - client, start.elapsed());
    let after = usage(&side.servers).await;
    let each = |of: fn(&Usage) -> u64| {
        let pairs = after.iter().zip(&before);
        pairs.map(|(after, before)| of(after) - of(before)).collect::<Vec<u64>>()
    };
    let checks = subjects.len() as f64;
    side.rounds.push(Round {
        client_us: client as f64 / checks,
        server_us: each(|usage| usage.cpu_us).iter().sum::<u64>() as f64 / checks,
        per_second: checks / clock.as_secs_f64(),
        calls: each(|usage| usage.calls),
    });
}

fn median(side: &Side, of: fn(&Round) -> f64) -> f64 {
    let mut figures: Vec<f64> = side.rounds.iter().map(of).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

async fn side(
    name: &'static str,
    url: &str,
    servers: &[RedisServer],
    (limits, is_shared): (&str, bool),
) -> Side {
    let options = Options::from_url(url).unwrap().deadline(Duration::from_secs(30));
    // A script that takes its numbers is never called for several checks together.
    let options = if is_shared { options } else { options.scripts(0) };
    let limits: LimitSet = limits.parse().unwrap();
    let store = RedisStore::builder(options).connect().await.unwrap();
    store.prepare(&[&limits]).await.unwrap();
    let servers = servers.iter().map(|it| Options::from_url(&it.url()).unwrap()).collect();
    Side { name, limiter: Limiter::new(limits, store), servers, rounds: Vec::new() }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let alone = RedisServer::start();
    let cluster = |primaries| ClusterOptions::new().primaries(primaries).replicas(0).start();
    let (one, three): (RedisCluster, RedisCluster) = (cluster(1), cluster(3));
    let subjects: Vec<Subject> =
        (0..SUBJECTS).map(|n| Subject::new("user", n.to_string()).unwrap()).collect();
    for how in [(LASTING, false), (BRIEF, false), (LASTING, true)] {
        let (limits, is_shared) = how;
        let mut sides = [
            side("one server", &alone.url(), std::slice::from_ref(&alone), how).await,
            side("a cluster of one", &one.url(), one.servers(), how).await,
            side("a cluster of three", &three.url(), three.servers(), how).await,
        ];
        for round in 0..=ROUNDS {
            for at in 0..sides.len() {
                let at = (at + round) % sides.len();
                measure(&mut sides[at], &subjects).await;
            }
            if round == 0 {
                // The first loads scripts and makes room for keys.
                sides.iter_mut().for_each(|side| side.rounds.clear());
            }
        }
        println!("\n{limits}; checks share calls: {}", if is_shared { "yes" } else { "no" });
        println!(
            "{:<20} {:>10} {:>7} {:>10} {:>7} {:>10}",
            "", "client us", "ratio", "server us", "ratio", "per second"
        );
        let first = sides.first().unwrap();
        let of_one = (median(first, |it| it.client_us), median(first, |it| it.server_us));
        for side in &sides {
            let (client, server) =
                (median(side, |it| it.client_us), median(side, |it| it.server_us));
            println!(
                "{:<20} {client:>10.2} {:>7.2} {server:>10.2} {:>7.2} {:>10.0}",
                side.name,
                client / of_one.0,
                server / of_one.1,
                median(side, |it| it.per_second),
            );
        }
        let calls = &sides[2].rounds[0].calls;
        let sum: u64 = calls.iter().sum();
        let shares: Vec<String> = calls
            .iter()
            .enumerate()
            .map(|(node, calls)| {
                let slots = three.nodes();
                let slots = slots.iter().find(|it| it.index == node).unwrap();
                let owned = (0..16_384).filter(|slot| slots.owns(*slot)).count();
                format!(
                    "{:.1} % of calls, {:.1} % of slots",
                    percent(*calls, sum),
                    percent(owned as u64, 16_384)
                )
            })
            .collect();
        println!("spread over three: {}", shares.join("; "));
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole as f64
}
