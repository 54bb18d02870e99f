//! What an offer asks, and the same for clients that are not ours.

use super::{Form, OFFER_KEYS, Question, Said, body, keys, once_key, script, with_form, words};
use crate::error::Error;
use crate::job::Job;
use crate::memory::MemoryQueues;
use crate::queue::Queue;
use crate::settings::Offering;

pub(super) const SCRIPT: &str = include_str!("offer.lua");

pub(super) fn question<'s>(
    form: Form,
    queue: &'s str,
    offering: &'s Offering,
    jobs: &[Job],
) -> Question<'s> {
    let mut keys = keys(form, queue, OFFER_KEYS);
    let all = if offering.counts_all() { "1" } else { "0" };
    let mut words = words([
        with_form(offering, form),
        offering.bound().to_string(),
        all.to_owned(),
        offering.remember_us().to_string(),
        offering.most_per_client().unwrap_or(0).to_string(),
    ]);
    for job in jobs {
        let head = words.len();
        words.push(Vec::new());
        let mut says = body::say(form, job.body(), &mut words).to_string();
        let client = job.client_name();
        if job.once_id().is_some() || job.deadline_us().is_some() || client.is_some() {
            let mut key = 0;
            if let Some(once) = job.once_id() {
                keys.push(once_key(queue, once));
                key = keys.len() - OFFER_KEYS;
            }
            let deadline = job.deadline_us().map(|us| us.to_string()).unwrap_or_default();
            says = format!("{says} {key} {deadline}");
            if let Some(client) = client {
                says = format!("{says} {client}");
            }
        }
        if let Some(before) = job.before() {
            // One word more, which is none of the job's.
            says = says.replacen(' ', "+ ", 1);
            words.push(before.to_string().into_bytes());
        }
        if let Some(word) = words.get_mut(head) {
            *word = says.into_bytes();
        }
    }
    Question { queue, said: Said::Offering(offering), keys, words }
}

/// The call by which any Redis client offers a job to a queue that is a stream: within its bound,
/// and with all that workers promise. No worker and no library of ours is needed for it.
///
/// ```
/// use tollgate_queue::{Job, OfferCall, Offering};
/// let call = OfferCall::new("mail", &Offering::new(10), &Job::new().field("to", "ann"))?;
/// assert_eq!(call.keys[0], "tgq1:{queue:mail}:jobs");
/// assert_eq!(call.words[5..], ["2", "to", "ann"]);
/// # Ok::<(), tollgate_queue::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OfferCall {
    /// The script, the same for every queue and job.
    pub script: String,
    /// The name by which a server that has it calls it.
    pub sha1: String,
    /// The keys, in their order.
    pub keys: Vec<String>,
    /// The arguments after the first, which is any word of the caller's: it comes back.
    pub words: Vec<String>,
}

impl OfferCall {
    /// The call for a queue that is offered to like this, with a job of fields.
    ///
    /// # Errors
    /// A name that no queue has, settings beyond their bounds, or a job of bytes.
    pub fn new(queue: &str, offering: &Offering, job: &Job) -> Result<Self, Error> {
        Queue::new(MemoryQueues::new(), queue)?;
        offering.check()?;
        let question = question(Form::Stream, queue, offering, std::slice::from_ref(job));
        let text = |word| String::from_utf8(word);
        let words = question.words.into_iter().map(text).collect::<Result<_, _>>();
        let words = words.map_err(|_| Error::invalid("a job of bytes: give fields".to_owned()))?;
        let script = script(Form::Stream, "", "", SCRIPT, false);
        let sha1 = script.sha().to_owned();
        Ok(Self { script: script.text().to_owned(), sha1, keys: question.keys, words })
    }
}
