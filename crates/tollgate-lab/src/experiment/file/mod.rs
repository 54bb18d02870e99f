//! Experiments in TOML. Every key is in `docs/lab.md`.

mod case;
mod experiment;
mod raw;
mod reader;
mod units;
mod wording;
mod workload;

pub use self::reader::FileError;
pub(super) use self::units::{capacity, duration};
