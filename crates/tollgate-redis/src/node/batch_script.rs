//! The script of a batch, and which nodes have it or cannot run it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use redis::{Cmd, Value};

use super::reply_errors::refused;
use crate::fault::{ChargeState, Fault};
use crate::script::Script;

/// The script of a batch, and which nodes have it.
pub(crate) struct BatchScript {
    /// Composed on first use, so a script without batches needs none.
    script: OnceLock<Script>,
    compose: Box<dyn Fn() -> Script + Send + Sync>,
    /// By the number of the node, modulo their count. Nodes that share a place at worst load the
    /// script again, or send calls alone.
    states: [AtomicU8; STATES],
    counts: Arc<Counts>,
}

/// Lifetime counters of batch scripts.
#[derive(Default)]
pub(crate) struct Counts {
    /// The loads.
    pub(crate) loads: AtomicU64,
    /// The batched calls that were refused, and whose questions were then sent one by one.
    pub(crate) refusals: AtomicU64,
}

/// More than most clusters have primaries.
const STATES: usize = 32;

/// Not loaded yet, or the server has forgotten it.
const UNKNOWN: u8 = 0;
/// Being loaded.
const LOADING: u8 = 1;
/// The server had it at the last call.
const READY: u8 = 2;
/// The server cannot run batches: it is a cluster node, or the user has too few permissions.
const NEVER: u8 = 3;

impl BatchScript {
    /// `compose` makes the script; all batch scripts share `counts`.
    pub(crate) fn new(
        compose: impl Fn() -> Script + Send + Sync + 'static,
        counts: Arc<Counts>,
    ) -> Self {
        let states = [const { AtomicU8::new(UNKNOWN) }; STATES];
        Self { script: OnceLock::new(), compose: Box::new(compose), states, counts }
    }

    pub(super) fn script(&self) -> &Script {
        self.script.get_or_init(&self.compose)
    }

    /// A call with the keys of several questions and no arguments, which the script refuses.
    pub(super) fn trial(&self, keys: &[String]) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.script().sha()).arg(keys.len()).arg(keys);
        command
    }

    /// Records the reply to the trial: of the script, or of the server instead.
    ///
    /// # Errors
    /// A reply that does not show whether the script works.
    pub(super) fn tried(&self, node: usize, answer: &Value) -> Result<(), Fault> {
        let Value::ServerError(error) = answer else {
            return Err(Fault::Garbled { charge: ChargeState::NotCharged });
        };
        match refused(error) {
            // The trial's keys are invented, so the user may have permission for the real ones.
            Fault::Refused { .. } | Fault::NoPermission { charge: ChargeState::NotCharged, .. } => {
                self.change(node, UNKNOWN, READY);
            }
            fault if is_for_good(&fault) => self.set(node, NEVER),
            fault => return Err(fault),
        }
        Ok(())
    }

    /// Records that a node has the script.
    pub(super) fn is_loaded(&self, node: usize) {
        self.change(node, UNKNOWN, READY);
    }

    /// Whether a load into this node begins here: nobody knows whether it has the script.
    pub(super) fn begin_load(&self, node: usize) -> bool {
        self.change(node, UNKNOWN, LOADING)
    }

    /// Records how a load ended. Until one succeeds, calls are sent alone, and report other
    /// problems.
    pub(super) fn end_load(&self, node: usize, loaded: Result<(), Fault>) {
        match loaded {
            Ok(()) => {
                self.counts.loads.fetch_add(1, Ordering::Relaxed);
                self.set(node, READY);
            }
            Err(fault) if is_for_good(&fault) => self.set(node, NEVER),
            Err(_) => {}
        }
    }

    /// Lets the next caller try a load that has not ended.
    pub(super) fn drop_load(&self, node: usize) {
        self.change(node, LOADING, UNKNOWN);
    }

    /// Records that a node refused a batch. Returns whether each of its calls may succeed alone;
    /// then none of them ran.
    pub(super) fn refuse(&self, node: usize, fault: &Fault) -> bool {
        if is_for_good(fault) {
            self.set(node, NEVER);
        } else if *fault == Fault::NoScript {
            // Unless it is being loaded already.
            self.change(node, READY, UNKNOWN);
        }
        let again = is_of_several(fault);
        self.counts.refusals.fetch_add(u64::from(again), Ordering::Relaxed);
        again
    }

    /// Pretends that the server has the script.
    #[cfg(test)]
    pub(super) fn pretend(self) -> Self {
        self.set(0, READY);
        self
    }

    #[cfg(test)]
    pub(super) fn refusals(&self) -> u64 {
        self.counts.refusals.load(Ordering::Relaxed)
    }

    fn state(&self, node: usize) -> &AtomicU8 {
        #[expect(clippy::indexing_slicing, reason = "below the length")]
        &self.states[node % STATES]
    }

    fn set(&self, node: usize, state: u8) {
        self.state(node).store(state, Ordering::Release);
    }

    /// Changes the state if it is still `from`; returns whether it did.
    fn change(&self, node: usize, from: u8, to: u8) -> bool {
        let state = self.state(node);
        state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(super) fn is_ready(&self, node: usize) -> bool {
        self.state(node).load(Ordering::Acquire) == READY
    }
}

/// Whether a batch can fail with this error while each of its calls would succeed alone. None of
/// them ran.
fn is_of_several(fault: &Fault) -> bool {
    is_for_good(fault) || matches!(fault, Fault::NoScript | Fault::TryAgain | Fault::ClusterDown)
}

/// Whether the error is permanent: the server does not allow keys of several subjects in one call.
fn is_for_good(fault: &Fault) -> bool {
    let denied = ChargeState::NotCharged;
    matches!(fault, Fault::CrossSlot)
        || matches!(fault, Fault::NoPermission { charge, .. } if *charge == denied)
}
