//! Holds over real processes on a real Redis: workers that are killed while they hold a slot, and
//! callers of a model that cancel, hang up and are killed between a reserve and its commit.
//!
//! The processes are this very test program, started again with a variable that says what to do.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // tests may

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate::{Ask, Limiter};
use tollgate_redis::{Options, RedisStore};
use tollgate_testbed::redis_or_skip;

const URL: &str = "TOLLGATE_TEST_HOLDER_URL";

/// How long the load goes on, in milliseconds, unless this variable says otherwise.
const LOAD_MS: (&str, u64) = ("TOLLGATE_TEST_LOAD_MS", 6_000);

const PROCESSES: usize = 8;
const SLOTS: usize = 20;
const HOLD_US: u64 = 400_000;

/// The budget of the callers of the model. No unit comes back while the test runs.
const BUDGET: u64 = 40_000;
const ESTIMATE: u64 = 40;
const MOST: u64 = 100;
const TTL: Duration = Duration::from_millis(700);

/// Lets the load go on, or time pass that a caller takes.
fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms)); // tidy: sleep-ok the length of a load
}

/// The clock that all processes of this machine share.
fn now_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

fn say(line: &str) {
    // In one piece: tasks share the pipe.
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

/// A process, and the lines that it wrote until it ended.
struct Process {
    child: Child,
    lines: JoinHandle<Vec<String>>,
}

impl Process {
    fn start(url: &str, what: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", what, "--nocapture"])
            .env(URL, url)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let lines = std::thread::spawn(move || out.lines().map_while(Result::ok).collect());
        Self { child, lines }
    }

    /// Kills it. Returns when that was, and its output.
    fn kill(mut self) -> (u64, Vec<String>) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (now_us(), self.lines.join().unwrap())
    }
}

/// Starts processes, kills one after the other and starts another in its place, and kills them all
/// at the end.
fn under_load(url: &str, what: &str, seed: u64) -> Vec<(u64, Vec<String>)> {
    let (variable, usual_ms) = LOAD_MS;
    let load_ms: u64 = std::env::var(variable).map_or(usual_ms, |ms| ms.parse().unwrap());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut running: Vec<Process> = (0..PROCESSES).map(|_| Process::start(url, what)).collect();
    let mut ended = Vec::new();
    let until_us = now_us() + load_ms * 1_000;
    while now_us() < until_us {
        pause(rng.random_range(50..400));
        let killed = running.swap_remove(rng.random_range(0..running.len()));
        ended.push(killed.kill());
        running.push(Process::start(url, what));
    }
    ended.extend(running.into_iter().map(Process::kill));
    ended
}

async fn connect(url: &str) -> RedisStore {
    let options = Options::from_url(url).unwrap().deadline(Duration::from_secs(5));
    RedisStore::builder(options).connect().await.unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs `tasks` of them for ever.
fn for_ever<F: Future<Output = ()>>(tasks: u64, task: impl Fn(RedisStore, u64) -> F) {
    let Ok(url) = std::env::var(URL) else { return };
    runtime().block_on(async {
        let store = connect(&url).await;
        futures_util::future::join_all((0..tasks).map(|n| task(store.clone(), n))).await;
    });
}

/// Not a separate test: the work of the other test's workers. Started by hand it does nothing.
#[test]
fn when_started_as_a_worker_it_works() {
    for_ever(8, |store, n| async move {
        let limits = format!("{SLOTS} at once hold {HOLD_US}us").parse().unwrap();
        let limiter = Arc::new(Limiter::new(limits, store));
        let mut rng = ChaCha8Rng::seed_from_u64(now_us() + n);
        loop {
            let asked_us = now_us();
            let Ok(holding) = limiter.hold(Ask::new("backend").acquire()).await else { continue };
            let Some(mut hold) = holding.hold else {
                tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep-ok pace
                continue;
            };
            let id = hold.id;
            say(&format!("got {id} {asked_us} {} {}", now_us(), hold.fence));
            let work = Duration::from_millis(rng.random_range(1..120));
            tokio::time::sleep(work).await; // tidy: sleep-ok the work
            if rng.random_range(0..4) == 0 {
                let asked_us = now_us();
                match limiter.renew(&mut hold, None).await {
                    Ok(true) => say(&format!("renewed {id} {asked_us}")),
                    // Somebody else may have the slot: it stops, as a worker has to.
                    _ => continue,
                }
                tokio::time::sleep(work).await; // tidy: sleep-ok more of the work
            }
            say(&format!("done {id} {}", now_us()));
            let _ = limiter.release(&hold).await;
        }
    });
}

/// One holder: from when it surely had its slot, and until when it surely had.
#[derive(Debug)]
struct HeldSlot {
    from_us: u64,
    until_us: u64,
    fence: u64,
}

#[test]
fn killed_workers_never_make_more_than_the_slots() {
    let server = redis_or_skip!();
    let ended = under_load(&server.url(), "when_started_as_a_worker_it_works", 1);
    let mut held: HashMap<String, HeldSlot> = HashMap::new();
    let mut killed_at_work = 0;
    for (killed_us, lines) in &ended {
        let mut open: Vec<&str> = Vec::new();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |i: usize| words[i].parse::<u64>().unwrap();
            match words[..] {
                ["got", id, ..] => {
                    let (asked_us, from_us) = (number(2), number(3));
                    let until_us = asked_us + HOLD_US;
                    held.insert(id.to_owned(), HeldSlot { from_us, until_us, fence: number(4) });
                    open.push(id);
                }
                ["renewed", id, ..] => held.get_mut(id).unwrap().until_us = number(2) + HOLD_US,
                ["done", id, ..] => {
                    let it = held.get_mut(id).unwrap();
                    it.until_us = it.until_us.min(number(2));
                    open.retain(|other| *other != id);
                }
                _ => {}
            }
        }
        killed_at_work += open.len();
        // Its slots are open until their holds end, whoever works.
        assert!(open.iter().all(|id| held[*id].from_us <= *killed_us));
    }
    let mut steps: Vec<(u64, i32)> = Vec::new();
    for it in held.values().filter(|it| it.from_us < it.until_us) {
        steps.extend([(it.from_us, 1), (it.until_us, -1)]);
    }
    // A hold that ends at a time makes room for one that begins then.
    steps.sort_unstable();
    let (mut open, mut most) = (0, 0);
    for (_, step) in steps {
        open += step;
        most = most.max(open);
    }
    println!("{} holds, {killed_at_work} killed at work, at most {most} open", held.len());
    assert!(most <= i32::try_from(SLOTS).unwrap(), "{most} at once");
    // They were busy enough to fill the slots, and some died with one.
    assert!(most > 15 && killed_at_work > 10 && held.len() > 500);
    // Fencing numbers rise: of two holds of which one had ended before the other was asked for.
    let mut by_start: Vec<&HeldSlot> = held.values().collect();
    by_start.sort_unstable_by_key(|it| it.fence);
    assert!(by_start.windows(2).all(|pair| pair[0].fence < pair[1].fence));
    // All slots come back within a hold.
    let last_us = now_us() + HOLD_US;
    runtime().block_on(async {
        let limits = format!("{SLOTS} at once hold {HOLD_US}us").parse().unwrap();
        let limiter = Limiter::new(limits, connect(&server.url()).await);
        loop {
            let is_over = now_us() > last_us;
            let left = limiter.check(Ask::new("backend").peek()).await.unwrap().remaining();
            if left == SLOTS as u64 {
                break;
            }
            assert!(!is_over, "{left} slots are free after a hold");
        }
    });
}

/// Not a separate test: the calls of the other test's callers. Started by hand it does nothing.
#[test]
fn when_started_as_a_caller_it_calls() {
    for_ever(6, |store, n| async move {
        let limiter = Limiter::new(budget().parse().unwrap(), store);
        let mut rng = ChaCha8Rng::seed_from_u64(now_us() + n);
        loop {
            let ask = Ask::new("model").cost(ESTIMATE);
            let Ok(holding) = limiter.hold(ask.reserve(TTL)).await else { continue };
            let Some(hold) = holding.hold else {
                say("denied");
                tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep-ok pace
                continue;
            };
            say(&format!("reserved {}", hold.id));
            let answer = Duration::from_millis(rng.random_range(1..60));
            tokio::time::sleep(answer).await; // tidy: sleep-ok the model answers
            match rng.random_range(0..10) {
                // It hangs up: nobody settles the hold, which ends by itself.
                0 => {}
                1 => {
                    let _ = limiter.commit(&hold, 0).await;
                }
                _ => {
                    let actual = rng.random_range(0..=MOST);
                    say(&format!("committing {} {actual}", hold.id));
                    // An adversary commits all again: it is charged once.
                    for _ in 0..2 {
                        if limiter.commit(&hold, actual).await.is_ok() {
                            say(&format!("committed {} {actual}", hold.id));
                        }
                    }
                }
            }
        }
    });
}

fn budget() -> String {
    format!("{BUDGET}/366d anchor first-hit debt {BUDGET} via fixed_window")
}

#[test]
fn callers_of_a_model_spend_at_most_the_budget_and_the_debt() {
    let server = redis_or_skip!();
    let ended = under_load(&server.url(), "when_started_as_a_caller_it_calls", 2);
    let (mut committing, mut committed) = (HashMap::new(), HashMap::new());
    let (mut reserved, mut denied) = (0, 0);
    for line in ended.iter().flat_map(|(_, lines)| lines) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["reserved", _] => reserved += 1,
            ["denied"] => denied += 1,
            ["committing", id, actual] => {
                committing.insert(id, actual.parse::<u64>().unwrap());
            }
            ["committed", id, actual] => {
                committed.insert(id, actual.parse::<u64>().unwrap());
            }
            _ => {}
        }
    }
    let sum = |units: &HashMap<&str, u64>| units.values().sum::<u64>();
    let (least, most) = (sum(&committed), sum(&committing));
    let used = runtime().block_on(async {
        let limits: tollgate::LimitSet = budget().parse().unwrap();
        let limiter = Limiter::new(limits, connect(&server.url()).await);
        // Unsettled holds have expired then, and keep nothing.
        let until_us = now_us() + u64::try_from(TTL.as_micros()).unwrap();
        while now_us() < until_us {
            let _ = limiter.check(Ask::new("model").peek()).await.unwrap();
        }
        let found = limiter.admin().inspect("model").await.unwrap().unwrap();
        found.words[1]
    });
    // All debt is at most what the open holds had beyond their estimates.
    let open = PROCESSES as u64 * 6;
    let bound = BUDGET + open * (MOST - ESTIMATE);
    println!(
        "{reserved} reserved, {denied} denied; {used} units used, {least} acknowledged, at most \
         {most}; the bound is {bound}"
    );
    assert!((least..=most).contains(&used), "{used} of {least} to {most}");
    assert!(used <= bound, "{used} above {bound}");
    // A reserve was denied, and none fits any more: the budget was reached.
    assert!(used > BUDGET - ESTIMATE && denied > 0, "the budget was not reached");
}

#[test]
fn an_adversary_reaches_the_bound_of_the_debt() {
    let server = redis_or_skip!();
    runtime().block_on(async {
        let limits: tollgate::LimitSet =
            "400/366d anchor first-hit debt 600 via fixed_window".parse().unwrap();
        let limiter = Limiter::new(limits, connect(&server.url()).await);
        let mut open = Vec::new();
        while let Some(hold) =
            limiter.hold(Ask::new("model").cost(ESTIMATE).reserve(TTL)).await.unwrap().hold
        {
            open.push(hold);
        }
        for hold in &open {
            assert!(!limiter.commit(hold, MOST).await.unwrap().already);
        }
        let used = limiter.admin().inspect("model").await.unwrap().unwrap().words[1];
        let bound = 400 + open.len() as u64 * (MOST - ESTIMATE);
        assert_eq!((used, bound), (1_000, 1_000));
    });
}
