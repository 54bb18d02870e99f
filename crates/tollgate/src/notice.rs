//! Notices: short texts that lie beside the counts until their end, for every process that uses a
//! store.
//!
//! They are for what is decided while processes run, as bans and exemptions: what a notice says is
//! the business of those who post and read it.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::error::StoreError;
use crate::time::{MAX_PERIOD_US, Time};

/// The most notices that a store keeps.
pub const MAX_NOTICES: usize = 10_000;

/// The longest name of a notice, in bytes.
pub const MAX_NOTICE_NAME_BYTES: usize = 1 << 10;

/// The longest text of a notice, in bytes.
pub const MAX_NOTICE_BYTES: usize = 4 << 10;

/// A text with a name and an end.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Notice {
    /// What it is known by: another of this name takes its place. 1 to
    /// [`MAX_NOTICE_NAME_BYTES`] bytes.
    pub name: String,
    /// What it says, in at most [`MAX_NOTICE_BYTES`].
    pub text: String,
    /// How long it lasts from now, by the store's clock: 1 us to 366 days.
    pub left: Duration,
}

/// All notices of a store, at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Notices {
    /// Another number after each change, and 0 where there never was one. An end is no change.
    pub version: u64,
    /// Those that have not ended, in the order of their names.
    pub all: Vec<Notice>,
}

impl Notice {
    /// A notice.
    ///
    /// # Errors
    /// A name, a text or a time beyond its bounds.
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
        Ok(Self { name, text, left })
    }

    /// When it ends, as a store at `now` writes it.
    #[must_use]
    pub fn until(&self, now: Time) -> Time {
        // At most 366 days.
        let left = u64::try_from(self.left.as_micros()).unwrap_or(MAX_PERIOD_US);
        Time::from_micros(now.as_micros().saturating_add(left))
    }
}

impl Notices {
    /// What a store answers that keeps these.
    #[must_use]
    pub fn new(version: u64, all: Vec<Notice>) -> Self {
        Self { version, all }
    }

    /// What a store says that keeps [`MAX_NOTICES`] already.
    #[must_use]
    pub fn too_many() -> StoreError {
        StoreError::permanent(format!(
            "there are {MAX_NOTICES} notices already, and no more are kept: withdraw some first"
        ))
    }

    /// The version after this one, for a store whose clock says `now`. Times are taken, so that a
    /// store which lost all does not come to a version again that somebody has seen.
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
        });
        Some(Notices::new(self.version, each.collect()))
    }

    pub(crate) fn post(&mut self, notice: &Notice, now: Time) -> Result<(), StoreError> {
        self.notices.retain(|_, (_, until)| *until > now);
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

    /// The version that lay in a snapshot.
    pub(crate) fn restore_version(&mut self, version: u64) {
        self.version = version;
    }

    /// One that lay in a snapshot.
    pub(crate) fn restore(&mut self, name: String, text: String, until: Time) {
        self.notices.insert(name, (text, until));
    }

    /// All that have not ended, for a snapshot.
    pub(crate) fn lasting(&self, now: Time) -> impl Iterator<Item = (&str, &str, Time)> {
        let each = self.notices.iter().map(|(name, (text, until))| (&**name, &**text, *until));
        each.filter(move |(.., until)| *until > now)
    }
}
