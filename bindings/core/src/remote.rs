//! A store in a file or behind a network: opened at the first question, and again after a fork.

use core::time::Duration;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, PoisonError};

use tollgate::{Error, LimitSet, Limiter, ManualClock, Store as _, StoreError};
use tollgate_redis::RedisStore;
use tollgate_stores::{AnyStore, StoreUrl};

use crate::answer::{BindingAnswer, Sender};
use crate::carrier::Carrier;
use crate::failure::Result;
use crate::fork::{self, Closing as _};
use crate::keep::Keep;
use crate::operation::Operation;
use crate::place::{Opened, Place};
use crate::runtime::runtime;

/// How long a question waits for the store to be opened. Beyond it others are asking without
/// success too.
const LONGEST_OPENING: Duration = Duration::from_secs(3);

/// A store that was named and may not be open yet.
///
/// A language that forks calls its functions where no fork happens meanwhile.
#[derive(Debug)]
pub struct Remote {
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

impl Remote {
    pub(crate) fn new(
        language: &str,
        limits: LimitSet,
        url: StoreUrl,
        clock: Option<ManualClock>,
    ) -> Self {
        let run = format!("{language}-{:016x}", RandomState::new().hash_one(0));
        let (how, place) = (Arc::new(How { limits, url, clock, run }), Place::new());
        let remote = Self { how, place };
        if remote.is_file() {
            fork::close_before_fork(&remote.place);
        }
        remote
    }

    /// Which kind of store it is.
    pub fn kind(&self) -> &'static str {
        self.how.url.kind().name()
    }

    /// Whether threads of the runtime ask it, and no loop.
    pub fn is_file(&self) -> bool {
        matches!(self.how.url, StoreUrl::Sqlite(_))
    }

    /// The number that tells its receipts from those of other stores; 0 while it is not open.
    pub fn identity(&self) -> u64 {
        self.place.find(AnyStore::identity).unwrap_or(0)
    }

    /// Closes the store, as soon as the questions that are under way have their answers.
    pub fn close(&self) {
        self.place.close();
    }

    /// The part that asks and waits for the answer. A fork of another thread may happen while it is
    /// called, and not before.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn waiting<'a, D: Keep>(
        &'a self,
        operation: &'a Operation,
    ) -> Result<impl FnOnce() -> core::result::Result<BindingAnswer<D>, Error> + Send + 'a> {
        let runtime = runtime()?;
        let on_network = (!self.is_file()).then(|| self.place.shared());
        let gate = fork::gate();
        Ok(move || {
            let Some(opened) = on_network else {
                let _passed = gate.read().unwrap_or_else(PoisonError::into_inner);
                return runtime.block_on(asked(self.place.shared(), &self.how, operation, None));
            };
            runtime.block_on(asked(opened, &self.how, operation, None))
        })
    }

    /// Asks, and hands the answer to `sender` when it comes. The loop of `carrier` is to have a
    /// turn, unless it is a file.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn start<D: Keep>(
        &self,
        operation: Operation,
        sender: Sender<D>,
        carrier: &Arc<Carrier>,
    ) -> Result<()> {
        let (how, on) = (Arc::clone(&self.how), Arc::clone(carrier));
        if self.is_file() {
            let (runtime, gate, place) = (runtime()?, fork::gate(), Arc::clone(&self.place));
            // A file is read and locked by the thread that asks.
            runtime.spawn_blocking(move || {
                let passed = gate.read().unwrap_or_else(PoisonError::into_inner);
                let answer = runtime.block_on(asked(place.shared(), &how, &operation, None));
                drop(passed);
                sender.send(answer);
                on.ring();
            });
            return Ok(());
        }
        let opened = self.place.on_loop(carrier);
        carrier.ask(async move { sender.send(asked(opened, &how, &operation, Some(on)).await) });
        Ok(())
    }
}

/// Asks the store, which the first question opens. A store that cannot be opened is tried again by
/// the next one. An open store is not kept any more when the answer is there.
async fn asked<D: Keep>(
    opened: Arc<Opened>,
    how: &How,
    operation: &Operation,
    carrier: Option<Arc<Carrier>>,
) -> core::result::Result<BindingAnswer<D>, Error> {
    if let Some(limiter) = opened.0.get() {
        return D::ask(operation, limiter).await;
    }
    // Apart, since what is seldom asked must not make each question large.
    Box::pin(asked_first(opened, how, operation, carrier)).await
}

/// Asks a store that is not open.
async fn asked_first<D: Keep>(
    opened: Arc<Opened>,
    how: &How,
    operation: &Operation,
    carrier: Option<Arc<Carrier>>,
) -> core::result::Result<BindingAnswer<D>, Error> {
    let opening = opened.0.get_or_try_init(|| open(how, carrier));
    match tokio::time::timeout(LONGEST_OPENING, opening).await {
        Ok(limiter) => D::ask(operation, limiter?).await,
        Err(_) => Err(StoreError::transient(format!(
            "the store was not open within {} s: is it reachable?",
            LONGEST_OPENING.as_secs()
        ))
        .into()),
    }
}

async fn open(
    how: &How,
    carrier: Option<Arc<Carrier>>,
) -> core::result::Result<Limiter<AnyStore>, StoreError> {
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

#[cfg(test)]
mod tests {
    use tollgate::Decision;

    use super::*;
    use crate::{Answers, Rest};

    #[test]
    fn a_file_is_opened_at_the_first_question_and_again_after_it_was_closed() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", dir.path().join("counts.db").display());
        let limits = "3/h".parse().unwrap();
        let remote = Remote::new("test", limits, StoreUrl::parse(&url).unwrap(), None);
        assert_eq!((remote.kind(), remote.is_file(), remote.identity()), ("sqlite", true, 0));
        let check = Operation::check("a".to_owned(), 1);
        let left = || match remote.waiting::<Decision<'static>>(&check).unwrap()() {
            Ok(BindingAnswer::Decision(decision)) => decision.remaining(),
            other => panic!("{other:?}"),
        };
        assert_eq!(left(), 2);
        assert_ne!(remote.identity(), 0);
        fork::close_files();
        assert_eq!(remote.identity(), 0, "a fork finds it closed");
        assert_eq!(left(), 1);
    }

    #[test]
    fn an_answer_rings_for_the_loop_that_waits() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", dir.path().join("counts.db").display());
        let limits = "3/h".parse().unwrap();
        let remote = Remote::new("test", limits, StoreUrl::parse(&url).unwrap(), None);
        let (bell, rung) = std::sync::mpsc::channel();
        let ring = move || bell.send(()).unwrap_or_default();
        let handle = runtime().unwrap().handle().clone();
        let carrier = Arc::new(Carrier::new(handle, ring, Rest::Kept));
        let answers = Answers::<Decision<'static>>::default();
        let check = Operation::check("a".to_owned(), 1);
        remote.start(check, answers.sender(7), &carrier).unwrap();
        rung.recv().unwrap();
        assert!(!answers.is_empty());
        let came = answers.take();
        assert!(matches!(came.as_slice(), [(7, Ok(BindingAnswer::Decision(_)))]), "{came:?}");
        carrier.close();
    }
}
