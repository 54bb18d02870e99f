//! Scans the keys of a store: counts them, and removes those of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;
use tollgate::StoreError;

use super::redis_store::RedisStore;
use super::reply::unexpected_reply;
use crate::client::key_slot;
use crate::node::Node;

impl RedisStore {
    /// The number of keys with this store's prefix. It scans all keys of the database.
    ///
    /// # Errors
    /// The server cannot be reached or refuses to scan.
    pub async fn count_keys(&self) -> Result<usize, StoreError> {
        let mut count = 0;
        self.scan(|keys| {
            count += keys.len();
            Vec::new()
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
        let is_cluster = self.0.client.is_cluster();
        self.scan(|keys| {
            // On a cluster a command has keys of one slot.
            let mut slots: BTreeMap<u16, redis::Cmd> = BTreeMap::new();
            for key in keys {
                let slot = if is_cluster { key_slot(key) } else { 0 };
                slots.entry(slot).or_insert_with(|| redis::cmd("UNLINK")).arg(key.as_slice());
            }
            slots.into_values().collect()
        })
        .await
    }

    /// Passes the keys of each node in turn to `found`, and sends it the commands that this makes
    /// of them.
    async fn scan(
        &self,
        mut found: impl FnMut(&[Vec<u8>]) -> Vec<redis::Cmd>,
    ) -> Result<(), StoreError> {
        for node in self.0.client.nodes() {
            self.scan_node(&node, &mut found).await?;
        }
        Ok(())
    }

    async fn scan_node(
        &self,
        node: &Node,
        found: &mut impl FnMut(&[Vec<u8>]) -> Vec<redis::Cmd>,
    ) -> Result<(), StoreError> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let mut cursor = b"0".to_vec();
        loop {
            let mut command = redis::cmd("SCAN");
            let pattern = format!("{}:*", self.0.keys.prefix());
            command.arg(&cursor[..]).arg("MATCH").arg(pattern).arg("COUNT").arg(10_000);
            let answer = node.raw(command, PATIENCE).await?;
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
            for command in found(&keys) {
                node.raw(command, PATIENCE).await?;
            }
            if next == b"0" {
                return Ok(());
            }
            cursor.clone_from(next);
        }
    }
}
