//! Composes the Lua scripts for the limits of a question.
//!
//! A check is straight-line code: one read per subject, the functions of its steps with numbers
//! written in, one write, and the reply. Rare operations (carrying over a state with other numbers,
//! refunds, adjustments) interpret the state's own description of its limits.

mod check;
mod clock;
mod form;
mod kind;
mod layout;
mod parts;
mod rare;

pub use self::check::{Check, ReplyFormat, number_args, shape, unpack_reply};
pub use self::clock::{Clock, encoded_expiry_ms};
pub(crate) use self::form::{Form, in_state_order, tag};
pub use self::form::{has_state, set_tag};
pub use self::layout::{Layout, LayoutArgument};
pub use self::parts::Parts;
pub use self::rare::{
    HoldScripts, adjust, charge, count_args, inspect, open_holds, refund, refund_edges, reset, swap,
};
pub(crate) use self::rare::{all_codes, most_of, with_clock};
