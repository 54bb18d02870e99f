//! The tables of a file, as parsed.

use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use crate::experiment::backend::RawBackend;
use crate::experiment::nodes::RawNodes;
use crate::experiment::queue::RawQueue;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExperiment {
    pub(super) version: Spanned<u64>,
    pub(super) name: Option<String>,
    pub(super) seed: Option<u64>,
    pub(super) duration: Option<Spanned<String>>,
    pub(super) bucket: Option<Spanned<String>>,
    pub(super) capacity: Option<Spanned<String>>,
    pub(super) operation: Option<Spanned<String>>,
    pub(super) backend: Option<Spanned<RawBackend>>,
    #[serde(default)]
    pub(super) workload: Vec<Spanned<RawWorkload>>,
    #[serde(default)]
    pub(super) case: Vec<Spanned<RawCase>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawWorkload {
    pub(super) name: Option<String>,
    pub(super) arrivals: Option<String>,
    pub(super) clients: Option<u32>,
    pub(super) rate: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) count: Option<u64>,
    pub(super) every: Option<String>,
    pub(super) each: Option<u64>,
    pub(super) within: Option<String>,
    pub(super) new: Option<bool>,
    pub(super) window: Option<String>,
    pub(super) before: Option<String>,
    pub(super) day: Option<String>,
    pub(super) log: Option<PathBuf>,
    pub(super) by: Option<String>,
    pub(super) zipf: Option<f64>,
    pub(super) from: Option<String>,
    pub(super) until: Option<String>,
    pub(super) retry: Option<String>,
    pub(super) times: Option<u32>,
    pub(super) pause: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCase {
    pub(super) name: Option<String>,
    pub(super) limits: Option<Vec<RawPart>>,
    pub(super) strategies: Option<OneOrMany>,
    pub(super) queue: Option<Spanned<RawQueue>>,
    pub(super) nodes: Option<Spanned<RawNodes>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPart {
    pub(super) per: String,
    pub(super) limit: OneOrMany,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn list(&self) -> &[String] {
        match self {
            Self::One(one) => core::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// The keys of each kind of arrivals, besides the common ones; the first list is required.
pub(super) const KINDS: [(&str, &[&str], &[&str]); 8] = [
    ("steady", &["rate"], &["zipf"]),
    ("poisson", &["rate"], &["zipf"]),
    ("bursts", &["size", "every"], &["zipf"]),
    ("loop", &["count", "every"], &["zipf"]),
    ("gang", &[], &["each", "within", "every", "new"]),
    ("edge", &["window", "size"], &["before", "zipf"]),
    ("diurnal", &["rate"], &["day", "zipf"]),
    ("log", &["log"], &["by"]),
];

impl RawWorkload {
    /// The present keys that only some kinds have.
    pub(super) fn present_keys(&self) -> Vec<&'static str> {
        let present = [
            ("rate", self.rate.is_some()),
            ("size", self.size.is_some()),
            ("count", self.count.is_some()),
            ("every", self.every.is_some()),
            ("each", self.each.is_some()),
            ("within", self.within.is_some()),
            ("new", self.new.is_some()),
            ("window", self.window.is_some()),
            ("before", self.before.is_some()),
            ("day", self.day.is_some()),
            ("log", self.log.is_some()),
            ("by", self.by.is_some()),
            ("zipf", self.zipf.is_some()),
        ];
        present.into_iter().filter(|(_, is_present)| *is_present).map(|(key, _)| key).collect()
    }
}

/// All kinds of arrivals, for an error.
pub(super) fn kinds() -> String {
    let names: Vec<&str> = KINDS.iter().map(|(name, ..)| *name).collect();
    format!("one of {}", names.join(", "))
}
