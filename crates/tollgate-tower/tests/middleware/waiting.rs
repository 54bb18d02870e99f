//! The layer before a client: its requests wait for their turn.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use tokio::time::Instant;
use tollgate::{Ask, Limiter, Line, MemoryStore, TokioClock};
use tollgate_tower::answer::wait_of;
use tollgate_tower::{WaitingError, WaitingLayer};
use tower::{Layer as _, ServiceExt as _, service_fn};

/// The times at which requests were sent, each with its number.
type Sent = Arc<Mutex<Vec<(u64, Duration)>>>;

type Waits = WaitingLayer<MemoryStore, Request<u64>, Response<()>>;

fn layer(limits: &str, most: usize, deadline: u64) -> Waits {
    let store = MemoryStore::builder().clock(TokioClock::at_micros(1_800_000_000_000_000)).build();
    let line = Line::new(Limiter::new(limits.parse().unwrap(), store), most);
    WaitingLayer::new(line, Duration::from_secs(deadline), |request: &Request<u64>| {
        let user = request.headers().get("user")?.to_str().ok()?;
        let ask = Ask::new(format!("user:{user}"));
        Some(if *request.body() == 99 { ask.cost(99) } else { ask })
    })
}

/// Sends 10 requests of two users at once, one user's after the other's.
async fn send(
    layer: &Waits,
) -> (Vec<(u64, Duration)>, Vec<Result<Response<()>, WaitingError<Infallible>>>) {
    let (sent, start) = (Sent::default(), Instant::now());
    let client = layer.layer(service_fn({
        let sent = Arc::clone(&sent);
        move |request: Request<u64>| {
            sent.lock().unwrap().push((request.into_body(), start.elapsed()));
            async { Ok::<_, Infallible>(Response::new(())) }
        }
    }));
    let waiters: Vec<_> = (0..10)
        .map(|number| {
            let user = if number < 5 { "ann" } else { "bob" };
            let request = Request::get("/").header("user", user).body(number).unwrap();
            tokio::spawn(client.clone().oneshot(request))
        })
        .collect();
    let mut answers = Vec::new();
    for waiter in waiters {
        answers.push(waiter.await.unwrap());
    }
    let sent = sent.lock().unwrap().clone();
    (sent, answers)
}

/// Each user's are sent in the order of their arrival, exactly when the limit admits them.
#[tokio::test(start_paused = true)]
async fn requests_of_a_client_wait_for_their_turn() {
    let (mut sent, answers) = send(&layer("1/2s via gcra", 100, 60)).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    sent.sort_by_key(|(number, _)| *number);
    let expected: Vec<_> =
        (0..10).map(|number| (number, Duration::from_secs(2 * (number % 5)))).collect();
    assert_eq!(sent, expected);
}

/// A request that cannot be sent in time is an error, and was not sent.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_sent_in_time_is_not_sent() {
    let (sent, answers) = send(&layer("1/2s via gcra", 3, 3)).await;
    let of = |range: std::ops::Range<usize>| -> String {
        let kind = |answer: &Result<_, WaitingError<_>>| match answer {
            Ok(_) => 's',
            Err(WaitingError::Late) => 'l',
            Err(WaitingError::Denied(decision)) if !decision.is_allowed() => 'd',
            Err(_) => '?',
        };
        answers[range].iter().map(kind).collect()
    };
    // One at 0 s, one at 2 s. The next would be sent at 4 s, and there is room for three.
    assert_eq!((of(0..5).as_str(), of(5..10).as_str()), ("ssddl", "ssddl"));
    assert_eq!(sent.len(), 4);
    let told = answers[2].as_ref().unwrap_err().to_string();
    assert!(told.starts_with("the limits do not admit it in time: "), "{told}");
    // A cost that is never admitted is not waited for; a request of nobody is not limited.
    let client = layer("1/2s via gcra", 3, 3)
        .layer(service_fn(async |_: Request<u64>| Ok::<_, Infallible>(Response::new(()))));
    let request = |user: &str, number| {
        let request = Request::get("/");
        let request = if user.is_empty() { request } else { request.header("user", user) };
        request.body(number).unwrap()
    };
    let never = client.clone().oneshot(request("ann", 99)).await;
    assert!(matches!(never, Err(WaitingError::Denied(decision)) if decision.is_never()));
    for _ in 0..3 {
        assert!(client.clone().oneshot(request("", 0)).await.is_ok());
    }
    let invalid = layer("1/2s via gcra", 3, 3);
    let invalid =
        invalid.layer(service_fn(async |_: Request<u64>| Ok::<_, Infallible>(Response::new(()))));
    let long = "x".repeat(70_000);
    let failed = invalid.oneshot(request(&long, 0)).await;
    assert!(matches!(failed, Err(WaitingError::Limiter(_))), "{failed:?}");
}

/// A response that asks for a wait delays those of the same subject that come after.
#[tokio::test(start_paused = true)]
async fn a_wait_that_a_response_asks_for_is_learned() {
    let layer = layer("100/s", 100, 60).learning(|response: &Response<()>| {
        wait_of(response.status(), response.headers(), std::time::SystemTime::now())
    });
    let (start, times) = (Instant::now(), Arc::<Mutex<Vec<Duration>>>::default());
    let client = layer.layer(service_fn({
        let times = Arc::clone(&times);
        move |request: Request<u64>| {
            times.lock().unwrap().push(start.elapsed());
            let status = if *request.body() == 0 { 429 } else { 200 };
            let response = Response::builder().status(status).header("retry-after", "7");
            async move { Ok::<_, Infallible>(response.body(()).unwrap()) }
        }
    }));
    for (number, user) in [(0, "ann"), (1, "bob"), (2, "ann")] {
        let request = Request::get("/").header("user", user).body(number).unwrap();
        client.clone().oneshot(request).await.unwrap();
    }
    assert_eq!(*times.lock().unwrap(), [0, 0, 7].map(Duration::from_secs));
}
