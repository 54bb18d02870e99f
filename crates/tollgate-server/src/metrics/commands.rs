//! Commands of the Redis protocol, by name and by result.

use core::sync::atomic::{AtomicU64, Ordering};

use super::OTHER;
use crate::resp;

/// The results of a command.
const RESULTS: [&str; 2] = ["answer", "error"];

/// The counters of commands; the last ones are of unknown commands. A label with names chosen by
/// clients would be unbounded.
#[derive(Debug)]
pub(crate) struct Commands([[AtomicU64; RESULTS.len()]; resp::COUNT + 1]);

impl Default for Commands {
    fn default() -> Self {
        Self([const { [const { AtomicU64::new(0) }; RESULTS.len()] }; resp::COUNT + 1])
    }
}

impl Commands {
    /// Counts as many answered commands at this place of the table; `None` for one that is not in
    /// it.
    #[inline]
    pub(crate) fn add(&self, place: Option<usize>, is_error: bool, commands: u64) {
        let results = self.0.get(place.unwrap_or(resp::COUNT));
        if let Some(count) = results.and_then(|results| results.get(usize::from(is_error))) {
            count.fetch_add(commands, Ordering::Relaxed);
        }
    }

    /// All commands that were answered.
    #[cfg(feature = "resp")]
    pub(crate) fn total(&self) -> u64 {
        self.iter().map(|(_, _, count)| count).sum()
    }

    /// All nonzero counters: the command, the result and the count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        resp::names().chain([OTHER]).zip(&self.0).flat_map(|(name, results)| {
            let counts = results.iter().map(|count| count.load(Ordering::Relaxed));
            RESULTS
                .into_iter()
                .zip(counts)
                .filter(|(_, count)| *count > 0)
                .map(move |(result, count)| (name, result, count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_counters_and_the_rest_is_other() {
        let commands = Commands::default();
        assert_eq!(commands.iter().count(), 0);
        for (place, name) in resp::names().enumerate() {
            commands.add(Some(place), false, 1);
            assert_eq!(commands.iter().nth(place), Some((name, "answer", 1)));
        }
        commands.add(None, true, 1);
        assert_eq!(commands.iter().last(), Some((OTHER, "error", 1)));
    }
}
