//! Handles Ctrl-C in commands that must clean up or print results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::command::run::ignored_signals;

/// Whether a signal arrived. The first one is recorded, so that the command can clean up; a second
/// one ends the process immediately.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Starts to listen for signals.
    pub(crate) fn listen() -> Result<Self> {
        let stop = Self { asked: Arc::default(), signal: Arc::default() };
        let ignored = ignored_signals();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| ignored >> (s - 1) & 1 == 0)
        {
            // In this order: the second signal finds the flag that the first one has set.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.asked))?;
            let number = usize::try_from(signal)?;
            flag::register_usize(signal, Arc::clone(&stop.signal), number)?;
            flag::register(signal, Arc::clone(&stop.asked))?;
        }
        Ok(stop)
    }

    /// Whether a signal arrived.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Its exit code: 128 plus the signal's number.
    pub(crate) fn code(&self) -> u8 {
        u8::try_from(self.signal.load(Ordering::Relaxed)).map_or(u8::MAX, |signal| signal | 128)
    }
}
