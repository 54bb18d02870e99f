//! The stored form of settings, in stores and in JSON.

use core::fmt;
use core::str::FromStr as _;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate::{Limit, LimitSet};

use super::{ConsumerSettings, Counts, ProducerSettings, micros};
use crate::error::Error;

/// The stored form of [`ProducerSettings`].
#[derive(Serialize, Deserialize)]
struct ProducerRecord {
    bound: u64,
    all: bool,
    remember_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per_client: Option<u64>,
}

/// The stored form of [`ConsumerSettings`].
#[derive(Serialize, Deserialize)]
struct ConsumerRecord {
    visibility_us: u64,
    deliveries: u32,
    keep_dead: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    keep_done: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<RateRecord>,
}

fn is_zero(kept: &u32) -> bool {
    *kept == 0
}

/// The limits of a rate, each with its name if it has one, and the policy that they are in.
#[derive(Serialize, Deserialize)]
struct RateRecord {
    limits: Vec<(String, Option<String>)>,
    policy: Option<String>,
}

impl Serialize for ProducerSettings {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.record().serialize(to)
    }
}

impl Serialize for ConsumerSettings {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.record().serialize(to)
    }
}

fn to_json(text: &impl Serialize) -> String {
    // Serialization of numbers and strings cannot fail.
    serde_json::to_string(text).unwrap_or_default()
}

impl ProducerSettings {
    fn record(&self) -> ProducerRecord {
        let Self { bound, dedup_window, per_client, .. } = self;
        ProducerRecord {
            bound: *bound,
            all: self.counts_all(),
            remember_us: micros(*dedup_window),
            per_client: *per_client,
        }
    }

    /// The stored form: equal settings have equal texts.
    pub(crate) fn to_text(&self) -> String {
        to_json(&self.record())
    }

    /// Parses the stored form; `None` for a text that this version would not have written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let ProducerRecord { bound, all, remember_us, per_client } =
            serde_json::from_str(text).ok()?;
        let counts = if all { Counts::All } else { Counts::Waiting };
        let read =
            Self { bound, counts, per_client, dedup_window: Duration::from_micros(remember_us) };
        (read.check().is_ok() && read.to_text() == text).then_some(read)
    }
}

impl ConsumerSettings {
    fn record(&self) -> ConsumerRecord {
        let rate = self.rate.as_ref().map(|set| RateRecord {
            limits: set
                .limits()
                .iter()
                .map(|limit| (limit.to_string(), limit.name().map(str::to_owned)))
                .collect(),
            policy: set.policy().map(str::to_owned),
        });
        ConsumerRecord {
            visibility_us: self.visibility_us(),
            deliveries: self.deliveries,
            keep_dead: self.keep_dead,
            keep_done: self.keep_done,
            rate,
        }
    }

    /// As [`ProducerSettings::to_text`].
    pub(crate) fn to_text(&self) -> String {
        to_json(&self.record())
    }

    /// As [`ProducerSettings::parse`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let read: ConsumerRecord = serde_json::from_str(text).ok()?;
        let rate = match read.rate {
            None => None,
            Some(RateRecord { limits, policy }) => {
                let limits: Option<Vec<Limit>> = limits
                    .into_iter()
                    .map(|(text, name)| {
                        let limit = Limit::from_str(&text).ok()?;
                        name.map_or(Some(limit.clone()), |name| limit.named(&name).ok())
                    })
                    .collect();
                let set = LimitSet::new(limits?).ok()?;
                Some(policy.map_or(Some(set.clone()), |name| set.in_policy(&name).ok())?)
            }
        };
        let read = Self {
            visibility: Duration::from_micros(read.visibility_us),
            deliveries: read.deliveries,
            keep_dead: read.keep_dead,
            keep_done: read.keep_done,
            rate,
        };
        (read.check().is_ok() && read.to_text() == text).then_some(read)
    }
}

/// The error for settings that differ from the stored ones of the queue.
pub(crate) fn settings_mismatch<S: fmt::Display>(
    queue: &str,
    made: &str,
    asked: &S,
    parse: fn(&str) -> Option<S>,
) -> Error {
    let made = parse(made).map_or_else(|| made.to_owned(), |made| made.to_string());
    Error::Settings { queue: queue.to_owned(), made, asked: asked.to_string() }
}
