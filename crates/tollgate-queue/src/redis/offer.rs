//! The call of an offer, also for other Redis clients.

use tollgate_redis::KeyPrefix;

use super::body;
use super::call::{ExpectedSettings, ScriptCall, args};
use super::layout::{Layout, OFFER_KEYS, PLAIN_OFFER_KEYS, dedup_key, keys};
use super::reply::with_layout;
use super::script::script;
use crate::error::Error;
use crate::job::Job;
use crate::memory::MemoryQueues;
use crate::queue::Queue;
use crate::settings::ProducerSettings;

pub(super) const SCRIPT: &str = include_str!("offer.lua");

pub(super) fn call<'s>(
    prefix: &KeyPrefix,
    layout: Layout,
    queue: &'s str,
    settings: &'s ProducerSettings,
    jobs: &[Job],
) -> ScriptCall<'s> {
    let mut call = complete_call(prefix, layout, queue, settings, jobs);
    if jobs.iter().all(Job::is_plain) {
        call.keys.truncate(PLAIN_OFFER_KEYS);
        // How long ids are remembered, and the bound for each client.
        call.args.drain(3..5);
    }
    call
}

/// The same with the keys that any job needs.
fn complete_call<'s>(
    prefix: &KeyPrefix,
    layout: Layout,
    queue: &'s str,
    settings: &'s ProducerSettings,
    jobs: &[Job],
) -> ScriptCall<'s> {
    let mut keys = keys(prefix, layout, queue, OFFER_KEYS);
    let all = if settings.counts_all() { "1" } else { "0" };
    let mut args = args([
        with_layout(settings, layout),
        settings.bound().to_string(),
        all.to_owned(),
        settings.dedup_window_us().to_string(),
        settings.max_per_client().unwrap_or(0).to_string(),
    ]);
    for job in jobs {
        let head = args.len();
        args.push(Vec::new());
        let mut says = body::encode(layout, job.body(), &mut args).to_string();
        let client = job.client_name();
        if !job.is_plain() {
            let mut key = 0;
            if let Some(dedup) = job.requested_dedup_id() {
                keys.push(dedup_key(prefix, queue, dedup));
                key = keys.len() - OFFER_KEYS;
            }
            let deadline = job.deadline_us().map(|us| us.to_string()).unwrap_or_default();
            says = format!("{says} {key} {deadline}");
            if let Some(client) = client {
                says = format!("{says} {client}");
            }
        }
        if let Some(before) = job.original_dedup() {
            // One more word, which is not part of the job.
            says = says.replacen(' ', "+ ", 1);
            args.push(before.to_string().into_bytes());
        }
        if let Some(word) = args.get_mut(head) {
            *word = says.into_bytes();
        }
    }
    ScriptCall { queue, expected: ExpectedSettings::Producer(settings), keys, args }
}

/// The call with which any Redis client offers a job to a queue with the stream layout, within its
/// bound and with all guarantees of the workers. It needs neither a worker nor this library.
///
/// ```
/// use tollgate_queue::{Job, OfferCall, ProducerSettings};
/// use tollgate_redis::KeyPrefix;
/// let (settings, job) = (ProducerSettings::new(10), Job::new().field("to", "ann"));
/// let call = OfferCall::new(&KeyPrefix::default(), "mail", &settings, &job)?;
/// assert_eq!(call.keys[0], "tgq1:{queue:mail}:jobs");
/// assert_eq!(call.args[5..], ["2", "to", "ann"]);
/// # Ok::<(), tollgate_queue::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OfferCall {
    /// The script, the same for every queue and job.
    pub script: String,
    /// Its SHA1, for EVALSHA.
    pub sha1: String,
    /// The keys, in their order.
    pub keys: Vec<String>,
    /// The arguments after the first one. The caller chooses the first, and the reply contains it.
    pub args: Vec<String>,
}

impl OfferCall {
    /// The call for a queue with these settings in the environment with this prefix, and a job with
    /// fields.
    ///
    /// # Errors
    /// The queue's name is invalid, a setting is out of range, or the job consists of bytes.
    pub fn new(
        prefix: &KeyPrefix,
        queue: &str,
        settings: &ProducerSettings,
        job: &Job,
    ) -> Result<Self, Error> {
        Queue::new(MemoryQueues::new(), queue)?;
        settings.check()?;
        // Also for jobs to which whoever prints it adds something.
        let call =
            complete_call(prefix, Layout::Stream, queue, settings, std::slice::from_ref(job));
        let text = |word| String::from_utf8(word);
        let args = call.args.into_iter().map(text).collect::<Result<_, _>>();
        let args = args.map_err(|_| Error::invalid("a job of bytes: give fields".to_owned()))?;
        let script = script(Layout::Stream, "", "", SCRIPT, false);
        let sha1 = script.sha().to_owned();
        Ok(Self { script: script.text().to_owned(), sha1, keys: call.keys, args })
    }
}
