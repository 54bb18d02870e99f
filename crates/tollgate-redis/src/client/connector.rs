//! How a connection is made: the socket, TLS, the password, the database.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::reply_errors::{lost, refused};
use super::wire::Wire;
use crate::fault::{ChargeState, Fault};
use crate::options::{Address, Options};

/// How long finding out what went wrong may take, where a connection cannot be made.
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_millis(250);

/// How many loads of scripts may wait to be sent beside the questions.
const LOAD_QUEUE_SLOTS: usize = 64;

/// A record of TLS with a handshake that is none. Whoever speaks TLS says so in an alert; to plain
/// text it would answer with a reset and not a byte.
const BAD_HANDSHAKE: &[u8] = b"\x16\x03\x01\x00\x05hello";

/// The byte that begins an alert of TLS.
const ALERT: u8 = 0x15;

/// Whether it may come from speaking TLS to a plain port or the other way round.
fn is_suspicious(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Tls { .. }
            | Fault::Closed { .. }
            | Fault::Garbled { .. }
            | Fault::Unreachable { .. }
    )
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Knows how to connect. Shared by everything that does.
pub(crate) struct Connector {
    pub(super) options: Options,
    /// Set up once: reading the machine's authorities takes milliseconds.
    tls: Option<Arc<ClientConfig>>,
    /// Whether a server may answer the greeting with an error.
    any: bool,
}

impl Connector {
    pub(super) fn new(options: Options) -> Result<Self, Fault> {
        let tls = match &options.address {
            Address::Tcp { tls: true, .. } => {
                let failed = |why| Fault::Tls { address: options.address.to_string(), why };
                Some(Arc::new(tls_config(options.authorities.as_deref()).map_err(failed)?))
            }
            _ => None,
        };
        Ok(Self { options, tls, any: false })
    }

    /// The same, to a server that may answer with an error as long as it answers: one that is
    /// loading, or wants a password.
    pub(super) fn lenient(self) -> Self {
        Self { any: true, ..self }
    }

    /// Connects, within the timeout, and has had one answer when it returns: a frozen server
    /// accepts connections too, for the kernel does it. `ended` is called when the connection
    /// has ended by itself (true), or with its runtime (false).
    pub(super) async fn open(
        &self,
        id: u64,
        ended: impl FnOnce(bool) + Send + 'static,
    ) -> Result<Wire, Fault> {
        let within = self.options.connect_timeout;
        let connecting = async {
            let stream = self.stream().await?;
            self.greet(stream, id, ended).await
        };
        timeout(within, connecting)
            .await
            .unwrap_or_else(|_| Err(self.unreachable(format!("no answer within {within:?}"))))
    }

    /// What `opening` opens, or what it fails of: also when that comes from speaking TLS to a plain
    /// port or the other way round. Finding that out takes no more than the timeout: it begins
    /// while `opening` still waits.
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

    /// What is wrong with the address, if its port speaks the other one: it is spoken to so once,
    /// and the first byte looked at.
    async fn other(&self) -> Option<Fault> {
        let Address::Tcp { host, port, tls } = &self.options.address else { return None };
        let first = timeout(DIAGNOSIS_TIMEOUT, async {
            let mut stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.write_all(if *tls { b"PING\r\n" } else { BAD_HANDSHAKE }).await?;
            stream.read_u8().await
        });
        let address = self.options.address.to_string();
        match first.await {
            Ok(Ok(b'+' | b'-')) if *tls => Some(Fault::TlsToPlainPort { address }),
            Ok(Ok(ALERT)) if !*tls => Some(Fault::PlainToTlsPort { address }),
            _ => None,
        }
    }

    pub(super) fn unreachable(&self, why: impl Into<String>) -> Fault {
        Fault::Unreachable { address: self.options.address.to_string(), why: why.into() }
    }

    async fn stream(&self) -> Result<Box<dyn Stream>, Fault> {
        let failed = |error: io::Error| self.unreachable(reason(&error));
        match &self.options.address {
            #[cfg(unix)]
            Address::Unix(path) => {
                Ok(Box::new(tokio::net::UnixStream::connect(path).await.map_err(failed)?))
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(self.unreachable("this system has no Unix sockets")),
            Address::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
                // A question is one small packet: held back for the next it would double the
                // time of an answer (redis-rs #2195).
                stream.set_nodelay(true).map_err(failed)?;
                let Some(config) = &self.tls else { return Ok(Box::new(stream)) };
                let failed = |why| Fault::Tls { address: self.options.address.to_string(), why };
                let name = ServerName::try_from(host.clone()).map_err(|_| {
                    failed("it is no name that a certificate can be for".to_owned())
                })?;
                let connector = TlsConnector::from(Arc::clone(config));
                match connector.connect(name, stream).await {
                    Ok(stream) => Ok(Box::new(stream)),
                    // What rustls objects to; all else is the network, and may pass.
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        Err(failed(error.to_string()))
                    }
                    Err(error) => Err(self.unreachable(reason(&error))),
                }
            }
        }
    }

    /// A connection of its own that hears what is said on a channel.
    pub(crate) async fn listen(&self, channel: &str) -> Result<PubSub, Fault> {
        let within = self.options.connect_timeout;
        let listening = async {
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
            line.subscribe(channel).await.map_err(lost)?;
            Ok(line)
        };
        timeout(within, listening)
            .await
            .unwrap_or_else(|_| Err(self.unreachable(format!("no answer within {within:?}"))))
    }

    /// Names the user and the database, and waits for one answer.
    async fn greet(
        &self,
        stream: Box<dyn Stream>,
        id: u64,
        ended: impl FnOnce(bool) + Send + 'static,
    ) -> Result<Wire, Fault> {
        let options = &self.options;
        // No timeout of redis-rs: every question has one timer, ours. Its queue is as long as
        // there are places, and some loads of scripts, so that a question with a place never
        // waits to be sent.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(options.in_flight.saturating_add(LOAD_QUEUE_SLOTS));
        // RESP2, and not a word said by redis-rs itself: the errors of its own greeting do not
        // tell a wrong password from a missing one.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
            .await
            .map_err(|error| lost(&error, ChargeState::NotCharged))?;
        let wire = Wire::new(id, connection, driver, ended, options.in_flight);
        if let Some(password) = &options.password {
            let mut auth = redis::cmd("AUTH");
            if let Some(user) = &options.user {
                auth.arg(user);
            }
            hello(&wire, auth.arg(password)).await?;
        }
        if options.database != 0 {
            hello(&wire, redis::cmd("SELECT").arg(options.database)).await?;
        }
        match hello(&wire, &redis::cmd("PING")).await {
            // It is an answer all the same, and a store needs no PING.
            Err(Fault::NoPermission { .. }) => Ok(wire),
            Err(fault @ (Fault::Closed { .. } | Fault::Garbled { .. })) => Err(fault),
            Err(_) if self.any => Ok(wire),
            done => done.map(|()| wire),
        }
    }
}

/// One command of the greeting.
async fn hello(wire: &Wire, command: &Cmd) -> Result<(), Fault> {
    match wire.greet(command).await? {
        Value::Okay | Value::SimpleString(_) => Ok(()),
        Value::ServerError(error) => Err(refused(&error)),
        _ => Err(Fault::Garbled { charge: ChargeState::NotCharged }),
    }
}

/// What the system says, without the parts that name what was asked.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there".to_owned(),
        io::ErrorKind::NotFound => "there is no such socket".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// TLS with ring, whatever the process has chosen for itself, or whether it has.
fn tls_config(authorities: Option<&[u8]>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = authorities {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("an authority: {error:?}"))?;
            roots.add(certificate).map_err(|error| format!("an authority: {error}"))?;
        }
    } else {
        // One that cannot be read is no reason to trust none of the others.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err("there is no authority that could be trusted: install `ca-certificates`, or \
                    name a file with SSL_CERT_FILE"
            .to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
