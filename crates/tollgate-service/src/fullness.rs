//! Logs that the memory store is full: once, not for each new subject.

use tollgate::MemoryStore;

/// How many checks in a row without a rejected new subject end the full state: one minute with a
/// check each 100 ms.
const QUIET_CHECKS: u32 = 600;

/// Watches whether a memory store is full; the owner calls it a few times a second.
#[derive(Debug, Default)]
pub struct Fullness {
    /// The new subjects that found no room, up to the last check.
    seen: u64,
    quiet: u32,
    is_full: bool,
}

impl Fullness {
    /// Checks the store. Logs when it becomes full, and when it has had room again for a minute.
    /// Returns whether it is full.
    pub fn check(&mut self, store: &MemoryStore) -> bool {
        let newcomers = store.shared() + store.refused();
        if newcomers > self.seen {
            (self.seen, self.quiet) = (newcomers, 0);
            if !self.is_full {
                self.is_full = true;
                tracing::warn!(
                    target: "tollgate",
                    max_bytes = store.max_bytes(),
                    subjects = store.subjects(),
                    limit_sets = store.limit_sets(),
                    "the memory store is full: new subjects share counts, and may be denied for \
                     what others did, until old ones expire; `--memory SIZE` gives it more"
                );
            }
        } else if self.is_full {
            self.quiet += 1;
            if self.quiet >= QUIET_CHECKS {
                self.is_full = false;
                tracing::info!(target: "tollgate", "the memory store has room again");
            }
        }
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Limiter, ManualClock};

    use super::*;

    #[test]
    fn a_store_is_full_until_a_minute_has_passed_without_a_newcomer_in_want() {
        let clock = ManualClock::at_micros(1_000_000_000);
        let store = MemoryStore::builder().clock(clock).max_bytes(300_000).build();
        let limiter = Limiter::new("5/1h via gcra".parse().unwrap(), store.clone());
        let mut fullness = Fullness::default();
        assert!(!fullness.check(&store));
        for i in 0..20_000 {
            let _ = limiter.check(format!("user:{i}")).now().unwrap();
        }
        assert!(fullness.check(&store));
        for _ in 1..QUIET_CHECKS {
            assert!(fullness.check(&store));
        }
        let _ = limiter.check("one-more").now().unwrap();
        for _ in 0..QUIET_CHECKS {
            assert!(fullness.check(&store));
        }
        assert!(!fullness.check(&store));
        assert!(!fullness.check(&store));
    }
}
