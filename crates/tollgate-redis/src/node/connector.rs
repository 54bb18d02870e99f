//! Makes a connection: the socket, TLS, the login, the database.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::deadline::Deadline;
use super::reply_errors::{lost, refused};
use super::tls::Tls;
use super::wire::Wire;
use crate::event_loop::Stream;
use crate::fault::{ChargeState, Fault};
use crate::options::{Address, Endpoint, Options, Target};

/// How long the diagnosis of a failed connection may take.
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_millis(250);

/// How many loads of scripts may wait to be sent besides calls.
const LOAD_QUEUE_SLOTS: usize = 64;

/// The longest line that answers a command of the greeting.
const LONGEST_LINE: usize = 1_024;

/// A TLS record with an invalid handshake. A TLS server answers it with an alert; plain text it
/// would answer with a reset and no byte.
const BAD_HANDSHAKE: &[u8] = b"\x16\x03\x01\x00\x05hello";

/// The first byte of a TLS alert.
const ALERT: u8 = 0x15;

/// Whether the fault may come from TLS on a plain-text port, or the reverse.
fn is_suspicious(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Tls { .. }
            | Fault::Closed { .. }
            | Fault::Garbled { .. }
            | Fault::Unreachable { .. }
    )
}

/// Makes connections to one server; shared by all who need one.
pub(crate) struct Connector {
    pub(crate) options: Options,
    pub(crate) address: Address,
    /// The number of this node among those of a client.
    pub(super) number: usize,
    /// Built once: reading the machine's trusted authorities takes milliseconds.
    tls: Option<Tls>,
    /// Whether a server may answer the greeting with an error.
    any: bool,
    /// Whether a server must say that it is a primary.
    is_primary: bool,
}

impl Connector {
    /// For the one server that `options` name.
    pub(crate) fn new(options: Options) -> Result<Self, Fault> {
        match &options.target {
            Target::Server(address) => Self::to(address.clone(), options),
            _ => Err(Fault::NotOneServer),
        }
    }

    /// For a server at this address, with the login and the settings of `options`.
    pub(crate) fn to(address: Address, options: Options) -> Result<Self, Fault> {
        let tls = match &address {
            Address::Tcp { tls: true, .. } => {
                let failed = |why| Fault::Tls { address: address.to_string(), why };
                Some(Tls::new(&options).map_err(failed)?)
            }
            _ => None,
        };
        Ok(Self { options, address, number: 0, tls, any: false, is_primary: false })
    }

    /// The same for another server, with the same protocol.
    pub(crate) fn at(&self, endpoint: &Endpoint, number: usize) -> Self {
        let Endpoint { host, port } = endpoint.clone();
        Self {
            options: self.options.clone(),
            address: Address::Tcp { host, port, tls: self.tls.is_some() },
            number,
            tls: self.tls.clone(),
            any: self.any,
            is_primary: self.is_primary,
        }
    }

    /// The same, where a server must say on every connection that it is a primary.
    pub(crate) fn primaries_only(self) -> Self {
        Self { is_primary: true, ..self }
    }

    /// The same, but any answer will do, even an error: of a server that is loading, or requires a
    /// password.
    pub(super) fn lenient(self) -> Self {
        Self { any: true, ..self }
    }

    /// Connects within the timeout, and waits for one answer: the kernel accepts connections even
    /// for a frozen server. `ended` is called with true when the connection ends by itself, with
    /// false when its runtime shuts down.
    pub(super) async fn open(
        &self,
        id: u64,
        ended: impl FnOnce(bool) + Send + 'static,
    ) -> Result<Wire, Fault> {
        self.in_time(async {
            let stream = self.stream().await?;
            self.greet(stream, id, ended).await.map_err(|fault| self.unwelcome(fault))
        })
        .await
    }

    /// Waits for a connection no longer than the options say.
    async fn in_time<T>(
        &self,
        connecting: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let within = self.options.connect_timeout;
        timeout(within, connecting)
            .await
            .unwrap_or_else(|_| Err(self.unreachable(format!("no answer within {within:?}"))))
    }

    /// Connects within the timeout, logs in and selects the database, for a program that reads and
    /// writes the protocol itself.
    pub(crate) async fn bare(&self) -> Result<Box<dyn Stream>, Fault> {
        let connecting = self.in_time(async {
            let mut stream = self.stream().await?;
            for command in self.login() {
                let reply = line_after(&mut stream, &command).await;
                is_done(reply.map_err(|error| self.unreachable(reason(&error)))?)?;
            }
            Ok(stream)
        });
        self.diagnosed(connecting).await
    }

    /// Sends one command on a new connection, and returns the reply, which may be a server error.
    pub(crate) async fn ask(&self, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        let by = Deadline::within(within);
        self.wire_by(by).await?.exchange(command, by).await
    }

    /// As [`Connector::ask`], with commands in one write.
    pub(crate) async fn ask_all(
        &self,
        commands: &Pipeline,
        within: Duration,
    ) -> Result<Vec<Value>, Fault> {
        let by = Deadline::within(within);
        self.wire_by(by).await?.exchange_all(commands, by).await
    }

    /// A connection for one question.
    async fn wire_by(&self, by: Deadline) -> Result<Wire, Fault> {
        let opening = timeout_at(by.at, self.diagnosed(self.open(0, |_| {})));
        opening.await.unwrap_or_else(|_| Err(by.passed(ChargeState::NotCharged)))
    }

    /// Returns the result of `opening`. If that failed because of TLS on a plain-text port or the
    /// reverse, it returns that diagnosis instead. The diagnosis starts while `opening` still
    /// waits, so it needs no time beyond the timeout.
    pub(super) async fn diagnosed<T>(
        &self,
        opening: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let mut opening = pin!(opening);
        let early = self.options.connect_timeout.saturating_sub(DIAGNOSIS_TIMEOUT);
        if let Ok(opened) = timeout(early, &mut opening).await {
            return match opened {
                Err(fault) if is_suspicious(&fault) => Err(self.other().await.unwrap_or(fault)),
                opened => opened,
            };
        }
        let mut other = pin!(self.other());
        let mut named = None;
        let opened = poll_fn(|context| {
            let opened = opening.as_mut().poll(context);
            if opened.is_pending()
                && named.is_none()
                && let Poll::Ready(found) = other.as_mut().poll(context)
            {
                named = Some(found);
            }
            opened
        });
        match opened.await {
            Err(fault) if is_suspicious(&fault) => Err(named.flatten().unwrap_or(fault)),
            opened => opened,
        }
    }

    /// Tests whether the port speaks the other protocol, plain text or TLS. It connects once, and
    /// reads the first byte of the answer.
    async fn other(&self) -> Option<Fault> {
        let Address::Tcp { host, port, tls } = &self.address else { return None };
        let first = timeout(DIAGNOSIS_TIMEOUT, async {
            let mut stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.write_all(if *tls { b"PING\r\n" } else { BAD_HANDSHAKE }).await?;
            stream.read_u8().await
        });
        let address = self.address.to_string();
        match first.await {
            Ok(Ok(b'+' | b'-')) if *tls => Some(Fault::TlsToPlainPort { address }),
            Ok(Ok(ALERT)) if !*tls => Some(Fault::PlainToTlsPort { address }),
            _ => None,
        }
    }

    /// Why a greeting failed, where the server may have ended it for want of a certificate.
    fn unwelcome(&self, fault: Fault) -> Fault {
        let is_ended = matches!(fault, Fault::Closed { .. } | Fault::Garbled { .. });
        match self.tls.as_ref().filter(|_| is_ended).and_then(Tls::unwelcome) {
            Some(why) => Fault::Tls { address: self.address.to_string(), why: why.to_owned() },
            None => fault,
        }
    }

    pub(crate) fn unreachable(&self, why: impl Into<String>) -> Fault {
        Fault::Unreachable { address: self.address.to_string(), why: why.into() }
    }

    async fn stream(&self) -> Result<Box<dyn Stream>, Fault> {
        let failed = |error: io::Error| self.unreachable(reason(&error));
        match &self.address {
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await.map_err(failed)?;
                match &self.options.event_loop {
                    Some(it) => Ok(it.0.adopt(stream.into_std().map_err(failed)?.into())),
                    None => Ok(Box::new(stream)),
                }
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(self.unreachable("this system has no Unix sockets")),
            Address::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
                // A call is one small packet; Nagle's algorithm would double its latency (redis-rs
                // #2195).
                stream.set_nodelay(true).map_err(failed)?;
                let stream = self.carried(stream).map_err(failed)?;
                let Some(tls) = &self.tls else { return Ok(stream) };
                let failed = |why| Fault::Tls { address: self.address.to_string(), why };
                let name = ServerName::try_from(host.clone()).map_err(|_| {
                    failed("it is not a name that a certificate can be for".to_owned())
                })?;
                let connector = TlsConnector::from(Arc::clone(&tls.config));
                match connector.connect(name, stream).await {
                    Ok(stream) => Ok(Box::new(stream)),
                    // An error of rustls; all other errors are of the network, and may be
                    // transient.
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        Err(failed(tls.unwelcome().map_or(error.to_string(), str::to_owned)))
                    }
                    Err(error) => Err(self.unreachable(reason(&error))),
                }
            }
        }
    }

    /// The stream, as the loop that carries connections reads and writes it.
    fn carried(&self, stream: TcpStream) -> io::Result<Box<dyn Stream>> {
        #[cfg(unix)]
        if let Some(it) = &self.options.event_loop {
            return Ok(it.0.adopt(stream.into_std()?.into()));
        }
        Ok(Box::new(stream))
    }

    /// A separate connection that subscribes to channels.
    pub(crate) async fn listen(&self, channels: &[&str]) -> Result<PubSub, Fault> {
        self.in_time(async {
            let stream = self.stream().await?;
            let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
            if let Some(user) = &self.options.user {
                info = info.set_username(user);
            }
            if let Some(password) = &self.options.password {
                info = info.set_password(password);
            }
            let lost = |error: redis::RedisError| lost(&error, ChargeState::NotCharged);
            let mut line = PubSub::new(&info, stream).await.map_err(lost)?;
            line.subscribe(channels).await.map_err(lost)?;
            Ok(line)
        })
        .await
    }

    /// The commands that log in and select the database.
    fn login(&self) -> Vec<Cmd> {
        let mut commands = Vec::new();
        let Options { user, password, database, .. } = &self.options;
        if let Some(password) = password {
            let mut auth = redis::cmd("AUTH");
            if let Some(user) = user {
                auth.arg(user);
            }
            commands.push(auth.arg(password).take());
        }
        if *database != 0 {
            commands.push(redis::cmd("SELECT").arg(*database).take());
        }
        commands
    }

    /// Logs in, selects the database, and waits for one answer.
    async fn greet(
        &self,
        stream: Box<dyn Stream>,
        id: u64,
        ended: impl FnOnce(bool) + Send + 'static,
    ) -> Result<Wire, Fault> {
        let options = &self.options;
        // No timeout of redis-rs, since each call has our own timer. The queue has room for all
        // permitted calls and some loads of scripts, so that a permitted call never waits for room.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(options.in_flight.saturating_add(LOAD_QUEUE_SLOTS));
        // RESP2, and no commands by redis-rs itself: the errors of its greeting do not distinguish
        // a wrong password from a missing one.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
            .await
            .map_err(|error| lost(&error, ChargeState::NotCharged))?;
        let wire = Wire::new(id, connection, driver, ended, options, self.number);
        for command in self.login() {
            hello(&wire, &command).await?;
        }
        if self.is_primary {
            is_primary(&wire).await?;
        }
        match hello(&wire, &redis::cmd("PING")).await {
            // An error is an answer too, and a store needs no permission for PING.
            Err(Fault::NoPermission { .. }) => Ok(wire),
            Err(fault @ (Fault::Closed { .. } | Fault::Garbled { .. })) => Err(fault),
            Err(_) if self.any => Ok(wire),
            done => done.map(|()| wire),
        }
    }
}

/// Sends a command whose reply is one line, and reads no byte beyond it.
async fn line_after(stream: &mut Box<dyn Stream>, command: &Cmd) -> io::Result<Value> {
    stream.write_all(&command.get_packed_command()).await?;
    stream.flush().await?;
    let mut line = Vec::new();
    while !line.ends_with(b"\n") && line.len() < LONGEST_LINE {
        line.push(stream.read_u8().await?);
    }
    redis::parse_redis_value(&line).map_err(io::Error::other)
}

/// Whether the server says that it is a primary. One that was replaced may not know it yet, or may
/// have become a replica.
async fn is_primary(wire: &Wire) -> Result<(), Fault> {
    let role = match wire.greet(&redis::cmd("ROLE")).await? {
        Value::ServerError(error) => return Err(refused(&error)),
        Value::Array(role) => role,
        _ => return Err(Fault::Garbled { charge: ChargeState::NotCharged }),
    };
    match role.first() {
        Some(Value::BulkString(name)) if name == b"master" => Ok(()),
        _ => Err(Fault::NotPrimary),
    }
}

/// One command of the greeting.
async fn hello(wire: &Wire, command: &Cmd) -> Result<(), Fault> {
    is_done(wire.greet(command).await?)
}

/// Whether a command of the greeting succeeded.
fn is_done(reply: Value) -> Result<(), Fault> {
    match reply {
        Value::Okay | Value::SimpleString(_) => Ok(()),
        Value::ServerError(error) => Err(refused(&error)),
        _ => Err(Fault::Garbled { charge: ChargeState::NotCharged }),
    }
}

/// The system's error text, without the parts that name the address.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there".to_owned(),
        io::ErrorKind::NotFound => "there is no such socket".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}
