//! How the jobs of a queue are stored in Redis, and under which keys.

use tollgate::Subject;
use tollgate_redis::KeyPrefix;

use crate::error::Error;

/// The beginning of every key, after the prefix of its environment.
pub(super) const PREFIX: &str = "tgq1";

/// How the jobs of a queue are stored in Redis. Both layouts give the same guarantees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Layout {
    /// A stream with a consumer group, which any tool for streams can inspect.
    #[default]
    Stream,
    /// A list: taking and acknowledging jobs costs the server less.
    List,
}

impl Layout {
    /// The layout's name in scripts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::List => "list",
        }
    }

    pub(super) fn storage_script(self) -> &'static str {
        match self {
            Self::Stream => include_str!("stream.lua"),
            Self::List => include_str!("list.lua"),
        }
    }

    /// The parts of scripts that differ: the variable of the key where jobs wait, the fields of
    /// `meta` that an offer reads, and how many wait, with those that are out when `all`.
    pub(super) fn fill(self) -> [&'static str; 3] {
        match self {
            Self::Stream => [
                "jobs",
                "'offering', 'window', 'left', 'before', 'held'",
                "call('XLEN', jobs) - (all and 0 or call('ZCARD', out))",
            ],
            Self::List => [
                "waiting",
                "'offering', 'window', 'left', 'before', 'held', 'ms', 'number', 'accepted'",
                "call('LLEN', waiting) + (all and call('ZCARD', out) or 0)",
            ],
        }
    }

    /// The names of the keys, in the order in which scripts take them: first those of an offer,
    /// then those of `done`.
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Stream => &[
                "jobs", "out", "meta", "untils", "clients", "onces", "tries", "done", "dead",
                "graves",
            ],
            Self::List => &[
                "waiting", "out", "meta", "untils", "clients", "onces", "tries", "done", "bodies",
                "dead", "graves",
            ],
        }
    }

    /// The number of keys that `done` needs.
    pub(super) fn ack_keys(self) -> usize {
        match self {
            Self::Stream => 8,
            Self::List => 9,
        }
    }
}

/// The number of keys that an offer needs, and that one of plain jobs needs.
pub(super) const OFFER_KEYS: usize = 6;
pub(super) const PLAIN_OFFER_KEYS: usize = 3;

/// The subject of a queue's rate limit, which is also the hash tag of its keys.
pub(super) fn subject(queue: &str) -> Result<Subject, Error> {
    Subject::new("queue", queue).map_err(|error| Error::invalid(error.to_string()))
}

/// The beginning of all keys of a queue.
pub(super) fn key_start(prefix: &KeyPrefix, queue: &str) -> String {
    format!("{prefix}{PREFIX}:{{queue:{queue}}}:")
}

/// The first `max` keys of a queue.
pub(super) fn keys(prefix: &KeyPrefix, layout: Layout, queue: &str, max: usize) -> Vec<String> {
    let start = key_start(prefix, queue);
    let key = |of: &&str| format!("{start}{of}");
    layout.keys().iter().take(max).map(key).collect()
}

/// The key of a remembered deduplication id.
pub(super) fn dedup_key(prefix: &KeyPrefix, queue: &str, dedup: &str) -> String {
    format!("{}once:{dedup}", key_start(prefix, queue))
}
