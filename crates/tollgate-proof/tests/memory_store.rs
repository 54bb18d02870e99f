//! The memory store against the conformance kit.

use tollgate::{ManualClock, MemoryStore};
use tollgate_proof::conformance::sweeping;

fn make(clock: ManualClock) -> MemoryStore {
    MemoryStore::builder().clock(clock).build()
}

fn forget(store: &MemoryStore) {
    store.sweep();
}

tollgate_proof::conformance_tests!(sweeping(make, forget));

#[test]
fn the_other_hash_is_no_other_store() {
    tollgate_proof::conformance::run(|clock: ManualClock| {
        MemoryStore::builder().sip_hash().clock(clock).build()
    });
}
