//! Policies: which requests are limited, by which subjects, under which limits. They are read from
//! TOML or YAML, or built by a program. The [`Gate`] applies them to requests.
//!
//! ```
//! use tollgate::MemoryStore;
//! use tollgate_policy::{Format, Gate, Policies};
//!
//! let text = r#"
//!     version = 1
//!
//!     [[policies]]
//!     name = "login"
//!     when = { path = "/login" }
//!     on_failure = "deny"
//!     limits = [{ subject = "ip", limit = "5/1m" }]
//! "#;
//! let gate = Gate::new(Policies::parse(text, Format::Toml)?, MemoryStore::new())?;
//!
//! # futures_executor::block_on(async {
//! let answer = gate.check(&[("ip", "192.0.2.7"), ("path", "/login")]).await;
//! assert!(answer.is_allowed());
//! assert_eq!(answer.policy().map(|policy| policy.name.as_str()), Some("login"));
//! assert_eq!(answer.decision().map(|decision| decision.remaining()), Some(4));
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types to know
//!
//! - [`Policies`] is the checked content of a policy file. A mistake is a [`Problem`] with its
//!   line.
//! - [`Gate`] applies policies with the counts of a store. It answers every request, by the
//!   policies' failure rule if the store fails.
//! - [`Answer`] contains whether the request is allowed, the policy that decided, and the store's
//!   decision.
//!
//! A front, such as an HTTP layer or a server, implements [`Fields`], which provides the fields of
//! a request. `docs/policies.md` is the reference of the file format.
//!
//! # Features
//!
//! `yaml` and `watch` are on by default: policies in YAML, and reloads of changed files. `schema`
//! provides the JSON Schema of the file.

/// Files as trees of values with their positions, for the file formats of others.
pub mod tree {
    pub use crate::field::advice;
    pub use crate::problem::Span;
    pub use crate::source::{FRACTION, Key, NOTHING, Node, Value, parse};
}

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod check;
mod clock;
mod cost;
mod field;
mod form;
mod gate;
mod glob;
mod index;
mod key_table;
mod lines;
mod list;
mod load;
mod model;
mod network;
mod on_failure;
mod outcome;
mod pattern;
mod policies;
mod price;
mod problem;
mod quantile;
mod read;
mod ready;
mod reserve;
mod resolve;
mod response_headers;
mod restarts;
mod ruled_limit;
mod ruling;
#[cfg(feature = "schema")]
mod schema;
#[cfg(feature = "watch")]
mod seen_lists;
mod source;
mod spans;
mod sum;
mod tiers;
#[cfg(feature = "watch")]
mod watch;

pub use clock::Recurrence;
pub use cost::{Amount, CostRule};
pub use field::{Field, Fields, MAX_NAME_BYTES, subject_of};
pub use gate::{
    Admin, Admission, Answer, CheckBatch, CostRefused, Counters, Crossing, Current, DecisionMark,
    Event, Exposition, Gate, GateCounters, HoldCounters, Holds, Inline, Loss, Observer, Prepared,
    Reread, Revision, RuleName, Shadow, Standing, StandingRuling, SubjectCounts, Terms,
};
pub use list::{MAX_LIST_BYTES, ValueList};
pub use model::{
    Absent, Combine, DEFAULT_DEADLINE, Dimension, Entry, MAX_DEADLINE, MIN_DEADLINE, Override,
    Policy, Rule, Shard,
};
pub use network::parse_network;
pub use on_failure::OnFailure;
pub use outcome::{Authority, Outcome};
pub use pattern::{Condition, MAX_PATTERN_BYTES, Pattern, read_hash};
pub use policies::Policies;
pub use problem::{Level, MAX_PROBLEMS, Problem, Problems};
pub use read::{MAX_POLICIES, parse_deadline};
pub use ready::PolicyPart;
pub use reserve::{Commit, Commits, Estimate, Reserve};
pub use response_headers::ResponseHeaders;
pub use ruled_limit::RuledLimit;
pub use ruling::{Effect, MAX_REASON_BYTES, MAX_RULED_BYTES, Ruling};
#[cfg(feature = "schema")]
pub use schema::schema;
pub use source::{Format, MAX_FILE_BYTES};
pub use sum::{Factor, WeightedSum};
pub use tiers::Tiers;
#[cfg(feature = "watch")]
pub use watch::{DEFAULT_DEBOUNCE, DEFAULT_POLL, Reload, Watch, Watcher};
