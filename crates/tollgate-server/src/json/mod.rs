//! The JSON and text forms of durations and decisions, shared by every front and the command line.

mod decision;
mod wait;

pub use decision::{AnswerJson, ReportJson};
pub use wait::{Wait, duration};
