//! Notices: short texts with an expiry, stored beside the counts, for every process that uses the
//! store.
//!
//! They carry decisions made at run time, such as bans and exemptions. The store does not interpret
//! their texts.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::error::StoreError;
use crate::time::{MAX_PERIOD_US, Time};

/// The most notices in a store.
pub const MAX_NOTICES: usize = 10_000;

/// The longest name of a notice, in bytes.
pub const MAX_NOTICE_NAME_BYTES: usize = 1 << 10;

/// The longest text of a notice, in bytes.
pub const MAX_NOTICE_BYTES: usize = 4 << 10;

/// A named text with an expiry.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Notice {
    /// The unique name, 1 to [`MAX_NOTICE_NAME_BYTES`] bytes. A new notice replaces one of the same
    /// name.
    pub name: String,
    /// The text, at most [`MAX_NOTICE_BYTES`] bytes.
    pub text: String,
    /// The time left until it expires, by the store's clock: 1 us to 366 days.
    pub left: Duration,
    /// Whether it is dropped where there is one of the same name already; false unless
    /// [`Notice::yielding`] sets it. It is not stored.
    pub yields: bool,
}

/// All notices of a store at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Notices {
    /// Changes with each change of the notices; 0 if there never was a notice. An expiry is not a
    /// change.
    pub version: u64,
    /// The notices that have not expired, sorted by name.
    pub all: Vec<Notice>,
}

impl Notice {
    /// Creates a notice.
    ///
    /// # Errors
    /// A name, a text or a time out of range.
    pub fn new(
        name: impl Into<String>,
        text: impl Into<String>,
        left: Duration,
    ) -> Result<Self, StoreError> {
        let (name, text) = (name.into(), text.into());
        let refuse = |what: String| Err(StoreError::permanent(what));
        if name.is_empty() || name.len() > MAX_NOTICE_NAME_BYTES {
            return refuse(format!(
                "the name of a notice has {} bytes: 1 to {MAX_NOTICE_NAME_BYTES} may be",
                name.len()
            ));
        }
        if text.len() > MAX_NOTICE_BYTES {
            return refuse(format!(
                "the text of a notice has {} bytes: at most {MAX_NOTICE_BYTES} may be",
                text.len()
            ));
        }
        let longest = Duration::from_micros(MAX_PERIOD_US);
        if left < Duration::from_micros(1) || left > longest {
            return refuse(format!("a notice lasts 1 us to 366 days, and not {left:?}"));
        }
        Ok(Self { name, text, left, yields: false })
    }

    /// The same notice, which leaves an earlier one of its name as it is. So of several processes
    /// that post together, one is the first, and all read its text.
    #[must_use]
    pub fn yielding(self) -> Self {
        Self { yields: true, ..self }
    }

    /// The time of its expiry, for a store at `now`.
    #[must_use]
    pub fn until(&self, now: Time) -> Time {
        // Cannot overflow: at most 366 days.
        let left = u64::try_from(self.left.as_micros()).unwrap_or(MAX_PERIOD_US);
        Time::from_micros(now.as_micros().saturating_add(left))
    }
}

impl Notices {
    /// The answer of a store that has these notices.
    #[must_use]
    pub fn new(version: u64, all: Vec<Notice>) -> Self {
        Self { version, all }
    }

    /// The error of a store that already has [`MAX_NOTICES`].
    #[must_use]
    pub fn too_many() -> StoreError {
        StoreError::permanent(format!(
            "there are {MAX_NOTICES} notices already, and no more are kept: withdraw some first"
        ))
    }

    /// The next version, for a store at `now`. Versions follow the time, so that a store that lost
    /// its data does not reuse a version that a reader has seen.
    #[must_use]
    pub fn version_after(version: u64, now: Time) -> u64 {
        now.as_micros().max(version.saturating_add(1))
    }
}

/// The notices of a memory store.
#[derive(Debug, Default)]
pub(crate) struct Board {
    version: u64,
    notices: BTreeMap<String, (String, Time)>,
}

impl Board {
    pub(crate) fn all(&mut self, seen: Option<u64>, now: Time) -> Option<Notices> {
        if seen == Some(self.version) {
            return None;
        }
        self.notices.retain(|_, (_, until)| *until > now);
        let left =
            |until: Time| Duration::from_micros(until.as_micros().saturating_sub(now.as_micros()));
        let each = self.notices.iter().map(|(name, (text, until))| Notice {
            name: name.clone(),
            text: text.clone(),
            left: left(*until),
            yields: false,
        });
        Some(Notices::new(self.version, each.collect()))
    }

    pub(crate) fn post(&mut self, notice: &Notice, now: Time) -> Result<(), StoreError> {
        self.notices.retain(|_, (_, until)| *until > now);
        if notice.yields && self.notices.contains_key(&notice.name) {
            return Ok(());
        }
        if self.notices.len() >= MAX_NOTICES && !self.notices.contains_key(&notice.name) {
            return Err(Notices::too_many());
        }
        self.restore(notice.name.clone(), notice.text.clone(), notice.until(now));
        self.version = Notices::version_after(self.version, now);
        Ok(())
    }

    pub(crate) fn withdraw(&mut self, name: &str, now: Time) -> bool {
        let Some((_, until)) = self.notices.remove(name) else { return false };
        self.version = Notices::version_after(self.version, now);
        until > now
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Restores the version from a snapshot.
    pub(crate) fn restore_version(&mut self, version: u64) {
        self.version = version;
    }

    /// Restores a notice from a snapshot.
    pub(crate) fn restore(&mut self, name: String, text: String, until: Time) {
        self.notices.insert(name, (text, until));
    }

    /// All notices that have not expired, for a snapshot.
    pub(crate) fn lasting(&self, now: Time) -> impl Iterator<Item = (&str, &str, Time)> {
        let each = self.notices.iter().map(|(name, (text, until))| (&**name, &**text, *until));
        each.filter(move |(.., until)| *until > now)
    }
}
