//! Policies again, from their file: on a signal, on an administrator's word, and when it changes.

use std::path::PathBuf;

use tollgate_policy::{Gate, Policies, Problems, Reload, Revision, Watcher};

use crate::metrics::{Metrics, Reloaded};
use crate::store::AnyStore;

/// What came of reading the policies again.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reread {
    /// Others count now, of this revision.
    Taken(Revision),
    /// The file holds what counts already.
    Unchanged(Revision),
}

impl Reread {
    /// The revision that counts now.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        match self {
            Self::Taken(revision) | Self::Unchanged(revision) => revision,
        }
    }
}

/// Why policies were not read again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// There is no file: the policies are those of a program.
    #[error("there is no file to read again")]
    NoFile,
    /// What is wrong with it; the old ones count on.
    #[error("the old policies count on: {0}")]
    Problems(Box<Problems>),
}

/// The one place where policies are read again, so that every reading is counted once.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) gate: Gate<AnyStore>,
    pub(crate) path: Option<PathBuf>,
    pub(crate) metrics: Metrics,
}

impl Reader {
    /// Reads the file now.
    pub(crate) fn read(&self) -> Result<Reread, ReloadError> {
        let path = self.path.as_ref().ok_or(ReloadError::NoFile)?;
        let reloads = self.metrics.reloads();
        let policies = Policies::load(path).map_err(|problems| {
            reloads.add(Reloaded::Broken);
            ReloadError::Problems(Box::new(problems))
        })?;
        // What has not changed stays as it is, with its revision.
        if policies.hash() == self.gate.policies().hash() {
            reloads.add(Reloaded::Unchanged);
            return Ok(Reread::Unchanged(self.gate.revision()));
        }
        let revision = self.gate.replace(policies);
        reloads.add(Reloaded::Taken);
        Ok(Reread::Taken(revision))
    }

    /// Follows the file; none when there is none.
    pub(crate) fn watch(
        &self,
        mut told: impl FnMut(&Reload) + Send + 'static,
    ) -> Result<Option<Watcher>, Problems> {
        let Some(path) = &self.path else { return Ok(None) };
        let metrics = self.metrics.clone();
        let counted = move |reload: &Reload| {
            match reload {
                Reload::Replaced { .. } => metrics.reloads().add(Reloaded::Taken),
                Reload::Broken(_) => metrics.reloads().add(Reloaded::Broken),
                _ => {}
            }
            told(reload);
        };
        self.gate.watch(path, counted).map(Some)
    }
}
