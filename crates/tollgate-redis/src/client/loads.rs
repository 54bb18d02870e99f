//! Loading scripts that a server does not know: one at a time for each script.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redis::Value;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout_at;

use super::deadline::Deadline;
use super::script_load::{command, loaded};
use super::wire::{CallError, Wire};
use crate::fault::{ChargeState, Fault};
use crate::script::Script;

/// Loads of scripts. There are as many entries as scripts, which are part of the program.
#[derive(Default)]
pub(super) struct Loads {
    /// Loads that were done, ever.
    done: AtomicU64,
    /// For each script, under its name, the number of its last load.
    last: Mutex<HashMap<String, Arc<AsyncMutex<u64>>>>,
}

/// How many loads were done when a script was called.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadCount(u64);

impl Loads {
    /// To be remembered before a script is called.
    pub(super) fn load_count(&self) -> LoadCount {
        LoadCount(self.done.load(Ordering::Acquire))
    }

    /// Loads that were done, ever.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Loads a script after a call, begun at `seen`, was told that it is unknown. When somebody
    /// has loaded it since, nothing is done. Whoever else comes meanwhile waits, and when a load
    /// fails or its future is dropped, the next of them tries.
    pub(super) async fn load(
        &self,
        script: &Script,
        seen: LoadCount,
        wire: &Arc<Wire>,
        by: Deadline,
    ) -> Result<(), CallError> {
        let turn = self.turn(script);
        let Ok(mut last) = timeout_at(by.at, turn.lock()).await else {
            return Err(by.passed(ChargeState::NotCharged).into());
        };
        if *last > seen.0 {
            return Ok(());
        }
        let heard = wire.ask(command(script), 0, None, by).await;
        let heard = heard.map_err(|failed| failed.map(Fault::before_the_script))?;
        loaded(script, &heard.answer.unwrap_or(Value::Nil))?;
        *last = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        Ok(())
    }

    fn turn(&self, script: &Script) -> Arc<AsyncMutex<u64>> {
        // A panic cannot leave the map half-changed.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(last.entry(script.sha().to_owned()).or_default())
    }
}
