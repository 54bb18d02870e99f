//! Reloads of the policy file: on a signal, on an administrator's request, and when the file
//! changes.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate_policy::{Gate, Policies, Problems, Reload, Reread, Revision, Watcher};
use tollgate_stores::AnyStore;

use crate::clock::since_epoch;
use crate::console::History;
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
    pub(crate) history: Arc<History>,
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
            Ok(Reread::Unchanged(revision)) => {
                self.unchanged(revision);
                Reloaded::Unchanged
            }
            Ok(reread) => {
                // Policies that came at the same time are those of the next entry.
                self.taken(reread.revision(), self.gate.current().policies().clone());
                Reloaded::Taken
            }
            Err(problems) => {
                self.broken(problems);
                Reloaded::Broken
            }
        });
        reread.map_err(|problems| ReloadError::Problems(Box::new(problems)))
    }

    fn taken(&self, revision: &Revision, policies: Policies) {
        self.history.taken(since_epoch().as_secs(), revision.to_string(), policies);
    }

    fn unchanged(&self, revision: &Revision) {
        self.history.unchanged(since_epoch().as_secs(), revision.to_string());
    }

    fn broken(&self, problems: &Problems) {
        let revision = self.gate.current().revision().to_string();
        self.history.broken(since_epoch().as_secs(), revision, &problems.to_string());
    }

    /// Watches the file; `None` when there is no file.
    pub(crate) fn watch(
        &self,
        mut told: impl FnMut(&Reload) + Send + 'static,
    ) -> Result<Option<Watcher>, Problems> {
        let Some(path) = &self.path else { return Ok(None) };
        let reader = self.clone();
        let counted = move |reload: &Reload| {
            let reloads = reader.metrics.reloads();
            match reload {
                Reload::Replaced { revision, policies, .. } => {
                    reader.taken(revision, policies.clone());
                    reloads.add(Reloaded::Taken);
                }
                Reload::Unchanged(revision) => {
                    reader.unchanged(revision);
                    reloads.add(Reloaded::Unchanged);
                }
                Reload::Broken(problems) => {
                    reader.broken(problems);
                    reloads.add(Reloaded::Broken);
                }
                _ => {}
            }
            told(reload);
        };
        self.gate.watch(path, counted).map(Some)
    }
}
