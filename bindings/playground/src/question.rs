//! The questions of the page.

use serde::{Deserialize, Serialize};

/// The most questions to the limits in one message: they are answered while the page waits.
pub(crate) const MAX_ASKS: usize = 5_000;

/// The most questions that are remembered, so that each can be looked at again.
pub(crate) const MAX_HISTORY: usize = 10_000;

/// The most texts of limits side by side.
pub(crate) const MAX_SIDES: usize = 2;

/// A message of the page.
#[derive(Deserialize, Debug)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Message {
    /// Starts afresh under these limits.
    Open {
        /// The limits as typed: one text, or [`MAX_SIDES`] side by side.
        limits: Vec<String>,
    },
    /// Asks the limits of every strategy, in this order.
    Ask {
        /// At most [`MAX_ASKS`].
        asks: Vec<Ask>,
    },
    /// The remaining units at some times. It charges nothing and is not remembered.
    Look {
        /// At most [`MAX_ASKS`], in microseconds since the start.
        times_us: Vec<u64>,
        subjects: Vec<String>,
    },
    /// The counts of the limits at a moment, and why a question was answered as it was.
    See {
        /// How many of the remembered questions were asked by then; all of them if it is absent.
        asked: Option<usize>,
        /// The moment, in microseconds since the start.
        at_us: u64,
        subjects: Vec<String>,
    },
    /// Makes traffic up, and asks nobody yet.
    Traffic(Traffic),
}

/// One question to the limits.
#[derive(Deserialize, Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    /// The time, in microseconds since the start. It may go back: a step of the clock.
    pub(crate) at_us: u64,
    /// The cost, in units.
    pub(crate) cost: u64,
    pub(crate) how: How,
    /// The subject.
    pub(crate) subject: String,
}

/// How the limits are asked.
#[derive(Deserialize, Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// Charge all of the cost or nothing.
    Check,
    /// Charge nothing.
    Peek,
    /// Charge what remains of the cost.
    Partial,
    /// Charge without a check.
    Charge,
}

/// Traffic to make up.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Traffic {
    pub(crate) pattern: Pattern,
    /// How many requests there are, at most [`MAX_ASKS`].
    pub(crate) requests: u64,
    /// The time that they are spread over, in microseconds.
    pub(crate) span_us: u64,
    /// The same seed gives the same traffic.
    pub(crate) seed: u64,
}

/// The timing of questions.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pattern {
    /// One client, evenly.
    Steady,
    /// One client, at random: a Poisson process with this many requests.
    Random,
    /// One client, in four bursts.
    Bursts,
    /// A client with three quarters of the requests evenly, and one with the rest at random.
    TwoClients,
}
