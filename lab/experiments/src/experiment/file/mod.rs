//! Experiments in TOML files. `docs/lab.md` describes every key.

mod case;
mod experiment;
mod raw;
mod reader;
mod units;
mod wording;
mod workload;

pub use self::reader::FileError;
pub(super) use self::units::{capacity, duration};
