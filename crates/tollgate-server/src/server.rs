//! The life of a service: it starts, serves, and ends with what it has begun.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate::ParseError;
use tollgate_policy::{Gate, Problems, Reload, Reread, Watcher};
use tollgate_stores::AnyStore;
use tollgate_tower::Misconfiguration;
use tollgate_tower::identity::{Hashing, PathReading, Remark};

use crate::api::{Admin, Api, Auth, AuthOptions, Guard, MIN_TOKEN_BYTES, Origins, Workers};
use crate::http::Http;
use crate::listen::{Access, Address, Bound, Bounds, Listener, Registry};
use crate::metrics::{Metrics, Page};
use crate::queues::Queues;
use crate::recorder::Recorder;
use crate::reload::{Reader, ReloadError};
use crate::service::{CallerLimits, InlineLimits, MIN_KEY_BYTES, Receipts, Service};
use crate::timeseries::{TimeSeriesOptions, Writing};
use crate::tls::{Certificate, Tls, TlsError};

/// How many connections administrators have at once.
const ADMIN_CONNECTIONS: usize = 64;

/// How a service is set up.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Where clients ask: at least one address.
    pub listen: Vec<Address>,
    /// Where administrators do; none for nowhere.
    pub admin: Option<Address>,
    /// What they have to send, of at least 16 bytes. Beyond loopback there must be one.
    pub admin_token: Option<String>,
    /// What administrators may write as `Host` besides addresses and `localhost`, where there is no
    /// token: names that lead here.
    pub admin_hosts: Vec<String>,
    /// Pages of browsers that may ask, by their origins, as `https://app.example`.
    pub origins: Vec<String>,
    /// The file of the policies, for reading it again; none for policies of a program.
    pub config: Option<PathBuf>,
    /// How requests of proxies are read.
    pub auth: AuthOptions,
    /// Which inline limits callers may give.
    pub caller_limits: CallerLimits,
    /// How paths are read, wherever a request is told: as the server behind reads them.
    pub paths: PathReading,
    /// With what API keys are hashed, of at least 16 bytes; without it keys are taken to be random.
    pub key_secret: Option<Vec<u8>>,
    /// With what receipts are signed, of at least 32 bytes; without it by a key of this process.
    pub receipt_key: Option<Vec<u8>>,
    /// The certificate for clients; without it they come without TLS.
    pub tls: Option<Tls>,
    /// What connections may take.
    pub bounds: Bounds,
    /// How long requests are still taken after the service has said that it is not ready.
    pub linger: Duration,
    /// How long what was begun may take at the end.
    pub grace: Duration,
    /// The service's counters: those of [`Metrics::gate`], where the gate was made by it.
    pub metrics: Metrics,
    /// Where the counts of each second are written to, beside the service's own series.
    pub timeseries: Option<TimeSeriesOptions>,
    /// The queues that clients may offer to.
    pub queues: Queues,
    /// Whether clients may take jobs from them, too, and say what became of these.
    pub queue_workers: bool,
    /// What such clients have to send, of at least 16 bytes. Beyond loopback there must be one.
    pub worker_token: Option<String>,
}

impl fmt::Debug for Options {
    /// Of secrets only whether they are set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, admin, config, auth, paths, tls, bounds, linger, grace, .. } = self;
        f.debug_struct("Options")
            .field("listen", listen)
            .field("admin", admin)
            .field("admin_token", &self.admin_token.is_some())
            .field("admin_hosts", &self.admin_hosts)
            .field("origins", &self.origins)
            .field("config", config)
            .field("auth", auth)
            .field("caller_limits", &self.caller_limits)
            .field("paths", paths)
            .field("key_secret", &self.key_secret.is_some())
            .field("receipt_key", &self.receipt_key.is_some())
            .field("tls", tls)
            .field("bounds", bounds)
            .field("linger", linger)
            .field("grace", grace)
            .field("metrics", &self.metrics)
            .field("timeseries", &self.timeseries)
            .field("queue_workers", &self.queue_workers)
            .field("worker_token", &self.worker_token.is_some())
            .finish()
    }
}

impl Options {
    /// A service for clients at these addresses, without an admin front.
    #[must_use]
    pub fn new(listen: Vec<Address>) -> Self {
        Self {
            listen,
            admin: None,
            admin_token: None,
            admin_hosts: Vec::new(),
            origins: Vec::new(),
            config: None,
            auth: AuthOptions::default(),
            caller_limits: CallerLimits::default(),
            paths: PathReading::default(),
            key_secret: None,
            receipt_key: None,
            tls: None,
            bounds: Bounds::default(),
            linger: Duration::ZERO,
            grace: Duration::from_secs(10),
            metrics: Metrics::new(),
            timeseries: None,
            queues: Queues::default(),
            queue_workers: false,
            worker_token: None,
        }
    }
}

/// Why a service does not start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address that cannot be had.
    #[error("{address} cannot be listened on: {source}")]
    Bind {
        /// Which one.
        address: Address,
        /// What the system says.
        source: std::io::Error,
    },
    /// A set-up that makes no sense, with what would.
    #[error("{0}")]
    Options(String),
    /// A certificate or a key that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

tollgate::debug_as_display!(StartError);

impl From<ParseError> for StartError {
    fn from(error: ParseError) -> Self {
        Self::Options(error.to_string())
    }
}

/// How a service ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Stopping {
    /// How long it took.
    pub took: Duration,
    /// How many connections were closed before their end, when the grace was over.
    pub cut: usize,
}

/// A service that serves.
pub struct Server {
    api: Arc<Api>,
    /// The connections of clients, and those of administrators.
    registries: [Arc<Registry>; 2],
    reader: Reader,
    recorder: Recorder,
    writing: Option<Writing>,
    ending: watch::Sender<bool>,
    tasks: JoinSet<()>,
    addresses: Vec<Address>,
    admin: Option<Address>,
    certificate: Option<Arc<Certificate>>,
    linger: Duration,
    grace: Duration,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Server {
    /// Takes the addresses and begins to serve, in tasks of the runtime that this is called in.
    ///
    /// # Errors
    /// A set-up that makes no sense; an address that cannot be had; a certificate that cannot be
    /// used. Then nothing serves.
    pub async fn start(gate: Gate<AnyStore>, options: Options) -> Result<Self, StartError> {
        check(&options)?;
        let hashing = match &options.key_secret {
            Some(secret) => Hashing::keyed(secret)?,
            None => Hashing::plain_for_random_keys(),
        };
        // This machine is trusted without anybody having said so: whoever asks from here without
        // the headers of a proxy is none.
        let is_proxied = options.auth.trust != AuthOptions::default().trust;
        let told = move |mistake: &Misconfiguration| match mistake {
            Misconfiguration::Address(Remark::NoHeader) if !is_proxied => {}
            _ => tracing::warn!(target: "tollgate", "{mistake}"),
        };
        let auth = Auth::new(gate.clone(), options.auth.clone(), options.paths, hashing, told)?;
        let tls = options.tls.map(Certificate::read).transpose()?.map(Arc::new);
        let receipts = receipts(options.receipt_key.as_deref())?;
        // A place of their own: however many clients there are, an administrator gets in.
        let bounds = Bounds { connections: ADMIN_CONNECTIONS, ..options.bounds };
        let registries = [Registry::new(options.bounds), Registry::new(bounds)];
        let [registry, admin_registry] = &registries;
        let (outbox, writing) = options.timeseries.as_ref().map(TimeSeriesOptions::start).unzip();
        let recorder = Recorder::new(options.metrics.clone(), outbox);
        let (ending, ended) = watch::channel(false);
        let workers = Guard::new("a worker", "TOLLGATE_WORKER_TOKEN", options.worker_token)?;
        let guard = Guard::new("an administrator", "TOLLGATE_ADMIN_TOKEN", options.admin_token)?;
        // No page reaches a socket in the file system.
        let guard = match &options.admin {
            Some(Address::Tcp(_)) => guard.with_names(options.admin_hosts),
            _ => guard,
        };
        let tally = writing.as_ref().map(|writing| Arc::clone(writing.tally()));
        let limits = Arc::new(InlineLimits::default());
        let api = Arc::new(Api {
            service: Service::new(
                gate.clone(),
                receipts,
                options.paths,
                options.caller_limits,
                Arc::clone(&limits),
            ),
            auth,
            page: Page::new(
                options.metrics.clone(),
                gate.clone(),
                limits,
                registries.clone(),
                tally,
                options.queues.clone(),
            ),
            queues: options.queues.clone(),
            workers: Workers::new(options.queue_workers, workers, ended.clone()),
            origins: Origins::new(options.origins)?,
            metrics: options.metrics.clone(),
            open: AtomicBool::new(true),
        });
        let reader = Reader { gate: gate.clone(), path: options.config, metrics: options.metrics };
        // All of them before any serves: a service that is half there is worse than none.
        let mut bound = Vec::new();
        for address in &options.listen {
            bound.push(bind(address, Access::Everybody)?);
        }
        let admin = match &options.admin {
            Some(address) => Some(bind(address, Access::Owner)?),
            None => None,
        };
        let said = |bound: &Bound, asked: &Address| bound.address().unwrap_or(asked.clone());
        let addresses =
            bound.iter().zip(&options.listen).map(|(bound, asked)| said(bound, asked)).collect();
        let admin_address = admin.as_ref().zip(options.admin.as_ref()).map(|(b, a)| said(b, a));

        // So that they hold from the first request on; what fails is told by who follows them.
        let _ = gate.read_rulings().await;
        let mut tasks = JoinSet::new();
        tasks.spawn(recorder.clone().follow());
        tasks.spawn(options.queues.follow());
        tasks.spawn(async move { gate.follow_rulings(tokio::time::sleep).await });
        if let Some(certificate) = &tls {
            tasks.spawn(Arc::clone(certificate).follow());
        }
        tasks.spawn(Arc::clone(registry).watch());
        tasks.spawn(Arc::clone(admin_registry).watch());
        for bound in bound {
            let listener = Listener {
                protocol: Arc::new(Http(Arc::clone(&api))),
                registry: Arc::clone(registry),
                tls: tls.clone(),
                ending: ended.clone(),
            };
            tasks.spawn(listener.accept_all(bound));
        }
        if let Some(bound) = admin {
            let (api, reader, recorder) = (Arc::clone(&api), reader.clone(), recorder.clone());
            let listener = Listener {
                protocol: Arc::new(Http(Arc::new(Admin { api, guard, reader, recorder }))),
                registry: Arc::clone(admin_registry),
                // A token does not go over a network in the clear, where that can be helped.
                tls: tls
                    .clone()
                    .filter(|_| options.admin.as_ref().is_some_and(|it| !it.is_local())),
                ending: ended,
            };
            tasks.spawn(listener.accept_all(bound));
        }
        let (linger, grace) = (options.linger, options.grace);
        let admin = admin_address;
        Ok(Self {
            api,
            registries,
            reader,
            recorder,
            writing,
            ending,
            tasks,
            addresses,
            admin,
            certificate: tls,
            linger,
            grace,
        })
    }

    /// Where it listens for clients, with the ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where it listens for administrators.
    #[must_use]
    pub fn admin(&self) -> Option<&Address> {
        self.admin.as_ref()
    }

    /// Reads the file of the policies again, while requests are answered as before.
    ///
    /// # Errors
    /// There is no file, or it is broken: then what counted counts on.
    pub fn reload(&self) -> impl Future<Output = Result<Reread, ReloadError>> + Send + use<> {
        self.reader.clone().read()
    }

    /// Reads the certificate again, where there is one: connections that come take the new one. One
    /// that cannot be used is a line of the log, and the old one is used on. It is read on a thread
    /// of its own, as the policies are.
    pub fn reread_certificate(&self) -> impl Future<Output = ()> + Send + use<> {
        let certificate = self.certificate.clone();
        async move {
            if let Some(certificate) = certificate {
                // It ends with the runtime alone.
                let _ = tokio::task::spawn_blocking(move || certificate.reread()).await;
            }
        }
    }

    /// Follows the file of the policies until the watcher is dropped; none when there is no file.
    /// `told` is called on the watching thread, as [`Gate::watch`] does.
    ///
    /// # Errors
    /// As [`Gate::watch`].
    pub fn watch(
        &self,
        told: impl FnMut(&Reload) + Send + 'static,
    ) -> Result<Option<Watcher>, Problems> {
        self.reader.watch(told)
    }

    /// Ends: is not ready first, takes no more connections, finishes what was begun, and closes
    /// what is left after the grace. What is left of that, two seconds at most, is for writing the
    /// last counts into time series.
    pub async fn end(mut self) -> Stopping {
        let began = Instant::now();
        self.api.open.store(false, Ordering::Relaxed);
        tokio::time::sleep(self.linger).await;
        self.ending.send_replace(true);
        let [clients, administrators] = &self.registries;
        let emptied = async { tokio::join!(clients.emptied(), administrators.emptied()) };
        let cut = match tokio::time::timeout(self.grace, emptied).await {
            Ok(_) => 0,
            Err(_) => clients.end_all() + administrators.end_all(),
        };
        self.tasks.shutdown().await;
        self.recorder.end();
        if let Some(writing) = self.writing {
            writing.end((self.linger + self.grace).saturating_sub(began.elapsed())).await;
        }
        Stopping { took: began.elapsed(), cut }
    }
}

/// Refuses what would start and not be what was meant.
fn check(options: &Options) -> Result<(), StartError> {
    let refuse = |what: String| Err(StartError::Options(what));
    if options.listen.is_empty() {
        return refuse(
            "there is no address to listen on: give one, as `127.0.0.1:8700`".to_owned(),
        );
    }
    for (whose, token) in [("admin", &options.admin_token), ("worker", &options.worker_token)] {
        if let Some(token) = token.as_ref().filter(|it| it.len() < MIN_TOKEN_BYTES) {
            return refuse(format!(
                "the {whose} token has {} bytes, and needs {MIN_TOKEN_BYTES}: `openssl rand -hex \
                 16` makes one",
                token.len()
            ));
        }
    }
    if options.queue_workers
        && options.worker_token.is_none()
        && let Some(address) = options.listen.iter().find(|address| !address.is_local())
    {
        return refuse(format!(
            "everybody who reaches {address} could take the jobs of the queues: set \
             TOLLGATE_WORKER_TOKEN, or listen on 127.0.0.1"
        ));
    }
    if let Some(key) = options.receipt_key.as_ref().filter(|it| it.len() < MIN_KEY_BYTES) {
        return refuse(format!(
            "the key for receipts has {} bytes, and needs {MIN_KEY_BYTES}: `openssl rand -hex 32` \
             makes one",
            key.len()
        ));
    }
    match &options.admin {
        Some(address) if !address.is_local() && options.admin_token.is_none() => refuse(format!(
            "the admin front would be open to everybody who reaches {address}: set \
             TOLLGATE_ADMIN_TOKEN, or listen on 127.0.0.1"
        )),
        _ => Ok(()),
    }
}

fn bind(address: &Address, access: Access) -> Result<Bound, StartError> {
    address.bind(access).map_err(|source| StartError::Bind { address: address.clone(), source })
}

fn receipts(key: Option<&[u8]>) -> Result<Receipts, StartError> {
    let own;
    let key = match key {
        Some(key) => key,
        None => {
            own = rand::random::<[u8; 32]>();
            &own
        }
    };
    let refused = || StartError::Options("this key signs no receipts".to_owned());
    Receipts::new(key).ok_or_else(refused)
}
