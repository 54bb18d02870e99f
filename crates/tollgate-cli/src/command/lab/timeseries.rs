//! Writes what was admitted to Redis time series, for dashboards.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use tollgate_experiments::experiment::results::{Bucket, Results};
use tollgate_redis::KeyPrefix;
use tollgate_redis::timeseries::{Sample, Series, TimeSeries, label};

use crate::store::{runtime, time_series_options};

/// The value of a bucket in a series.
type Count = fn(&Bucket) -> u64;

/// The series of a case: the label `data`, the outcome, and the counted value.
const OUTCOMES: [(&str, &str, Count); 2] =
    [("hits", "admitted", |bucket| bucket.admitted), ("denials", "denied", |bucket| bucket.denied)];

/// A server with time series, connected before anything runs.
pub(super) struct Sink {
    url: String,
    prefix: KeyPrefix,
    runtime: tokio::runtime::Runtime,
    server: TimeSeries,
    /// How long the series are kept; zero keeps them.
    retention: Duration,
}

impl Sink {
    pub(super) fn open(url: &str, retention: Duration) -> Result<Self> {
        let options = time_series_options(url)?;
        let runtime = runtime()?;
        let prefix = options.key_prefix().clone();
        let server = runtime.block_on(TimeSeries::connect(options))?;
        let url = url.split('@').next_back().unwrap_or_default().to_owned();
        Ok(Self { url, prefix, runtime, server, retention })
    }

    /// Writes each case as two series, as if the experiment had ended now, lets them expire, and
    /// returns their location.
    pub(super) fn write(&self, results: &Results) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let end_ms = u64::try_from(now.as_millis())?;
        let begin_ms = end_ms.saturating_sub(results.duration_us / 1_000);
        // The time distinguishes runs: each is its own series, which a label selects.
        let run = begin_ms.to_string();
        let mut series = Vec::new();
        for case in &results.cases {
            for (data, outcome, count) in OUTCOMES {
                let labels = [
                    ("data", data.to_owned()),
                    ("run", run.clone()),
                    ("outcome", outcome.to_owned()),
                    ("experiment", label(&results.name)),
                    ("case", label(&case.name)),
                ];
                let key = format!("lab:{run}:{}:{outcome}", label(&case.name));
                series.push((&case.buckets, count, Series::new(key, Duration::ZERO, labels)?));
            }
        }
        let mut samples = Vec::new();
        for (buckets, count, series) in &series {
            for (bucket, at) in buckets.iter().zip(0_u64..) {
                let value = count(bucket);
                if value > 0 {
                    let at_ms = begin_ms + at.saturating_mul(results.bucket_us) / 1_000;
                    samples.push(Sample { series, at_ms, value });
                }
            }
        }
        let recorded = self.runtime.block_on(self.server.record(&samples))?;
        if recorded.taken < samples.len() {
            let why = recorded.error.map_or_else(String::new, |error| format!(": {error}"));
            bail!(
                "{} of {} samples are not in the time series{why}",
                samples.len() - recorded.taken,
                samples.len()
            );
        }
        if !self.retention.is_zero() {
            // A series without a sample was not created.
            let has_samples = |series: &&Series| samples.iter().any(|it| it.series == *series);
            let written = series.iter().map(|(.., series)| series).filter(has_samples);
            let written: Vec<&Series> = written.collect();
            self.runtime.block_on(self.server.expire(&written, self.retention))?;
        }
        Ok(format!(
            "{} (keys {}lab:{run}:*): TS.MRANGE - + AGGREGATION SUM 1000 FILTER data=hits run={run}",
            self.url, self.prefix
        ))
    }
}
