//! Policies again, from their file: on a signal, on an administrator's word, and when it changes.

use std::path::PathBuf;

use tollgate_policy::{Gate, Policies, Problems, Reload, Reread, Watcher};
use tollgate_stores::AnyStore;

use crate::metrics::{Metrics, Reloaded};

/// Why policies were not read again.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// There is no file: the policies are those of a program.
    #[error("there is no file to read again")]
    NoFile,
    /// What is wrong with it; the old ones count on.
    #[error("the old policies count on: {0}")]
    Problems(Box<Problems>),
    /// Nobody knows: the old ones count on, or the new ones do.
    #[error("the reading of the file has ended without an answer")]
    Ended,
}

tollgate::debug_as_display!(ReloadError);

/// The one place where policies are read again, so that every reading is counted once.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) gate: Gate<AnyStore>,
    pub(crate) path: Option<PathBuf>,
    pub(crate) metrics: Metrics,
}

impl Reader {
    /// Reads the file now, on a thread of its own: it may be large, or far away, and decisions go
    /// on meanwhile.
    pub(crate) async fn read(self) -> Result<Reread, ReloadError> {
        tokio::task::spawn_blocking(move || self.read_here())
            .await
            .unwrap_or(Err(ReloadError::Ended))
    }

    fn read_here(&self) -> Result<Reread, ReloadError> {
        let path = self.path.as_ref().ok_or(ReloadError::NoFile)?;
        let reloads = self.metrics.reloads();
        let reread = self.gate.reread(|| Policies::load(path));
        reloads.add(match &reread {
            Ok(Reread::Unchanged(_)) => Reloaded::Unchanged,
            Ok(_) => Reloaded::Taken,
            Err(_) => Reloaded::Broken,
        });
        reread.map_err(|problems| ReloadError::Problems(Box::new(problems)))
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
                Reload::Unchanged(_) => metrics.reloads().add(Reloaded::Unchanged),
                Reload::Broken(_) => metrics.reloads().add(Reloaded::Broken),
                _ => {}
            }
            told(reload);
        };
        self.gate.watch(path, counted).map(Some)
    }
}
