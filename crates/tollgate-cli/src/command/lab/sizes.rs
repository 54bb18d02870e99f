//! The keys and bytes of a case on Redis, read now and then.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate::StoreError;
use tollgate_redis::Options;
use tollgate_redis::usage::Memory;

use crate::show;

/// The time between two readings: rare, since the server does them beside its decisions.
const EVERY: Duration = Duration::from_secs(5);

/// The readings of a case, until this is dropped.
pub(super) struct Sizes {
    readings: Arc<Readings>,
    task: JoinHandle<()>,
}

struct Readings {
    options: Options,
    prefix: String,
    /// The one with the most bytes.
    most: Mutex<Memory>,
}

impl Readings {
    async fn read(&self) -> Result<(), StoreError> {
        let now = Memory::read(&self.options, &self.prefix).await?;
        let mut most = self.most.lock().unwrap_or_else(PoisonError::into_inner);
        if now.bytes > most.bytes {
            *most = now;
        }
        Ok(())
    }
}

impl Sizes {
    /// Reads the keys with this prefix.
    pub(super) fn of(options: &Options, prefix: &str) -> Self {
        let (options, prefix) = (options.clone(), prefix.to_owned());
        let readings = Arc::new(Readings { options, prefix, most: Mutex::default() });
        let reading = Arc::clone(&readings);
        let task = tokio::spawn(async move {
            let mut turns = tokio::time::interval(EVERY);
            // The last reading reports what is wrong.
            while reading.read().await.is_ok() {
                turns.tick().await;
            }
        });
        Self { readings, task }
    }

    /// Reads once more. The most bytes of all readings, with their keys; `None` without a key.
    pub(super) async fn end(self) -> Option<(usize, usize)> {
        if let Err(error) = self.readings.read().await {
            show::note(&format!("the keys on the server are not measured: {error}"));
        }
        let most = *self.readings.most.lock().unwrap_or_else(PoisonError::into_inner);
        (most.keys > 0).then_some((most.bytes, most.keys))
    }
}

impl Drop for Sizes {
    fn drop(&mut self) {
        self.task.abort();
    }
}
