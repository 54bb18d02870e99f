//! `/v1/queues/NAME`: clients offer jobs to a queue, whose workers set the pace, and take jobs from
//! it.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use serde::Deserialize;
use tollgate_queue::{DeadJobs, Error, Job, OfferOutcome};

use super::answer::{json, no_store};
use super::problem::Problem;
use super::query::Query;
use super::question::{not_null, read_one};
use super::queue_errors::{NO_DOUBT, failed, of_queue};
use super::request::body_of;
use super::text::{Text, duration};
use super::workers::Workers;
use crate::http::{Caller, Reply, Whole};
use crate::operations::Operation;
use crate::queues::{Queues, ServedQueue};

/// `Retry-After`, in seconds, where the queue cannot estimate a time. Either no job has left in the
/// last seconds, or the client has reached its own maximum of jobs.
const UNKNOWN_SECONDS: u64 = 10;

/// The text added to an error of an offer whose outcome is unknown.
const IN_DOUBT: &str = "; the job may be in: offer it again with the same `once`";

/// The text added to an error of an act on dead jobs whose outcome is unknown.
const UNCERTAIN_DEAD: &str = "; look again which jobs are dead: none is lost";

/// The media type of a job that consists of bytes.
const BYTES: &str = "application/octet-stream";

pub(super) async fn respond(
    queues: &Queues,
    (operation, name): (Operation, &str),
    workers: &Workers,
    request: Request<Whole>,
    caller: Caller<'_>,
) -> Result<Reply, Problem> {
    let is_offer = operation == Operation::Queue;
    if !is_offer
        && let Some(refused) = workers.refuse(request.headers(), caller.peer.address()).await
    {
        return Ok(refused);
    }
    let door = queues.get(name).ok_or_else(|| unknown(name, queues))?;
    if let Some(others) = operation.row().methods.instead_of(request.method()) {
        return Ok(Problem::method(others));
    }
    match (is_offer, request.method()) {
        (false, _) => workers.respond(door, operation, request, caller).await,
        (true, &Method::POST) => offer(door, request).await,
        (true, _) => Ok(json(&door.stats().await.map_err(|error| of_queue(&error, NO_DOUBT))?)),
    }
}

fn unknown(name: &str, queues: &Queues) -> Problem {
    let shown: String = name.chars().take(100).collect();
    let hint = if queues.is_empty() {
        "this service has none: `tollgate serve --queue NAME=BOUND` names one".to_owned()
    } else {
        let names: Vec<&str> = queues.iter().map(|(name, _)| name).take(10).collect();
        format!("those there are: {}", names.join(", "))
    };
    Problem::new(StatusCode::NOT_FOUND, format!("there is no queue `{shown}` here; {hint}"))
}

/// The dead jobs of a queue that an administrator asks for, offers again or discards.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeadJson<'a> {
    #[serde(borrow, default, deserialize_with = "not_null")]
    queue: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    again: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "not_null")]
    forget: Option<Text<'a>>,
}

/// Lists dead jobs, offers them again, or discards them. `of` receives the description for the log.
pub(super) async fn dead(queues: &Queues, body: &[u8], of: &mut String) -> Result<Reply, Problem> {
    let DeadJson { queue, again, forget } = read_one(body)?;
    let Some(Text(name)) = queue else {
        let detail = "`queue` is missing, e.g. \"mail\": whose dead jobs?";
        return Err(Problem::bad(detail).at("queue"));
    };
    let queue = queues.get(&name).ok_or_else(|| unknown(&name, queues).at("queue"))?;
    let refused = |error: Error| of_queue(&error, UNCERTAIN_DEAD);
    let chosen = |text: &Text<'_>, field| dead_jobs(&text.0).map_err(|problem| problem.at(field));
    let (jobs, outcome) = match (&again, &forget) {
        (None, None) => return Ok(no_store(json(&queue.dead().await.map_err(refused)?))),
        (Some(_), Some(_)) => {
            let detail =
                "`again` and `forget` exclude each other: offer a job again, or discard it";
            return Err(Problem::bad(detail).at("forget"));
        }
        (Some(again), None) => {
            let jobs = chosen(again, "again")?;
            *of = format!("{name}: again {}", again.0);
            (jobs, queue.offer_dead_again(jobs).await)
        }
        (None, Some(forget)) => {
            let jobs = chosen(forget, "forget")?;
            *of = format!("{name}: forget {}", forget.0);
            (jobs, queue.forget_dead(jobs).await)
        }
    };
    let outcome = outcome.map_err(refused)?;
    match jobs {
        DeadJobs::One(id) if outcome.is_nothing() => Err(Problem::new(
            StatusCode::NOT_FOUND,
            format!("no dead job {id} is kept in `{name}`"),
        )),
        _ => Ok(json(&outcome)),
    }
}

/// `all`, or the id of a job.
fn dead_jobs(text: &str) -> Result<DeadJobs, Problem> {
    if text == "all" {
        return Ok(DeadJobs::All);
    }
    let wrong = |_| Problem::bad("write the id of a job, e.g. 1700000000000-0, or `all`");
    text.parse().map(DeadJobs::One).map_err(wrong)
}

async fn offer(door: &ServedQueue, request: Request<Whole>) -> Result<Reply, Problem> {
    let query = Query::new(request.uri()).only(Operation::Queue)?;
    let [once, client] = ["once", "client"].map(|name| query.get(name).map(str::to_owned));
    let deadline = match query.get("deadline") {
        None => None,
        Some(text) => Some(duration(text).map_err(|problem| problem.at("deadline"))?),
    };
    let is_bytes = has_type(request.headers(), BYTES);
    let mut job = read(&body_of(request)?, is_bytes)?;
    if let Some(once) = once {
        job = job.dedup_id(once);
    }
    if let Some(client) = client {
        job = job.client(client);
    }
    if let Some(deadline) = deadline {
        job = job.deadline(deadline);
    }
    let offered = match door.offer(&job).await {
        Ok(offered) => offered,
        Err(error) => return Ok(failed(&error, IN_DOUBT)),
    };
    let mut response = json(&offered);
    *response.status_mut() = StatusCode::ACCEPTED;
    if offered.is_refused() {
        let retry_after = match offered {
            OfferOutcome::Full { retry_after, .. } => retry_after,
            _ => None,
        };
        let wait = retry_after.map_or(UNKNOWN_SECONDS, tollgate_tower::answer::retry_seconds);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    Ok(response)
}

fn has_type(headers: &HeaderMap, kind: &str) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let said = said.and_then(|text| text.split(';').next());
    said.is_some_and(|text| text.trim().eq_ignore_ascii_case(kind))
}

/// Parses a JSON object of fields, or takes the body as bytes if the media type asks for that.
fn read(body: &Bytes, is_bytes: bool) -> Result<Job, Problem> {
    match (is_bytes, body.is_empty()) {
        (true, false) => Ok(Job::from_bytes(body)),
        // The library allows empty jobs; over HTTP an empty body is more likely a mistake.
        (true, true) => Err(Problem::bad(
            "there is no body: the bytes of a job are one or more; `{}` without a type is a job \
             without fields",
        )),
        (false, true) => Err(Problem::bad(
            "there is no body: a job is one JSON object of fields, e.g. {\"to\": \"ann\"}; {} is \
             one \
             without fields",
        )),
        (false, false) => Job::from_json(body).map_err(|error| of_queue(&error, NO_DOUBT)),
    }
}
