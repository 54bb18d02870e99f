//! `CL.THROTTLE`, `THROTTLE`, `GCRA` and `RL.THROTTLE`: one limit whose numbers are in the call.

use crate::resp::arguments::{Argument, after, argument, optional};
use crate::resp::command::{COUNTING, Command, Run};
use crate::resp::throttle::Dialect;

/// The arguments of redis-cell.
const CELL: &[Argument] = &[
    argument("key", "key"),
    argument("max_burst", "integer"),
    argument("count_per_period", "integer"),
    argument("period", "integer"),
    optional("quantity", "integer"),
];

/// A command in the words of redis-cell.
const LIKE_CELL: Command = Command { words: (5, 6), arguments: CELL, has_key: true, ..COUNTING };

pub(super) const CL_THROTTLE: Command = Command {
    name: "cl.throttle",
    summary: "Counts under a limit with these numbers, as redis-cell does.",
    run: Run::Throttle(Dialect::Cell),
    ..LIKE_CELL
};

pub(super) const THROTTLE: Command = Command {
    name: "throttle",
    summary: "Counts under a limit with these numbers, as throttlecrab does.",
    run: Run::Throttle(Dialect::Crab),
    ..LIKE_CELL
};

pub(super) const GCRA: Command = Command {
    name: "gcra",
    words: (5, 7),
    summary: "Counts under a limit with these numbers, as GCRA of Redis does.",
    arguments: &[
        argument("key", "key"),
        argument("max_burst", "integer"),
        argument("tokens_per_period", "integer"),
        argument("period", "double"),
        after("TOKENS", "count", "integer"),
    ],
    run: Run::Throttle(Dialect::Gcra),
    ..LIKE_CELL
};

pub(super) const RL_THROTTLE: Command = Command {
    name: "rl.throttle",
    summary: "Counts under a limit with these numbers, as RL.THROTTLE for Valkey does.",
    run: Run::Throttle(Dialect::Valkey),
    ..LIKE_CELL
};
