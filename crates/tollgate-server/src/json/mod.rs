//! The JSON and text forms of durations and decisions, shared by every front and the command line.

mod decision;
mod hold;
mod wait;

pub use decision::{AnswerJson, ReportJson};
pub use hold::{ChargeJson, ChargedJson, CommittedJson, OpenHoldJson};
pub(crate) use hold::{HeldJson, ReleasedJson, RenewedJson};
pub use wait::{Wait, duration};
