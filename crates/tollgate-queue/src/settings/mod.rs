//! The settings of a queue: for producers and for workers.

mod bounds;
mod consumer;
mod producer;
mod record;

pub use self::bounds::MAX_BOUND;
pub(crate) use self::bounds::micros;
pub use self::consumer::ConsumerSettings;
pub use self::producer::{Counts, ProducerSettings};

#[cfg(any(feature = "redis", feature = "sqlite"))]
pub(crate) use self::record::settings_mismatch;

use serde::Serialize;
use tollgate::StoreError;

use crate::error::Error;

/// The settings of a queue, as far as they were set.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Settings {
    /// The settings of the first producer.
    #[serde(rename = "offering")]
    pub producer: Option<ProducerSettings>,
    /// The settings of the first worker.
    #[serde(rename = "working")]
    pub consumer: Option<ConsumerSettings>,
}

impl Settings {
    /// Parses the stored settings of a queue.
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

pub(crate) fn check_same<S: PartialEq + core::fmt::Display>(
    name: &str,
    made: &S,
    asked: &S,
) -> Result<(), Error> {
    if made == asked {
        return Ok(());
    }
    Err(Error::Settings {
        queue: name.to_owned(),
        made: made.to_string(),
        asked: asked.to_string(),
    })
}

#[cfg(test)]
mod tests;
