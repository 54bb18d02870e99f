//! Many who look at a counter and then add to it, on a real server.

use std::sync::{Arc, Barrier};
use std::thread;

use tollgate::StoreError;

use super::Bench;
use super::server::failed;

impl Bench {
    /// How many of these clients get through who read a counter, and add one when it is below the
    /// limit: each over a connection of its own, and all at once.
    ///
    /// # Errors
    /// The server cannot be reached, or not by so many.
    pub fn check_then_increment(
        &mut self,
        limit: u64,
        clients: usize,
    ) -> Result<u64, StoreError> {
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
}
