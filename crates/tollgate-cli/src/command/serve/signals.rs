//! The signals that a service handles.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that a service handles.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// The meaning of a signal.
pub(super) enum ServiceSignal {
    End(&'static str),
    Reload,
}

impl Signals {
    pub(super) fn new() -> Result<Self> {
        let take = |kind| signal(kind).context("signals cannot be handled");
        Ok(Self {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
            hangup: take(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> ServiceSignal {
        tokio::select! {
            _ = self.interrupt.recv() => ServiceSignal::End("SIGINT"),
            _ = self.terminate.recv() => ServiceSignal::End("SIGTERM"),
            _ = self.hangup.recv() => ServiceSignal::Reload,
        }
    }

    /// Waits until a signal requests shutdown.
    pub(super) async fn end(&mut self) {
        while let ServiceSignal::Reload = self.next().await {}
    }
}
