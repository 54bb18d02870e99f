//! Scans the keys of a store: counts them, and removes those of a run.

use std::time::Duration;

use redis::Value;
use tollgate::StoreError;

use super::RedisStore;
use super::reply::unexpected_reply;

impl RedisStore {
    /// The number of keys with this store's prefix. It scans all keys of the database.
    ///
    /// # Errors
    /// The server cannot be reached or refuses to scan.
    pub async fn count_keys(&self) -> Result<usize, StoreError> {
        let mut count = 0;
        self.scan(|keys| {
            count += keys.len();
            None
        })
        .await?;
        Ok(count)
    }

    /// Removes all keys of a run ([`Builder::run`](super::Builder::run),
    /// [`Builder::run_now`](super::Builder::run_now)).
    ///
    /// # Errors
    /// This store does not belong to a run, or the server cannot be reached or refuses to scan.
    pub async fn clear_run(&self) -> Result<(), StoreError> {
        if !self.0.keys.is_for_run() {
            return Err(StoreError::permanent("only the keys of a run are removed at once"));
        }
        self.scan(|keys| {
            let mut command = redis::cmd("UNLINK");
            for key in keys {
                command.arg(key.as_slice());
            }
            (!keys.is_empty()).then_some(command)
        })
        .await
    }

    async fn scan(
        &self,
        mut found: impl FnMut(&[Vec<u8>]) -> Option<redis::Cmd>,
    ) -> Result<(), StoreError> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let mut cursor = b"0".to_vec();
        loop {
            let mut command = redis::cmd("SCAN");
            let pattern = format!("{}:*", self.0.keys.prefix());
            command.arg(&cursor[..]).arg("MATCH").arg(pattern).arg("COUNT").arg(10_000);
            let answer = self.0.client.raw(command, PATIENCE).await?;
            let Value::Array(list) = answer else { return Err(unexpected_reply()) };
            let [Value::BulkString(next), Value::Array(keys)] = &list[..] else {
                return Err(unexpected_reply());
            };
            let keys: Vec<Vec<u8>> = keys
                .iter()
                .filter_map(|key| match key {
                    Value::BulkString(bytes) => Some(bytes.clone()),
                    _ => None,
                })
                .collect();
            if let Some(command) = found(&keys) {
                self.0.client.raw(command, PATIENCE).await?;
            }
            if next == b"0" {
                return Ok(());
            }
            cursor.clone_from(next);
        }
    }
}
