//! Connections that are lost, silent, or dropped with a question.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::*;
use crate::fault::{ChargeState, Fault};

#[tokio::test]
async fn a_lost_connection_is_made_anew_and_nothing_is_sent_twice() {
    let mut steps = vec![hear(create("yes") + &add("yes", 1, 1)), Close];
    steps.extend(greeting());
    // The series is made again: it may be another server.
    steps.extend([hear(create("yes") + &add("yes", 2, 1)), say("+OK\r\n:2\r\n"), Close]);
    steps.extend([hear(PING), say("+PONG\r\n"), hear(PROBE), say("*1\r\n*-1\r\n"), Close]);
    steps.extend(greeting());
    steps.extend([hear(create("yes") + &add("yes", 4, 1)), say("+OK\r\n:4\r\n")]);
    let (server, series) = scripted(steps).await;
    let yes = hits("yes");
    let at = |at_ms| [Sample { series: &yes, at_ms, value: 1 }];
    let recorded = series.record(&at(1)).await.unwrap();
    let error = Some(Fault::Closed { charge: ChargeState::Unknown }.into());
    assert_eq!(recorded, Recorded { unknown: 1, error, ..Recorded::default() });
    assert_eq!(series.record(&at(2)).await, Ok(taken(1)));
    ended(&series).await;
    // A server without time series has taken its place.
    let error = series.record(&at(3)).await.unwrap_err();
    assert!(matches!(error, TimeSeriesError::Missing { .. }), "{error:?}");
    assert_eq!(series.record(&at(4)).await, Ok(taken(1)));
    drop(series);
    server.done().await;
}

/// Waits until the connection is seen to have ended.
async fn ended(series: &TimeSeries) {
    let ended = async {
        while series.open.lock().await.as_ref().is_some_and(|open| !open.connection.has_ended()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
}

#[tokio::test]
async fn what_comes_after_a_lost_connection_is_unsent() {
    let (server, series) = scripted([Close]).await;
    let yes = hits("yes");
    let samples: Vec<_> =
        (0..1_500).map(|at_ms| Sample { series: &yes, at_ms, value: 1 }).collect();
    // Nobody listens any more, so that there is no other connection.
    ended(&series).await;
    server.done().await;
    let error = series.record(&samples).await.unwrap_err();
    assert!(matches!(error, TimeSeriesError::Fault(Fault::Unreachable { .. })), "{error:?}");
    assert!(error.is_transient());

    let create = create("yes");
    let first: String = (0..999).map(|at| add("yes", at, 1)).collect();
    let (server, series) = scripted([hear(create + &first), Close]).await;
    let recorded = series.record(&samples).await.unwrap();
    let error = Some(Fault::Closed { charge: ChargeState::Unknown }.into());
    assert_eq!(recorded, Recorded { unknown: 999, unsent: 501, error, ..Recorded::default() });
    drop(series);
    server.done().await;
}

#[tokio::test]
async fn a_question_that_is_dropped_takes_its_connection_with_it() {
    let heard = Arc::new(Notify::new());
    let mut steps = vec![
        hear(resp("TS.MRANGE - + WITHLABELS AGGREGATION SUM 1000 FILTER data=hits")),
        Tell(Arc::clone(&heard)),
        Gone,
    ];
    steps.extend(greeting());
    steps.extend([hear(create("yes") + &add("yes", 1, 1)), say("+OK\r\n:1\r\n")]);
    let (server, series) = scripted(steps).await;
    // Else its answer could be taken for the next one's.
    let query = query(1_000);
    tokio::select! {
        answer = series.range(&query) => panic!("{answer:?}"),
        () = heard.notified() => {}
    }
    let yes = hits("yes");
    let sample = Sample { series: &yes, at_ms: 1, value: 1 };
    assert_eq!(series.record(&[sample]).await, Ok(taken(1)));
    drop(series);
    server.done().await;
}

#[tokio::test]
async fn a_silent_server_has_its_deadline() {
    let (server, mut series) = scripted([hear(create("yes") + &add("yes", 1, 1))]).await;
    let short = Duration::from_millis(200);
    series.options = series.options.clone().deadline(short);
    let yes = hits("yes");
    let sample = Sample { series: &yes, at_ms: 1, value: 1 };
    let recorded = series.record(&[sample]).await.unwrap();
    let error = Some(Fault::Deadline { after: short, charge: ChargeState::Unknown }.into());
    assert_eq!(recorded, Recorded { unknown: 1, error, ..Recorded::default() });
    assert!(series.open.lock().await.is_none(), "it is not used again");
    drop(series);
    server.done().await;
}
