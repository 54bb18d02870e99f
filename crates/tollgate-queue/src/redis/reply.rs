//! Parses the replies of scripts.

use core::time::Duration;
use std::sync::Arc;

use tollgate_redis::ScriptReply;

use super::body::body;
use super::call::{ExpectedSettings, ScriptCall};
use super::layout::Layout;
use super::value::{integer, text, unexpected_reply, unsigned};
use crate::error::Error;
use crate::job::{DeadLetter, DedupRecord, DoneJob, InFlightJob, JobId, WaitingJob};
use crate::settings::{ConsumerSettings, ProducerSettings, settings_mismatch};

/// Checks whether the reply reports a queue with other settings, or in another layout.
pub(super) fn check_reply(
    layout: Layout,
    call: &ScriptCall<'_>,
    answer: &[ScriptReply],
) -> Result<(), Error> {
    let queue = call.queue;
    match (answer, &call.expected) {
        ([ScriptReply::Bytes(what), made], ExpectedSettings::Producer(expected))
            if what == b"settings" =>
        {
            let made = text(made)?;
            Err(settings_mismatch(queue, without_layout(&made), *expected, ProducerSettings::parse))
        }
        ([ScriptReply::Bytes(what), made], ExpectedSettings::Consumer(expected))
            if what == b"settings" =>
        {
            Err(settings_mismatch(queue, &text(made)?, *expected, ConsumerSettings::parse))
        }
        ([ScriptReply::Bytes(what), made], _) if what == b"form" => {
            let lie = |layout: &str| format!("its jobs in a {layout}");
            let (made, asked) = (lie(&text(made)?), lie(layout.name()));
            Err(Error::Settings { queue: queue.to_owned(), made, asked })
        }
        _ => Ok(()),
    }
}

/// The stored form of producer settings with the layout, so that a producer with the other layout
/// does not match.
pub(super) fn with_layout(settings: &ProducerSettings, layout: Layout) -> String {
    format!("{} in a {}", settings.to_text(), layout.name())
}

pub(super) fn without_layout(made: &str) -> &str {
    made.rsplit_once(" in a ").map_or(made, |(text, _)| text)
}

pub(super) fn dead(word: &ScriptReply) -> Result<DeadLetter, Error> {
    let ScriptReply::List(args) = word else { return Err(unexpected_reply()) };
    let [the_id, deliveries, reason, fields, client, dedup] = &args[..] else {
        return Err(unexpected_reply());
    };
    let reason = text(reason)?;
    Ok(DeadLetter {
        id: text(the_id)?.parse().map_err(|_| unexpected_reply())?,
        deliveries: u32::try_from(integer(deliveries)?).map_err(|_| unexpected_reply())?,
        reason: (!reason.is_empty()).then_some(reason),
        client: client_name(client)?,
        dedup: DedupRecord::parse(&text(dedup)?),
        body: body(fields)?,
    })
}

/// The client of a job; `None` if it has none.
fn client_name(word: &ScriptReply) -> Result<Option<Arc<str>>, Error> {
    let client = text(word)?;
    Ok((!client.is_empty()).then(|| client.into()))
}

pub(super) fn done_job(word: &ScriptReply) -> Result<DoneJob, Error> {
    let ScriptReply::List(args) = word else { return Err(unexpected_reply()) };
    let [the_id, deliveries, fields] = &args[..] else { return Err(unexpected_reply()) };
    Ok(DoneJob {
        id: text(the_id)?.parse().map_err(|_| unexpected_reply())?,
        deliveries: u32::try_from(integer(deliveries)?).map_err(|_| unexpected_reply())?,
        body: body(fields)?,
    })
}

/// A list, preceded by the server's time.
fn split_now(
    answer: &[ScriptReply],
) -> Result<(u64, impl Iterator<Item = Result<&[ScriptReply], Error>>), Error> {
    let [now, list @ ..] = answer else { return Err(unexpected_reply()) };
    Ok((text(now)?.parse().map_err(|_| unexpected_reply())?, list.iter().map(as_list)))
}

fn as_list(word: &ScriptReply) -> Result<&[ScriptReply], Error> {
    match word {
        ScriptReply::List(args) => Ok(args),
        _ => Err(unexpected_reply()),
    }
}

fn job_id(word: &ScriptReply) -> Result<JobId, Error> {
    text(word)?.parse().map_err(|_| unexpected_reply())
}

pub(super) fn waiting(answer: &[ScriptReply]) -> Result<Vec<WaitingJob>, Error> {
    let (now_us, entries) = split_now(answer)?;
    let look = |args: Result<&[ScriptReply], Error>| {
        let [id, fields, client] = args? else { return Err(unexpected_reply()) };
        let (id, client, body) = (job_id(id)?, client_name(client)?, body(fields)?);
        Ok(WaitingJob { id, age: id.age(now_us), client, body })
    };
    entries.map(look).collect()
}

pub(super) fn in_flight(answer: &[ScriptReply]) -> Result<Vec<InFlightJob>, Error> {
    let (now_us, entries) = split_now(answer)?;
    let look = |args: Result<&[ScriptReply], Error>| {
        let [id, deliveries, is_held, due, reason, fields, client] = args? else {
            return Err(unexpected_reply());
        };
        let (id, reason) = (job_id(id)?, text(reason)?);
        let due_us: u64 = text(due)?.parse().map_err(|_| unexpected_reply())?;
        Ok(InFlightJob {
            id,
            deliveries: u32::try_from(unsigned(deliveries)?).map_err(|_| unexpected_reply())?,
            is_held: unsigned(is_held)? == 1,
            age: id.age(now_us),
            due_in: Duration::from_micros(due_us.saturating_sub(now_us)),
            reason: (!reason.is_empty()).then_some(reason),
            client: client_name(client)?,
            body: body(fields)?,
        })
    };
    entries.map(look).collect()
}
