//! Series with their labels, samples, and queries.

use std::time::Duration;

use super::bounds::{MAX_KEY_BYTES, MAX_LABEL_BYTES, MAX_LABELS};
use super::error::TimeSeriesError;

/// RedisTimeSeries recognizes these option names at any position, in any case. It would read a
/// label `ignore` as an option.
const OPTIONS: [&str; 9] = [
    "RETENTION",
    "ENCODING",
    "COMPRESSED",
    "UNCOMPRESSED",
    "CHUNK_SIZE",
    "DUPLICATE_POLICY",
    "ON_DUPLICATE",
    "IGNORE",
    "LABELS",
];

/// A time series: a key, a retention, and the labels by which queries find it.
///
/// Labels must come from a bounded set, such as the names of policies, limits and outcomes. Never
/// use a subject, an address or another value that a client chooses. Every combination of labels is
/// a separate series, which takes some kilobytes of the server's memory and is never removed.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::timeseries::Series;
///
/// let labels = [("data", "hits"), ("limit", "10/s"), ("outcome", "allowed")];
/// let series = Series::new("hits:api:10/s:allowed", Duration::from_secs(86_400), labels)?;
/// assert_eq!(series.labels().len(), 3);
/// # Ok::<(), tollgate_redis::timeseries::TimeSeriesError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Series {
    key: String,
    retention_ms: u64,
    labels: Vec<(String, String)>,
}

impl Series {
    /// A series with `key`, of 1 to [`MAX_KEY_BYTES`] bytes, which are sent unchanged.
    ///
    /// The server drops samples that are older than the newest one by more than `retention`; zero
    /// keeps all. It is rounded up to milliseconds.
    ///
    /// # Errors
    /// The key, the retention or a label is out of bounds; a label contains `=`, `(`, `)` or `,`,
    /// so that no query could find it; or a word equals an option of RedisTimeSeries.
    pub fn new<N: Into<String>, V: Into<String>>(
        key: impl Into<String>,
        retention: Duration,
        labels: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, TimeSeriesError> {
        let key = key.into();
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(TimeSeriesError::invalid(format!(
                "the key of a series has 1 to {MAX_KEY_BYTES} bytes; this one has {}",
                key.len()
            )));
        }
        no_option(&key)?;
        let labels: Vec<(String, String)> = labels
            .into_iter()
            // One more than the maximum, so that an endless list is rejected.
            .take(MAX_LABELS + 1)
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        check_labels(&labels)?;
        Ok(Self { key, retention_ms: millis_up(retention)?, labels })
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The labels, as given.
    #[must_use]
    pub fn labels(&self) -> &[(String, String)] {
        &self.labels
    }

    /// The retention in milliseconds; 0 keeps samples forever.
    pub(super) fn retention_ms(&self) -> u64 {
        self.retention_ms
    }
}

/// Converts a name into a valid label. Characters with a meaning in filters become `_`, and the
/// result is cut to [`MAX_LABEL_BYTES`] bytes. An empty text, and a word that equals an option of
/// RedisTimeSeries, get a `_` appended.
///
/// Two names can become the same label; where that matters, use different keys.
///
/// ```
/// use tollgate_redis::timeseries::label;
///
/// assert_eq!(label("sliding_log/1h"), "sliding_log/1h");
/// assert_eq!(label("a=b, (c)"), "a_b_ _c_");
/// assert_eq!((label("labels"), label("")), ("labels_".to_owned(), "_".to_owned()));
/// ```
#[must_use]
pub fn label(name: &str) -> String {
    let mut label = String::with_capacity(name.len().min(MAX_LABEL_BYTES));
    for char in name.trim().chars() {
        let is_plain = char.is_alphanumeric() || " ._-:/".contains(char);
        let kept = if is_plain { char } else { '_' };
        if label.len() + kept.len_utf8() > MAX_LABEL_BYTES {
            break;
        }
        label.push(kept);
    }
    if label.is_empty() || no_option(&label).is_err() {
        label.push('_');
    }
    label
}

/// A count at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by its fields, of which two are numbers")]
pub struct Sample<'a> {
    /// The series.
    pub series: &'a Series,
    /// The time in milliseconds since 1970, below 2^63. Samples of one series and time are added
    /// up.
    pub at_ms: u64,
    /// The count. The server counts in `f64`: exactly up to 2^53.
    pub value: u64,
}

/// A query for sums.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by its fields, of which three are numbers")]
pub struct Query {
    /// The first millisecond since 1970 to include; `None` is the earliest sample.
    pub from_ms: Option<u64>,
    /// The last millisecond to include; `None` is the latest sample.
    pub to_ms: Option<u64>,
    /// The length of a bucket, at least 1 ms, rounded up to milliseconds. Buckets begin at
    /// multiples of it since 1970.
    pub bucket: Duration,
    /// The labels that a series must have, at least one; all must match.
    pub filter: Vec<(String, String)>,
}

impl Query {
    /// Checks the bounds, and returns the length of a bucket in milliseconds.
    pub(super) fn check(&self) -> Result<u64, TimeSeriesError> {
        if self.filter.is_empty() {
            return Err(TimeSeriesError::invalid(
                "a query names at least one label, such as `data=hits`",
            ));
        }
        check_labels(&self.filter)?;
        match millis_up(self.bucket)? {
            0 => Err(TimeSeriesError::invalid("a bucket is at least 1 ms long")),
            bucket_ms => Ok(bucket_ms),
        }
    }
}

/// A series in the reply to a query.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct FoundSeries {
    /// Its key; bytes that are not UTF-8 become `U+FFFD`.
    pub key: String,
    /// Its labels, in the server's order.
    pub labels: Vec<(String, String)>,
    /// Its buckets, the earliest first; those without samples are omitted.
    pub buckets: Vec<Bucket>,
}

/// The sum of a bucket.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Bucket {
    /// The start of the bucket, in milliseconds since 1970.
    pub at_ms: u64,
    /// The sum of its samples.
    pub sum: f64,
}

fn check_labels(labels: &[(String, String)]) -> Result<(), TimeSeriesError> {
    if labels.len() > MAX_LABELS {
        return Err(TimeSeriesError::invalid(format!("there are at most {MAX_LABELS} labels")));
    }
    for (name, value) in labels {
        for word in [name, value] {
            if word.is_empty() || word.len() > MAX_LABEL_BYTES {
                return Err(TimeSeriesError::invalid(format!(
                    "the name and the value of a label have 1 to {MAX_LABEL_BYTES} bytes each; \
                     one has {}",
                    word.len()
                )));
            }
            if word.contains(['=', '(', ')', ',']) {
                return Err(TimeSeriesError::invalid(
                    "no label has `=`, `(`, `)` or `,` in it: a filter gives them a meaning, so \
                     that no query could find it",
                ));
            }
            no_option(word)?;
        }
        // `name!=value` would negate the filter.
        if name.ends_with('!') {
            return Err(TimeSeriesError::invalid("the name of a label does not end with `!`"));
        }
    }
    Ok(())
}

fn no_option(word: &str) -> Result<(), TimeSeriesError> {
    match OPTIONS.iter().find(|option| word.eq_ignore_ascii_case(option)) {
        None => Ok(()),
        Some(option) => Err(TimeSeriesError::invalid(format!(
            "neither a key nor a label is the word {option}: RedisTimeSeries would take it for \
             its option"
        ))),
    }
}

/// Whole milliseconds, rounded up: a positive duration must not become 0, which means forever.
pub(super) fn millis_up(time: Duration) -> Result<u64, TimeSeriesError> {
    let ms = time.as_nanos().div_ceil(1_000_000);
    // The server counts in signed 64-bit milliseconds.
    i64::try_from(ms).map(i64::unsigned_abs).map_err(|_| {
        TimeSeriesError::invalid("a retention or a bucket has at most 2^63 - 1 milliseconds")
    })
}
