//! A Redis channel as a wake-up signal: waiters are woken by a message, and need not poll.

use core::fmt;
use core::time::Duration;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::StreamExt as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::client::Client;

/// The pause before reconnecting after a loss.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Listens to one channel over a separate connection, until it is dropped.
///
/// Messages are missed while the connection is down, so waiters should still poll occasionally.
pub struct Subscription {
    state: Arc<ChannelState>,
    listening: JoinHandle<()>,
}

#[derive(Default)]
struct ChannelState {
    messages: AtomicU64,
    /// The number of messages when it was last marked as seen.
    seen: AtomicU64,
    is_connected: AtomicBool,
    notify: Notify,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_connected = self.state.is_connected.load(Ordering::Relaxed);
        f.debug_struct("Subscription").field("is_up", &is_connected).finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Subscription {
    pub(crate) fn new(client: Client, channel: String) -> Self {
        let state = Arc::new(ChannelState::default());
        let listening = tokio::spawn(listen(client, channel, Arc::clone(&state)));
        Self { state, listening }
    }

    /// Marks all messages so far as seen: later waits wait for newer ones.
    pub fn mark_seen(&self) {
        self.state.seen.store(self.state.messages.load(Ordering::Acquire), Ordering::Release);
    }

    /// Waits at most `max` for a message since the last mark. Returns false immediately while the
    /// connection is down.
    pub async fn wait(&self, max: Duration) -> bool {
        let ChannelState { messages, seen, is_connected, notify } = &*self.state;
        let mut next = pin!(notify.notified());
        // From here on no message is missed.
        next.as_mut().enable();
        if !is_connected.load(Ordering::Acquire) {
            return false;
        }
        if messages.load(Ordering::Acquire) == seen.load(Ordering::Acquire) {
            let _ = tokio::time::timeout(max, next).await;
        }
        true
    }
}

async fn listen(client: Client, channel: String, state: Arc<ChannelState>) {
    loop {
        // Another server may publish by now.
        let publisher = client.publisher();
        if let Some(publisher) = publisher
            && let Ok(mut pubsub) = publisher.listen(&[&channel]).await
        {
            state.is_connected.store(true, Ordering::Release);
            let mut messages = pubsub.on_message();
            while messages.next().await.is_some() {
                state.messages.fetch_add(1, Ordering::AcqRel);
                state.notify.notify_waiters();
            }
            state.is_connected.store(false, Ordering::Release);
            state.notify.notify_waiters();
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}
