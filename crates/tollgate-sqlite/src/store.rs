//! The store: one connection behind a lock, and a separate thread for async callers.

use core::fmt;
use core::time::Duration;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use futures_channel::oneshot;
use tollgate::engine::Outcome;
use tollgate::operation::{Operation, Operations};
use tollgate::{
    Adjustment, Amounts, Charged, Cost, Counted, Facts, Hold, HoldTerms, Inspection, Keeps,
    LimitSet, Notice, Notices, Question, Receipt, Refund, RequestId, Settled, Store, StoreError,
    Subject, Time,
};

use crate::extension::Transaction;
use crate::options::Options;
use crate::session::{Access, Session};

/// Counts in a file: durable, crash-safe, shared by the processes of one machine. Cheap to clone:
/// clones share one connection.
///
/// As a [`Store`] it works with any async runtime: a separate thread, started by the first call,
/// waits for the disk. The methods that end in `_now` work in the calling thread, for programs
/// without a runtime. In both cases the operations of one store run one after the other. To let
/// them wait for SQLite's lock instead, as several processes do, open the file several times.
///
/// ```
/// use tollgate::Limiter;
/// use tollgate_sqlite::SqliteStore;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("counts.db");
/// let store = SqliteStore::open(path.to_str().expect("a path in UTF-8"))?;
/// let limiter = Limiter::new("1/h".parse()?, store);
/// # futures_executor::block_on(async {
/// assert!(limiter.check("user:42").await?.is_allowed());
/// assert!(!limiter.check("user:42").await?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SqliteStore(Arc<Shared>);

struct Shared {
    session: Arc<Mutex<Session>>,
    identity: u64,
    /// The number of request ids that were forgotten before their time.
    forgotten_requests: Arc<AtomicU64>,
    options: Options,
    /// The queue of async calls; the thread ends when the last clone is dropped.
    worker: Mutex<Option<Worker>>,
}

/// The queue of async calls, and the thread that works on it.
struct Worker {
    queue: Sender<WorkerTask>,
    thread: JoinHandle<()>,
}

type WorkerTask = Box<dyn FnOnce(&Mutex<Session>) + Send>;

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The data is sound even if a holder of the lock panicked: a session ends its transaction before
/// it passes a panic on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SqliteStore {
    /// Opens `sqlite://PATH[?sync=full][&deadline=5s]`, or a path such as `./counts.db`. The file
    /// is created if it does not exist; its directory must exist.
    ///
    /// # Errors
    /// The URL is invalid, or a file or directory cannot be written. The file is not a database, or
    /// belongs to another program or a newer version; none of these is changed. The error is
    /// transient when other processes kept the file locked.
    pub fn open(url_or_path: &str) -> Result<Self, StoreError> {
        Self::open_with(Options::from_url(url_or_path)?)
    }

    /// Opens the file of `options`.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_with(options: Options) -> Result<Self, StoreError> {
        let session = Session::open(options.clone())?;
        Ok(Self(Arc::new(Shared {
            identity: session.identity(),
            forgotten_requests: session.forgotten_requests(),
            session: Arc::new(Mutex::new(session)),
            options,
            worker: Mutex::new(None),
        })))
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.options.path()
    }

    /// Waits for the async calls that are queued, and ends the thread that works on them. The next
    /// async call starts another one.
    ///
    /// The file is then closed as soon as the last clone is dropped, and not a little later: for
    /// programs that fork, since no open file of SQLite may be carried into a child.
    ///
    /// ```
    /// use tollgate_sqlite::SqliteStore;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("counts.db");
    /// let store = SqliteStore::open(path.to_str().expect("a path in UTF-8"))?;
    /// store.end_thread();
    /// drop(store); // The file is closed: the process may fork.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn end_thread(&self) {
        let Some(Worker { queue, thread }) = lock(&self.0.worker).take() else { return };
        drop(queue);
        // A panic of one call was passed on to its caller, or is one of a caller that is gone.
        let _ = thread.join();
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        lock(&self.0.session)
    }

    /// Answers a question in the calling thread.
    ///
    /// # Errors
    /// The file could not be read or written, or a state in it is damaged; transient when other
    /// processes held the lock for the whole deadline. Nothing was charged.
    pub fn check_now(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        self.session().check(question)
    }

    /// Refunds what still counts of `units` of a charge, or of a unit its rest if that is less, in
    /// the calling thread.
    ///
    /// # Errors
    /// As [`SqliteStore::check_now`].
    pub fn refund_now(&self, receipt: &Receipt, units: Amounts<'_>) -> Result<Refund, StoreError> {
        self.session().refund(receipt, units)
    }

    /// Refunds to every limit the amount of its unit, or takes it if negative, in the calling
    /// thread. Returns the change of `remaining` per limit.
    ///
    /// # Errors
    /// As [`SqliteStore::check_now`].
    pub fn adjust_now(
        &self,
        counted: Counted<'_>,
        by: &Adjustment,
    ) -> Result<Vec<i64>, StoreError> {
        self.session().adjust(counted, by)
    }

    /// Charges without a check in the calling thread. Returns what was done to each limit.
    ///
    /// # Errors
    /// As [`SqliteStore::check_now`].
    pub fn charge_now(
        &self,
        counted: Counted<'_>,
        cost: Amounts<'_>,
    ) -> Result<Vec<Charged>, StoreError> {
        self.session().charge(counted, cost)
    }

    /// Deletes a count in the calling thread. Returns whether there was one.
    ///
    /// # Errors
    /// As [`SqliteStore::check_now`].
    pub fn reset_now(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        self.session().reset(counted)
    }

    /// Returns the stored state, if any, in the calling thread.
    ///
    /// # Errors
    /// As [`SqliteStore::check_now`].
    pub fn inspect_now(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        self.session().inspect(counted)
    }

    /// Deletes all expired rows in the calling thread, and returns the number of subjects deleted.
    /// This is optional, since every write checks a few rows. The file keeps its size and reuses
    /// the space.
    ///
    /// # Errors
    /// As [`SqliteStore::check_now`].
    pub fn sweep(&self) -> Result<usize, StoreError> {
        self.session().sweep()
    }

    /// Migrates the tables of an extension, which stores other data in the same file, to their
    /// current format. `migrations` are the statements that create the format step by step; the
    /// file records how many it has applied. Never edit a released one: append another. Names of
    /// tables and indices begin with the extension's name.
    ///
    /// # Errors
    /// SQLite rejects a step, or the file is of a newer version. Nothing is changed then.
    pub fn migrate_extension(
        &self,
        extension: &str,
        migrations: &[&str],
    ) -> Result<(), StoreError> {
        self.session().migrate_extension(extension, migrations)
    }

    /// Runs `work` in one transaction on the store's own thread. An error or a panic rolls it back.
    ///
    /// ```
    /// use tollgate::StoreError;
    /// use tollgate_sqlite::{Access, SqliteStore, Transaction};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("counts.db");
    /// let store = SqliteStore::open(path.to_str().expect("a path in UTF-8"))?;
    /// store.migrate_extension("notes", &["CREATE TABLE notes_all (text TEXT NOT NULL)"])?;
    /// let add = "INSERT INTO notes_all VALUES (?1)";
    /// let note = move |tx: &Transaction<'_>| tx.execute(add, ["hello"]);
    /// # futures_executor::block_on(async {
    /// let rows: Result<usize, StoreError> = store.transaction(Access::Write, note).await;
    /// assert_eq!(rows?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `work`, or the file could not be locked or written.
    pub async fn transaction<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        // The caller's deadline includes the time in the queue.
        let queued_at = Instant::now();
        let deadline = self.0.options.effective_deadline();
        let work = move |session: &Session| {
            let left = deadline.saturating_sub(queued_at.elapsed());
            if left.is_zero() && !deadline.is_zero() {
                return Err(too_late().into());
            }
            session.transaction(left, access, work)
        };
        self.run_on_worker(work).await
    }

    /// Runs `work` on the store's own thread. A future dropped before its turn cancels the work.
    async fn run_on_worker<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        work: impl FnOnce(&Session) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let (answer, answered) = oneshot::channel();
        self.send(Box::new(move |session| {
            if !answer.is_canceled() {
                // The receiver is gone if the future was dropped meanwhile.
                let _ = answer.send(work(&lock(session)));
            }
        }))?;
        answered.await.unwrap_or_else(|_| Err(worker_ended().into()))
    }

    fn send(&self, job: WorkerTask) -> Result<(), StoreError> {
        let mut worker = lock(&self.0.worker);
        if let Some(worker) = &*worker {
            return worker.queue.send(job).map_err(|_| worker_ended());
        }
        let (queue, jobs) = channel::<WorkerTask>();
        let session = Arc::clone(&self.0.session);
        let thread = thread::Builder::new()
            .name("tollgate-sqlite".to_owned())
            .spawn(move || jobs.iter().for_each(|job| job(&session)))
            .map_err(|error| {
                StoreError::transient("no thread could be started for the SQLite store")
                    .because(error)
            })?;
        let sent = queue.send(job).map_err(|_| worker_ended());
        *worker = Some(Worker { queue, thread });
        sent
    }
}

fn too_late() -> StoreError {
    StoreError::transient(
        "the deadline was over before its turn came: nothing was done. Others wait for the lock of the \
         file",
    )
}

fn worker_ended() -> StoreError {
    StoreError::permanent("the thread of the SQLite store has ended: open the store anew")
}

/// An owned copy of a question, for another thread.
struct OwnedQuestion {
    parts: Vec<(Subject, LimitSet)>,
    cost: Cost,
    mode: tollgate::engine::Mode,
    deadline: Option<Duration>,
    receipts: u64,
    hold: Option<HoldTerms>,
    /// The text of the request id, and the rest of it.
    request: Option<(Box<str>, RequestId<'static>)>,
    /// The caller's deadline includes the time in the queue.
    queued_at: Instant,
}

impl OwnedQuestion {
    fn new(question: &Question<'_>) -> Self {
        let parts = question.parts.iter().map(|part| (part.subject.clone(), part.limits.clone()));
        let Question { mode, deadline, receipts, .. } = *question;
        let cost = question.cost.into();
        let hold = question.hold.copied();
        let request = question.request.map(|id| (id.text().into(), id.with_text("")));
        let (parts, queued_at) = (parts.collect(), Instant::now());
        Self { parts, cost, mode, deadline, receipts, hold, request, queued_at }
    }

    fn ask(&self, session: &Session) -> Result<Outcome, StoreError> {
        let parts: Vec<Counted<'_>> = self.parts.iter().map(borrowed).collect();
        let mut question =
            Question::new(&parts, &self.cost, self.mode).with_receipts(self.receipts);
        question.hold = self.hold.as_ref();
        question.request = self.request.as_ref().map(|(text, id)| id.with_text(text));
        question.deadline = self.deadline.map(|all| all.saturating_sub(self.queued_at.elapsed()));
        if question.deadline.is_some_and(|left| left.is_zero()) {
            return Err(StoreError::transient(
                "the deadline was over before this question's turn came: nothing was charged. Others \
                 wait for the lock of the file",
            ));
        }
        session.check(&question)
    }
}

impl Store for SqliteStore {
    const KEEPS: Keeps = Keeps::ALL;

    fn identity(&self) -> u64 {
        self.0.identity
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        receipt.store == self.0.identity
    }

    fn facts(&self) -> Facts {
        let forgotten = self.0.forgotten_requests.load(Ordering::Relaxed);
        Facts::new(self.0.options.deadline, forgotten)
    }

    fn will_wait(&self, _: Duration) {}

    fn perform<O: Operation>(
        &self,
        operation: &O,
    ) -> impl Future<Output = Result<O::Answer, StoreError>> + Send {
        operation.visit(self)
    }

    fn perform_now<O: Operation>(&self, _: &O) -> Option<Result<O::Answer, StoreError>> {
        None
    }
}

impl Operations for SqliteStore {
    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        let owned = OwnedQuestion::new(question);
        self.run_on_worker(move |session| owned.ask(session)).await
    }

    async fn refund(&self, receipt: &Receipt, units: Amounts<'_>) -> Result<Refund, StoreError> {
        let (receipt, units) = (receipt.clone(), Cost::from(units));
        self.run_on_worker(move |session| session.refund(&receipt, units.amounts())).await
    }

    async fn adjust(&self, counted: Counted<'_>, by: &Adjustment) -> Result<Vec<i64>, StoreError> {
        let owned = (counted.subject.clone(), counted.limits.clone());
        let by = by.clone();
        self.run_on_worker(move |session| session.adjust(borrowed(&owned), &by)).await
    }

    async fn charge(
        &self,
        counted: Counted<'_>,
        cost: Amounts<'_>,
    ) -> Result<Vec<Charged>, StoreError> {
        let owned = (counted.subject.clone(), counted.limits.clone());
        let cost = Cost::from(cost);
        self.run_on_worker(move |session| session.charge(borrowed(&owned), cost.amounts())).await
    }

    async fn settle(
        &self,
        hold: &Hold,
        actual: Amounts<'_>,
    ) -> Result<Option<Settled>, StoreError> {
        let (hold, actual) = (hold.clone(), Cost::from(actual));
        self.run_on_worker(move |session| session.settle(&hold, actual.amounts())).await
    }

    async fn renew(&self, hold: &Hold, ttl_us: u64) -> Result<Option<Time>, StoreError> {
        let hold = hold.clone();
        self.run_on_worker(move |session| session.renew(&hold, ttl_us)).await
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        let owned = (counted.subject.clone(), counted.limits.clone());
        self.run_on_worker(move |session| session.reset(borrowed(&owned))).await
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        let owned = (counted.subject.clone(), counted.limits.clone());
        self.run_on_worker(move |session| session.inspect(borrowed(&owned))).await
    }

    async fn notices(&self, seen: Option<u64>) -> Result<Option<Notices>, StoreError> {
        self.run_on_worker(move |session| session.notices(seen)).await
    }

    async fn post(&self, notice: &Notice) -> Result<(), StoreError> {
        let notice = notice.clone();
        self.run_on_worker(move |session| session.post(&notice)).await
    }

    async fn withdraw(&self, name: &str) -> Result<bool, StoreError> {
        let name = name.to_owned();
        self.run_on_worker(move |session| session.withdraw(&name)).await
    }
}

fn borrowed((subject, limits): &(Subject, LimitSet)) -> Counted<'_> {
    Counted::new(subject, limits)
}
