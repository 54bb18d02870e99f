//! The JSON that people and programs read: durations and decisions, the same from every front and
//! from the command line.

mod decision;
mod wait;

pub use decision::{AnswerJson, ReportJson};
pub use wait::{Wait, duration};
