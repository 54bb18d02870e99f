//! The worlds of each model: a small one for every run of the tests, and larger ones.

use anyhow::{Result, bail};
use tollgate::HoldKind;
use tollgate_queue::Counts;

use crate::bans::Bans;
use crate::denials::Denials;
use crate::exhaust::{Found, exhaust};
use crate::failover::Failover;
use crate::holds::Holding;
use crate::leases::Leases;
use crate::queue::Queues;
use crate::receipts::Receipts;
use crate::requests::Requests;
use crate::shares::Shares;
use crate::slots::Slots;

/// The names of the models, in the order of the table.
pub const MODELS: [&str; 10] = [
    "leases", "requests", "holds", "failover", "denials", "shares", "queue", "receipts", "bans",
    "slots",
];

/// Checks the worlds of a model by this many threads: of a sample the small ones alone.
///
/// # Errors
/// A name that no model has.
pub fn check(model: &str, is_sample: bool, threads: usize) -> Result<Vec<Found>> {
    let small = match model {
        "leases" => vec![
            exhaust("leases", Leases::new(HELD, &[999, 1000], (4, 4, 0))?, threads),
            exhaust("leases", Leases::new(BRIEF, &[999, 1000], (2, 3, 1))?, threads),
        ],
        "requests" => vec![
            exhaust("requests", Requests::new((LOG, 2), (2, 2), (1, 9))?, threads),
            exhaust("requests", Requests::new(("3/h via gcra", 3), (1, 4), (2, 1))?, threads),
            exhaust("requests", of_constant()?, threads),
        ],
        "holds" => vec![exhaust("holds", Holding::new((1, 2), &TWO, (2, 4, 1))?, threads)],
        "failover" => vec![
            exhaust("failover", Failover::new((LOG, 2), (4, 1), false)?, threads),
            exhaust("failover", Failover::new((LOG, 2), (4, 1), true)?, threads),
        ],
        "denials" => vec![
            exhaust("denials", Denials::new(WAITS, 9, (3, 3, 0))?, threads),
            exhaust("denials", Denials::new("1/6s via gcra", 2, (3, 2, 1))?, threads),
        ],
        "shares" => vec![exhaust("shares", Shares::new("4/4s via gcra", 2, (3, 8, 1))?, threads)],
        "queue" => vec![
            exhaust("queue", Queues::new((2, Counts::Waiting), (3, 1), (1, 2)), threads),
            exhaust("queue", Queues::new((1, Counts::All), (2, 2), (4, 1)), threads),
        ],
        "receipts" => vec![exhaust("receipts", Receipts::new(("3/4s via gcra", 3), 4)?, threads)],
        "bans" => vec![exhaust("bans", Bans::new((2, 1), (4, 7))?, threads)],
        "slots" => vec![
            exhaust("slots", Slots::new([2, 1], 4, (1, 0))?, threads),
            exhaust("slots", Slots::new([1, 3], 4, (0, 1))?, threads),
        ],
        other => bail!("no model `{other}`; there are: {}", MODELS.join(", ")),
    };
    if is_sample {
        return Ok(small);
    }
    let mut found = small;
    found.extend(large(model, threads)?);
    Ok(found)
}

/// A lease of which the units held bind: half of the limit on each of two nodes.
const HELD: &str = "8/4ms burst 4 via gcra lease 2 for 4ms";

/// A lease of which the time binds.
const BRIEF: &str = "8/4ms burst 4 via gcra lease 2 for 1500us";

/// A limit whose denials wait for two ticks at most.
const WAITS: &str = "2/4s via gcra";

/// A limit of two that lasts longer than any world.
const LOG: &str = "2/h via sliding_log";

/// A slot, and units that are charged where the hold ends.
const TWO: [HoldKind; 2] = [HoldKind::Acquire, HoldKind::Charging];

/// A request id that is a constant: its first answer was given 15 times again.
fn of_constant() -> Result<Requests> {
    Ok(Requests::new(("3/h via sliding_log", 3), (1, 5), (0, 9))?.after(16))
}

/// The worlds that take longer.
fn large(model: &str, threads: usize) -> Result<Vec<Found>> {
    Ok(match model {
        "requests" => {
            vec![exhaust("requests", Requests::new((LOG, 2), (2, 3), (1, 9))?, threads)]
        }
        "holds" => vec![exhaust("holds", Holding::new((1, 3), &TWO, (3, 5, 1))?, threads)],
        "shares" => vec![exhaust("shares", Shares::new("6/4s via gcra", 3, (4, 14, 1))?, threads)],
        "queue" => {
            vec![exhaust("queue", Queues::new((2, Counts::Waiting), (3, 2), (3, 1)), threads)]
        }
        "receipts" => vec![exhaust("receipts", Receipts::new(("3/4s via gcra", 3), 5)?, threads)],
        "slots" => vec![exhaust("slots", Slots::new([2, 2], 5, (2, 0))?, threads)],
        "bans" => vec![exhaust("bans", Bans::new((3, 2), (6, 10))?, threads)],
        // The next larger worlds of the others have many million states.
        _ => Vec::new(),
    })
}
