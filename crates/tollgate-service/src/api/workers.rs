//! `/v1/queues/NAME/take`, `done`, `extend` and `nack`: the HTTP API for workers of a queue.

use core::time::Duration;
use std::net::IpAddr;

use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tollgate_queue::{Delivery, DeliveryTag, Error, NackOutcome};

use super::answer::json;
use super::bearer::Guard;
use super::problem::Problem;
use super::question::{not_null, read_one};
use super::queue_errors::failed;
use super::request::body_of;
use super::text::{Text, duration};
use super::waiters::{MAX_WAITING, Waiters};
use crate::http::{Caller, Reply, Whole};
use crate::operations::{MAX_JOBS, MAX_WORKER_BYTES, Operation};
use crate::queues::ServedQueue;

/// The longest time that a `take` waits for a job: proxies close connections that are silent for
/// longer.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// `Retry-After`, in seconds, when too many requests wait.
const WAITING_SECONDS: u64 = 1;

/// The longest delay of a failed job.
const MAX_AFTER: Duration = Duration::from_secs(366 * 86_400);

/// The default delay of a failed job, at first and at most, as in `queue work`.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// The text added to an error when it is unknown whether the request took effect.
const UNCERTAIN_TAKE: &str = "; jobs may be taken that nobody has: they come back when their \
                              visibility timeout has passed";
const UNCERTAIN_ANSWER: &str = "; send it again: jobs that were handled already are `lost` then, \
                                or extended once more";

/// Whether clients may act as workers, and how many of them wait.
#[derive(Debug)]
pub(crate) struct Workers {
    is_open: bool,
    guard: Guard,
    /// True when the service shuts down: waiting requests then return.
    ending: watch::Receiver<bool>,
    waiters: Waiters,
}

/// The body of `take`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeJson<'a> {
    #[serde(borrow, default, deserialize_with = "not_null")]
    worker: Option<Text<'a>>,
    #[serde(default, deserialize_with = "not_null")]
    max: Option<u64>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    wait: Option<Text<'a>>,
}

/// The body of `done` and `extend`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobsJson<'a> {
    #[serde(borrow, default, deserialize_with = "not_null")]
    jobs: Option<Vec<HeldJson<'a>>>,
}

/// The body of `nack`: the jobs that the worker could not do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NackJson<'a> {
    #[serde(borrow, default, deserialize_with = "not_null")]
    jobs: Option<Vec<HeldJson<'a>>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    why: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    after: Option<Text<'a>>,
    #[serde(default, deserialize_with = "not_null")]
    begun: Option<bool>,
}

/// Identifies one delivery of a job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeldJson<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    delivery: u32,
}

/// The jobs that a worker receives.
#[derive(Serialize)]
struct TakenJson<'t> {
    jobs: &'t [Delivery],
    visibility_us: u64,
    next_us: Option<u64>,
    paused: bool,
    foreign: Vec<ForeignJson<'t>>,
}

#[derive(Serialize)]
struct ForeignJson<'t> {
    id: String,
    why: &'t str,
}

/// The outcome for each job of a request.
#[derive(Serialize)]
struct OutcomesJson {
    jobs: Vec<OutcomeJson>,
}

#[derive(Serialize)]
struct OutcomeJson {
    id: String,
    delivery: u32,
    outcome: &'static str,
}

/// The action on each job of a request.
enum Settlement<'a> {
    Done,
    Extend,
    Failed { after: Option<Duration>, why: &'a str },
    NotBegun,
}

impl Workers {
    pub(crate) fn new(is_open: bool, guard: Guard, ending: watch::Receiver<bool>) -> Self {
        Self { is_open, guard, ending, waiters: Waiters::new(MAX_WAITING) }
    }

    /// The refusal of a request that may not act as a worker.
    pub(super) async fn refuse(&self, headers: &HeaderMap, peer: IpAddr) -> Option<Reply> {
        let forbidden = |detail| Some(Problem::new(StatusCode::FORBIDDEN, detail).response());
        if !self.is_open {
            return forbidden(
                "this service gives no jobs to workers: start it with `--queue-workers`; workers \
                 then send TOLLGATE_WORKER_TOKEN",
            );
        }
        self.guard.refuse(headers, peer).await
    }

    pub(super) async fn respond(
        &self,
        queue: &ServedQueue,
        operation: Operation,
        request: Request<Whole>,
        caller: Caller<'_>,
    ) -> Result<Reply, Problem> {
        if request.uri().query().is_some() {
            return Err(Problem::bad("this takes no query: put the question into the body"));
        }
        let body = body_of(request)?;
        match operation {
            Operation::Take => {
                self.take(queue, read(&body, r#"{"worker": "w1", "max": 5}"#)?, caller).await
            }
            Operation::Nack => nack(queue, read(&body, JOBS)?).await,
            _ => {
                let JobsJson { jobs } = read(&body, JOBS)?;
                let is_done = operation == Operation::Done;
                let word = if is_done { Settlement::Done } else { Settlement::Extend };
                settle(queue, &held(jobs)?, &word).await
            }
        }
    }

    async fn take(
        &self,
        queue: &ServedQueue,
        ask: TakeJson<'_>,
        caller: Caller<'_>,
    ) -> Result<Reply, Problem> {
        let TakeJson { worker, max, wait } = ask;
        let worker = worker.filter(|Text(name)| (1..=MAX_WORKER_BYTES).contains(&name.len()));
        let Text(worker) = worker.ok_or_else(|| {
            let detail = format!("a worker must give its name: 1 to {MAX_WORKER_BYTES} bytes");
            Problem::bad(detail).at("worker")
        })?;
        let max = usize::try_from(max.unwrap_or(1)).ok().filter(|max| (1..=MAX_JOBS).contains(max));
        let max = max.ok_or_else(|| {
            Problem::bad(format!("a request takes 1 to {MAX_JOBS} jobs")).at("max")
        })?;
        let wait = wait.map_or(Ok(Duration::ZERO), |text| time(&text, MAX_WAIT, "wait"))?;
        let place = match wait.is_zero() {
            true => None,
            false => match self.waiters.enter(caller.peer.address()) {
                None => return Ok(crowded()),
                place => place,
            },
        };
        let mut ending = self.ending.clone();
        let stops = async {
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => {}
                () = caller.pace.hung_up() => {}
            }
        };
        let taken = queue.take(&worker, max, wait, stops).await;
        drop(place);
        let (taken, hands) = match taken {
            Ok(taken) => taken,
            Err(error) => return Ok(failed(&error, UNCERTAIN_TAKE)),
        };
        let foreign =
            taken.foreign.iter().map(|(id, why)| ForeignJson { id: id.to_string(), why }).collect();
        let mut response = json(&TakenJson {
            jobs: &taken.jobs,
            visibility_us: micros(hands.settings().visibility_timeout()),
            next_us: taken.next.map(micros),
            paused: taken.paused,
            foreign,
        });
        if !taken.jobs.is_empty() {
            queue.undelivered(&taken, hands).attach(response.extensions_mut());
        }
        Ok(response)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// 503: the client has as many requests that wait for jobs as there are places left for others.
fn crowded() -> Reply {
    let detail = format!(
        "of {MAX_WAITING} waiting requests, this address has its share: ask again, or without \
         `wait`"
    );
    let mut response = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(WAITING_SECONDS));
    response
}

/// An example of a body about jobs.
const JOBS: &str = r#"{"jobs": [{"id": "1700000000000-0", "delivery": 1}]}"#;

/// Parses one JSON object; errors show the example.
fn read<'a, T: Deserialize<'a>>(body: &'a [u8], example: &str) -> Result<T, Problem> {
    if !body.trim_ascii_start().starts_with(b"{") {
        let detail = format!("the body is one JSON object, e.g. {example}");
        return Err(Problem::bad(detail));
    }
    read_one(body)
}

/// Parses a duration of at most `most`; zero is allowed.
fn time(Text(text): &Text<'_>, most: Duration, field: &str) -> Result<Duration, Problem> {
    let time = match &**text {
        "0" | "0s" | "0ms" => Some(Duration::ZERO),
        text => duration(text).ok(),
    };
    time.filter(|time| *time <= most).ok_or_else(|| {
        let most = if most == MAX_WAIT { "60s" } else { "366d" };
        Problem::bad(format!("write a duration as in `90s`, at most `{most}`")).at(field)
    })
}

/// The deliveries in a request.
fn held(jobs: Option<Vec<HeldJson<'_>>>) -> Result<Vec<DeliveryTag>, Problem> {
    let jobs = jobs.filter(|jobs| (1..=MAX_JOBS).contains(&jobs.len())).ok_or_else(|| {
        let detail = format!(
            "of which jobs? 1 to {MAX_JOBS}, each as {{\"id\": \"1700000000000-0\", \"delivery\": \
             1}}"
        );
        Problem::bad(detail).at("jobs")
    })?;
    let each = jobs.iter().enumerate().map(|(place, HeldJson { id: Text(id), delivery })| {
        let wrong = |error: Error| Problem::bad(error.to_string()).at(format!("jobs[{place}].id"));
        if *delivery == 0 {
            let problem = Problem::bad("deliveries are counted from 1");
            return Err(problem.at(format!("jobs[{place}].delivery")));
        }
        Ok(DeliveryTag::new(id.parse().map_err(wrong)?, *delivery))
    });
    each.collect()
}

async fn nack(queue: &ServedQueue, ask: NackJson<'_>) -> Result<Reply, Problem> {
    let NackJson { jobs, why, after, begun } = ask;
    let jobs = held(jobs)?;
    if begun == Some(false) {
        let unused = [("why", why.is_some()), ("after", after.is_some())];
        if let Some((field, _)) = unused.into_iter().find(|(_, is_there)| *is_there) {
            let detail = "a job that was not started comes back immediately, and has not failed";
            return Err(Problem::bad(detail).at(field));
        }
        return settle(queue, &jobs, &Settlement::NotBegun).await;
    }
    let after = after.map(|text| time(&text, MAX_AFTER, "after")).transpose()?;
    let why = why.as_ref().map_or("", |Text(why)| why);
    settle(queue, &jobs, &Settlement::Failed { after, why }).await
}

/// Settles the jobs one after the other, and returns each outcome.
async fn settle(
    queue: &ServedQueue,
    jobs: &[DeliveryTag],
    settlement: &Settlement<'_>,
) -> Result<Reply, Problem> {
    let mut outcomes = Vec::with_capacity(jobs.len());
    for held in jobs {
        let outcome = match settle_one(queue, *held, settlement).await {
            Ok(outcome) => outcome,
            // The jobs before this one are settled already; a retry may safely repeat them.
            Err(error) => return Ok(failed(&error, UNCERTAIN_ANSWER)),
        };
        let (id, delivery) = (held.id.to_string(), held.attempt);
        outcomes.push(OutcomeJson { id, delivery, outcome });
    }
    Ok(json(&OutcomesJson { jobs: outcomes }))
}

async fn settle_one(
    queue: &ServedQueue,
    held: DeliveryTag,
    settlement: &Settlement<'_>,
) -> Result<&'static str, Error> {
    let or_lost = |is_so, word| if is_so { word } else { "lost" };
    match settlement {
        Settlement::Done => {
            let done = queue.work(|consumer| async move { consumer.ack(&[held.id]).await }).await?;
            Ok(or_lost(done > 0, "done"))
        }
        Settlement::Extend => {
            let is_held = queue.work(|consumer| async move { consumer.extend(held).await }).await?;
            Ok(or_lost(is_held, "extended"))
        }
        Settlement::NotBegun => {
            let is_held =
                queue.work(|consumer| async move { consumer.release(held).await }).await?;
            Ok(or_lost(is_held, "released"))
        }
        Settlement::Failed { after, why } => {
            let after = after.unwrap_or_else(|| held.backoff(PAUSE, MAX_PAUSE));
            let said =
                queue.work(|consumer| async move { consumer.nack(held, after, why).await }).await?;
            Ok(match said {
                NackOutcome::Requeued => "again",
                NackOutcome::DeadLettered => "dead",
                _ => "lost",
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tollgate_queue::{AnyQueues, MemoryQueues, ProducerSettings, Queue};

    use super::*;
    use crate::listen::{Bounds, Peer, Registry};
    use crate::queues::Queues;

    #[tokio::test]
    async fn no_more_wait_than_may() {
        let queue = Queue::new(AnyQueues::Memory(MemoryQueues::new()), "mail").unwrap();
        let queues = Queues::open([(queue, Some(ProducerSettings::new(1)))]).await.unwrap();
        let (_ending, ended) = watch::channel(false);
        let guard = Guard::new("a worker", "TOLLGATE_WORKER_TOKEN", None).unwrap();
        let workers = Workers { waiters: Waiters::new(0), ..Workers::new(true, guard, ended) };
        let registry = Registry::new(Bounds::default());
        let address = Ipv4Addr::LOCALHOST.into();
        let place = registry.enter(address).unwrap();
        let caller = Caller { peer: Peer::Tcp(address), pace: &place.pace };
        for (wait, status) in [(Some("60s"), 503), (Some("0"), 200), (None, 200)] {
            let text = |text: &'static str| Some(Text(text.into()));
            let ask = TakeJson { worker: text("w"), max: None, wait: wait.and_then(text) };
            let reply = workers.take(queues.get("mail").unwrap(), ask, caller).await;
            let reply = reply.unwrap_or_else(|problem| problem.response());
            assert_eq!(reply.status().as_u16(), status, "{wait:?}");
            let after = reply.headers().get(RETRY_AFTER).map(|after| after.to_str().unwrap());
            assert_eq!(after, (status == 503).then_some("1"));
        }
    }

    #[test]
    fn times_are_bounded_and_none_is_one() {
        let time = |text: &str, most| time(&Text(text.to_owned().into()), most, "wait");
        for none in ["0", "0s", "0ms"] {
            assert_eq!(time(none, MAX_WAIT).ok(), Some(Duration::ZERO));
        }
        assert_eq!(time("60s", MAX_WAIT).ok(), Some(MAX_WAIT));
        assert_eq!(time("366d", MAX_AFTER).ok(), Some(MAX_AFTER));
        for (text, most) in [("61s", MAX_WAIT), ("367d", MAX_AFTER), ("", MAX_WAIT)] {
            assert!(time(text, most).is_err(), "{text}");
        }
    }
}
