//! `queue look`: lists waiting jobs and jobs in flight, without taking them.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;
use tollgate_queue::{InFlightJob, Settings, WaitingJob};

use super::dead::{one_line, what};
use super::open::open;
use super::stats::rounded;
use crate::args::QueueLook;
use crate::show::{self, Output, duration};

/// Only the requested lists are present.
#[derive(Serialize)]
struct LookJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<Vec<WaitingJob>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_hand: Option<Vec<InFlightJob>>,
}

pub(super) async fn look(args: &QueueLook, out: &mut Output) -> Result<u8> {
    let QueueLook { which, first, .. } = args;
    let queue = open(which).await?;
    if queue.settings().await? == Settings::default() {
        bail!("there is no queue `{}` there", queue.name());
    }
    let first = usize::from(*first);
    let waiting = if args.in_hand { None } else { Some(queue.waiting(first).await?) };
    let in_hand = if args.waiting { None } else { Some(queue.in_flight(first).await?) };
    if which.json {
        out.json(&LookJson { waiting, in_hand })?;
        return Ok(0);
    }
    let (waiting, in_hand) = (waiting.unwrap_or_default(), in_hand.unwrap_or_default());
    if waiting.is_empty() && in_hand.is_empty() {
        out.line("there are no such jobs")?;
        return Ok(0);
    }
    let mut table = show::table(["job", "client", "is", "deliveries", "age", "redelivery", "what"]);
    for job in &waiting {
        let what = what(job.bytes(), job.fields());
        let (id, age) = (job.id.to_string(), duration(rounded(job.age)));
        let client = one_line(job.client().unwrap_or("-"));
        table.add_row([id, client, "waiting".into(), "0".into(), age, "-".into(), what]);
    }
    for job in &in_hand {
        let is = if job.is_held { "in flight" } else { "delayed" };
        table.add_row([
            job.id.to_string(),
            one_line(job.client().unwrap_or("-")),
            is.to_owned(),
            job.deliveries.to_string(),
            duration(rounded(job.age)),
            comes_back(job.due_in),
            what(job.bytes(), job.fields()),
        ]);
    }
    out.line(table.to_string())?;
    Ok(0)
}

fn comes_back(back: Duration) -> String {
    if back.is_zero() { "now".to_owned() } else { format!("in {}", duration(rounded(back))) }
}
