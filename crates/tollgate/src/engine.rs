//! One check over the states of one or several limit sets: the part that every store shares.
//!
//! A store loads the states, passes them to [`decide`], and writes back the states that changed.
//! The store never interprets a state, and the strategies never access a store.

mod amount;
mod charge;
mod correct;
mod credit;
mod decide;
mod denial;
mod fast_path;
mod gift;
mod held;
mod hold_table;
mod holding;
mod holds;
mod line;
mod migrate;
mod named;
mod outcome;
mod part;
mod pay;
mod remembered;
mod settle;
mod ticket;

pub use charge::{Charged, charge};
pub use correct::{Portion, adjust, receipt_until_us, refund, refundable_until_us, spent_until_us};
pub use credit::{Credit, Credits, MAX_CREDITS};
pub use decide::decide;
pub use denial::counts_denial;
pub(crate) use fast_path::{DecideOne, decide_set, hold_one};
pub use held::{VecLog, VecStates};
pub use hold_table::HoldTable;
pub use holding::{
    charge_holding, ends_count_until_us, longest_count_us, migrate_holding, open_holds, renew,
};
pub use holds::{
    HoldSums, Holds, MAX_CHARGING_HOLDS, MAX_ENDS, MAX_HOLDS, Mark, NamedHold, OpenHold,
    SETTLED_FOR_US, ShownHold, UnitSums,
};
pub use migrate::migrate;
pub use named::{HoldRefusal, MAX_MARKS, MAX_REPEATS};
pub use outcome::{Carried, Carries, Fields, Mode, Outcome, Placed};
pub(crate) use outcome::{Single, is_until_hold};
pub use part::{Part, States, fresh_at_us, is_sound};
pub(crate) use remembered::Fingerprint;
pub use remembered::{MAX_REQUESTS, Recalled, Remembered};
pub use settle::{RELEASED_WITHOUT_UNITS, early_name, mark_early, settle};
pub use ticket::{LONGEST_TICKET_US, MAX_TICKETS, SHORTEST_TICKET_US, Ticket};
