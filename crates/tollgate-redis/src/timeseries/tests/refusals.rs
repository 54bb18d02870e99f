//! Commands that a server refuses, or does not have.

use super::*;
use crate::fault::{ChargeState, Fault};

/// The error after this reply to `COMMAND INFO TS.ADD`.
async fn refusal(answer: &str) -> TimeSeriesError {
    let server =
        Scripted::start(vec![hear(PING), say("+PONG\r\n"), hear(PROBE), say(answer), Close]);
    let error = TimeSeries::connect(server.options()).await.unwrap_err();
    server.done().await;
    error
}

#[tokio::test]
async fn a_server_that_knows_no_time_series_is_told_from_one_that_refuses() {
    for nil in ["*1\r\n*-1\r\n", "*1\r\n$-1\r\n", "*0\r\n"] {
        let error = refusal(nil).await;
        assert!(matches!(error, TimeSeriesError::Missing { .. }), "{nil}: {error:?}");
        for said in ["Redis 8", "Redis Stack", "valkey-timeseries", "embedded series", "127.0.0.1"]
        {
            assert!(error.to_string().contains(said), "{error}");
        }
        assert!(!error.is_transient());
    }
    let noperm = "-NOPERM User u has no permissions to run the 'command|info' command\r\n";
    let error = refusal(noperm).await;
    assert_eq!(error, TimeSeriesError::NoPermission);
    assert!(error.to_string().contains("+command|info +ts.create +ts.add +ts.mrange"), "{error}");
    let error = refusal("-LOADING Redis is loading the dataset in memory\r\n").await;
    assert_eq!(error, Fault::Loading.into());
    let error = refusal("-NOAUTH Authentication required.\r\n").await;
    assert_eq!(error, Fault::NoAuth.into());
    for wrong in ["+OK\r\n", ":1\r\n", "$-1\r\n", "*2\r\n*0\r\n*0\r\n", "*1\r\n:1\r\n"] {
        let error = refusal(wrong).await;
        assert!(matches!(error, TimeSeriesError::Malformed { .. }), "{wrong}: {error:?}");
    }
    let error = refusal("").await;
    assert_eq!(error, Fault::Closed { charge: ChargeState::NotCharged }.into());
}

#[tokio::test]
async fn words_of_the_server_are_kept_and_what_it_quotes_is_not() {
    for (answer, error) in [
        (
            "-ERR TSDB: Couldn't parse AGGREGATION\r\n",
            TimeSeriesError::Refused { what: "Couldn't parse AGGREGATION".to_owned() },
        ),
        ("-NOPERM No permissions to access a key\r\n", TimeSeriesError::NoPermission),
        (
            "-ERR current user doesn't have read permission to one or more keys that match the \
             specified filter\r\n",
            TimeSeriesError::NoPermission,
        ),
        ("-READONLY You can't write against a read only replica.\r\n", Fault::ReadOnly.into()),
        ("-ERR secret\r\n", Fault::Other { code: "ERR".to_owned() }.into()),
    ] {
        assert_eq!(answered(answer).await, error, "{answer}");
    }
    let error = answered("-ERR unknown command 'TS.MRANGE', with args: 'secret' \r\n").await;
    assert!(matches!(error, TimeSeriesError::Missing { .. }), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
    let long = answered(&format!("-ERR TSDB: {}\r\n", "x".repeat(100_000))).await;
    assert!(long.to_string().len() < 300);
}
