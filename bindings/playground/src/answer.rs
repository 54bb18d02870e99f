//! The answers to the page.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use tollgate::ParseError;

use crate::question::Ask;

/// The answer to a message.
#[derive(Serialize, Debug)]
#[serde(untagged)]
pub(crate) enum Reply {
    Opened(Opened),
    /// For each lane, in its order, the answers to the questions in theirs: a decision or a charge,
    /// as [`tollgate::wire`] writes them.
    Answered {
        lanes: Vec<Vec<Box<RawValue>>>,
    },
    /// For each lane and each subject, the remaining units at the times.
    Looked {
        left: Vec<Vec<Vec<u64>>>,
    },
    Seen(Seen),
    Traffic {
        asks: Vec<Ask>,
    },
    /// The limits of this side, counted from 0, cannot be read.
    Problem {
        side: usize,
        problem: Problem,
    },
    /// The page has a mistake, or a number that was typed is out of range.
    Refused {
        error: String,
    },
}

/// The strategies that count from now on.
#[derive(Serialize, Debug)]
pub(crate) struct Opened {
    pub(crate) lanes: Vec<LaneJson>,
    /// Strategies that the limits do not fit.
    pub(crate) refused: Vec<Refused>,
}

/// One strategy, and the meaning of the limits under it.
#[derive(Serialize, Debug)]
pub(crate) struct LaneJson {
    /// Which of the texts side by side it is from, counted from 0.
    pub(crate) side: usize,
    /// The strategies of its limits.
    pub(crate) strategy: String,
    pub(crate) limits: Vec<LimitJson>,
    /// The capacity of a fresh subject, in units.
    pub(crate) capacity: u64,
}

/// A limit, and its meaning in the words of `tollgate explain`.
#[derive(Serialize, Debug)]
pub(crate) struct LimitJson {
    /// The full text, with every default.
    pub(crate) text: String,
    /// The window or period, in microseconds.
    pub(crate) period_us: u64,
    /// The capacity of a fresh subject, in units.
    pub(crate) capacity: u64,
    pub(crate) rows: Vec<(&'static str, String)>,
    /// The most that is admitted in any window as long as the limit's: `9 in 10s`. A ban has none.
    pub(crate) most: Option<String>,
    /// When to choose the strategy, in sentences.
    pub(crate) choose: Vec<String>,
    pub(crate) kind: Kind,
    /// `None` where there are none.
    pub(crate) edges: Option<Edges>,
}

/// How a limit counts, as far as a reader sees it.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Windows or intervals, one after the other.
    Windows,
    Log,
    SubBuckets,
    /// Units that come back one by one.
    Backlog,
    Ban,
}

/// The times at which windows, sub-buckets or intervals begin.
#[derive(Serialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Edges {
    /// At each multiple of so many microseconds.
    Every(u64),
    /// At these times: the first windows of a calendar, in microseconds.
    Dates(Vec<u64>),
    /// Where a request opens a window of so many microseconds, at which it ends.
    FirstHit(u64),
}

/// A moment.
#[derive(Serialize, Debug)]
pub(crate) struct Seen {
    /// For each lane, each subject and each of its limits, the spans that count.
    pub(crate) spans: Vec<Vec<Vec<Vec<Span>>>>,
    /// For each subject and each lane, why its limits answered the subject's last question by then
    /// as they did. A moment before has that of one subject alone.
    pub(crate) why: BTreeMap<String, Vec<Vec<String>>>,
}

/// A window, a sub-bucket, or another span of time with units that count.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
    pub(crate) units: u64,
    /// How many of them count at the moment, in hundredths, rounded up.
    pub(crate) counted: u64,
}

/// A strategy that the limits do not fit.
#[derive(Serialize, Debug)]
pub(crate) struct Refused {
    pub(crate) side: usize,
    pub(crate) strategy: &'static str,
    pub(crate) problem: Problem,
}

/// The problem with the limits, and its place.
#[derive(Serialize, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    pub(crate) what: String,
    pub(crate) remedy: String,
    /// The place in the text, as a browser counts: in UTF-16 code units.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// All of it, with carets under the place.
    pub(crate) shown: String,
}

impl Problem {
    pub(crate) fn new(text: &str, error: &ParseError) -> Self {
        let units = |byte: usize| {
            let before = text.char_indices().take_while(|(at, _)| *at < byte);
            before.map(|(_, c)| c.len_utf16()).sum()
        };
        let span = error.span();
        Self {
            what: error.what().to_owned(),
            remedy: error.remedy().to_owned(),
            start: units(span.start),
            end: units(span.end),
            shown: error.to_string(),
        }
    }
}
