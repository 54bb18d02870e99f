//! The driver over connections: one for each client, asked at once or again and again.

use std::collections::HashMap;
use std::future::Future;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tollgate_proof::history::CallOutcome;
use tollgate_proof::judge::{Abilities, Ask, Disturbance, Driver, DriverError, Flood, Reply};

use super::clock::Clock;
use super::reading::{Answer, Reading};

/// How long a reply may take. Later, nobody knows whether it was charged.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long a question that gets no reader has to be written.
const WRITTEN: Duration = Duration::from_millis(2);

/// A protocol.
pub(super) trait Protocol: Send + Sync + 'static {
    /// A connection of one client.
    type Connection: Send + 'static;

    fn connect(&self) -> impl Future<Output = Result<Self::Connection>> + Send;

    /// Asks one question. An error means that nobody knows whether it was charged.
    fn ask(
        &self,
        connection: &mut Self::Connection,
        ask: &Ask,
        reading: &Reading,
    ) -> impl Future<Output = Result<Answer>> + Send;

    /// Sends a question, and reads no reply.
    fn send(
        &self,
        connection: &mut Self::Connection,
        ask: &Ask,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// Lets a question be written by the task of its connection, and drops the reply.
pub(super) async fn unread<T>(reply: impl Future<Output = T>) {
    let _ = tokio::time::timeout(WRITTEN, reply).await;
}

/// A limiter behind connections.
pub(super) struct Network<P: Protocol> {
    runtime: Runtime,
    shared: Arc<Shared<P>>,
    connections: HashMap<usize, P::Connection>,
    able: Abilities,
    /// The command that restarts the limiter.
    restart: Option<String>,
}

struct Shared<P> {
    protocol: P,
    reading: Reading,
    clock: Clock,
}

/// A client's part of a round: its connection, and its questions in order.
struct Lane<P: Protocol> {
    connection: Option<P::Connection>,
    asks: Vec<(usize, Ask)>,
}

impl<P: Protocol> Network<P> {
    /// Connects once, so that a wrong address is known before anything is asked.
    pub(super) fn open(
        protocol: P,
        reading: Reading,
        able: Abilities,
        restart: Option<String>,
    ) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no runtime can be started")?;
        let shared = Arc::new(Shared { protocol, reading, clock: Clock::new() });
        let first = runtime.block_on(shared.protocol.connect())?;
        let connections = HashMap::from([(0, first)]);
        Ok(Self { runtime, shared, connections, able, restart })
    }
}

impl<P: Protocol> Shared<P> {
    /// Asks on a connection, which is opened where there is none. After an error it is closed: the
    /// next reply on it would be that of another question.
    async fn ask(&self, held: &mut Option<P::Connection>, ask: &Ask) -> Result<Reply, DriverError> {
        let mut connection = match held.take() {
            Some(connection) => connection,
            None => {
                self.protocol.connect().await.map_err(|e| DriverError::new(format!("{e:#}")))?
            }
        };
        let invoked_us = self.clock.now_us();
        if ask.lose {
            // A connection that cannot be written to has charged nothing either.
            let _ = self.protocol.send(&mut connection, ask).await;
            let returned_us = self.clock.now_us();
            let outcome = CallOutcome::Unknown;
            return Ok(Reply { outcome, decided_us: None, invoked_us, returned_us });
        }
        let asking = self.protocol.ask(&mut connection, ask, &self.reading);
        let answer = tokio::time::timeout(PATIENCE, asking).await;
        let returned_us = self.clock.now_us();
        let Ok(Ok(answer)) = answer else {
            let outcome = CallOutcome::Unknown;
            return Ok(Reply { outcome, decided_us: None, invoked_us, returned_us });
        };
        *held = Some(connection);
        let Answer { outcome, decided_us } = answer;
        Ok(Reply { outcome, decided_us, invoked_us, returned_us })
    }
}

impl<P: Protocol> Driver for Network<P> {
    fn abilities(&self) -> Abilities {
        self.able
    }

    fn ask(&mut self, asks: &[Ask]) -> Result<Vec<Reply>, DriverError> {
        let mut lanes: HashMap<usize, Lane<P>> = HashMap::new();
        for (place, ask) in asks.iter().enumerate() {
            let lane = lanes.entry(ask.client).or_insert_with(|| Lane {
                connection: self.connections.remove(&ask.client),
                asks: Vec::new(),
            });
            lane.asks.push((place, ask.clone()));
        }
        let mut replies: Vec<Option<Reply>> = vec![None; asks.len()];
        let connections = &mut self.connections;
        self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for (client, mut lane) in lanes {
                let shared = Arc::clone(&self.shared);
                running.spawn(async move {
                    let mut found = Vec::new();
                    for (place, ask) in &lane.asks {
                        found.push((*place, shared.ask(&mut lane.connection, ask).await?));
                    }
                    Ok::<_, DriverError>((client, lane.connection, found))
                });
            }
            while let Some(done) = running.join_next().await {
                let (client, connection, found) =
                    done.map_err(|error| DriverError::new(error.to_string()))??;
                connections.extend(connection.map(|connection| (client, connection)));
                for (place, reply) in found {
                    if let Some(slot) = replies.get_mut(place) {
                        *slot = Some(reply);
                    }
                }
            }
            Ok::<_, DriverError>(())
        })?;
        Ok(replies.into_iter().flatten().collect())
    }

    fn flood(&mut self, flood: &Flood) -> Result<Vec<(usize, Reply)>, DriverError> {
        let each = flood.most / flood.clients.max(1);
        let mut all = Vec::new();
        let connections = &mut self.connections;
        self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for client in 0..flood.clients {
                let shared = Arc::clone(&self.shared);
                let mut connection = connections.remove(&client);
                let (mut ask, until_us) = (Ask { client, ..flood.ask.clone() }, flood.until_us);
                running.spawn(async move {
                    let mut replies = Vec::new();
                    while replies.len() < each {
                        // Each is a question of its own, also by its request id.
                        ask.id = u64::try_from(client * each + replies.len()).unwrap_or(0);
                        let reply = shared.ask(&mut connection, &ask).await?;
                        let is_over = reply.returned_us >= until_us;
                        replies.push(reply);
                        if is_over {
                            break;
                        }
                    }
                    Ok::<_, DriverError>((client, connection, replies))
                });
            }
            while let Some(done) = running.join_next().await {
                let (client, connection, replies) =
                    done.map_err(|error| DriverError::new(error.to_string()))??;
                connections.extend(connection.map(|connection| (client, connection)));
                all.extend(replies.into_iter().map(|reply| (client, reply)));
            }
            Ok::<_, DriverError>(())
        })?;
        Ok(all)
    }

    fn disturb(&mut self, disturbance: Disturbance) -> Result<(), DriverError> {
        let Some(restart) = self.restart.as_ref().filter(|_| disturbance == Disturbance::Restart)
        else {
            return Err(DriverError::new("it cannot be disturbed"));
        };
        let status = Command::new("sh").args(["-c", restart]).status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(DriverError::new(format!("--restart `{restart}`: {status}"))),
            Err(error) => return Err(DriverError::new(format!("--restart `{restart}`: {error}"))),
        }
        self.connections.clear();
        let until_us = self.now_us() + 10_000_000;
        // It listens a while after the command: until then connections are refused.
        loop {
            match self.runtime.block_on(self.shared.protocol.connect()) {
                Ok(connection) => {
                    self.connections.insert(0, connection);
                    return Ok(());
                }
                Err(error) if self.now_us() > until_us => {
                    return Err(DriverError::new(format!("after --restart: {error:#}")));
                }
                Err(_) => self.sleep_until(self.now_us() + 20_000),
            }
        }
    }

    fn now_us(&self) -> u64 {
        self.shared.clock.now_us()
    }

    fn sleep_until(&mut self, until_us: u64) {
        self.shared.clock.sleep_until(until_us);
    }
}
