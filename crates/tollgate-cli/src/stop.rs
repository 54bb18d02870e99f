//! Ctrl-C during something that has things to put away, or figures to tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::command::run::ignored_signals;

/// Whether a signal came. The first is remembered, so that things can be put away; a second ends
/// the process at once.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self> {
        let stop = Self { asked: Arc::default(), signal: Arc::default() };
        let ignored = ignored_signals();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| ignored >> (s - 1) & 1 == 0)
        {
            // In this order: the second signal finds what the first has set.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.asked))?;
            let number = usize::try_from(signal)?;
            flag::register_usize(signal, Arc::clone(&stop.signal), number)?;
            flag::register(signal, Arc::clone(&stop.asked))?;
        }
        Ok(stop)
    }

    /// Whether a signal came.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The exit code for it: 128 and the signal's number.
    pub(crate) fn code(&self) -> u8 {
        u8::try_from(self.signal.load(Ordering::Relaxed)).map_or(u8::MAX, |signal| signal | 128)
    }
}
