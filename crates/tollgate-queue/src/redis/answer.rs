//! What scripts are asked, and what their answers say.

use core::time::Duration;
use std::sync::Arc;

use tollgate::StoreError;
use tollgate_redis::Word;

use super::Form;
use super::body::body;
use crate::error::Error;
use crate::job::{Dead, DoneJob, JobId, Once, OutJob, WaitingJob};
use crate::settings::{Offering, Working, other_settings};

/// An answer that no script of ours gives.
pub(super) fn garbled() -> Error {
    StoreError::permanent(
        "a queue's script answered what none of this version answers: do other versions, or \
         somebody else, write its keys (`tgq1:`)?",
    )
    .into()
}

pub(super) fn int(word: &Word) -> Result<i64, Error> {
    match word {
        Word::Int(number) => Ok(*number),
        _ => Err(garbled()),
    }
}

pub(super) fn whole(word: &Word) -> Result<u64, Error> {
    u64::try_from(int(word)?).map_err(|_| garbled())
}

pub(super) fn text(word: &Word) -> Result<String, Error> {
    match word {
        Word::Bytes(bytes) => String::from_utf8(bytes.clone()).map_err(|_| garbled()),
        Word::Int(number) => Ok(number.to_string()),
        _ => Err(garbled()),
    }
}

/// A time to wait: -1 for none that is known.
pub(super) fn wait(word: &Word) -> Result<Option<Duration>, Error> {
    let us = int(word)?;
    Ok(u64::try_from(us).ok().map(Duration::from_micros))
}

/// What a script is called with.
pub(super) struct Question<'s> {
    pub(super) queue: &'s str,
    pub(super) said: Said<'s>,
    pub(super) keys: Vec<String>,
    pub(super) words: Vec<Vec<u8>>,
}

/// The settings that a question says.
pub(super) enum Said<'s> {
    Nothing,
    Offering(&'s Offering),
    Working(&'s Working),
}

/// Whether the answer says that the queue was made with other settings, or in another form.
pub(super) fn agreed(form: Form, question: &Question<'_>, answer: &[Word]) -> Result<(), Error> {
    let queue = question.queue;
    match (answer, &question.said) {
        ([Word::Bytes(what), made], Said::Offering(said)) if what == b"settings" => {
            let made = text(made)?;
            Err(other_settings(queue, without_form(&made), *said, Offering::read))
        }
        ([Word::Bytes(what), made], Said::Working(said)) if what == b"settings" => {
            Err(other_settings(queue, &text(made)?, *said, Working::read))
        }
        ([Word::Bytes(what), made], _) if what == b"form" => {
            let lie = |form: &str| format!("its jobs in a {form}");
            let (made, asked) = (lie(&text(made)?), lie(form.name()));
            Err(Error::Settings { queue: queue.to_owned(), made, asked })
        }
        _ => Ok(()),
    }
}

/// How a queue is offered to, with the form that its jobs lie in, so that who offers to one of the
/// other form does not find its own.
pub(super) fn with_form(offering: &Offering, form: Form) -> String {
    format!("{} in a {}", offering.text(), form.name())
}

pub(super) fn without_form(made: &str) -> &str {
    made.rsplit_once(" in a ").map_or(made, |(text, _)| text)
}

pub(super) fn dead(word: &Word) -> Result<Dead, Error> {
    let Word::List(words) = word else { return Err(garbled()) };
    let [the_id, deliveries, why, fields, client, once] = &words[..] else {
        return Err(garbled());
    };
    let why = text(why)?;
    Ok(Dead {
        id: text(the_id)?.parse().map_err(|_| garbled())?,
        deliveries: u32::try_from(int(deliveries)?).map_err(|_| garbled())?,
        why: (!why.is_empty()).then_some(why),
        client: whose(client)?,
        once: Once::read(&text(once)?),
        body: body(fields)?,
    })
}

/// Whose a job is: nothing where nobody said so.
fn whose(word: &Word) -> Result<Option<Arc<str>>, Error> {
    let client = text(word)?;
    Ok((!client.is_empty()).then(|| client.into()))
}

pub(super) fn done_job(word: &Word) -> Result<DoneJob, Error> {
    let Word::List(words) = word else { return Err(garbled()) };
    let [the_id, deliveries, fields] = &words[..] else { return Err(garbled()) };
    Ok(DoneJob {
        id: text(the_id)?.parse().map_err(|_| garbled())?,
        deliveries: u32::try_from(int(deliveries)?).map_err(|_| garbled())?,
        body: body(fields)?,
    })
}

/// A list, with what time it is before.
fn listed(answer: &[Word]) -> Result<(u64, impl Iterator<Item = Result<&[Word], Error>>), Error> {
    let [now, list @ ..] = answer else { return Err(garbled()) };
    Ok((text(now)?.parse().map_err(|_| garbled())?, list.iter().map(within)))
}

fn within(word: &Word) -> Result<&[Word], Error> {
    match word {
        Word::List(words) => Ok(words),
        _ => Err(garbled()),
    }
}

fn job_id(word: &Word) -> Result<JobId, Error> {
    text(word)?.parse().map_err(|_| garbled())
}

pub(super) fn waiting(answer: &[Word]) -> Result<Vec<WaitingJob>, Error> {
    let (now_us, list) = listed(answer)?;
    let look = |words: Result<&[Word], Error>| {
        let [id, fields, client] = words? else { return Err(garbled()) };
        let (id, client, body) = (job_id(id)?, whose(client)?, body(fields)?);
        Ok(WaitingJob { id, age: id.age(now_us), client, body })
    };
    list.map(look).collect()
}

pub(super) fn in_hand(answer: &[Word]) -> Result<Vec<OutJob>, Error> {
    let (now_us, list) = listed(answer)?;
    let look = |words: Result<&[Word], Error>| {
        let [id, deliveries, is_held, due, why, fields, client] = words? else {
            return Err(garbled());
        };
        let (id, why) = (job_id(id)?, text(why)?);
        let due_us: u64 = text(due)?.parse().map_err(|_| garbled())?;
        Ok(OutJob {
            id,
            deliveries: u32::try_from(whole(deliveries)?).map_err(|_| garbled())?,
            is_held: whole(is_held)? == 1,
            age: id.age(now_us),
            back: Duration::from_micros(due_us.saturating_sub(now_us)),
            why: (!why.is_empty()).then_some(why),
            client: whose(client)?,
            body: body(fields)?,
        })
    };
    list.map(look).collect()
}
