//! A channel of Redis as a bell: who waits for something is woken when somebody says that it is
//! there, and need not ask again and again.

use core::fmt;
use core::time::Duration;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::StreamExt as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::client::Door;

/// How long after a loss the connection is made anew.
const PAUSE: Duration = Duration::from_secs(1);

/// Listens to one channel, over a connection of its own, until it is dropped.
///
/// What is said while the connection is away is not heard: who waits should look now and then all
/// the same.
pub struct Bell {
    heard: Arc<Heard>,
    listening: JoinHandle<()>,
}

#[derive(Default)]
struct Heard {
    rings: AtomicU64,
    /// How many there were when somebody looked last.
    seen: AtomicU64,
    is_up: AtomicBool,
    rung: Notify,
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_up = self.heard.is_up.load(Ordering::Relaxed);
        f.debug_struct("Bell").field("is_up", &is_up).finish_non_exhaustive()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Bell {
    pub(crate) fn new(door: Arc<Door>, channel: String) -> Self {
        let heard = Arc::new(Heard::default());
        let listening = tokio::spawn(listen(door, channel, Arc::clone(&heard)));
        Self { heard, listening }
    }

    /// Whoever waits from here on waits for what is said after this.
    pub fn look(&self) {
        self.heard.seen.store(self.heard.rings.load(Ordering::Acquire), Ordering::Release);
    }

    /// Waits until it has rung since somebody looked, at most so long; false, at once, while nobody
    /// would hear it.
    pub async fn wait(&self, most: Duration) -> bool {
        let Heard { rings, seen, is_up, rung } = &*self.heard;
        let mut next = pin!(rung.notified());
        // From here on none is missed.
        next.as_mut().enable();
        if !is_up.load(Ordering::Acquire) {
            return false;
        }
        if rings.load(Ordering::Acquire) == seen.load(Ordering::Acquire) {
            let _ = tokio::time::timeout(most, next).await;
        }
        true
    }
}

async fn listen(door: Arc<Door>, channel: String, heard: Arc<Heard>) {
    loop {
        if let Ok(mut line) = door.listen(&channel).await {
            heard.is_up.store(true, Ordering::Release);
            let mut said = line.on_message();
            while said.next().await.is_some() {
                heard.rings.fetch_add(1, Ordering::AcqRel);
                heard.rung.notify_waiters();
            }
            heard.is_up.store(false, Ordering::Release);
            heard.rung.notify_waiters();
        }
        tokio::time::sleep(PAUSE).await;
    }
}
