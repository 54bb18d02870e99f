//! The Redis store keeps every promise of the kit, on a real server, with the rights that the
//! doctor says are needed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use tollgate::{Clock as _, ManualClock, Store as _};
use tollgate_proof::conformance::{fewer, sweeping};
use tollgate_redis::compose::encoded_expiry_ms;
use tollgate_redis::{Builder, Keys, Options, RedisStore};
use tollgate_testbed::Reply;

use crate::common::{Blocking, one_of, server, with_least_rights};

/// Tells the stores of one test run apart.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// The runs of the stores by their identities, and their clocks.
static MADE: Mutex<BTreeMap<u64, (String, ManualClock)>> = Mutex::new(BTreeMap::new());

/// A store with separate keys, by the kit's clock. The machine may be busy: the kit has no case
/// except with a deadline that is far away.
fn builder(run: u64, clock: ManualClock) -> Builder {
    static OPTIONS: OnceLock<Options> = OnceLock::new();
    let login = || with_least_rights(&server().url(), std::slice::from_ref(server()));
    let options = OPTIONS.get_or_init(login).clone();
    let options = options.deadline(std::time::Duration::from_secs(30));
    RedisStore::builder(options).run(&format!("kit-{run}"), clock)
}

/// Deletes what has expired by a given clock, and counts it. The record of a settled hold lives for
/// a minute of the server's own. ARGV: a pattern, and the clock's millisecond.
const FORGET: &str = "local gone = 0
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local ms = redis.call('PTTL', key)
  if ms >= 1048576 and math.floor(ms / 1048576) < tonumber(ARGV[2]) then
    gone = gone + redis.call('DEL', key)
  end
end
return gone";

mod by_scripts {
    use super::*;

    fn make(clock: ManualClock) -> Blocking {
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let builder = builder(run, clock.clone()).encode_expiry();
        let store = Blocking::connect(builder, std::slice::from_ref(server()));
        let pattern = format!("{}:*", Keys::for_run(&format!("kit-{run}")).prefix());
        MADE.lock().unwrap().insert(store.identity(), (pattern, clock));
        store
    }

    fn forget(store: &Blocking) {
        assert_eq!(encoded_expiry_ms(3 << 20), 3);
        let (pattern, clock) = MADE.lock().unwrap()[&store.identity()].clone();
        let now_ms = (clock.now().as_micros() / 1_000).to_string();
        let words = [&b"EVAL"[..], FORGET.as_bytes(), b"0", pattern.as_bytes(), now_ms.as_bytes()];
        let gone = server().command(&words);
        assert!(matches!(gone, Reply::Int(_)), "{gone:?}");
    }

    tollgate_proof::conformance_tests!(sweeping(make, forget));
}

mod by_comparing_and_swapping {
    use super::*;

    fn make(clock: ManualClock) -> Blocking {
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        Blocking::connect(builder(run, clock).swapping(), std::slice::from_ref(server()))
    }

    // The engine decides here, and memory runs all histories of it; the new part is how states are
    // packed and swapped.
    tollgate_proof::conformance_tests!(fewer(make, one_of().min(2)));
}
