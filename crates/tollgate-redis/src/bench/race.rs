//! Many who look at a counter and then add to it, on a real server.

use std::sync::{Arc, Barrier};
use std::thread;

use tokio::task::JoinSet;
use tollgate::{LimitSet, Limiter, StoreError, Subject};

use super::Bench;
use super::server::failed;
use crate::options::Options;
use crate::store::RedisStore;

impl Bench {
    /// How many of these clients get through who read a counter, and add one when it is below the
    /// limit: each over a connection of its own, and all at once.
    ///
    /// # Errors
    /// The server cannot be reached, or not by so many.
    pub fn check_then_increment(&mut self, limit: u64, clients: usize) -> Result<u64, StoreError> {
        let key = format!("{}:race", self.server.keys.prefix());
        self.server.ask(redis::cmd("DEL").arg(&key))?;
        self.server.owns([&key]);
        let client = redis::Client::open(self.url.as_str()).map_err(failed)?;
        let connections: Result<Vec<_>, _> =
            (0..clients).map(|_| client.get_connection()).collect();
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
                    // Added and given its end as one, as in the article: that does not help.
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

    /// How many of these clients get through who ask one atomic question each, all at once.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn one_question(
        &mut self,
        options: Options,
        limits: LimitSet,
        clients: usize,
    ) -> Result<u64, StoreError> {
        let keys = self.server.keys.clone();
        let subject = Subject::of("race", "atomic").map_err(super::ours)?;
        let state = keys.state(&subject, &limits);
        self.server.ask(redis::cmd("DEL").arg(&state))?;
        self.server.owns([&state]);
        let store = RedisStore::builder(options).keys(keys).connect().await?;
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
