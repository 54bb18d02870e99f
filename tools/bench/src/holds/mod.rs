//! `holds`: the cost to reserve and commit, and to acquire and release beside many holders.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::future::join_all;
use serde::Serialize;
use tollgate::{Ask, Hold, Limiter, MemoryStore, Store};
use tollgate_redis::RedisStore;
use tollgate_testbed::RedisServer;

use crate::args::BenchHolds;
use crate::redis_server;
use crate::show;
use crate::sqlite::median;

/// The limit of every check and reserve: nothing is denied.
const LIMIT: &str = "1000000000/s via gcra";

/// How many holders are open beside those that are measured.
const HOLDERS: [u64; 3] = [20, 1_000, 99_000];

/// Long enough that no hold ends while it is measured.
const TTL: Duration = Duration::from_secs(3_600);

/// Operations in memory for each turn, and on Redis.
const IN_MEMORY: u32 = 20_000;
const ON_REDIS: u32 = 2_000;

/// The calls that are under way at a time where there are many.
const IN_FLIGHT: u32 = 32;

#[derive(Debug, Serialize)]
struct HoldsJson {
    runs: u32,
    rows: Vec<RowJson>,
    bytes_a_holder: Vec<(u64, f64)>,
}

/// The median of one operation.
#[derive(Debug, Serialize)]
struct RowJson {
    store: &'static str,
    operation: String,
    us: f64,
    /// Over the check of the same store, or the same with the fewest holders.
    ratio: f64,
}

pub(crate) fn holds(args: &BenchHolds) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = redis_server::start(&[])?;
    let figures = runtime.block_on(measure(args, &server))?;
    show::figures(args.json, &figures, in_words)?;
    Ok(0)
}

async fn measure(args: &BenchHolds, server: &RedisServer) -> Result<HoldsJson> {
    let mut rows = Vec::new();
    let memory = || MemoryStore::builder().max_bytes(1 << 30).build();
    rows.extend(reserves("memory", &memory(), args.runs, (IN_MEMORY, 1)).await?);
    // Nothing is measured of a store that gives up while the machine is busy.
    let redis = RedisStore::connect(&format!("{}?deadline=10s", server.url())).await?;
    rows.extend(reserves("Redis, one at a time", &redis, args.runs, (ON_REDIS, 1)).await?);
    rows.extend(reserves("Redis, 32 at a time", &redis, args.runs, (ON_REDIS, IN_FLIGHT)).await?);
    rows.extend(slots("memory", &memory(), args.runs, IN_MEMORY).await?);
    rows.extend(slots("Redis, one at a time", &redis, args.runs, ON_REDIS).await?);
    let mut bytes_a_holder = Vec::new();
    for holders in HOLDERS {
        let used = bytes_of(server, &format!("tg1:{{{holders}}}:concurrency@"))?;
        bytes_a_holder.push((holders, used as f64 / holders as f64));
    }
    Ok(HoldsJson { runs: args.runs, rows, bytes_a_holder })
}

/// A check, a reserve and a commit, in turns.
async fn reserves<S: Store + Clone>(
    name: &'static str,
    store: &S,
    runs: u32,
    (count, in_flight): (u32, u32),
) -> Result<Vec<RowJson>> {
    let limiter = Limiter::new(LIMIT.parse()?, store.clone());
    // Others are held than are checked, which would meet open holds.
    let [checked, held] = ["user", "held"].map(|dimension| -> Vec<String> {
        (0..1_000).map(|n| format!("{dimension}:{n}")).collect()
    });
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..runs {
        let started = Instant::now();
        for first in (0..count).step_by(in_flight as usize) {
            let asks = (first..first + in_flight).map(|n| limiter.check(ask(&checked, n)));
            for decision in join_all(asks).await {
                let _ = black_box(decision?);
            }
        }
        times[0].push(each_us(started, count));
        let mut open: Vec<Hold> = Vec::with_capacity(count as usize);
        let started = Instant::now();
        for first in (0..count).step_by(in_flight as usize) {
            let asks = (first..first + in_flight).map(|n| limiter.hold(ask(&held, n).reserve(TTL)));
            for holding in join_all(asks).await {
                open.extend(holding?.hold);
            }
        }
        times[1].push(each_us(started, count));
        let started = Instant::now();
        for holds in open.chunks(in_flight as usize) {
            for settled in join_all(holds.iter().map(|hold| limiter.commit(hold, 1))).await {
                black_box(settled?);
            }
        }
        times[2].push(each_us(started, count));
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    let rows = ["check", "reserve", "commit"].iter().zip(&medians).map(|(operation, us)| RowJson {
        store: name,
        operation: (*operation).to_owned(),
        us: *us,
        ratio: us / medians[0],
    });
    Ok(rows.collect())
}

/// The ask about one subject of many, in turns.
fn ask(subjects: &[String], n: u32) -> Ask<'_> {
    Ask::new(subjects[n as usize % subjects.len()].as_str())
}

/// Acquires and releases beside this many holders, in turns.
async fn slots<S: Store + Clone>(
    name: &'static str,
    store: &S,
    runs: u32,
    count: u32,
) -> Result<Vec<RowJson>> {
    let limiter = Limiter::new("1000000 at once hold 1h".parse()?, store.clone());
    for holders in HOLDERS {
        let subject = holders.to_string();
        let all: Vec<u64> = (0..holders).collect();
        for some in all.chunks(256) {
            let asks = some.iter().map(|_| limiter.hold(Ask::new(subject.as_str()).acquire()));
            for holding in join_all(asks).await {
                holding?.hold.context("no slot was free")?;
            }
        }
    }
    let mut times: Vec<Vec<f64>> = HOLDERS.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        for (holders, times) in HOLDERS.iter().zip(&mut times) {
            let subject = holders.to_string();
            let started = Instant::now();
            for _ in 0..count {
                let hold = limiter.hold(Ask::new(subject.as_str()).acquire()).await?.hold;
                limiter.release(&hold.context("no slot was free")?).await?;
            }
            times.push(each_us(started, count));
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    let rows = HOLDERS.iter().zip(&medians).map(|(holders, us)| RowJson {
        store: name,
        operation: format!("acquire and release beside {holders}"),
        us: *us,
        ratio: us / medians[0],
    });
    Ok(rows.collect())
}

fn each_us(started: Instant, count: u32) -> f64 {
    started.elapsed().as_secs_f64() * 1e6 / f64::from(count)
}

/// The bytes of a key, all of its elements counted.
fn bytes_of(server: &RedisServer, key: &str) -> Result<u64> {
    let client = redis::Client::open(server.url())?;
    let mut connection = client.get_connection()?;
    let mut command = redis::cmd("MEMORY");
    Ok(command.arg("USAGE").arg(key).arg("SAMPLES").arg(0).query(&mut connection)?)
}

fn in_words(figures: &HoldsJson) -> String {
    let mut table = show::table(["store", "operation", "us", "ratio"]);
    for RowJson { store, operation, us, ratio } in &figures.rows {
        table.add_row([
            (*store).to_owned(),
            operation.clone(),
            format!("{us:.2}"),
            format!("{ratio:.2}"),
        ]);
    }
    let mut text = format!("{table}\n");
    for (holders, bytes) in &figures.bytes_a_holder {
        text += &format!("{holders} holders on Redis: {bytes:.0} bytes each\n");
    }
    text
}
