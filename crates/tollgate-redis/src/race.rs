//! A race on a real server: clients that read a counter and then increment it, compared with
//! clients that use one atomic call. Used by `tollgate lab race`.

use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use redis::{Value, cmd, pipe};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tollgate::{LimitSet, Limiter, StoreError, Subject};

use crate::client::owner_of;
use crate::fault::Fault;
use crate::key::Keys;
use crate::node::CommandConnection;
use crate::options::Options;
use crate::store::RedisStore;
use crate::unlink::unlink;

/// The timeout of each answer; no production call waits for them.
const TIMEOUT: Duration = Duration::from_secs(10);

/// When the counter expires, in seconds: the window of the limit.
const WINDOW_S: u64 = 10;

/// Races under separate keys: on one server, on the primary that sentinels name, or on the node of
/// a cluster that has the key.
#[derive(Debug)]
pub struct Races {
    options: Options,
    keys: Keys,
    /// The written keys.
    written: Vec<String>,
}

impl Races {
    /// Races on this server or these servers. `run` is part of the keys' names.
    #[must_use]
    pub fn new(options: Options, run: &str) -> Self {
        let keys = Keys::for_run(run).within(options.key_prefix());
        Self { options, keys, written: Vec::new() }
    }

    /// How many clients get through that read a counter, and increment it if it is below the limit.
    /// Each has a separate thread and connection, and all start together.
    ///
    /// # Errors
    /// The server cannot be reached, or not by this many clients.
    pub async fn check_then_increment(
        &mut self,
        limit: u64,
        clients: usize,
    ) -> Result<u64, StoreError> {
        let key = format!("{}:race", self.keys.prefix());
        self.written.push(key.clone());
        let owner = owner_of(self.options.clone(), &key).await.map_err(Fault::before_the_script)?;
        // They connect one after the other, so that none waits in the server's backlog.
        let turns = Arc::new(Mutex::new(()));
        let barrier = Arc::new(Barrier::new(clients));
        let threads = (0..clients).map(|_| {
            let (barrier, turns) = (Arc::clone(&barrier), Arc::clone(&turns));
            let (owner, key) = (owner.clone(), key.clone());
            thread::spawn(move || {
                let client = {
                    let _turn = turns.lock().unwrap_or_else(PoisonError::into_inner);
                    NaiveClient::open(owner)
                };
                barrier.wait();
                client?.passes(&key, limit)
            })
        });
        let threads: Vec<_> = threads.collect();
        let mut through = 0;
        for thread in threads {
            let ended = || StoreError::permanent("a client of the race has ended");
            through += u64::from(thread.join().map_err(|_| ended())??);
        }
        Ok(through)
    }

    /// How many clients get through with one atomic call each, all concurrently.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn one_question(
        &mut self,
        limits: LimitSet,
        clients: usize,
    ) -> Result<u64, StoreError> {
        let ours = |error| StoreError::permanent("the subject of the race").because(error);
        let subject = Subject::new("race", "atomic").map_err(ours)?;
        self.written.push(self.keys.state(&subject, &limits));
        let builder = RedisStore::builder(self.options.clone()).keys(self.keys.clone());
        let limiter = Limiter::new(limits, builder.connect().await?);
        let mut all = JoinSet::new();
        for _ in 0..clients {
            let (limiter, subject) = (limiter.clone(), subject.clone());
            all.spawn(async move { limiter.check(&subject).await.map(|it| it.is_allowed()) });
        }
        let mut through = 0;
        while let Some(answer) = all.join_next().await {
            let answer = answer.map_err(|error| StoreError::permanent(error.to_string()))?;
            through += u64::from(answer.map_err(|error| StoreError::permanent(error.to_string()))?);
        }
        Ok(through)
    }

    /// Removes the written keys, which otherwise expire with their windows.
    ///
    /// # Errors
    /// A server cannot be reached, or refuses `UNLINK`.
    pub async fn clear(self) -> Result<(), StoreError> {
        unlink(&self.options, self.written).await
    }
}

/// A client with a separate connection, of one thread.
struct NaiveClient {
    // Before the runtime that drives it, so that it is dropped first.
    connection: CommandConnection,
    runtime: Runtime,
}

impl NaiveClient {
    fn open(owner: Options) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::permanent(error.to_string()))?;
        let connection = runtime.block_on(CommandConnection::open(owner));
        let connection = connection.map_err(Fault::before_the_script)?;
        Ok(Self { connection, runtime })
    }

    /// Reads the counter, and increments it if it is below the limit.
    fn passes(&self, key: &str, limit: u64) -> Result<bool, StoreError> {
        let mut read = cmd("GET");
        let exchange = self.connection.exchange(read.arg(key), TIMEOUT);
        let count = self.runtime.block_on(exchange).map_err(Fault::before_the_script)?;
        let count: Option<u64> = redis::from_redis_value(checked(count)?).map_err(unexpected)?;
        if count.is_some_and(|count| count >= limit) {
            return Ok(false);
        }
        // The increment and the expiry are one transaction, as in the article; that does not help.
        let mut commands = pipe();
        commands.cmd("MULTI").cmd("INCR").arg(key).cmd("EXPIRE").arg(key).arg(WINDOW_S).cmd("EXEC");
        let exchange = self.connection.exchange_all(&commands, TIMEOUT);
        let answers = self.runtime.block_on(exchange).map_err(Fault::before_the_script)?;
        for answer in answers {
            checked(answer)?;
        }
        Ok(true)
    }
}

/// The answer, unless the server refused the command.
fn checked(answer: Value) -> Result<Value, StoreError> {
    match answer {
        Value::ServerError(error) => {
            let code = error.code();
            let detail = error.details().unwrap_or_default();
            Err(StoreError::permanent(format!("the server that is measured: {code} {detail}")))
        }
        answer => Ok(answer),
    }
}

fn unexpected(error: impl std::fmt::Display) -> StoreError {
    StoreError::permanent(format!("the server that is measured: {error}"))
}
