//! On a real server, with time series or without.

use std::time::{Duration, SystemTime};

use tollgate_testbed::redis_or_skip;

use super::*;
use crate::fault::Fault;
use crate::node::CommandConnection;
use crate::options::Options;

/// Redis 7 has no built-in time series.
#[tokio::test]
async fn a_redis_without_time_series_says_what_is_missing() {
    let server = redis_or_skip!();
    let options = |url: &str| Options::from_url(url).unwrap().deadline(PATIENCE);
    // A server of a later version has them.
    if supports_command(options(&server.url())).await {
        assert!(TimeSeries::connect(options(&server.url())).await.is_ok());
        return;
    }
    let error = TimeSeries::connect(options(&server.url())).await.unwrap_err();
    assert_eq!(error, TimeSeriesError::Missing { address: server.address().to_string() });
    server.command(&[b"ACL", b"SETUSER", b"u", b"on", b">x", b"~*", b"-@all", b"+ping"]);
    let url = server.url().replace("://", "://u:x@");
    let error = TimeSeries::connect(options(&url)).await.unwrap_err();
    assert_eq!(error, TimeSeriesError::NoPermission);
    let url = server.url().replace("://", "://u:wrong@");
    let error = TimeSeries::connect(options(&url)).await.unwrap_err();
    assert_eq!(error, Fault::WrongPassword.into());
}

/// Whether `TS.ADD` is known, found out in another way than the code does.
async fn supports_command(options: Options) -> bool {
    let connection = CommandConnection::open(options).await.unwrap();
    let answer = connection.exchange(&redis::cmd("TS.ADD"), PATIENCE).await.unwrap();
    let redis::Value::ServerError(error) = answer else { panic!("{answer:?}") };
    !error.details().unwrap_or_default().starts_with("unknown command")
}

const URL: &str = "TOLLGATE_TEST_TIMESERIES_URL";

/// It leaves nothing behind: its keys begin with its own time, and are deleted.
#[tokio::test]
async fn a_redis_with_time_series_adds_up() {
    let Ok(url) = std::env::var(URL) else {
        println!(
            "WANTED: a Redis with time series: set {URL}=redis://HOST:PORT to a server of which \
             a test may use some keys (Redis 8, Redis Stack, or Valkey with valkey-timeseries)"
        );
        return;
    };
    let options = Options::from_url(&url).unwrap().deadline(PATIENCE);
    let series = TimeSeries::connect(options.clone()).await.unwrap();
    let connection = CommandConnection::open(options).await.unwrap();
    let run = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    let run = format!("tollgate-test-{run}");
    let of = |outcome: &str| {
        let labels = [("data", "hits"), ("run", &run), ("outcome", outcome)];
        Series::new(format!("{run}:{outcome}\r\n"), Duration::from_secs(300), labels).unwrap()
    };
    let [yes, no] = ["allowed", "not now"].map(of);
    let filter = vec![("run".to_owned(), run.clone())];
    let query = |bucket_ms| Query { filter: filter.clone(), ..query(bucket_ms) };
    let at = |series, at_ms, value| Sample { series, at_ms, value };

    // Two of one time are added up; one second is empty.
    let samples = [at(&yes, 100_000, 2), at(&yes, 100_000, 3), at(&yes, 102_500, 7)];
    assert_eq!(series.record(&samples).await, Ok(taken(3)));
    assert_eq!(series.record(&[at(&no, 100_999, 1), at(&yes, 102_500, 1)]).await, Ok(taken(2)));
    let label = |outcome: &str| format!("data=hits run={run} outcome={outcome}");
    let lines = |yes: &str, no: &str| {
        vec![
            format!("{run}:allowed\r\n {} {yes}", label("allowed")),
            format!("{run}:not now\r\n {} {no}", label("not now")),
        ]
    };
    let sums = async |query: Query| {
        let mut found = short(&series.range(&query).await.unwrap());
        found.sort();
        found
    };
    assert_eq!(sums(query(1_000)).await, lines("100000:5 102000:8", "100000:1"));
    assert_eq!(sums(query(100_000)).await, lines("100000:13", "100000:1"));
    let mut one = query(1_000);
    one.filter.push(("outcome".to_owned(), "not now".to_owned()));
    assert_eq!(sums(one).await, lines("", "100000:1")[1..]);
    let end = Query { from_ms: Some(102_000), ..query(1_000) };
    assert_eq!(series.range(&end).await.unwrap().iter().map(|f| f.buckets.len()).sum::<usize>(), 1);

    // Samples that are too old are refused, and the others are taken.
    let recorded = series.record(&[at(&yes, 500_000, 1), at(&yes, 1, 1)]).await.unwrap();
    assert_eq!((recorded.taken, recorded.refused), (1, 1));
    let error = recorded.error.unwrap();
    assert!(matches!(&error, TimeSeriesError::Refused { .. }), "{error:?}");

    // A series that was deleted meanwhile comes back with its labels.
    let delete = async || {
        let mut command = redis::cmd("DEL");
        command.arg(yes.key()).arg(no.key());
        connection.exchange(&command, PATIENCE).await.unwrap()
    };
    delete().await;
    assert_eq!(series.record(&[at(&no, 100_000, 4)]).await, Ok(taken(1)));
    assert_eq!(sums(query(1_000)).await, lines("", "100000:4")[1..]);

    // One that has expired is found no more, and comes back as one that was deleted.
    assert_eq!(series.expire(&[&no], Duration::from_millis(1)).await, Ok(()));
    let start = std::time::Instant::now();
    while !sums(query(1_000)).await.is_empty() {
        assert!(start.elapsed() < PATIENCE, "it does not expire");
    }
    assert_eq!(series.record(&[at(&no, 100_000, 9)]).await, Ok(taken(1)));
    assert_eq!(sums(query(1_000)).await, lines("", "100000:9")[1..]);
    delete().await;
}
