//! Reloads of the policy file: on a signal, on an administrator's request, and when the file
//! changes.

use std::path::PathBuf;

use tollgate_policy::{Gate, Policies, Problems, Reload, Reread, Watcher};
use tollgate_stores::AnyStore;

use crate::metrics::{Metrics, Reloaded};

/// Why the policies were not reloaded.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// There is no policy file: a program built the policies.
    #[error("there is no file to read again")]
    NoFile,
    /// The file is invalid; the old policies stay in force.
    #[error("the old policies count on: {0}")]
    Problems(Box<Problems>),
    /// The reload was interrupted: the old or the new policies may be in force.
    #[error("the reading of the file has ended without an answer")]
    Ended,
}

tollgate::debug_as_display!(ReloadError);

/// The one place that reloads policies, so that each reload is counted once.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) gate: Gate<AnyStore>,
    pub(crate) path: Option<PathBuf>,
    pub(crate) metrics: Metrics,
}

impl Reader {
    /// Reads the file now, on a blocking thread: the file may be large or on a network, and
    /// decisions continue meanwhile.
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

    /// Watches the file; `None` when there is no file.
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
