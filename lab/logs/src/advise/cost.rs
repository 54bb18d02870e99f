//! The memory of a limit's counts, by the formulas of `docs/memory.md` and `docs/redis.md`.

use tollgate::{Limit, Strategy, strategy::Shape};

/// The slot of a subject in memory, just after a table has grown.
const SLOT: u64 = 85;
/// The memory of a state that does not fit into a slot, just after its list has grown.
const PLACE: u64 = 96;
/// The bytes of a subject that fit into a slot.
const IN_SLOT: u64 = 16;
/// The place of a longer subject.
const LONG_SUBJECT: u64 = 32;
/// The words of a state that fit into a slot.
const WORDS_IN_SLOT: usize = 2;
/// A log in memory: its header, and the bytes of an event.
const LOG: u64 = 56;
const LOG_EVENT: u64 = 16;
/// The least events that a log has room for.
const LOG_ROOM: u64 = 4;

/// A subject with a log on Redis: without events, and for each.
const REDIS_LOG: u64 = 200;
const REDIS_EVENT: u64 = 17;
/// A subject with a state of words on Redis: without words, and at the minimum.
const REDIS_STATE: u64 = 104;
const REDIS_SMALL: u64 = 136;
const REDIS_GCRA: u64 = 120;
/// The length of the subject that these were measured with.
const REDIS_SUBJECT: u64 = 15;

/// The lengths of the subjects: those of the clients' names and their prefix.
pub(super) struct Subjects {
    pub(super) lengths: Vec<u64>,
}

impl Subjects {
    /// The bytes in memory and on Redis when every client, with this many units each in its busiest
    /// window, still counts at its busiest: at most.
    pub(super) fn bytes(&self, limit: &Limit, busiest: impl Iterator<Item = u64>) -> (u64, u64) {
        let (mut memory, mut redis) = (0_u64, 0_u64);
        for (length, units) in self.lengths.iter().zip(busiest) {
            let (one_memory, one_redis) = one(limit, units);
            let long = if *length > IN_SLOT { length + LONG_SUBJECT } else { 0 };
            memory = memory.saturating_add(one_memory + long);
            let long = length.saturating_sub(REDIS_SUBJECT);
            redis = redis.saturating_add(one_redis + long);
        }
        (memory, redis)
    }
}

/// The bytes of one client, without a long name.
fn one(limit: &Limit, busiest: u64) -> (u64, u64) {
    match limit.shape() {
        Shape::Words(words) => {
            let bytes = 8 * words as u64;
            let memory = if words <= WORDS_IN_SLOT { SLOT } else { SLOT + PLACE + bytes };
            let redis = match limit.strategy() {
                Strategy::Gcra => REDIS_GCRA,
                _ => REDIS_SMALL.max(REDIS_STATE + bytes),
            };
            (memory, redis)
        }
        Shape::Log => {
            // Each event costs at least one unit.
            let events = busiest.min(limit.quota().units);
            let room = events.max(LOG_ROOM).next_power_of_two();
            (SLOT + PLACE + LOG + LOG_EVENT * room, REDIS_LOG + REDIS_EVENT * events)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(limit: &str, busiest: u64) -> (u64, u64) {
        one(&limit.parse().unwrap(), busiest)
    }

    /// The tables of `docs/redis.md` and `docs/memory.md`.
    #[test]
    fn the_documented_numbers_come_out() {
        assert_eq!(bytes("60/m via gcra", 60), (85, 120));
        assert_eq!(bytes("60/m via fixed_window", 60), (85, 136));
        assert_eq!(bytes("60/m via sliding_window", 60), (85 + 96 + 96, 200));
        let (memory, redis) = bytes("60/m via sliding_log", 60);
        assert_eq!(memory, 85 + 96 + 56 + 16 * 64);
        assert!((1_176..1_250).contains(&redis), "{redis}");
        assert_eq!(bytes("60/m via sliding_log", 1).1, 217);
        let subjects = Subjects { lengths: vec![10, 20] };
        let limit = "60/m via gcra".parse().unwrap();
        assert_eq!(subjects.bytes(&limit, [1, 1].into_iter()), (85 + 85 + 52, 120 + 125));
    }
}
