//! The lifecycle of a service: it starts, serves requests, and finishes started requests when it
//! stops.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_policy::{Gate, Problems, Reload, Reread, Watcher};
use tollgate_stores::AnyStore;
use tollgate_tower::Misconfiguration;
use tollgate_tower::identity::{Hashing, Remark};

use crate::api::{Admin, Api, Auth, Guard, Origins, Workers, requests};
use crate::auth_options::AuthOptions;
use crate::console::{History, Overview, Sources};
use crate::grpc::{Front, Grpc, Rls};
use crate::http::Http;
use crate::listen::{Access, Address, Bound, Bounds, Listener, Registry, Runtimes, sockets_left};
use crate::metrics::Page;
use crate::options::Options;
use crate::recorder::Recorder;
use crate::reload::{Reader, ReloadError};
#[cfg(feature = "resp")]
use crate::resp::{Resp, Shared, Users};
use crate::service::{InlineLimits, Reading, Receipts, Service};
use crate::settings;
use crate::start_error::StartError;
use crate::timeseries::{TimeSeriesOptions, Writing};
use crate::tls::Certificate;

/// How long a connection that is accepted at the end may take for its request.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most connections of administrators that are open at once.
const ADMIN_CONNECTIONS: usize = 64;

/// How a service stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Stopping {
    /// How long the shutdown took.
    pub took: Duration,
    /// The connections still open at the end of the grace period, which the service closed.
    pub cut: usize,
}

/// A running service.
pub struct Server {
    api: Arc<Api>,
    /// The connections of clients, then those of administrators.
    registries: [Arc<Registry>; 2],
    reader: Reader,
    recorder: Recorder,
    writing: Option<Writing>,
    ending: watch::Sender<bool>,
    tasks: JoinSet<()>,
    /// The accept loops, which end by themselves once the service does.
    listeners: JoinSet<()>,
    addresses: Vec<Address>,
    #[cfg(feature = "resp")]
    resp: Vec<Address>,
    grpc: Option<Grpc>,
    grpc_addresses: Vec<Address>,
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
    /// Binds the addresses and starts to serve, in tasks of the current Tokio runtime.
    ///
    /// # Errors
    /// Invalid settings, an address that cannot be bound, or a certificate that cannot be used. In
    /// each case the service does not listen on any address.
    pub async fn start(gate: Gate<AnyStore>, options: Options) -> Result<Self, StartError> {
        settings::check(&options)?;
        if let Some(address) = settings::open_grpc(&options) {
            tracing::warn!(
                target: "tollgate",
                "everybody who reaches {address} can spend the counts over gRPC, unencrypted: \
                 serve it with --tls-cert, --tls-key and --tls-client-ca, or on 127.0.0.1"
            );
        }
        let hashing = match &options.key_secret {
            Some(secret) => Hashing::keyed(secret)?,
            None => Hashing::plain_for_random_keys(),
        };
        // Loopback is trusted by default, not by configuration: a local client that sends no proxy
        // headers is not a proxy.
        let is_proxied = options.auth.trust != AuthOptions::default().trust;
        let told = move |mistake: &Misconfiguration| match mistake {
            Misconfiguration::Address(Remark::NoHeader) if !is_proxied => {}
            _ => tracing::warn!(target: "tollgate", "{mistake}"),
        };
        if options.admin.is_some() {
            options.metrics.count_subjects(options.key_secret.as_deref())?;
        }
        let keys = hashing.clone();
        // False where the program has set it: its function stays.
        let _ = gate.hash_api_keys(move |key| keys.hash(key.as_bytes()).into());
        let keys = hashing.clone();
        let auth = Auth::new(gate.clone(), options.auth.clone(), options.paths, keys, told)?;
        let tls = options.tls.map(Certificate::read).transpose()?.map(Arc::new);
        let receipts = Receipts::new(options.receipt_key.as_deref(), gate.store())
            .ok_or_else(|| StartError::Options("this key signs no receipts".to_owned()))?;
        // A separate bound: administrators can connect even when clients use all their connections.
        let bounds = Bounds { connections: ADMIN_CONNECTIONS, ..options.bounds };
        let runtimes = Runtimes::new(options.runtimes);
        let registries = [Registry::new(options.bounds), Registry::new(bounds)];
        let [registry, admin_registry] = &registries;
        let (outbox, writing) = options.timeseries.as_ref().map(TimeSeriesOptions::start).unzip();
        let recorder = Recorder::new(options.metrics.clone(), outbox);
        let (ending, ended) = watch::channel(false);
        let workers = Guard::new("a worker", "TOLLGATE_WORKER_TOKEN", options.worker_token)?;
        let guard = Guard::new("an administrator", "TOLLGATE_ADMIN_TOKEN", options.admin_token)?;
        let guard = guard.with_own_pages();
        // A web page cannot reach a unix socket.
        let guard = match &options.admin {
            Some(address) if address.is_tcp() => guard.with_names(options.admin_hosts),
            _ => guard,
        };
        #[cfg(feature = "resp")]
        let users = Users::new(options.resp_users)?;
        let tally = writing.as_ref().map(|writing| Arc::clone(writing.tally()));
        let limits = Arc::new(InlineLimits::default());
        let rls =
            Rls::new(&options.envoy, &options.auth, options.config.as_ref(), &options.metrics)?;
        let rls = Arc::new(rls);
        let service = Service::new(
            gate.clone(),
            receipts,
            Reading { paths: options.paths, keys: hashing },
            options.caller_limits,
            Arc::clone(&limits),
            options.metrics.deliveries(),
        );
        let service = Arc::new(service.with_caller_waiting(options.caller_waiting));
        let api = Arc::new(Api {
            service: Arc::clone(&service),
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
            rls: Arc::clone(&rls),
            workers: Workers::new(options.queue_workers, workers, ended.clone()),
            origins: Origins::new(options.origins)?,
            metrics: options.metrics.clone(),
            requests: options.metrics.front(requests()),
            open: AtomicBool::new(true),
        });
        let history = Arc::new(History::new(gate.policies()));
        let reader = Reader {
            gate: gate.clone(),
            path: options.config,
            metrics: options.metrics,
            history: Arc::clone(&history),
        };
        // Bind all addresses before any of them serves: a partly running service is worse than
        // none.
        let everybody = |address| bind(address, Access::Everybody);
        let bound: Vec<_> = options.listen.iter().map(everybody).collect::<Result<_, _>>()?;
        #[cfg(feature = "resp")]
        let for_resp: Vec<_> = options.resp.iter().map(everybody).collect::<Result<_, _>>()?;
        let for_grpc: Vec<_> = options.grpc.iter().map(everybody).collect::<Result<_, _>>()?;
        let admin = match &options.admin {
            Some(address) => Some(bind(address, Access::Owner)?),
            None => None,
        };
        for name in sockets_left() {
            tracing::warn!(
                target: "tollgate",
                "systemd passed the socket `{name}`, and no address names it (`systemd:{name}`): \
                 its clients wait in vain"
            );
        }
        let said = |bound: &Bound, asked: &Address| bound.address().unwrap_or(asked.clone());
        let all_said = |bound: &[Bound], asked: &[Address]| {
            bound.iter().zip(asked).map(|(bound, asked)| said(bound, asked)).collect()
        };
        let addresses = all_said(&bound, &options.listen);
        #[cfg(feature = "resp")]
        let resp = all_said(&for_resp, &options.resp);
        let grpc_addresses = all_said(&for_grpc, &options.grpc);
        let admin_address = admin.as_ref().zip(options.admin.as_ref()).map(|(b, a)| said(b, a));

        // Rulings apply from the first request. The task that follows them logs a failure.
        if gate.store().has_connected() {
            let _ = gate.admin().read_rulings().await;
            service.share_key().await;
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(recorder.clone().follow());
        tasks.spawn(options.queues.clone().follow());
        tasks.spawn(give_back_leases(gate.store().clone()));
        let (servers, store) = (api.metrics.servers(), gate.store().clone());
        tasks.spawn(async move { servers.follow(store).await });
        tasks.spawn(follow_notices(gate, Arc::clone(&service)));
        let certificate = tls.clone();
        if let Some(certificate) = &certificate {
            tasks.spawn(Arc::clone(certificate).follow());
        }
        tasks.spawn(Arc::clone(registry).watch());
        tasks.spawn(Arc::clone(admin_registry).watch());
        let mut listeners = JoinSet::new();
        let clients = Listener {
            protocol: (),
            registry: Arc::clone(registry),
            runtimes,
            tls,
            ending: ended,
            patience: PATIENCE.min(options.grace / 2),
        };
        for bound in bound {
            listeners.spawn(clients.of(Http(Arc::clone(&api))).accept_all(bound));
        }
        #[cfg(feature = "resp")]
        let shared =
            Shared::new(Arc::clone(&service), api.metrics.clone(), users, Arc::clone(registry));
        #[cfg(feature = "resp")]
        let shared = Arc::new(shared);
        #[cfg(feature = "resp")]
        for bound in for_resp {
            listeners.spawn(clients.of(Resp(Arc::clone(&shared))).accept_all(bound));
        }
        tasks.spawn(Arc::clone(&rls).follow());
        let grpc = if for_grpc.is_empty() {
            None
        } else {
            let (max_age, budget) = (options.envoy.max_age, registry.budget());
            let front = Front::new(Arc::clone(&service), rls, api.metrics.clone());
            Some(Grpc::new(front, budget, options.bounds, max_age, options.grace).await?)
        };
        let grpc_runtimes = match options.grpc_runtimes.is_empty() {
            true => clients.runtimes.clone(),
            false => Runtimes::new(options.grpc_runtimes),
        };
        for (bound, protocol) in for_grpc.into_iter().zip(core::iter::repeat(&grpc)) {
            let Some(protocol) = protocol.clone() else { continue };
            let runtimes = grpc_runtimes.clone();
            let listener = Listener { runtimes, ..clients.of(protocol) };
            listeners.spawn(listener.accept_all(bound));
        }
        if let Some(bound) = admin {
            tasks.spawn(api.metrics.clone().follow_top());
            let (api, reader, recorder) = (Arc::clone(&api), reader.clone(), recorder.clone());
            let overview = Overview::new(Sources {
                service,
                metrics: api.metrics.clone(),
                queues: options.queues,
                recorder: recorder.clone(),
                history,
            });
            let admin = Http(Arc::new(Admin { api, guard, reader, recorder, overview }));
            let listener = Listener {
                registry: Arc::clone(admin_registry),
                // Protect the token with TLS on a network where a certificate is configured.
                tls: certificate
                    .clone()
                    .filter(|_| options.admin.as_ref().is_some_and(|it| !it.is_local())),
                ..clients.of(admin)
            };
            listeners.spawn(listener.accept_all(bound));
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
            listeners,
            addresses,
            #[cfg(feature = "resp")]
            resp,
            grpc,
            grpc_addresses,
            admin,
            certificate,
            linger,
            grace,
        })
    }

    /// The client addresses, with the ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The addresses of the Redis protocol, with the ports that the system chose.
    #[cfg(feature = "resp")]
    #[must_use]
    pub fn resp(&self) -> &[Address] {
        &self.resp
    }

    /// The addresses of gRPC, with the ports that the system chose.
    #[must_use]
    pub fn grpc(&self) -> &[Address] {
        &self.grpc_addresses
    }

    /// The first by name of the domains that have rules of Envoy's service.
    #[must_use]
    pub fn envoy_domain(&self) -> Option<String> {
        self.api.rls.domain()
    }

    /// The address of the admin API.
    #[must_use]
    pub fn admin(&self) -> Option<&Address> {
        self.admin.as_ref()
    }

    /// Reloads the policy file while the service continues to answer requests.
    ///
    /// # Errors
    /// There is no policy file, or the file is invalid. The current policies then stay in force.
    pub fn reload(&self) -> impl Future<Output = Result<Reread, ReloadError>> + Send + use<> {
        self.reader.clone().read()
    }

    /// Reloads the TLS certificate, if there is one; new connections use it. If the new certificate
    /// cannot be used, the error is logged and the old one stays in use. The files are read on a
    /// blocking thread, like the policy file.
    pub fn reread_certificate(&self) -> impl Future<Output = ()> + Send + use<> {
        let certificate = self.certificate.clone();
        async move {
            if let Some(certificate) = certificate {
                // The task fails only when the runtime shuts down.
                let _ = tokio::task::spawn_blocking(move || certificate.reread()).await;
            }
        }
    }

    /// Reads Envoy's rules again, and logs the outcome. Broken ones leave the old ones in force.
    pub fn reread_rules(&self) -> impl Future<Output = ()> + Send + use<> {
        Arc::clone(&self.api.rls).reread()
    }

    /// Watches the policy file until the watcher is dropped; `None` when there is no file. As in
    /// [`Gate::watch`], `told` is called on the watching thread.
    ///
    /// # Errors
    /// The errors of [`Gate::watch`].
    pub fn watch(
        &self,
        told: impl FnMut(&Reload) + Send + 'static,
    ) -> Result<Option<Watcher>, Problems> {
        self.reader.watch(told)
    }

    /// Shuts down: reports not ready, accepts the connections that still wait for it and no further
    /// ones, finishes started requests, and closes the remaining connections after the grace
    /// period. The last counts are written to the time series in what is left of the linger and
    /// grace periods, at most 2 s.
    pub async fn end(mut self) -> Stopping {
        let began = Instant::now();
        self.api.open.store(false, Ordering::Relaxed);
        if let Some(grpc) = &self.grpc {
            grpc.closes().await;
        }
        if !self.linger.is_zero() {
            tokio::time::sleep(self.linger).await;
        }
        self.ending.send_replace(true);
        let [clients, administrators] = &self.registries;
        let emptied = async {
            // Connections that waited to be accepted are among those that are waited for.
            while self.listeners.join_next().await.is_some() {}
            tokio::join!(clients.emptied(), administrators.emptied())
        };
        let cut = match tokio::time::timeout(self.grace, emptied).await {
            Ok(_) => 0,
            Err(_) => clients.end_all() + administrators.end_all(),
        };
        self.tasks.shutdown().await;
        // As long as one question may take: what is not given back is only wasted.
        let all = self.reader.gate.store().give_back(true);
        let _ = tokio::time::timeout(GIVE_BACK_TIME, all).await;
        self.recorder.end();
        if let Some(writing) = self.writing {
            writing.end((self.linger + self.grace).saturating_sub(began.elapsed())).await;
        }
        Stopping { took: began.elapsed(), cut }
    }
}

/// How often units are given back that leases did not spend.
const GIVE_BACK_PAUSE: Duration = Duration::from_secs(1);

/// How long the end of a service waits for units to be given back.
const GIVE_BACK_TIME: Duration = Duration::from_secs(1);

/// Gives back what leases did not spend, now and then.
async fn give_back_leases(store: AnyStore) {
    loop {
        tokio::time::sleep(GIVE_BACK_PAUSE).await;
        store.give_back(false).await;
    }
}

/// Follows the rulings in the store, and the key that signs receipts beside them.
async fn follow_notices(gate: Gate<AnyStore>, service: Arc<Service>) {
    let service = &*service;
    // Before that the start was logged, and rulings are unknown.
    gate.store().connected().await;
    let wait = move |pause| async move {
        service.share_key().await;
        tokio::time::sleep(pause).await;
    };
    gate.admin().follow_rulings(wait).await;
}

fn bind(address: &Address, access: Access) -> Result<Bound, StartError> {
    address.bind(access).map_err(|source| StartError::Bind { address: address.clone(), source })
}
