//! Policies of Tollgate: which requests are limited, whose counts are kept, by which limits; read
//! from TOML or YAML or made by a program; and the [`Gate`] that every front asks.

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod check;
mod field;
mod form;
mod gate;
mod index;
mod list;
mod load;
mod model;
mod network;
mod outcome;
mod pattern;
mod place;
mod policies;
mod problem;
mod read;
mod resolve;
mod ruling;
#[cfg(feature = "schema")]
mod schema;
mod source;
#[cfg(feature = "watch")]
mod watch;

pub use field::{Field, Fields, MAX_NAME_BYTES, subject_of};
pub use gate::{
    Answer, Counters, DecisionMark, Event, Gate, Loss, Observer, Prepared, Reread, Revision,
    Shadow, Standing, SubjectCounts, Terms,
};
pub use list::{MAX_LIST_BYTES, NetworkList};
pub use model::{
    Absent, Combine, Cost, DEFAULT_DEADLINE, Dimension, Entry, MAX_DEADLINE, MIN_DEADLINE,
    OnFailure, Override, Policy, Rule, Shard,
};
pub use network::parse_network;
pub use outcome::{Authority, Outcome};
pub use pattern::{Condition, MAX_PATTERN_BYTES, Pattern};
pub use policies::Policies;
pub use problem::{Level, MAX_PROBLEMS, Problem, Problems};
pub use read::{MAX_POLICIES, parse_deadline};
pub use resolve::Part;
pub use ruling::{Effect, MAX_REASON_BYTES, Ruling};
#[cfg(feature = "schema")]
pub use schema::schema;
pub use source::{Format, MAX_FILE_BYTES};
#[cfg(feature = "watch")]
pub use watch::{DEFAULT_DEBOUNCE, DEFAULT_POLL, Reload, Watch, Watcher};
