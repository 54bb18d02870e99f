//! Counts over time in Redis, with RedisTimeSeries, which is built into Redis 8.
//!
//! [`TimeSeries::record`] adds samples to series, [`TimeSeries::expire`] lets these expire, and
//! [`TimeSeries::range`] reads sums by time buckets.
//! `docs/timeseries.md` describes both for users.
//!
//! The counts are for monitoring, not for deciding. Samples lost on the way are counted and never
//! sent again, since the server adds samples of the same time, and a second copy would count twice.
//!
//! It needs a tokio runtime with I/O and time enabled.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use redis::{Cmd, Pipeline, ServerError, Value, cmd};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

pub use self::bounds::{MAX_BUCKETS, MAX_KEY_BYTES, MAX_LABEL_BYTES, MAX_LABELS, MAX_SERIES};
pub use self::error::TimeSeriesError;
pub use self::series::{Bucket, FoundSeries, Query, Sample, Series, label};
use crate::client::open_one;
use crate::fault::{ChargeState, Fault};
use crate::key::KeyPrefix;
use crate::node::CommandConnection;
use crate::options::Options;

mod bounds;
mod error;
mod reply;
mod series;
#[cfg(test)]
mod tests;

/// The most commands of one write: they are lost together, and delay other calls.
const MAX_COMMANDS: usize = 1_000;

/// The most series that are remembered as created. Beyond it all are forgotten and created again,
/// which the server answers with an expected error.
const MAX_MADE: usize = 10_000;

/// The label of series with a prefix.
const PREFIX_LABEL: &str = "prefix";

/// Time series on one server, over one connection.
///
/// With a prefix ([`Options::prefix`]) every key begins with it, such as `staging:hits:api`, every
/// series has the label `prefix`, and [`TimeSeries::range`] finds only these series.
///
/// Calls wait for each other, since nothing in a reply identifies its call. Each call, and each
/// wait for its turn, has the deadline of [`Options::deadline`]. The next call replaces a lost
/// connection.
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate_redis::Options;
/// use tollgate_redis::timeseries::{Query, Sample, Series, TimeSeries};
///
/// # async fn example(at_ms: u64) -> Result<(), Box<dyn std::error::Error>> {
/// let redis = TimeSeries::connect(Options::from_url("redis://127.0.0.1?deadline=1s")?).await?;
/// let labels = [("data", "hits"), ("limit", "10/s"), ("outcome", "allowed")];
/// let allowed = Series::new("hits:api:allowed", Duration::from_secs(86_400), labels)?;
/// let recorded = redis.record(&[Sample { series: &allowed, at_ms, value: 4 }]).await?;
/// assert_eq!((recorded.taken, recorded.error), (1, None));
///
/// let bucket = Duration::from_secs(1);
/// let filter = vec![("data".to_owned(), "hits".to_owned())];
/// for series in redis.range(&Query { from_ms: None, to_ms: None, bucket, filter }).await? {
///     println!("{} {:?}", series.key, series.buckets);
/// }
/// # Ok(())
/// # }
/// ```
pub struct TimeSeries {
    options: Options,
    /// Taken out while in use, so that a dropped future drops its connection, and no reply can be
    /// taken for that of another call.
    open: Mutex<Option<OpenConnection>>,
}

/// A connection to a server with time series.
struct OpenConnection {
    connection: CommandConnection,
    /// The keys of the series that were created over it.
    made: HashSet<String>,
}

/// The outcome of the samples. The four counts add up to the number of samples.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Recorded {
    /// The samples that are in their series.
    pub taken: usize,
    /// The samples that the server refused one by one; they are certainly not in their series.
    pub refused: usize,
    /// The samples that were sent without a reply. They may be in their series, and sending them
    /// again could count them twice.
    pub unknown: usize,
    /// The last samples, which were not sent because the connection was lost.
    pub unsent: usize,
    /// The first error, of a sample or of creating a series.
    pub error: Option<TimeSeriesError>,
}

impl fmt::Debug for TimeSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimeSeries").field(&self.options).finish()
    }
}

impl TimeSeries {
    /// Connects, and tests whether the server has time series.
    ///
    /// It uses the address, the user, the deadline and the connect timeout of `options`, always
    /// with one connection and without a breaker.
    ///
    /// # Errors
    /// [`TimeSeriesError::Missing`] when the server has no time series; other errors when it cannot
    /// be reached, or refuses.
    pub async fn connect(options: Options) -> Result<Self, TimeSeriesError> {
        let open = OpenConnection::new(&options).await?;
        Ok(Self { options, open: Mutex::new(Some(open)) })
    }

    /// Adds samples to their series, in writes of at most 1,000 commands.
    ///
    /// A series that was not created over this connection is created first (`TS.CREATE`). An
    /// existing series keeps its retention and labels.
    ///
    /// Nothing is sent twice. When the future is dropped, samples already sent may be in their
    /// series.
    ///
    /// # Errors
    /// Nothing was sent: there is no connection to a server with time series, or it was busy with
    /// other calls. Later errors are in [`Recorded`].
    pub async fn record(&self, samples: &[Sample<'_>]) -> Result<Recorded, TimeSeriesError> {
        let mut recorded = Recorded { unsent: samples.len(), ..Recorded::default() };
        if samples.is_empty() {
            return Ok(recorded);
        }
        let (mut place, mut open) = self.open().await?;
        let mut rest = samples;
        while !rest.is_empty() {
            let batch = Batch::new(rest, &open.made, &self.options.prefix);
            let (now, later) = rest.split_at(batch.samples);
            let mut answers =
                match open.connection.exchange_all(&batch.commands, self.options.deadline).await {
                    Ok(answers) => answers,
                    Err(fault)
                        if fault.charge_state() == ChargeState::NotCharged
                            && recorded.unsent == samples.len() =>
                    {
                        return Err(fault.into());
                    }
                    Err(fault) => {
                        if fault.charge_state() == ChargeState::Unknown {
                            recorded.unsent -= now.len();
                            recorded.unknown += now.len();
                        }
                        recorded.error.get_or_insert(fault.into());
                        return Ok(recorded);
                    }
                };
            recorded.unsent -= now.len();
            let added = answers.split_off(batch.creates.len());
            let keep = self.created(&batch.creates, answers, &mut open.made, &mut recorded)
                & self.added(now, added, &mut recorded);
            if !keep {
                return Ok(recorded);
            }
            rest = later;
        }
        *place = Some(open);
        Ok(recorded)
    }

    /// Lets series expire after this time, rounded up to milliseconds: `PEXPIRE`. A retention alone
    /// does not remove a series that gets no more samples, since it counts from the newest one. The
    /// user needs the right to `pexpire`.
    ///
    /// # Errors
    /// The time is out of range, or the server cannot be reached or refuses. Others of the series
    /// may expire nevertheless.
    pub async fn expire(&self, series: &[&Series], after: Duration) -> Result<(), TimeSeriesError> {
        let after_ms = series::millis_up(after)?;
        let (mut place, mut open) = self.open().await?;
        let mut failed = None;
        for series in series.chunks(MAX_COMMANDS) {
            let mut commands = Pipeline::with_capacity(series.len());
            for series in series {
                let key = format!("{}{}", self.options.prefix, series.key());
                commands.cmd("PEXPIRE").arg(key).arg(after_ms);
            }
            for answer in open.connection.exchange_all(&commands, self.options.deadline).await? {
                let error = match answer {
                    // It was deleted meanwhile: there is nothing to expire.
                    Value::Int(0 | 1) => continue,
                    Value::ServerError(error) => self.refusal(&error),
                    _ => TimeSeriesError::Malformed { expected: "0 or 1 from PEXPIRE" },
                };
                failed.get_or_insert(error);
            }
            // A later series of the same key is created again, with its labels.
            for series in series {
                open.made.remove(series.key());
            }
        }
        if failed.as_ref().is_none_or(|error| !error.wants_another_connection()) {
            *place = Some(open);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Reads the sums of all series with the labels of the filter, in buckets:
    /// `TS.MRANGE - + WITHLABELS AGGREGATION SUM 1000 FILTER data=hits`.
    ///
    /// The reply has at most [`MAX_SERIES`] series and [`MAX_BUCKETS`] buckets.
    ///
    /// # Errors
    /// The query is out of bounds, or the server cannot be reached, refuses, or sends an unexpected
    /// reply.
    pub async fn range(&self, query: &Query) -> Result<Vec<FoundSeries>, TimeSeriesError> {
        let bucket_ms = query.check()?;
        let mut command = cmd("TS.MRANGE");
        for (end, open_end) in [(query.from_ms, "-"), (query.to_ms, "+")] {
            match end {
                Some(at_ms) => command.arg(at_ms),
                None => command.arg(open_end),
            };
        }
        command.arg("WITHLABELS").arg("AGGREGATION").arg("SUM").arg(bucket_ms).arg("FILTER");
        for (name, value) in &query.filter {
            command.arg(format!("{name}={value}"));
        }
        let prefix = &self.options.prefix;
        if let Some(name) = prefix.name() {
            command.arg(format!("{PREFIX_LABEL}={}", label(name)));
        }
        let (mut place, open) = self.open().await?;
        let answer = match open.connection.exchange(&command, self.options.deadline).await? {
            Value::ServerError(error) => Err(self.refusal(&error)),
            answer => reply::found(answer).map(|mut found| {
                // Two prefixes may have one label.
                found.retain(|series| series.key.starts_with(&prefix.to_string()));
                found
            }),
        };
        if answer.as_ref().err().is_none_or(|error| !error.wants_another_connection()) {
            *place = Some(open);
        }
        answer
    }

    /// The connection, and where to put it back once all its replies have arrived.
    async fn open(
        &self,
    ) -> Result<(MutexGuard<'_, Option<OpenConnection>>, OpenConnection), TimeSeriesError> {
        let after = self.options.deadline;
        let Ok(mut place) = timeout(after, self.open.lock()).await else {
            return Err(Fault::Deadline { after, charge: ChargeState::NotCharged }.into());
        };
        let open = match place.take().filter(|open| !open.connection.has_ended()) {
            Some(open) => open,
            None => OpenConnection::new(&self.options).await?,
        };
        Ok((place, open))
    }

    /// Processes the replies to `TS.CREATE`; false when the connection must not be used again.
    fn created(
        &self,
        keys: &[&str],
        answers: Vec<Value>,
        made: &mut HashSet<String>,
        recorded: &mut Recorded,
    ) -> bool {
        let mut keep = true;
        for (key, answer) in keys.iter().zip(answers) {
            let error = match answer {
                Value::Okay => None,
                Value::ServerError(error) => {
                    Some(self.refusal(&error)).filter(|error| !already_exists(error))
                }
                _ => Some(TimeSeriesError::Malformed { expected: "OK from TS.CREATE" }),
            };
            if let Some(error) = error {
                keep &= !error.wants_another_connection();
                recorded.error.get_or_insert(error);
                continue;
            }
            if made.len() >= MAX_MADE {
                made.clear();
            }
            made.insert((*key).to_owned());
        }
        keep
    }

    /// Processes the replies to `TS.ADD`; false when the connection must not be used again.
    fn added(&self, samples: &[Sample<'_>], answers: Vec<Value>, recorded: &mut Recorded) -> bool {
        let mut keep = true;
        for (sample, answer) in samples.iter().zip(answers) {
            let error = match answer {
                Value::Int(at) if u64::try_from(at) == Ok(sample.at_ms) => {
                    recorded.taken += 1;
                    continue;
                }
                Value::ServerError(error) => {
                    recorded.refused += 1;
                    self.refusal(&error)
                }
                _ => {
                    recorded.unknown += 1;
                    TimeSeriesError::Malformed { expected: "the time of the sample from TS.ADD" }
                }
            };
            keep &= !error.wants_another_connection();
            recorded.error.get_or_insert(error);
        }
        keep
    }

    fn refusal(&self, error: &ServerError) -> TimeSeriesError {
        TimeSeriesError::from_reply(error, &self.options.target.to_string())
    }
}

impl OpenConnection {
    /// Connects, and tests whether the server has time series.
    async fn new(options: &Options) -> Result<Self, TimeSeriesError> {
        let connection = open_one(options.clone()).await?;
        let mut probe = cmd("COMMAND");
        probe.arg("INFO").arg("TS.ADD");
        let address = options.target.to_string();
        let answer = connection.exchange(&probe, options.deadline).await;
        // The command changes nothing, so its failure cannot leave an effect.
        match answer.map_err(Fault::before_the_script)? {
            Value::ServerError(error) => Err(TimeSeriesError::from_reply(&error, &address)),
            answer if reply::supports_command(&answer)? => {
                Ok(Self { connection, made: HashSet::new() })
            }
            _ => Err(TimeSeriesError::Missing { address }),
        }
    }
}

/// The commands of one write: first the series to create, then as many samples as fit.
struct Batch<'a> {
    commands: Pipeline,
    /// The keys of the series, in the order of their commands.
    creates: Vec<&'a str>,
    /// The number of samples, counted from the first.
    samples: usize,
}

impl<'a> Batch<'a> {
    fn new(samples: &[Sample<'a>], made: &HashSet<String>, prefix: &KeyPrefix) -> Self {
        let mut new = HashSet::new();
        let mut series = Vec::new();
        let mut count = 0;
        for sample in samples {
            let key = sample.series.key();
            let is_new = !made.contains(key) && !new.contains(key);
            if series.len() + count + 1 + usize::from(is_new) > MAX_COMMANDS {
                break;
            }
            if is_new {
                new.insert(key);
                series.push(sample.series);
            }
            count += 1;
        }
        let mut commands = Pipeline::with_capacity(series.len() + count);
        for series in &series {
            commands.add_command(create(prefix, series));
        }
        for sample in samples.iter().take(count) {
            commands.add_command(add(prefix, sample));
        }
        let creates = series.into_iter().map(Series::key).collect();
        Self { commands, creates, samples: count }
    }
}

/// `TS.CREATE`: only this command sets on all versions that samples of other clients are added up,
/// too.
fn create(prefix: &KeyPrefix, series: &Series) -> Cmd {
    let mut command = cmd("TS.CREATE");
    command.arg(format!("{prefix}{}", series.key())).arg("RETENTION").arg(series.retention_ms());
    command.arg("DUPLICATE_POLICY").arg("SUM");
    labelled(command, prefix, series)
}

/// `TS.ADD`. It recreates a series that was deleted since (by `DEL`, `FLUSHALL`, or eviction).
/// Without its labels the recreated series would not be found by queries.
fn add(prefix: &KeyPrefix, sample: &Sample<'_>) -> Cmd {
    let Sample { series, at_ms, value } = sample;
    let mut command = cmd("TS.ADD");
    command.arg(format!("{prefix}{}", series.key())).arg(at_ms).arg(value);
    command.arg("RETENTION").arg(series.retention_ms());
    command.arg("ON_DUPLICATE").arg("SUM");
    labelled(command, prefix, series)
}

fn labelled(mut command: Cmd, prefix: &KeyPrefix, series: &Series) -> Cmd {
    if !series.labels().is_empty() || prefix.name().is_some() {
        command.arg("LABELS");
        for (name, value) in series.labels() {
            command.arg(name).arg(value);
        }
        if let Some(name) = prefix.name() {
            command.arg(PREFIX_LABEL).arg(label(name));
        }
    }
    command
}

/// Whether a series could not be created because its key exists. If the key has another type,
/// adding the samples fails.
fn already_exists(error: &TimeSeriesError) -> bool {
    matches!(error, TimeSeriesError::Refused { what } if what.starts_with("key already exists"))
}
