//! What waits in a queue.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use crate::body::{Body, check_name};
use crate::error::Error;
use crate::settings::micros;

/// How large a job is at most: names and values of its fields together, or its bytes.
pub const MAX_JOB_BYTES: usize = 64 * 1024;

/// How many jobs one question takes, or says to be done, at most.
pub(crate) const MAX_BATCH: usize = 1_000;

/// How many fields a job has at most.
pub const MAX_FIELDS: usize = 64;

/// The longest time for which a job is put off, or is of use.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(366 * 86_400);

/// The longest id of [`Job::dedup_id`], and the longest name of a field, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 256;

/// A job to be offered.
///
/// ```
/// use std::time::Duration;
/// use tollgate_queue::Job;
/// let job = Job::new().field("to", "ann").dedup_id("mail:4711").deadline(Duration::from_secs(60));
/// # let _ = job;
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Job {
    body: Body,
    dedup_id: Option<String>,
    client: Option<Arc<str>>,
    deadline: Option<Duration>,
    /// It was dead, and its `once` is one that nobody else can say.
    is_revived: bool,
    /// What it was to be accepted once under before it was dead.
    original_dedup: Option<DedupRecord>,
}

/// Under what a job was accepted once, and which job that was: this one, or the one that it was
/// before it was dead and offered again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DedupRecord {
    pub(crate) of: JobId,
    pub(crate) id: Arc<str>,
}

impl fmt::Display for DedupRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.of, self.id)
    }
}

impl DedupRecord {
    /// As it displays. None of what nobody here has written, and of nothing.
    #[cfg(any(feature = "redis", feature = "sqlite"))]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (of, id) = text.split_once(' ')?;
        Some(Self { of: of.parse().ok()?, id: id.into() })
    }
}

impl Job {
    /// A job without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A job of named fields, in this order.
    pub fn from_fields<N: Into<String>, V: Into<String>>(
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let fields = fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { body: Body::Fields(fields), ..Self::default() }
    }

    /// A job of bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { body: Body::Bytes(bytes.into()), ..Self::default() }
    }

    /// A job of the fields of a JSON object, in its order. Numbers, `true` and `false` are taken as
    /// they are written.
    ///
    /// ```
    /// use tollgate_queue::Job;
    /// let job = Job::from_json(br#"{"to": "ann", "copies": 2}"#)?;
    /// assert_eq!(job, Job::new().field("to", "ann").field("copies", "2"));
    /// # Ok::<(), tollgate_queue::Error>(())
    /// ```
    ///
    /// # Errors
    /// No JSON object; a value that is `null`, a list or an object.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        let body = Body::from_json(json).map_err(|error| {
            Error::invalid(format!(
                "no job: {error}; right is one JSON object of fields, as {{\"to\": \"ann\"}}"
            ))
        })?;
        Ok(Self { body, ..Self::default() })
    }

    /// The same with one more field. Bytes are replaced by it.
    #[must_use]
    pub fn field(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let mut fields = match &self.body {
            Body::Fields(fields) => fields.to_vec(),
            Body::Bytes(_) => Vec::new(),
        };
        fields.push((name.into(), value.into()));
        Self { body: Body::Fields(fields.into()), ..self }
    }

    /// It is to be accepted once: the same id again is [`crate::OfferOutcome::Duplicate`], for as
    /// long as the queue remembers it.
    #[must_use]
    pub fn dedup_id(self, id: impl Into<String>) -> Self {
        Self { dedup_id: Some(id.into()), is_revived: false, original_dedup: None, ..self }
    }

    /// It is this client's: at most [`crate::ProducerSettings::per_client`] of one client are
    /// counted. A name of 1 to 256 bytes that does not begin with `@`.
    #[must_use]
    pub fn client(self, name: impl Into<Arc<str>>) -> Self {
        Self { client: Some(name.into()), ..self }
    }

    /// It is of no use later than so long (at most 366 days) after it was accepted: then it is
    /// dropped when its turn comes.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    pub(crate) fn requested_dedup_id(&self) -> Option<&str> {
        self.dedup_id.as_deref()
    }

    /// Under what the queue remembers it once it is accepted as this job, where its ids are
    /// remembered at all: that is what goes with it when it is dead and forgotten.
    pub(crate) fn dedup_record(&self, id: JobId, is_remembered: bool) -> Option<DedupRecord> {
        if self.is_revived {
            return self.original_dedup.clone();
        }
        let once = self.dedup_id.as_deref().filter(|_| is_remembered)?;
        Some(DedupRecord { of: id, id: once.into() })
    }

    #[cfg(feature = "redis")]
    pub(crate) fn original_dedup(&self) -> Option<&DedupRecord> {
        self.original_dedup.as_ref()
    }

    pub(crate) fn client_name(&self) -> Option<&Arc<str>> {
        self.client.as_ref()
    }

    pub(crate) fn deadline_us(&self) -> Option<u64> {
        self.deadline.map(micros)
    }

    /// Whether it is as a job may be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(deadline) = self.deadline.filter(|it| *it > MAX_DELAY) {
            return Err(Error::invalid(format!("a deadline of {deadline:?}: at most 366 days")));
        }
        if let Some(once) = self.dedup_id.as_ref().filter(|_| !self.is_revived) {
            check_name("the id of a job", once)?;
        }
        if let Some(client) = &self.client {
            check_name("the name of a client", client)?;
        }
        self.body.check()
    }
}

/// The id of a job: when it was accepted, in milliseconds since the Unix epoch, and its number
/// among those of one millisecond. Ids of a queue grow, as those of a Redis stream do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct JobId {
    ms: u64,
    number: u64,
}

impl JobId {
    /// The id of this millisecond and number.
    #[must_use]
    pub fn new(ms: u64, number: u64) -> Self {
        Self { ms, number }
    }

    /// When the job was accepted, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn ms(self) -> u64 {
        self.ms
    }

    /// How long ago that was; not at all when the clock has gone back since, or for no time.
    pub(crate) fn age(self, now_us: u64) -> Duration {
        let since_us = if self.ms == 0 { now_us } else { self.ms.saturating_mul(1_000) };
        Duration::from_micros(now_us.saturating_sub(since_us))
    }

    pub(crate) fn number(self) -> u64 {
        self.number
    }

    /// The next of the same millisecond or, when that is later, the first of `ms`.
    pub(crate) fn next(self, ms: u64) -> Self {
        if ms > self.ms { Self { ms, number: 0 } } else { Self { number: self.number + 1, ..self } }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('-').and_then(|(ms, number)| {
            let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            (digits(ms) && digits(number)).then_some(())?;
            Some(Self { ms: ms.parse().ok()?, number: number.parse().ok()? })
        });
        parts.ok_or_else(|| {
            Error::invalid(format!("`{text}` is no id of a job, as 1700000000000-0"))
        })
    }
}

/// What [`crate::Consumer::take`] gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TakeOutcome {
    /// The jobs, first those that come back, then in the order in which they were accepted.
    pub jobs: Vec<Delivery>,
    /// After how long there may be more, when nothing is offered meanwhile: the rate admits one
    /// again, or a job comes back. None: nobody knows.
    pub next: Option<Duration>,
    /// What lay among the jobs and is none, written there by something else: its id, under which it
    /// is a dead job now ([`crate::Queue::dead_letters`]), and what is wrong with it.
    pub foreign: Vec<(JobId, String)>,
    /// The queue is paused: there may be jobs, and none is given ([`crate::Queue::pause`]).
    pub paused: bool,
    /// There is no such queue: nobody has made it yet, or it was removed.
    pub absent: bool,
}

/// A job in hand.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Delivery {
    /// Its id, which stays the same when it is delivered again.
    pub id: JobId,
    /// The how-manieth delivery of it this is, from 1 on.
    pub attempt: u32,
    pub(crate) body: Body,
}

/// Who holds a job: which delivery of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub struct DeliveryTag {
    /// The job.
    pub id: JobId,
    /// The delivery.
    pub attempt: u32,
}

impl DeliveryTag {
    /// This delivery of this job, as who took it was told.
    #[must_use]
    pub fn new(id: JobId, attempt: u32) -> Self {
        Self { id, attempt }
    }

    /// How long a job is put off whose delivery this was and failed: `first` after the first, twice
    /// as long after each that follows, and never longer than `most`. By chance it is shorter by up
    /// to half, so that jobs that failed together do not come back together.
    #[must_use]
    pub fn backoff(self, first: Duration, max: Duration) -> Duration {
        let doubled = 1_u32.checked_shl(self.attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let longest = first.saturating_mul(doubled).min(max);
        // Any number that others do not draw will do.
        let chance = RandomState::new().hash_one(self) % 1_000;
        longest / 2 + longest.mul_f64(chance as f64 / 2_000.0)
    }
}

impl Delivery {
    /// Which delivery this is, to say what became of it.
    #[must_use]
    pub fn tag(&self) -> DeliveryTag {
        DeliveryTag { id: self.id, attempt: self.attempt }
    }

    /// Its fields; none where it is of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// The value of a field.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields().iter().find(|(name, _)| name == field).map(|(_, value)| value.as_str())
    }

    /// Its bytes, where it is of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }
}

/// A job that waits: it was never delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WaitingJob {
    /// Its id; `0-0` for what something else has put there without one.
    pub id: JobId,
    /// How long ago it was accepted.
    pub age: Duration,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) body: Body,
}

impl WaitingJob {
    /// Whose it is, where who offered it said so ([`Job::client`]).
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Its fields; none where it is of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// Its bytes, where it is of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }
}

/// A job that was delivered and is not done: somebody has it in hand, or it is to come back.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct InFlightJob {
    /// Its id.
    pub id: JobId,
    /// How often it was delivered; one that was given back does not count this.
    pub deliveries: u32,
    /// Whether somebody has it in hand, as far as is known; else it is put off.
    pub is_held: bool,
    /// How long ago it was accepted.
    pub age: Duration,
    /// After how long it comes back, unless it is done or extended before: zero when it may be
    /// delivered again now.
    pub due_in: Duration,
    /// What was said last of why it failed; none when nobody said anything.
    pub reason: Option<String>,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) body: Body,
}

impl InFlightJob {
    /// Whose it is, where who offered it said so ([`Job::client`]).
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Its fields; none where it is of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// Its bytes, where it is of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }
}

/// A job that was done, and is kept ([`crate::ConsumerSettings::keep_done`]).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DoneJob {
    /// Its id.
    pub id: JobId,
    /// How often it was delivered.
    pub deliveries: u32,
    pub(crate) body: Body,
}

impl DoneJob {
    /// Its fields; none where it is of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// Its bytes, where it is of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }
}

/// A job that was delivered as often as it may be, and never done.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its id.
    pub id: JobId,
    /// How often it was delivered.
    pub deliveries: u32,
    /// What was said last of why it failed; none when nobody said anything.
    pub reason: Option<String>,
    pub(crate) client: Option<Arc<str>>,
    /// None where its queue did not remember it, and of one that died before this was kept.
    pub(crate) dedup: Option<DedupRecord>,
    pub(crate) body: Body,
}

impl DeadLetter {
    /// Whose it is, where who offered it said so ([`Job::client`]).
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Its fields; none where it is of bytes.
    #[must_use]
    pub fn fields(&self) -> &[(String, String)] {
        self.body.fields()
    }

    /// Its bytes, where it is of bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.body.bytes()
    }

    /// The same job, to be offered again, and accepted once as far as the queue remembers.
    #[must_use]
    pub fn job(&self) -> Job {
        let dedup_id = Some(format!("@dead:{}", self.id));
        let (body, client, original_dedup) =
            (self.body.clone(), self.client.clone(), self.dedup.clone());
        Job { body, dedup_id, client, deadline: None, is_revived: true, original_dedup }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_also_when_the_clock_goes_back() {
        let id = JobId::default().next(5);
        assert_eq!(id.to_string(), "5-0");
        assert_eq!(id.next(5), JobId::new(5, 1));
        assert_eq!(id.next(4).next(6), JobId::new(6, 0));
        assert_eq!("17-3".parse::<JobId>().unwrap(), JobId::new(17, 3));
        for wrong in ["", "1", "-1-2", "1-", "1-x", "+1-2", "99999999999999999999-0"] {
            assert!(wrong.parse::<JobId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn jobs_are_as_large_as_they_may_be_and_no_larger() {
        let wrong = |job: Job| job.check().unwrap_err().to_string();
        Job::from_bytes(&[0; MAX_JOB_BYTES]).check().unwrap();
        assert!(wrong(Job::from_bytes(&[0; MAX_JOB_BYTES + 1])).contains("at most 65536"));
        let fields = |n: usize| Job::from_fields((0..n).map(|n| (format!("f{n}"), "v")));
        fields(MAX_FIELDS).check().unwrap();
        assert!(wrong(fields(MAX_FIELDS + 1)).contains("at most 64"));
        assert!(wrong(Job::new().field("", "x")).contains("1 to 256"));
        assert!(wrong(Job::new().field("a", "x").field("a", "y")).contains("two fields `a`"));
        assert!(wrong(Job::new().field("@at", "x")).contains("is reserved"));
        assert!(
            wrong(Job::new().dedup_id("x".repeat(257))).contains("the id of a job of 257 bytes")
        );
        Job::new().client("x".repeat(256)).check().unwrap();
        for (client, says) in
            [("", "of 0 bytes"), (&*"x".repeat(257), "of 257 bytes"), ("@a", "is reserved")]
        {
            let said = wrong(Job::new().client(client));
            assert!(said.contains("the name of a client") && said.contains(says), "{said}");
        }
    }
}
