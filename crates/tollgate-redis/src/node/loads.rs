//! Loads scripts that a server does not know: one load at a time for each script.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redis::Value;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout_at;

use super::deadline::Deadline;
use super::script_load::{ask_missing, command, loaded, missing};
use super::sending::Sending;
use super::wire::{CallError, Wire};
use crate::fault::{ChargeState, Fault};
use crate::script::Script;

/// The loads of scripts, with one entry per script of the program.
#[derive(Default)]
pub(super) struct Loads {
    /// The number of completed loads.
    done: AtomicU64,
    /// The number of each script's last load, by the script's name.
    last: Mutex<HashMap<String, Arc<AsyncMutex<u64>>>>,
}

/// The number of completed loads at the time of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadCount(u64);

impl Loads {
    /// Taken before a script is called.
    pub(super) fn load_count(&self) -> LoadCount {
        LoadCount(self.done.load(Ordering::Acquire))
    }

    /// The number of completed loads.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Loads a script after a call, begun at `seen`, reported it as unknown. If the script was
    /// loaded since then, it does nothing. Concurrent callers wait; when a load fails or is
    /// dropped, the next of them tries. Where the call has a key, the user's rights to the script's
    /// commands are looked at, too.
    pub(super) async fn load(
        &self,
        script: &Script,
        seen: LoadCount,
        key: Option<&[u8]>,
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
        let heard = wire.ask(Sending::alone(command(script)), by).await;
        let heard = heard.map_err(|failed| failed.map(Fault::before_the_script))?;
        loaded(script, &heard.answer.unwrap_or(Value::Nil))?;
        *last = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        let missing = Self::missing(script, key, wire, by).await?;
        if missing.is_empty() {
            return Ok(());
        }
        Err(Fault::NoPermission { charge: ChargeState::NotCharged, missing }.into())
    }

    /// The commands of a script that the user may not call on a key, as far as it may ask.
    pub(super) async fn missing(
        script: &Script,
        key: Option<&[u8]>,
        wire: &Arc<Wire>,
        by: Deadline,
    ) -> Result<String, CallError> {
        let Some(key) = key else { return Ok(String::new()) };
        let heard = wire.ask(Sending::alone(ask_missing(script, key)), by).await;
        let heard = heard.map_err(|failed| failed.map(Fault::before_the_script))?;
        Ok(missing(heard.answer.unwrap_or(Value::Nil)))
    }

    fn turn(&self, script: &Script) -> Arc<AsyncMutex<u64>> {
        // A panic cannot leave the map half-changed.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(last.entry(script.sha().to_owned()).or_default())
    }
}
