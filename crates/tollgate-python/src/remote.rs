//! A store in a file or behind a network: opened at the first question, and anew after a fork.

use core::time::Duration;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tokio::sync::OnceCell;
use tollgate::{Error, LimitSet, Limiter, ManualClock, StoreError};
use tollgate_redis::RedisStore;
use tollgate_stores::{AnyStore, StoreUrl};

use crate::bridge::Bridge;
use crate::carrier::Carrier;
use crate::reply::Reply;
use crate::request::Kind;
use crate::socket::lock;
use crate::{error, fork, runtime};

/// How long a question waits for the store to be opened. Beyond it others are asking in vain too.
const LONGEST_OPENING: Duration = Duration::from_secs(3);

/// A store that was named and may not be open yet.
#[derive(Debug)]
pub(crate) struct Remote {
    how: Arc<How>,
    place: Arc<Place>,
}

/// How the store is opened.
#[derive(Debug)]
struct How {
    limits: LimitSet,
    url: StoreUrl,
    clock: Option<ManualClock>,
    /// The name of the run, where the clock is given: counts of another clock than the server's lie
    /// apart.
    run: String,
}

/// Where the open stores are.
#[derive(Debug)]
pub(crate) struct Place(Mutex<Open>);

/// The store of those who wait in threads of their own, and one for each loop of asyncio: its
/// connections belong to the loop.
#[derive(Debug)]
struct Open {
    shared: Arc<Opened>,
    on_loops: Vec<(Arc<Carrier>, Arc<Opened>)>,
}

impl Open {
    fn none_yet() -> Self {
        Self { shared: Opened::none_yet(), on_loops: Vec::new() }
    }
}

/// The limiter over the open store, in the process that opened it.
#[derive(Debug)]
struct Opened {
    pid: u32,
    limiter: OnceCell<Limiter<AnyStore>>,
}

impl Opened {
    fn none_yet() -> Arc<Self> {
        Arc::new(Self { pid: std::process::id(), limiter: OnceCell::new() })
    }
}

impl Place {
    /// What is open in this process.
    ///
    /// The caller is attached to the interpreter, or has passed the gate: so no fork finds the lock
    /// taken.
    fn open(&self) -> MutexGuard<'_, Open> {
        let mut open = lock(&self.0);
        if open.shared.pid != std::process::id() {
            // The parent's. Its threads are not here, its connections are the parent's, and its
            // locks may be taken for ever: it is neither used nor dropped.
            core::mem::forget(core::mem::replace(&mut *open, Open::none_yet()));
        }
        open
    }

    /// What is open for threads. The caller is as of `open`.
    fn opened(&self) -> Arc<Opened> {
        Arc::clone(&self.open().shared)
    }

    /// What is open on a loop. The caller is as of `open`.
    fn opened_on(&self, carrier: &Arc<Carrier>) -> Arc<Opened> {
        let mut open = self.open();
        if let Some((_, found)) = open.on_loops.iter().find(|(it, _)| Arc::ptr_eq(it, carrier)) {
            return Arc::clone(found);
        }
        let opened = Opened::none_yet();
        let (gone, kept) = core::mem::take(&mut open.on_loops)
            .into_iter()
            .partition::<Vec<_>, _>(|(it, _)| it.is_closed());
        open.on_loops = kept;
        open.on_loops.push((Arc::clone(carrier), Arc::clone(&opened)));
        drop(open);
        drop(gone);
        opened
    }

    /// Closes a file, which nobody uses now. The next question opens it again.
    pub(crate) fn close(&self) {
        let opened = self.opened();
        if let Some(AnyStore::Sqlite(store)) = opened.limiter.get().map(Limiter::store) {
            store.store().end_thread();
        }
        self.open().shared = Opened::none_yet();
    }
}

impl Remote {
    pub(crate) fn new(
        py: Python<'_>,
        limits: LimitSet,
        url: StoreUrl,
        clock: Option<ManualClock>,
    ) -> Self {
        let place = Arc::new(Place(Mutex::new(Open::none_yet())));
        let run = format!("python-{:016x}", RandomState::new().hash_one(0));
        let remote = Self { how: Arc::new(How { limits, url, clock, run }), place };
        if remote.is_file() {
            fork::close_before_fork(py, &remote.place);
        }
        remote
    }

    /// Which kind of store it is.
    pub(crate) fn kind(&self) -> &'static str {
        self.how.url.kind().name()
    }

    fn is_file(&self) -> bool {
        matches!(self.how.url, StoreUrl::Sqlite(_))
    }

    /// Asks and waits, while other threads of Python run.
    pub(crate) fn run(&self, py: Python<'_>, kind: &Kind) -> PyResult<Reply> {
        let runtime = runtime::get(py)?;
        let answer = if self.is_file() {
            let gate = fork::gate(py);
            py.detach(|| {
                let _passed = gate.read().unwrap_or_else(PoisonError::into_inner);
                runtime.block_on(asked(self.place.opened(), &self.how, kind, None))
            })
        } else {
            let opened = self.place.opened();
            py.detach(|| runtime.block_on(asked(opened, &self.how, kind, None)))
        };
        answer.map_err(|it| error::raised(py, &it))
    }

    /// Asks, and hands the answer to `future` by the loop of `bridge`.
    pub(crate) fn start(
        &self,
        py: Python<'_>,
        kind: Kind,
        bridge: &Bound<'_, Bridge>,
        future: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (place, how) = (Arc::clone(&self.place), Arc::clone(&self.how));
        if self.is_file() {
            let (runtime, gate) = (runtime::get(py)?, fork::gate(py));
            let sender = bridge.get().sender(future);
            // A file is read and locked by the thread that asks.
            runtime.spawn_blocking(move || {
                let passed = gate.read().unwrap_or_else(PoisonError::into_inner);
                let answer = runtime.block_on(asked(place.opened(), &how, &kind, None));
                drop(passed);
                sender.send(answer);
            });
            return Ok(());
        }
        let carrier = Arc::clone(bridge.get().carrier());
        let opened = place.opened_on(&carrier);
        let question = async move { asked(opened, &how, &kind, Some(carrier)).await };
        Bridge::ask(bridge, future, question)
    }
}

/// Asks the store, which the first question opens. A store that cannot be opened is tried again by
/// the next one. What is open is not held any more when the answer is there.
async fn asked(
    opened: Arc<Opened>,
    how: &How,
    kind: &Kind,
    carrier: Option<Arc<Carrier>>,
) -> Result<Reply, Error> {
    if let Some(limiter) = opened.limiter.get() {
        return kind.perform(limiter).await;
    }
    let opening = opened.limiter.get_or_try_init(|| open(how, carrier));
    match tokio::time::timeout(LONGEST_OPENING, opening).await {
        Ok(limiter) => kind.perform(limiter?).await,
        Err(_) => Err(StoreError::transient(format!(
            "the store was not open within {} s: is it reachable?",
            LONGEST_OPENING.as_secs()
        ))
        .into()),
    }
}

async fn open(how: &How, carrier: Option<Arc<Carrier>>) -> Result<Limiter<AnyStore>, StoreError> {
    let store = match (how.url.clone(), how.clock.clone()) {
        (StoreUrl::Sqlite(options), Some(clock)) => {
            StoreUrl::Sqlite(options.clock(clock)).open().await?
        }
        (StoreUrl::Redis(options), clock) => {
            let options = match carrier {
                Some(carrier) => options.event_loop(carrier),
                None => options,
            };
            let builder = RedisStore::builder(options);
            let builder = match clock {
                Some(clock) => builder.run(&how.run, clock),
                None => builder,
            };
            builder.connect().await?.into()
        }
        (url, _) => url.open().await?,
    };
    Ok(Limiter::new(how.limits.clone(), store))
}
