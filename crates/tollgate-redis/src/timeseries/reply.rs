//! Parses the replies of time series commands. Any unexpected reply is an error.

use redis::Value;

use super::bounds::{MAX_BUCKETS, MAX_SERIES};
use super::error::TimeSeriesError;
use super::series::{Bucket, FoundSeries};

/// Whether the server knows the one command of a `COMMAND INFO` call: the reply has one element,
/// which is nil or describes the command.
pub(super) fn supports_command(answer: &Value) -> Result<bool, TimeSeriesError> {
    let malformed = malformed("one element of COMMAND INFO, nil or a command");
    let Value::Array(commands) = answer else { return Err(malformed) };
    match &commands[..] {
        // Some proxies omit unknown commands.
        [] | [Value::Nil] => Ok(false),
        [Value::Array(_)] => Ok(true),
        _ => Err(malformed),
    }
}

/// Parses the reply of `TS.MRANGE ... WITHLABELS`: the key, the labels and the buckets of each
/// series.
pub(super) fn found(answer: Value) -> Result<Vec<FoundSeries>, TimeSeriesError> {
    let list = array(answer, "a list of series")?;
    if list.len() > MAX_SERIES {
        return Err(TimeSeriesError::TooLarge);
    }
    let mut left = MAX_BUCKETS;
    list.into_iter()
        .map(|one| {
            let [key, labels, buckets] = exactly(one, "a series of key, labels and samples")?;
            let buckets = array(buckets, "a list of samples")?;
            left = left.checked_sub(buckets.len()).ok_or(TimeSeriesError::TooLarge)?;
            Ok(FoundSeries {
                key: text(key, "the key of a series")?,
                labels: array(labels, "a list of labels")?
                    .into_iter()
                    .map(label)
                    .collect::<Result<_, _>>()?,
                buckets: buckets.into_iter().map(bucket).collect::<Result<_, _>>()?,
            })
        })
        .collect()
}

fn label(pair: Value) -> Result<(String, String), TimeSeriesError> {
    let [name, value] = exactly(pair, "a label of name and value")?;
    Ok((text(name, "the name of a label")?, text(value, "the value of a label")?))
}

fn bucket(pair: Value) -> Result<Bucket, TimeSeriesError> {
    let [at, sum] = exactly(pair, "a sample of time and value")?;
    let time = malformed("a time in milliseconds, not before 1970");
    let Value::Int(at) = at else { return Err(time) };
    Ok(Bucket { at_ms: u64::try_from(at).map_err(|_| time)?, sum: number(sum)? })
}

/// Parses a decimal number, but neither infinity nor NaN, which no sum of counts can be.
fn number(value: Value) -> Result<f64, TimeSeriesError> {
    const EXPECTED: &str = "a value that is a finite number";
    let sum: f64 = match value {
        Value::Double(sum) => sum,
        other => text(other, EXPECTED)?.parse().map_err(|_| malformed(EXPECTED))?,
    };
    if sum.is_finite() { Ok(sum) } else { Err(malformed(EXPECTED)) }
}

fn text(value: Value, expected: &'static str) -> Result<String, TimeSeriesError> {
    match value {
        // Other clients may write to the server, with keys of any bytes.
        Value::BulkString(bytes) => Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())),
        Value::SimpleString(text) => Ok(text),
        Value::Okay => Ok("OK".to_owned()),
        _ => Err(malformed(expected)),
    }
}

fn array(value: Value, expected: &'static str) -> Result<Vec<Value>, TimeSeriesError> {
    match value {
        Value::Array(list) => Ok(list),
        _ => Err(malformed(expected)),
    }
}

fn exactly<const COUNT: usize>(
    value: Value,
    expected: &'static str,
) -> Result<[Value; COUNT], TimeSeriesError> {
    array(value, expected)?.try_into().map_err(|_| malformed(expected))
}

fn malformed(expected: &'static str) -> TimeSeriesError {
    TimeSeriesError::Malformed { expected }
}
