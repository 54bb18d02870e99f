//! A store in a file or behind a network: opened at the first question.

use core::time::Duration;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use tollgate::{Error, LimitSet, ManualClock, Store, StoreError};
use tollgate_redis::RedisStore;
use tollgate_stores::{AnyStore, StoreUrl};

use crate::bridge::Sender;
use crate::carrier::Carrier;
use crate::error::Result;
use crate::reply::Answer;
use crate::request::Kind;
use crate::{bridge, runtime};

/// How long a question waits for the store to be opened. Beyond it others are asking in vain too.
const LONGEST_OPENING: Duration = Duration::from_secs(3);

/// A store that was named and may not be open yet.
#[derive(Debug)]
pub(crate) struct Remote {
    how: Arc<How>,
    opened: Mutex<Arc<Opened>>,
}

/// How the store is opened.
#[derive(Debug)]
struct How {
    limits: LimitSet,
    url: StoreUrl,
    clock: Option<ManualClock>,
}

/// The store, once it is open. Questions that are under way keep it.
#[derive(Debug, Default)]
struct Opened(OnceCell<AnyStore>);

impl Drop for Opened {
    fn drop(&mut self) {
        // Else the thread of a file would keep it open.
        if let Some(AnyStore::Sqlite(store)) = self.0.get() {
            store.store().end_thread();
        }
    }
}

impl Remote {
    pub(crate) fn new(limits: LimitSet, url: StoreUrl, clock: Option<ManualClock>) -> Self {
        Self { how: Arc::new(How { limits, url, clock }), opened: Mutex::default() }
    }

    /// Which kind of store it is.
    pub(crate) fn kind(&self) -> &'static str {
        self.how.url.kind().name()
    }

    /// The number that tells its receipts from those of other stores; 0 while it is not open.
    pub(crate) fn identity(&self) -> u64 {
        self.opened().0.get().map_or(0, Store::identity)
    }

    fn opened(&self) -> Arc<Opened> {
        Arc::clone(&self.opened.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes the store, as soon as the questions that are under way have their answers.
    pub(crate) fn close(&self) {
        let opened = {
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            core::mem::take(&mut *opened)
        };
        drop(opened);
    }

    /// Asks, and hands the answer to `sender` when it comes. The thread of JavaScript is to have a
    /// turn.
    pub(crate) fn start(&self, kind: Kind, sender: Sender) -> Result<()> {
        let (opened, how) = (self.opened(), Arc::clone(&self.how));
        let carrier = bridge::carrier()?;
        if matches!(how.url, StoreUrl::Sqlite(_)) {
            let runtime = runtime::get()?;
            // A file is read and locked by the thread that asks.
            runtime.spawn_blocking(move || {
                sender.send(runtime.block_on(asked(opened, &how, &kind, None)));
                carrier.ring();
            });
            return Ok(());
        }
        let on = Arc::clone(&carrier);
        carrier.ask(async move { sender.send(asked(opened, &how, &kind, Some(on)).await) });
        Ok(())
    }
}

/// Asks the store, which the first question opens. A store that cannot be opened is tried again by
/// the next one. What is open is not held any more when the answer is there.
async fn asked(
    opened: Arc<Opened>,
    how: &How,
    kind: &Kind,
    carrier: Option<Arc<Carrier>>,
) -> core::result::Result<Answer, Error> {
    if let Some(store) = opened.0.get() {
        return kind.perform(&how.limits, store).await;
    }
    // Apart, since what is seldom asked must not make each question large.
    Box::pin(asked_first(opened, how, kind, carrier)).await
}

/// Asks a store that is not open.
async fn asked_first(
    opened: Arc<Opened>,
    how: &How,
    kind: &Kind,
    carrier: Option<Arc<Carrier>>,
) -> core::result::Result<Answer, Error> {
    let opening = opened.0.get_or_try_init(|| open(how, carrier));
    match tokio::time::timeout(LONGEST_OPENING, opening).await {
        Ok(store) => kind.perform(&how.limits, store?).await,
        Err(_) => Err(StoreError::transient(format!(
            "the store was not open within {} s: is it reachable?",
            LONGEST_OPENING.as_secs()
        ))
        .into()),
    }
}

async fn open(
    How { url, clock, .. }: &How,
    carrier: Option<Arc<Carrier>>,
) -> core::result::Result<AnyStore, StoreError> {
    match (url.clone(), clock.clone()) {
        (StoreUrl::Sqlite(options), Some(clock)) => {
            StoreUrl::Sqlite(options.clock(clock)).open().await
        }
        (StoreUrl::Redis(options), clock) => {
            let options = match carrier {
                Some(carrier) => options.event_loop(carrier),
                None => options,
            };
            let builder = RedisStore::builder(options);
            let builder = match clock {
                // Counts of another clock than the server's lie apart.
                Some(clock) => {
                    let run = format!("node-{:016x}", RandomState::new().hash_one(0));
                    builder.run(&run, clock)
                }
                None => builder,
            };
            Ok(builder.connect().await?.into())
        }
        (url, _) => url.open().await,
    }
}
