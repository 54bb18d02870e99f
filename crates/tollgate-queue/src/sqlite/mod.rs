//! Queues in a file that the processes of one machine share.
//!
//! Each operation is one transaction of the file in which counts are kept, too: a rate is asked in
//! the transaction that takes, so that neither can be without the other. What was answered survives
//! the death of every process ([`tollgate_sqlite::Sync`] says what a power loss may undo).

mod rows;
mod steps;

use core::time::Duration;

use tollgate_sqlite::{Access, Options, SqliteStore, Transaction};

use crate::backend::{Backend, poll};
use crate::error::Error;
use crate::job::{Dead, DoneJob, Held, Job, JobId, MAX_BATCH, OutJob, Taken, WaitingJob};
use crate::model::{Afterwards, Offered, Stats};
use crate::settings::{Offering, Settings, Working};
use rows::{At, STEPS};

/// Queues in one file. Cheap to clone; clones are the same queues, and so are those of other
/// processes that open the file.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use tollgate_queue::{Job, Offering, Queue, SqliteQueues};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("queues.db");
/// let queues = SqliteQueues::open(path.to_str().expect("a path in UTF-8"))?;
/// let mail = Queue::new(queues, "mail")?;
/// mail.offering(Offering::new(10))?.offer(&Job::new().field("to", "ann")).await?;
/// assert_eq!(mail.stats().await?.waiting, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteQueues(SqliteStore);

impl SqliteQueues {
    /// Opens `sqlite://PATH[?sync=full][&deadline=5s]`, or a path as `./counts.db`. The file is created when it
    /// does not exist; its directory must. It may have counts in it.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open(url_or_path: &str) -> Result<Self, Error> {
        Self::open_with(Options::from_url(url_or_path)?)
    }

    /// Opens the file of `options`.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_with(options: Options) -> Result<Self, Error> {
        let store = SqliteStore::open_with(options)?;
        store.furnish("queue", STEPS)?;
        Ok(Self(store))
    }

    /// Changes a queue in one transaction; it is made when it is not there.
    async fn at<T: Send + 'static>(
        &self,
        queue: &str,
        work: impl FnOnce(&mut At<'_, '_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let name = queue.to_owned();
        let work = move |tx: &Transaction<'_>| {
            let at = match At::find(tx, &name)? {
                Some(at) => at,
                None => At::make(tx, &name)?,
            };
            changed(at, work)
        };
        self.0.transact(Access::Write, work).await
    }

    /// The same where it is made, and `absent` where it is not: who works makes no queue, so that
    /// one that was removed beside its workers stays away.
    async fn when_made<T: Send + 'static>(
        &self,
        queue: &str,
        absent: T,
        work: impl FnOnce(&mut At<'_, '_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let name = queue.to_owned();
        let work = move |tx: &Transaction<'_>| match At::find(tx, &name)? {
            Some(at) if at.is_made() => changed(at, work),
            _ => Ok(absent),
        };
        self.0.transact(Access::Write, work).await
    }

    /// Does something with a queue that is there, in one transaction, and makes none.
    async fn where_it_is<T: Default + Send + 'static>(
        &self,
        access: Access,
        queue: &str,
        work: impl FnOnce(&At<'_, '_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let name = queue.to_owned();
        let work = move |tx: &Transaction<'_>| match At::find(tx, &name)? {
            Some(at) => work(&at),
            None => Ok(T::default()),
        };
        self.0.transact(access, work).await
    }
}

/// Does something with a queue, and writes down what is known of it then.
fn changed<T>(
    mut at: At<'_, '_>,
    work: impl FnOnce(&mut At<'_, '_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let before = at.is.clone();
    let answer = work(&mut at)?;
    at.keep(&before)?;
    Ok(answer)
}

// The methods are of one lifetime each, and what is asked for is of any.
#[allow(clippy::redundant_closure_for_method_calls)]
impl Backend for SqliteQueues {
    async fn offer(&self, queue: &str, offering: &Offering, job: &Job) -> Result<Offered, Error> {
        let (offering, job) = (offering.clone(), job.clone());
        self.at(queue, move |at| at.offer(&offering, &job)).await
    }

    async fn offer_all(
        &self,
        queue: &str,
        offering: &Offering,
        jobs: &[Job],
    ) -> Result<Vec<Offered>, Error> {
        let (offering, jobs) = (offering.clone(), jobs.to_vec());
        let offer = move |at: &mut At<'_, '_>| {
            jobs.iter().map(|job| at.offer(&offering, job)).collect::<Result<Vec<_>, _>>()
        };
        self.at(queue, offer).await
    }

    async fn take(
        &self,
        queue: &str,
        working: &Working,
        worker: &str,
        most: usize,
    ) -> Result<Taken, Error> {
        let (working, worker) = (working.clone(), worker.to_owned());
        let take = move |at: &mut At<'_, '_>| at.take(&working, &worker, most);
        let absent = Taken { absent: true, ..Taken::default() };
        self.when_made(queue, absent, take).await
    }

    async fn done(&self, queue: &str, ids: &[JobId]) -> Result<u64, Error> {
        let ids = ids.to_vec();
        self.when_made(queue, 0, move |at| at.done(&ids)).await
    }

    async fn again(
        &self,
        queue: &str,
        working: &Working,
        held: Held,
        after: Duration,
        why: &str,
    ) -> Result<Afterwards, Error> {
        let (working, why) = (working.clone(), why.to_owned());
        let again = move |at: &mut At<'_, '_>| at.again(&working, held, after, &why);
        self.when_made(queue, Afterwards::Lost, again).await
    }

    async fn extend(&self, queue: &str, working: &Working, held: Held) -> Result<bool, Error> {
        let working = working.clone();
        self.when_made(queue, false, move |at| at.extend(&working, held)).await
    }

    async fn release(&self, queue: &str, held: Held) -> Result<bool, Error> {
        self.when_made(queue, false, move |at| at.release(held)).await
    }

    async fn settings(&self, queue: &str) -> Result<Settings, Error> {
        self.where_it_is(Access::Read, queue, |at| at.settings()).await
    }

    async fn change(&self, queue: &str, settings: &Settings) -> Result<(), Error> {
        let settings = settings.clone();
        self.at(queue, move |at| at.change(&settings)).await
    }

    async fn pause(&self, queue: &str, is_paused: bool) -> Result<bool, Error> {
        let pause = move |at: &mut At<'_, '_>| {
            at.is.totals.paused = is_paused;
            Ok(true)
        };
        self.when_made(queue, false, pause).await
    }

    async fn remove(&self, queue: &str) -> Result<bool, Error> {
        self.where_it_is(Access::Write, queue, |at| at.remove_all()).await
    }

    async fn names(&self) -> Result<Vec<String>, Error> {
        self.0.transact(Access::Read, rows::names).await
    }

    async fn stats(&self, queue: &str) -> Result<Stats, Error> {
        self.where_it_is(Access::Read, queue, |at| at.stats()).await
    }

    async fn waiting(&self, queue: &str, most: usize) -> Result<Vec<WaitingJob>, Error> {
        let most = most.min(MAX_BATCH);
        self.where_it_is(Access::Read, queue, move |at| at.waiting(most)).await
    }

    async fn in_hand(&self, queue: &str, most: usize) -> Result<Vec<OutJob>, Error> {
        let most = most.min(MAX_BATCH);
        self.where_it_is(Access::Read, queue, move |at| at.in_hand(most)).await
    }

    async fn done_jobs(&self, queue: &str, most: usize) -> Result<Vec<DoneJob>, Error> {
        let most = most.min(MAX_BATCH);
        self.where_it_is(Access::Read, queue, move |at| at.done_jobs(most)).await
    }

    async fn dead(&self, queue: &str, most: usize) -> Result<Vec<Dead>, Error> {
        let most = most.min(MAX_BATCH);
        let dead = move |at: &At<'_, '_>| {
            let dead = at.dead("ORDER BY id LIMIT ?2", (at.is.id, most as i64))?;
            Ok(dead.into_iter().map(|(_, dead)| dead).collect())
        };
        self.where_it_is(Access::Read, queue, dead).await
    }

    async fn take_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        self.when_made(queue, None, move |at| at.take_dead(id)).await
    }

    async fn forget_dead(&self, queue: &str, id: JobId) -> Result<Option<Dead>, Error> {
        self.when_made(queue, None, move |at| at.forget_dead(id)).await
    }

    async fn wait(&self, _queue: &str, most: Duration) {
        poll(most).await;
    }
}
