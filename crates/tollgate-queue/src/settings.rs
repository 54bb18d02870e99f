//! How a queue is offered to, and how it is worked on.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate::{Limit, LimitSet, StoreError};

use crate::error::Error;

/// The highest bound.
pub const MAX_BOUND: u64 = 10_000_000;

/// How often a job can be delivered.
const MAX_DELIVERIES: u32 = 1_000;

/// The longest times that may be said.
const MAX_VISIBILITY: Duration = Duration::from_secs(86_400);
const MAX_DEDUP_WINDOW: Duration = Duration::from_secs(7 * 86_400);

/// What a bound counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Counts {
    /// Jobs that were never delivered.
    #[default]
    Waiting,
    /// These, and those that were delivered and are not done.
    All,
}

/// How a queue is offered to: the same for all who do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducerSettings {
    bound: u64,
    counts: Counts,
    per_client: Option<u64>,
    dedup_window: Duration,
}

impl ProducerSettings {
    /// At most `bound` jobs wait: 1 to [`MAX_BOUND`].
    #[must_use]
    pub fn new(bound: u64) -> Self {
        let dedup_window = Duration::from_secs(600);
        Self { bound, counts: Counts::Waiting, per_client: None, dedup_window }
    }

    /// Whether it is as it may be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { bound, dedup_window, per_client, .. } = self;
        if *bound == 0 || *bound > MAX_BOUND {
            let what = format!("a queue of at most {bound} jobs: the bound is 1 to {MAX_BOUND}");
            return Err(Error::invalid(what));
        }
        if let Some(max) = per_client.filter(|max| *max == 0 || *max > MAX_BOUND) {
            let what = format!("at most {max} jobs of one client: the bound is 1 to {MAX_BOUND}");
            return Err(Error::invalid(what));
        }
        if *dedup_window > MAX_DEDUP_WINDOW {
            return Err(Error::invalid(format!("ids remembered {dedup_window:?}: at most 7 days")));
        }
        Ok(())
    }

    /// What the bound counts ([`Counts::Waiting`] unless said).
    #[must_use]
    pub fn counts(self, counts: Counts) -> Self {
        Self { counts, ..self }
    }

    /// At most so many jobs of one client ([`crate::Job::client`]) are counted under what the bound
    /// counts: 1 to [`MAX_BOUND`]. No such bound unless said; jobs without a client are under the
    /// bound of the queue alone.
    #[must_use]
    pub fn per_client(self, max: u64) -> Self {
        Self { per_client: Some(max), ..self }
    }

    /// The same without a bound for each client.
    #[must_use]
    pub fn without_per_client(self) -> Self {
        Self { per_client: None, ..self }
    }

    /// How long the id of a job that says one ([`crate::Job::dedup_id`]) is remembered: 10 minutes
    /// unless said, at most 7 days.
    #[must_use]
    pub fn dedup_window(self, dedup_window: Duration) -> Self {
        Self { dedup_window, ..self }
    }

    /// The same with another bound.
    #[must_use]
    pub fn with_bound(self, bound: u64) -> Self {
        Self { bound, ..self }
    }

    /// How many.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// How many jobs of one client are counted at most.
    #[must_use]
    pub fn max_per_client(&self) -> Option<u64> {
        self.per_client
    }

    pub(crate) fn counts_all(&self) -> bool {
        self.counts == Counts::All
    }

    pub(crate) fn dedup_window_us(&self) -> u64 {
        micros(self.dedup_window)
    }
}

/// How a queue is offered to and worked on, where somebody has said so.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Settings {
    /// What the first who offered said.
    #[serde(rename = "offering")]
    pub producer: Option<ProducerSettings>,
    /// What the first who took said.
    #[serde(rename = "working")]
    pub consumer: Option<ConsumerSettings>,
}

impl Settings {
    /// What is written down of a queue.
    pub(crate) fn parse(
        queue: &str,
        producer: Option<&str>,
        consumer: Option<&str>,
    ) -> Result<Self, Error> {
        let unknown = |text: &str| {
            StoreError::permanent(format!(
                "the settings of the queue `{queue}` are written down as this version does not \
                 write them: {text}"
            ))
        };
        let producer = producer
            .map(|text| ProducerSettings::parse(text).ok_or_else(|| unknown(text)))
            .transpose()?;
        let consumer = consumer
            .map(|text| ConsumerSettings::parse(text).ok_or_else(|| unknown(text)))
            .transpose()?;
        Ok(Self { producer, consumer })
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.producer.as_ref().map_or(Ok(()), ProducerSettings::check)?;
        self.consumer.as_ref().map_or(Ok(()), ConsumerSettings::check)
    }
}

impl From<ProducerSettings> for Settings {
    fn from(producer: ProducerSettings) -> Self {
        Self { producer: Some(producer), consumer: None }
    }
}

impl From<ConsumerSettings> for Settings {
    fn from(consumer: ConsumerSettings) -> Self {
        Self { producer: None, consumer: Some(consumer) }
    }
}

/// A [`ProducerSettings`] as it is written down.
#[derive(Serialize, Deserialize)]
struct ProducerRecord {
    bound: u64,
    all: bool,
    remember_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per_client: Option<u64>,
}

/// A [`ConsumerSettings`] as it is written down.
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

/// The limits of a rate, each with its name where it has one, and the policy they are in.
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
    // Numbers and texts: there is nothing that could not be written.
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

    /// As it is written down: the same text for the same settings.
    pub(crate) fn to_text(&self) -> String {
        to_json(&self.record())
    }

    /// What was written down; none for what this version would not have written.
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

    /// As [`ProducerSettings::text`].
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

/// What was said is not what the queue was made with, which is written down.
pub(crate) fn settings_mismatch<S: fmt::Display>(
    queue: &str,
    made: &str,
    asked: &S,
    parse: fn(&str) -> Option<S>,
) -> Error {
    let made = parse(made).map_or_else(|| made.to_owned(), |made| made.to_string());
    Error::Settings { queue: queue.to_owned(), made, asked: asked.to_string() }
}

impl fmt::Display for ProducerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = if self.counts_all() { "all" } else { "waiting" };
        write!(f, "a bound of {} ({counts})", self.bound)?;
        if let Some(max) = self.per_client {
            write!(f, ", {max} of one client")?;
        }
        write!(f, ", ids remembered for {:?}", self.dedup_window)
    }
}

/// How a queue is worked on: the same for all who do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerSettings {
    visibility: Duration,
    deliveries: u32,
    rate: Option<LimitSet>,
    keep_dead: u32,
    keep_done: u32,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        Self {
            visibility: Duration::from_secs(30),
            deliveries: 5,
            rate: None,
            keep_dead: 1_000,
            keep_done: 0,
        }
    }
}

impl ConsumerSettings {
    /// 30 s for a job, 5 deliveries, no rate, 1,000 dead jobs kept.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long who takes a job has for it, before it is delivered again: 1 ms to a day.
    #[must_use]
    pub fn visibility(self, visibility: Duration) -> Self {
        Self { visibility, ..self }
    }

    /// How often a job is delivered at most, 1 to 1,000; then it is dead.
    #[must_use]
    pub fn deliveries(self, deliveries: u32) -> Self {
        Self { deliveries, ..self }
    }

    /// Limits that all deliveries together have to pass.
    #[must_use]
    pub fn rate(self, rate: LimitSet) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// The same without a rate.
    #[must_use]
    pub fn without_rate(self) -> Self {
        Self { rate: None, ..self }
    }

    /// How many dead jobs are kept, at most [`MAX_BOUND`]; the oldest go.
    #[must_use]
    pub fn keep_dead(self, keep_dead: u32) -> Self {
        Self { keep_dead, ..self }
    }

    /// How many jobs that were done are kept to be looked at, at most [`MAX_BOUND`]; the oldest go.
    #[must_use]
    pub fn keep_done(self, keep_done: u32) -> Self {
        Self { keep_done, ..self }
    }

    /// Whether it is as it may be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { visibility, deliveries, keep_dead, keep_done, .. } = self;
        if *visibility < Duration::from_millis(1) || *visibility > MAX_VISIBILITY {
            let what = format!("{visibility:?} for a job: 1 ms to a day");
            return Err(Error::invalid(what));
        }
        if *deliveries == 0 || *deliveries > MAX_DELIVERIES {
            let what = format!("{deliveries} deliveries of a job: 1 to {MAX_DELIVERIES}");
            return Err(Error::invalid(what));
        }
        if u64::from(*keep_dead) > MAX_BOUND {
            return Err(Error::invalid(format!("{keep_dead} dead jobs kept: at most {MAX_BOUND}")));
        }
        if u64::from(*keep_done) > MAX_BOUND {
            return Err(Error::invalid(format!("{keep_done} done jobs kept: at most {MAX_BOUND}")));
        }
        Ok(())
    }

    pub(crate) fn visibility_us(&self) -> u64 {
        micros(self.visibility)
    }

    pub(crate) fn max_deliveries(&self) -> u32 {
        self.deliveries
    }

    pub(crate) fn is_exhausted(&self, deliveries: u32) -> bool {
        deliveries >= self.deliveries
    }

    pub(crate) fn limits(&self) -> Option<&LimitSet> {
        self.rate.as_ref()
    }

    pub(crate) fn kept_dead(&self) -> usize {
        self.keep_dead as usize
    }

    pub(crate) fn kept_done(&self) -> usize {
        self.keep_done as usize
    }

    /// How long who takes a job has for it.
    #[must_use]
    pub fn visibility_timeout(&self) -> Duration {
        self.visibility
    }
}

impl fmt::Display for ConsumerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} for a job, {} deliveries", self.visibility, self.deliveries)?;
        match &self.rate {
            None => f.write_str(", no rate")?,
            Some(limits) => {
                for (place, limit) in limits.limits().iter().enumerate() {
                    f.write_str(if place == 0 { ", a rate of " } else { " and " })?;
                    write!(f, "{limit}")?;
                }
                // With the policy, in which the same limits count apart.
                write!(f, " ({})", limits.identity())?;
            }
        }
        write!(f, ", {} dead jobs kept", self.keep_dead)?;
        if self.keep_done > 0 {
            write!(f, ", {} that were done", self.keep_done)?;
        }
        Ok(())
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_written() {
        let producer =
            ProducerSettings::new(7).counts(Counts::All).dedup_window(Duration::from_secs(1));
        let text = producer.to_text();
        assert_eq!(text, r#"{"bound":7,"all":true,"remember_us":1000000}"#);
        assert_eq!(ProducerSettings::parse(&text), Some(producer.clone()));
        let text = producer.per_client(3).to_text();
        assert_eq!(text, r#"{"bound":7,"all":true,"remember_us":1000000,"per_client":3}"#);
        let read = ProducerSettings::parse(&text).unwrap();
        assert_eq!(read.to_string(), "a bound of 7 (all), 3 of one client, ids remembered for 1s");
        assert_eq!(read.max_per_client(), Some(3));
        let rate: LimitSet = "3/5s via sliding_log, 9/m via gcra".parse().unwrap();
        let named = Limit::from_str("3/5s via sliding_log").unwrap().named("fast").unwrap();
        let named = LimitSet::new(vec![named]).unwrap().in_policy("mail").unwrap();
        for consumer in [
            ConsumerSettings::new(),
            ConsumerSettings::new()
                .visibility(Duration::from_millis(1))
                .deliveries(1)
                .keep_dead(0)
                .keep_done(7),
            ConsumerSettings::new().rate(rate),
            ConsumerSettings::new().rate(named),
        ] {
            assert_eq!(
                ConsumerSettings::parse(&consumer.to_text()).as_ref(),
                Some(&consumer),
                "{consumer}"
            );
        }
    }

    #[test]
    fn what_nobody_here_has_written_is_not_read() {
        for text in [
            "",
            "{}",
            r#"{"bound":0,"all":true,"remember_us":1}"#,
            r#"{"bound":1,"all":true,"remember_us":1,"more":2}"#,
            r#"{"bound": 1,"all":true,"remember_us":1}"#,
            r#"{"bound":1,"all":true,"remember_us":1,"per_client":0}"#,
            r#"{"bound":1,"all":true,"remember_us":1,"per_client":null}"#,
        ] {
            assert_eq!(ProducerSettings::parse(text), None, "{text}");
        }
        for text in [
            r#"{"visibility_us":1000,"deliveries":0,"keep_dead":1}"#,
            r#"{"visibility_us":1000,"deliveries":1,"keep_dead":1,"rate":{"limits":[["x",null]],"policy":null}}"#,
        ] {
            assert_eq!(ConsumerSettings::parse(text), None, "{text}");
        }
    }
}
