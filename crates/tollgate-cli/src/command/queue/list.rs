//! `queue list`: lists all queues.

use anyhow::Result;
use serde::Serialize;
use tollgate_queue::{AnyQueues, Backend as _, Layout, Queue, Settings, Stats};

use super::stats::rounded;
use crate::args::QueueList;
use crate::show::{self, Output, duration};
use crate::store;

/// An existing queue.
#[derive(Serialize)]
struct Listed {
    name: String,
    #[serde(flatten)]
    settings: Settings,
    stats: Stats,
}

pub(super) async fn list(args: &QueueList, out: &mut Output) -> Result<u8> {
    let queues = store::queues(&args.place, Layout::Stream).await?;
    // On Redis some queues may have the list layout, which is an error if opened as streams.
    let others = match &queues {
        AnyQueues::Redis(_) => Some(store::queues(&args.place, Layout::List).await?),
        _ => None,
    };
    let mut listed = Vec::new();
    for name in queues.names().await? {
        let one = match (look(&queues, &name).await, &others) {
            (Err(tollgate_queue::Error::Settings { .. }), Some(others)) => {
                look(others, &name).await
            }
            (one, _) => one,
        };
        // Skip a queue that was removed meanwhile.
        let (settings, stats) = one?;
        if settings != Settings::default() {
            listed.push(Listed { name, settings, stats });
        }
    }
    if args.json {
        out.json(&listed)?;
    } else if listed.is_empty() {
        out.line("there is no queue: `tollgate queue push NAME --bound 10` makes one")?;
    } else {
        out.line(table(&listed))?;
    }
    Ok(0)
}

async fn look(queues: &AnyQueues, name: &str) -> Result<(Settings, Stats), tollgate_queue::Error> {
    let queue = Queue::new(queues.clone(), name)?;
    Ok((queue.settings().await?, queue.stats().await?))
}

fn table(listed: &[Listed]) -> String {
    let mut table = show::table([
        "queue",
        "waiting",
        "bound",
        "oldest",
        "in flight",
        "dead",
        "accepted",
        "done",
    ]);
    for Listed { name, settings, stats } in listed {
        let bound = settings.producer.as_ref().map(|producer| producer.bound().to_string());
        table.add_row([
            if stats.paused { format!("{name} (paused)") } else { name.clone() },
            stats.waiting.to_string(),
            bound.unwrap_or_else(|| "-".to_owned()),
            stats.oldest.map_or_else(|| "-".to_owned(), |it| duration(rounded(it))),
            stats.in_flight.to_string(),
            stats.dead.to_string(),
            stats.accepted.to_string(),
            stats.done.to_string(),
        ]);
    }
    table.to_string()
}
