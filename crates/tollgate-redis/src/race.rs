//! A race on a real server: clients that read a counter and then increment it, compared with
//! clients that use one atomic call. Used by `tollgate lab race`.

use std::sync::{Arc, Barrier};
use std::thread;

use redis::ConnectionLike as _;
use tokio::task::JoinSet;
use tollgate::{LimitSet, Limiter, StoreError, Subject};

use crate::key::Keys;
use crate::options::Options;
use crate::store::RedisStore;

/// Races on one server, under separate keys, which are removed when this is dropped.
#[allow(missing_debug_implementations)] // a connection inside, and nobody prints it
pub struct Races {
    client: redis::Client,
    connection: redis::Connection,
    keys: Keys,
    /// The written keys.
    written: Vec<String>,
}

fn failed(error: redis::RedisError) -> StoreError {
    StoreError::permanent(format!("the server that is measured: {error}")).because(error)
}

impl Races {
    /// Connects. `run` is part of the keys' names.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn open(url: &str, run: &str) -> Result<Self, StoreError> {
        let client = redis::Client::open(url).map_err(failed)?;
        let connection = client.get_connection().map_err(failed)?;
        let keys = Keys::for_run(run).within(Options::from_url(url)?.key_prefix());
        Ok(Self { client, connection, keys, written: Vec::new() })
    }

    /// A new key, to be removed at the end.
    fn fresh(&mut self, key: String) -> Result<String, StoreError> {
        self.connection.req_command(redis::cmd("DEL").arg(&key)).map_err(failed)?;
        self.written.push(key.clone());
        Ok(key)
    }

    /// How many clients get through that read a counter, and increment it if it is below the limit.
    /// Each has a separate connection, and all start together.
    ///
    /// # Errors
    /// The server cannot be reached, or not by this many clients.
    pub fn check_then_increment(&mut self, limit: u64, clients: usize) -> Result<u64, StoreError> {
        let key = self.fresh(format!("{}:race", self.keys.prefix()))?;
        let connections: Result<Vec<_>, _> =
            (0..clients).map(|_| self.client.get_connection()).collect();
        let barrier = Arc::new(Barrier::new(clients));
        let threads: Vec<_> = connections
            .map_err(failed)?
            .into_iter()
            .map(|mut connection| {
                let (barrier, key) = (Arc::clone(&barrier), key.clone());
                thread::spawn(move || {
                    barrier.wait();
                    let count: Option<u64> = redis::cmd("GET").arg(&key).query(&mut connection)?;
                    if count.is_some_and(|count| count >= limit) {
                        return Ok(false);
                    }
                    // The increment and the expiry are one transaction, as in the article; that
                    // does not help.
                    redis::pipe()
                        .atomic()
                        .cmd("INCR")
                        .arg(&key)
                        .cmd("EXPIRE")
                        .arg(&key)
                        .arg(10)
                        .exec(&mut connection)?;
                    Ok(true)
                })
            })
            .collect();
        let mut through = 0;
        for thread in threads {
            let passed: Result<bool, redis::RedisError> = thread
                .join()
                .map_err(|_| StoreError::permanent("a client of the race has ended"))?;
            through += u64::from(passed.map_err(failed)?);
        }
        Ok(through)
    }

    /// How many clients get through with one atomic call each, all concurrently.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn one_question(
        &mut self,
        options: Options,
        limits: LimitSet,
        clients: usize,
    ) -> Result<u64, StoreError> {
        let ours = |error| StoreError::permanent("the subject of the race").because(error);
        let subject = Subject::new("race", "atomic").map_err(ours)?;
        self.fresh(self.keys.state(&subject, &limits))?;
        let store = RedisStore::builder(options).keys(self.keys.clone()).connect().await?;
        let limiter = Limiter::new(limits, store);
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
}

impl Drop for Races {
    fn drop(&mut self) {
        // An error cannot be reported here, and all keys expire anyway.
        let _ = self.connection.req_command(redis::cmd("UNLINK").arg(&self.written));
    }
}
