//! The answers to the page.

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
    Traffic {
        asks: Vec<Ask>,
    },
    /// The limits cannot be read.
    Problem {
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
    pub(crate) rows: Vec<(&'static str, String)>,
}

/// A strategy that the limits do not fit.
#[derive(Serialize, Debug)]
pub(crate) struct Refused {
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
