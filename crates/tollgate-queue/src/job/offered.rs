//! A job to be offered.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use super::{JobId, MAX_DELAY};
use crate::body::{Body, check_name};
use crate::error::Error;
use crate::settings::micros;

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
    /// The job was dead, and its deduplication id is one that no client can choose.
    is_revived: bool,
    /// Its deduplication record before it was dead.
    original_dedup: Option<DedupRecord>,
}

/// The deduplication id of an accepted job, and the job's id at that time. A retried dead job has
/// another id by now.
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
    /// Parses the displayed form. `None` for an empty text, or one that this crate has not written.
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

    /// A job with named fields, in this order.
    pub fn from_fields<N: Into<String>, V: Into<String>>(
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let fields = fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { body: Body::Fields(fields), ..Self::default() }
    }

    /// A job that consists of bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { body: Body::Bytes(bytes.into()), ..Self::default() }
    }

    /// A job with the fields of a JSON object, in its order. Numbers, `true` and `false` are kept
    /// as written.
    ///
    /// ```
    /// use tollgate_queue::Job;
    /// let job = Job::from_json(br#"{"to": "ann", "copies": 2}"#)?;
    /// assert_eq!(job, Job::new().field("to", "ann").field("copies", "2"));
    /// # Ok::<(), tollgate_queue::Error>(())
    /// ```
    ///
    /// # Errors
    /// The text is not a JSON object, or a value is `null`, a list or an object.
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        let body = Body::from_json(json).map_err(|error| {
            Error::invalid(format!(
                "no job: {error}; right is one JSON object of fields, e.g. {{\"to\": \"ann\"}}"
            ))
        })?;
        Ok(Self { body, ..Self::default() })
    }

    /// The same with one more field. It replaces bytes.
    #[must_use]
    pub fn field(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let mut fields = match &self.body {
            Body::Fields(fields) => fields.to_vec(),
            Body::Bytes(_) => Vec::new(),
        };
        fields.push((name.into(), value.into()));
        Self { body: Body::Fields(fields.into()), ..self }
    }

    /// Sets the deduplication id. A second offer with the same id is a
    /// [`crate::OfferOutcome::Duplicate`] for as long as the queue remembers the id.
    #[must_use]
    pub fn dedup_id(self, id: impl Into<String>) -> Self {
        Self { dedup_id: Some(id.into()), is_revived: false, original_dedup: None, ..self }
    }

    /// Sets the client of the job, whose counted jobs [`crate::ProducerSettings::per_client`]
    /// bounds. The name has 1 to 256 bytes and does not begin with `@`.
    #[must_use]
    pub fn client(self, name: impl Into<Arc<str>>) -> Self {
        Self { client: Some(name.into()), ..self }
    }

    /// Sets how long after its acceptance the job is useful (at most 366 days). A job past its
    /// deadline is dropped when its turn comes.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// A dead job, to be offered again.
    pub(super) fn revived(
        body: Body,
        client: Option<Arc<str>>,
        dedup_id: Option<String>,
        original_dedup: Option<DedupRecord>,
    ) -> Self {
        Self { body, dedup_id, client, deadline: None, is_revived: true, original_dedup }
    }

    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    pub(crate) fn requested_dedup_id(&self) -> Option<&str> {
        self.dedup_id.as_deref()
    }

    /// The deduplication record of this job once it is accepted under `id`, if the queue remembers
    /// ids. It is stored with the job, so that it can be deleted with a dead job.
    pub(crate) fn dedup_record(&self, id: JobId, is_remembered: bool) -> Option<DedupRecord> {
        if self.is_revived {
            return self.original_dedup.clone();
        }
        let once = self.dedup_id.as_deref().filter(|_| is_remembered)?;
        Some(DedupRecord { of: id, id: once.into() })
    }

    /// Whether it is a body and no more: it has no id, no deadline and no client.
    #[cfg(feature = "redis")]
    pub(crate) fn is_plain(&self) -> bool {
        let Self { body: _, dedup_id, client, deadline, is_revived: _, original_dedup } = self;
        dedup_id.is_none() && client.is_none() && deadline.is_none() && original_dedup.is_none()
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

    /// Checks that the job is valid.
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
