//! Every question about a count with holds, in random order, on memory, SQLite and Redis: equal to
//! the oracle in every field.
#![allow(clippy::unwrap_used)] // tests may

use std::cell::RefCell;
use std::collections::BTreeMap;

use tollgate::{Clock as _, ManualClock, MemoryStore};
use tollgate_proof::conformance::{
    FAMILIES, StoreMaker, least_difference, mixed_history, sweeping,
};
use tollgate_redis::{Options, RedisStore};
use tollgate_sqlite::SqliteStore;
use tollgate_testbed::{RedisServer, Reply, redis_or_skip};

/// Histories, by family and seed, in which a store once differed from the oracle.
const ONCE_DIFFERENT: [(usize, u64); 3] = [
    // Redis forgot a log, and a state, that a clock which stepped back had left as they were.
    (2, 305),
    (11, 266),
    // SQLite forgot a reset of a count under another strategy.
    (13, 247),
];

/// Runs about this many steps in all, or the number in the environment. Reports one difference of
/// each kind in a family.
fn histories<M: StoreMaker>(store: &str, maker: &M, usual: u64) {
    let wanted = std::env::var("TOLLGATE_TEST_CASES");
    let wanted: u64 = wanted.map_or(usual, |text| text.parse().unwrap());
    for (family, seed) in ONCE_DIFFERENT {
        if let Some(least) = least_difference(maker, family, seed) {
            panic!("{store}: family {family}, seed {seed}: {least}");
        }
    }
    let (mut steps, mut seed, mut found) = (0, 0, BTreeMap::new());
    while steps < wanted {
        for family in 0..FAMILIES.len() {
            match mixed_history(maker, family, seed) {
                Ok(more) => steps += more,
                Err(difference) => {
                    steps += 1;
                    let each = found.entry((difference.kind(), family)).or_insert((0, seed));
                    each.0 += 1;
                }
            }
        }
        seed += 1;
    }
    println!("{store}: {steps} steps");
    for ((_, family), (times, seed)) in &found {
        let least = least_difference(maker, *family, *seed).unwrap();
        println!("{times} times, as in family {family} by seed {seed}: {least}");
    }
    assert!(found.is_empty(), "{store}: {} kinds of differences", found.len());
}

#[test]
fn memory() {
    let make = |clock: ManualClock| MemoryStore::builder().clock(clock).build();
    let maker = sweeping(make, |store: &MemoryStore| {
        store.sweep();
    });
    histories("memory", &maker, 100_000);
}

#[test]
fn sqlite() {
    let dir = RefCell::new(tempfile::tempdir().unwrap());
    let make = |clock: ManualClock| {
        // The file before goes with its folder.
        let path = tempfile::tempdir().unwrap();
        let file = path.path().join("counts.db");
        dir.replace(path);
        SqliteStore::open_with(tollgate_sqlite::Options::new(file).clock(clock)).unwrap()
    };
    let maker = sweeping(make, |store: &SqliteStore| {
        store.sweep().unwrap();
    });
    histories("SQLite", &maker, 10_000);
}

/// Deletes what has expired by the clock of the history. ARGV: the clock's millisecond.
const FORGET: &str = "for _, key in ipairs(redis.call('KEYS', '*')) do
  local ms = redis.call('PTTL', key)
  if ms >= 1048576 and math.floor(ms / 1048576) < tonumber(ARGV[1]) then
    redis.call('DEL', key)
  end
end
return 0";

/// Stores on a server that is empty at the begin of each history.
struct OnRedis {
    server: RedisServer,
    runtime: tokio::runtime::Runtime,
    clock: RefCell<ManualClock>,
}

impl StoreMaker for OnRedis {
    type Store = RedisStore;

    fn make(&self, clock: ManualClock) -> RedisStore {
        assert_eq!(self.server.without_ttl(), Vec::<Vec<u8>>::new());
        assert_eq!(self.server.command(&[b"FLUSHALL"]), Reply::Status("OK".into()));
        self.clock.replace(clock.clone());
        let options = Options::from_url(&self.server.url()).unwrap();
        let options = options.deadline(std::time::Duration::from_secs(30));
        let builder = RedisStore::builder(options).run("mixed", clock).encode_expiry();
        self.runtime.block_on(builder.connect()).unwrap()
    }

    fn forget(&self, _: &RedisStore) {
        let now_ms = (self.clock.borrow().now().as_micros() / 1_000).to_string();
        let words = [&b"EVAL"[..], FORGET.as_bytes(), b"0", now_ms.as_bytes()];
        assert_eq!(self.server.command(&words).int(), Some(0));
    }
}

#[test]
fn redis() {
    let server = redis_or_skip!();
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let _entered = handle.enter();
    let clock = RefCell::new(ManualClock::at_micros(0));
    histories("Redis", &OnRedis { server, runtime, clock }, 10_000);
}
