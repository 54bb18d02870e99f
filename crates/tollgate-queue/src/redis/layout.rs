//! In what the jobs of a queue lie on a Redis, and under which keys.

use tollgate::Subject;

use crate::error::Error;

/// What every key begins with.
pub(super) const PREFIX: &str = "tgq1";

/// In what the jobs of a queue lie on a Redis. All that a queue promises is the same in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Layout {
    /// A stream with a consumer group, which any tool that knows streams can look into.
    #[default]
    Stream,
    /// A list: to take jobs and to say that they are done costs the server less.
    List,
}

impl Layout {
    /// How scripts call it.
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

    /// The names of the keys, in the order in which scripts take them: first those that an offer
    /// needs, then those that `done` needs.
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

    /// How many of the keys `done` needs.
    pub(super) fn ack_keys(self) -> usize {
        match self {
            Self::Stream => 8,
            Self::List => 9,
        }
    }
}

/// How many of the keys an offer needs.
pub(super) const OFFER_KEYS: usize = 6;

/// The subject whose count a queue's rate is, and whose tag its keys have.
pub(super) fn subject(queue: &str) -> Result<Subject, Error> {
    Subject::new("queue", queue).map_err(|error| Error::invalid(error.to_string()))
}

/// The first so many keys of a queue.
pub(super) fn keys(layout: Layout, queue: &str, max: usize) -> Vec<String> {
    let key = |of: &&str| format!("{PREFIX}:{{queue:{queue}}}:{of}");
    layout.keys().iter().take(max).map(key).collect()
}

/// Where it is remembered that something was accepted once.
pub(super) fn dedup_key(queue: &str, dedup: &str) -> String {
    format!("{PREFIX}:{{queue:{queue}}}:once:{dedup}")
}
