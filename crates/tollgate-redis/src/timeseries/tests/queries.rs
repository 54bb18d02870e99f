//! Sums that are asked for, and invalid answers.

use super::*;
use crate::fault::Fault;

/// The first two answers are every byte that Redis Stack 7.4 said, and the example of
/// `docs/timeseries.md`.
#[tokio::test]
async fn sums_by_the_second_and_by_hundred() {
    let answer = |allowed: &str, denied: &str| {
        format!(
            "*2\r\n*3\r\n$16\r\nhits:api:allowed\r\n\
             *3\r\n*2\r\n$4\r\ndata\r\n$4\r\nhits\r\n*2\r\n$5\r\nlimit\r\n$4\r\n10/s\r\n\
             *2\r\n$7\r\noutcome\r\n$7\r\nallowed\r\n{allowed}\
             *3\r\n$15\r\nhits:api:denied\r\n\
             *3\r\n*2\r\n$4\r\ndata\r\n$4\r\nhits\r\n*2\r\n$5\r\nlimit\r\n$4\r\n10/s\r\n\
             *2\r\n$7\r\noutcome\r\n$6\r\ndenied\r\n{denied}"
        )
    };
    let (server, series) = scripted([
        hear(resp("TS.MRANGE - + WITHLABELS AGGREGATION SUM 1000 FILTER data=hits")),
        say(answer(
            "*3\r\n*2\r\n:1700000000000\r\n+10\r\n*2\r\n:1700000001000\r\n+10\r\n\
             *2\r\n:1700000130000\r\n+1\r\n",
            "*1\r\n*2\r\n:1700000001000\r\n+3\r\n",
        )),
        hear(resp("TS.MRANGE 5 9999999999999 WITHLABELS AGGREGATION SUM 100000 FILTER data=hits")),
        say(answer(
            "*2\r\n*2\r\n:1700000000000\r\n+20\r\n*2\r\n:1700000100000\r\n+1\r\n",
            "*1\r\n*2\r\n:1700000000000\r\n+3\r\n",
        )),
        hear(resp("TS.MRANGE - + WITHLABELS AGGREGATION SUM 1 FILTER data=hits")),
        // Without labels and samples, and numbers as they may be written.
        say("*2\r\n*3\r\n$1\r\nk\r\n*0\r\n*0\r\n\
             *3\r\n+OK\r\n*0\r\n*2\r\n*2\r\n:0\r\n+1E300\r\n*2\r\n:9\r\n$3\r\n1.5\r\n"),
    ])
    .await;
    let allowed = "hits:api:allowed data=hits limit=10/s outcome=allowed";
    let denied = "hits:api:denied data=hits limit=10/s outcome=denied";
    assert_eq!(
        short(&series.range(&query(1_000)).await.unwrap()),
        [
            format!("{allowed} 1700000000000:10 1700000001000:10 1700000130000:1"),
            format!("{denied} 1700000001000:3"),
        ]
    );
    let part = Query { from_ms: Some(5), to_ms: Some(9_999_999_999_999), ..query(100_000) };
    assert_eq!(
        short(&series.range(&part).await.unwrap()),
        [
            format!("{allowed} 1700000000000:20 1700000100000:1"),
            format!("{denied} 1700000000000:3"),
        ]
    );
    let found = series.range(&query(1)).await.unwrap();
    assert_eq!([&found[0].key, &found[1].key], ["k", "OK"]);
    assert!(found[0].buckets.is_empty());
    let sums: Vec<f64> = found[1].buckets.iter().map(|bucket| bucket.sum).collect();
    assert_eq!(sums, [1e300, 1.5]);
    drop(series);
    server.done().await;
}

#[tokio::test]
async fn a_hostile_answer_is_an_error_that_says_what_was_expected() {
    for (answer, expected) in [
        ("+OK\r\n", "a list of series"),
        ("$-1\r\n", "a list of series"),
        ("*1\r\n:1\r\n", "a series of key, labels and samples"),
        ("*1\r\n*2\r\n+k\r\n*0\r\n", "a series of key, labels and samples"),
        ("*1\r\n*4\r\n+k\r\n*0\r\n*0\r\n*0\r\n", "a series of key, labels and samples"),
        ("*1\r\n*3\r\n:1\r\n*0\r\n*0\r\n", "the key of a series"),
        ("*1\r\n*3\r\n+k\r\n+x\r\n*0\r\n", "a list of labels"),
        ("*1\r\n*3\r\n+k\r\n*1\r\n+x\r\n*0\r\n", "a label of name and value"),
        ("*1\r\n*3\r\n+k\r\n*1\r\n*1\r\n+x\r\n*0\r\n", "a label of name and value"),
        ("*1\r\n*3\r\n+k\r\n*1\r\n*2\r\n:1\r\n+x\r\n*0\r\n", "the name of a label"),
        ("*1\r\n*3\r\n+k\r\n*1\r\n*2\r\n+x\r\n$-1\r\n*0\r\n", "the value of a label"),
        ("*1\r\n*3\r\n+k\r\n*0\r\n:1\r\n", "a list of samples"),
        ("*1\r\n*3\r\n+k\r\n*0\r\n*1\r\n:1\r\n", "a sample of time and value"),
        ("*1\r\n*3\r\n+k\r\n*0\r\n*1\r\n*3\r\n:1\r\n+1\r\n+1\r\n", "a sample of time and value"),
        ("*1\r\n*3\r\n+k\r\n*0\r\n*1\r\n*2\r\n+1\r\n+1\r\n", "a time in milliseconds"),
        ("*1\r\n*3\r\n+k\r\n*0\r\n*1\r\n*2\r\n:-1\r\n+1\r\n", "a time in milliseconds"),
        ("*1\r\n*3\r\n+k\r\n*0\r\n*1\r\n*2\r\n:1\r\n+x\r\n", "a finite number"),
        ("*1\r\n*3\r\n+k\r\n*0\r\n*1\r\n*2\r\n:1\r\n+nan\r\n", "a finite number"),
        ("*1\r\n*3\r\n+k\r\n*0\r\n*1\r\n*2\r\n:1\r\n,inf\r\n", "a finite number"),
        ("*1\r\n*3\r\n+k\r\n*0\r\n*1\r\n*2\r\n:1\r\n+1e999\r\n", "a finite number"),
        ("*1\r\n*3\r\n+k\r\n*0\r\n*1\r\n*2\r\n:1\r\n*1\r\n+1\r\n", "a finite number"),
        ("*1\r\n-ERR x\r\n", "a series of key, labels and samples"),
    ] {
        let error = answered(answer).await;
        assert!(matches!(error, TimeSeriesError::Malformed { .. }), "{answer:?}: {error:?}");
        assert!(error.to_string().contains(expected), "{answer:?}: {error}");
    }
    let many = format!("*10001\r\n{}", "*3\r\n+k\r\n*0\r\n*0\r\n".repeat(10_001));
    assert_eq!(answered(&many).await, TimeSeriesError::TooLarge);
    let bucket = "*2\r\n:1\r\n+1\r\n".repeat(600_000);
    let long = format!("*3\r\n+k\r\n*0\r\n*600000\r\n{bucket}");
    assert_eq!(answered(&format!("*2\r\n{long}{long}")).await, TimeSeriesError::TooLarge);
}

#[tokio::test]
async fn an_answer_that_is_no_redis_at_all_ends_the_connection() {
    let nested = "*1\r\n".repeat(10_000);
    for answer in [
        "*1\r\n*3\r\n$1\r\nk\r\n",
        "",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "*9223372036854775807\r\n",
        "*1\r\n$9223372036854775807\r\nx",
        "*2000000000\r\n*0\r\n",
        "*99999999999999999999\r\n",
        "*x\r\n",
        "$3\r\nlonger\r\n",
        &nested,
    ] {
        let error = answered(answer).await;
        assert!(
            matches!(error, TimeSeriesError::Fault(Fault::Closed { .. } | Fault::Garbled { .. })),
            "{}: {error:?}",
            answer.get(..30).unwrap_or(answer)
        );
    }
}
