//! Many tasks on one connection: through the store, and through redis-rs alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{IntoConnectionInfo as _, Value};
use tokio::task::JoinSet;
use tollgate::Limiter;
use tollgate::StoreError;
use tollgate_redis::{Options, RedisStore, Script};

use super::bench::{Bench, WIDE, ours, script, subjects};
use super::server::{PATIENCE, failed};

/// Two connections to one server, asked the same.
pub(super) struct Clients {
    limiter: Arc<Limiter<RedisStore>>,
    bare: MultiplexedConnection,
    script: Arc<Script>,
    /// The subjects, each with its key.
    subjects: Arc<[(String, String)]>,
}

/// A connection of redis-rs alone.
pub(crate) async fn connect_bare(url: &str) -> Result<MultiplexedConnection, StoreError> {
    let info = url.into_connection_info().map_err(failed)?;
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let client = redis::Client::open(info).map_err(failed)?;
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)
}

impl Bench {
    /// Connects both clients, in the runtime that drives them.
    pub(super) async fn clients(&mut self) -> Result<Clients, StoreError> {
        let limits: tollgate::LimitSet = format!("{WIDE} via gcra").parse().map_err(ours)?;
        let keys = &self.server.keys;
        let subjects: Vec<(String, String)> = subjects()?
            .iter()
            .map(|subject| (subject.as_str().to_owned(), keys.state(subject, &limits)))
            .collect();
        let script = script(&limits)?;
        let options = Options::from_url(&self.url)?.deadline(PATIENCE);
        let store = RedisStore::builder(options).run_now(&self.run).connect().await?;
        let bare = connect_bare(&self.url).await?;
        self.server.owns(subjects.iter().map(|(_, key)| key));
        self.server.ask(redis::cmd("SCRIPT").arg("LOAD").arg(script.text()))?;
        Ok(Clients {
            limiter: Arc::new(Limiter::new(limits, store)),
            bare,
            script: Arc::new(script),
            subjects: subjects.into(),
        })
    }
}

impl Clients {
    /// This many checks by this many tasks, through [`Limiter::check`].
    pub(super) async fn ours(&self, tasks: usize, checks: usize) -> Result<(), StoreError> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut all = JoinSet::new();
        for _ in 0..tasks {
            let (limiter, subjects) = (Arc::clone(&self.limiter), Arc::clone(&self.subjects));
            let next = Arc::clone(&next);
            all.spawn(async move {
                while let Some((subject, _)) = turn(&next, checks, &subjects) {
                    let answer = limiter.check(subject.as_str()).await;
                    if !answer.map_err(|error| error.to_string())?.is_allowed() {
                        return Err("it was denied".to_owned());
                    }
                }
                Ok(())
            });
        }
        done(all).await
    }

    /// The same script for the same keys, by redis-rs alone: a command is packed, and the answer
    /// looked at.
    pub(super) async fn bare(&self, tasks: usize, checks: usize) -> Result<(), StoreError> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut all = JoinSet::new();
        for _ in 0..tasks {
            let (mut connection, script) = (self.bare.clone(), Arc::clone(&self.script));
            let (next, subjects) = (Arc::clone(&next), Arc::clone(&self.subjects));
            all.spawn(async move {
                while let Some((_, key)) = turn(&next, checks, &subjects) {
                    let mut command = redis::cmd("EVALSHA");
                    command.arg(script.sha()).arg(1).arg(key).arg(1).arg(1_u64 << 50);
                    let answer = connection.send_packed_command(&command).await;
                    let granted = match answer.map_err(|error| error.to_string())? {
                        Value::Array(list) => matches!(list[..], [_, Value::Int(1), ..]),
                        _ => false,
                    };
                    if !granted {
                        return Err("it was denied".to_owned());
                    }
                }
                Ok(())
            });
        }
        done(all).await
    }
}

/// The next side; `None` when all checks were asked.
fn turn<'s>(
    next: &AtomicUsize,
    checks: usize,
    subjects: &'s [(String, String)],
) -> Option<&'s (String, String)> {
    let turn = next.fetch_add(1, Ordering::Relaxed);
    if turn < checks { subjects.get(turn % subjects.len()) } else { None }
}

async fn done(mut all: JoinSet<Result<(), String>>) -> Result<(), StoreError> {
    while let Some(task) = all.join_next().await {
        let answer = task.unwrap_or_else(|error| Err(error.to_string()));
        answer.map_err(|error| StoreError::permanent(format!("a check failed: {error}")))?;
    }
    Ok(())
}
