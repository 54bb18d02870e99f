//! The JSON and text forms of durations and decisions, shared by every front and the command line.

mod decision;
mod hold;
mod wait;

pub use decision::{AnswerJson, ReportJson};
pub(crate) use hold::{CommittedJson, HeldJson, ReleasedJson, RenewedJson};
pub use wait::{Wait, duration};
