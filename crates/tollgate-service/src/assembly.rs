//! A service is put together from its settings: the gate for its fronts, and the fronts.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_policy::Gate;
use tollgate_stores::AnyStore;
use tollgate_tower::Misconfiguration;
use tollgate_tower::identity::{Hashing, Remark};

use crate::api::{Admin, Api, Auth, Guard, Origins, Workers, requests};
use crate::auth_options::AuthOptions;
use crate::console::{History, Overview, Peers, Sources};
use crate::denials::{SubjectForm, Subjects};
use crate::grpc::{Front as GrpcFront, Grpc, Rls};
use crate::http::Http;
use crate::listen::{Accept, Access, Address, Bounds, Listener, Registry, Runtimes};
use crate::metrics::Page;
use crate::options::Options;
use crate::recorder::Recorder;
use crate::reload::Reader;
#[cfg(feature = "resp")]
use crate::resp::{Resp, Users};
use crate::service::{InlineLimits, Reading, Receipts, Service};
use crate::start_error::StartError;
use crate::thresholds::report;
use crate::timeseries::{TimeSeriesOptions, Writing};
use crate::tls::{Certificate, TlsProtocol};

/// How long a connection that is accepted at the end may take for its request.
const PATIENCE: Duration = Duration::from_secs(1);

/// The maximum number of open connections of administrators.
const ADMIN_CONNECTIONS: usize = 64;

/// How often units are given back that leases did not spend.
const GIVE_BACK_PAUSE: Duration = Duration::from_secs(1);

/// Which front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Http,
    #[cfg(feature = "resp")]
    Resp,
    Grpc,
    Admin,
}

/// A front: its address, and the part that accepts its connections.
pub(crate) struct Front {
    pub(crate) kind: Kind,
    pub(crate) asked: Vec<Address>,
    pub(crate) access: Access,
    pub(crate) accept: Accept,
}

/// The gate that the fronts ask, and the tasks that run beside them.
pub(crate) struct Assembly {
    pub(crate) api: Arc<Api>,
    /// The connections of clients, then those of administrators.
    pub(crate) registries: [Arc<Registry>; 2],
    pub(crate) reader: Reader,
    pub(crate) recorder: Recorder,
    pub(crate) writing: Option<Writing>,
    /// How the log writes subjects of thresholds.
    subjects: SubjectForm,
    pub(crate) certificate: Option<Arc<Certificate>>,
}

impl Assembly {
    /// `ended` is true once the service takes no more requests.
    ///
    /// # Errors
    /// Invalid settings, or a certificate that cannot be used.
    pub(crate) fn new(
        gate: Gate<AnyStore>,
        options: &Options,
        ended: watch::Receiver<bool>,
    ) -> Result<Self, StartError> {
        let metrics = &options.metrics;
        let hashing = match &options.key_secret {
            Some(secret) => Hashing::keyed(secret)?,
            None => Hashing::plain_for_random_keys(),
        };
        if options.admin.is_some() {
            metrics.count_subjects(options.key_secret.as_deref())?;
        }
        let subjects = SubjectForm::new(Subjects::Hashed, options.key_secret.as_deref())?;
        let keys = hashing.clone();
        // False where the program has set it: its function stays.
        let _ = gate.hash_api_keys(move |key| keys.hash(key.as_bytes()).into());
        let auth = auth(&gate, options, hashing.clone())?;
        let certificate = options.tls.clone().map(Certificate::read).transpose()?.map(Arc::new);
        let receipts = Receipts::new(options.receipt_key.as_deref(), gate.store())
            .ok_or_else(|| StartError::Options("this key signs no receipts".to_owned()))?;
        // A separate bound: administrators can connect even when clients use all their connections.
        let bounds = Bounds { connections: ADMIN_CONNECTIONS, ..options.bounds };
        let registries = [Registry::new(options.bounds), Registry::new(bounds)];
        let (outbox, writing) = options.timeseries.as_ref().map(TimeSeriesOptions::start).unzip();
        let workers =
            Guard::new("a worker", "TOLLGATE_WORKER_TOKEN", options.worker_token.clone())?;
        let limits = Arc::new(InlineLimits::default());
        let (envoy, policies) = (&options.envoy, options.config.as_ref());
        let rls = Rls::new(envoy, options.headers, &options.auth, policies, metrics)?;
        let service = Service::new(
            gate.clone(),
            receipts,
            Reading { paths: options.paths, keys: hashing },
            options.caller_limits,
            Arc::clone(&limits),
            metrics.deliveries(),
        );
        let api = Arc::new(Api {
            service: Arc::new(service.with_caller_waiting(options.caller_waiting)),
            auth,
            page: Page::new(
                metrics.clone(),
                gate.clone(),
                limits,
                registries.clone(),
                writing.as_ref().map(|writing| Arc::clone(writing.tally())),
                options.queues.clone(),
            ),
            queues: options.queues.clone(),
            rls: Arc::new(rls),
            workers: Workers::new(options.queue_workers, workers, ended),
            origins: Origins::new(options.origins.clone())?,
            metrics: metrics.clone(),
            requests: metrics.front(requests()),
            open: AtomicBool::new(true),
        });
        let history = Arc::new(History::new(gate.current().policies().clone()));
        let (path, metrics) = (options.config.clone(), metrics.clone());
        let recorder = Recorder::new(metrics.clone(), options.queues.clone(), outbox);
        let reader = Reader { gate, path, metrics, history };
        Ok(Self { api, registries, reader, recorder, writing, subjects, certificate })
    }

    /// The fronts in the order of their counters, and that of gRPC if it listens.
    ///
    /// # Errors
    /// Invalid settings.
    pub(crate) async fn fronts(
        &self,
        options: &Options,
        ended: watch::Receiver<bool>,
    ) -> Result<(Vec<Front>, Option<Grpc>), StartError> {
        let [registry, admin_registry] = &self.registries;
        let clients = Listener {
            protocol: (),
            registry: Arc::clone(registry),
            runtimes: Runtimes::new(options.runtimes.clone()),
            tls: None,
            ending: ended,
            patience: PATIENCE.min(options.grace / 2),
        };
        let mut fronts = Vec::new();
        let mut add = |kind, asked: &[Address], access, accept| {
            fronts.push(Front { kind, asked: asked.to_vec(), access, accept });
        };
        let everybody = Access::Everybody;
        let tls = |protocol| Certificate::of(self.certificate.as_ref(), protocol);
        let http =
            Listener { tls: tls(TlsProtocol::Http), ..clients.of(Http(Arc::clone(&self.api))) };
        add(Kind::Http, &options.listen, everybody, http.accepting());
        #[cfg(feature = "resp")]
        {
            let resp = clients.of(self.resp(options)?);
            let resp = Listener { tls: tls(TlsProtocol::Resp), ..resp };
            add(Kind::Resp, &options.resp, everybody, resp.accepting());
        }
        let grpc = match options.grpc.is_empty() {
            true => None,
            false => Some(self.grpc(options).await?),
        };
        if let Some(grpc) = &grpc {
            let runtimes = match options.grpc_runtimes.is_empty() {
                true => clients.runtimes.clone(),
                false => Runtimes::new(options.grpc_runtimes.clone()),
            };
            let tls = tls(TlsProtocol::Grpc);
            let listener = Listener { runtimes, tls, ..clients.of(grpc.clone()) };
            add(Kind::Grpc, &options.grpc, everybody, listener.accepting());
        }
        if let Some(address) = &options.admin {
            let listener = Listener {
                registry: Arc::clone(admin_registry),
                // Protect the token with TLS on a network where a certificate is configured.
                tls: tls(TlsProtocol::Admin).filter(|_| !address.is_local()),
                ..clients.of(Http(Arc::new(self.admin(options, address)?)))
            };
            add(Kind::Admin, core::slice::from_ref(address), Access::Owner, listener.accepting());
        }
        Ok((fronts, grpc))
    }

    #[cfg(feature = "resp")]
    fn resp(&self, options: &Options) -> Result<Resp, StartError> {
        let users = Users::new(options.resp_users.clone())?;
        let [registry, _] = &self.registries;
        let service = Arc::clone(&self.api.service);
        Ok(Resp::new(service, options.metrics.clone(), users, Arc::clone(registry)))
    }

    async fn grpc(&self, options: &Options) -> Result<Grpc, StartError> {
        let Api { service, rls, metrics, .. } = &*self.api;
        let front = GrpcFront::new(Arc::clone(service), Arc::clone(rls), metrics.clone());
        let [registry, _] = &self.registries;
        let (bounds, max_age) = (options.bounds, options.envoy.max_age);
        Grpc::new(front, registry.budget(), bounds, max_age, options.grace).await
    }

    fn admin(&self, options: &Options, address: &Address) -> Result<Admin, StartError> {
        let token = options.admin_token.clone();
        let guard = Guard::new("an administrator", "TOLLGATE_ADMIN_TOKEN", token)?;
        let guard = guard.with_own_pages();
        // A web page cannot reach a unix socket.
        let guard = match address.is_tcp() {
            true => guard.with_names(options.admin_hosts.clone()),
            false => guard,
        };
        let (reader, recorder) = (self.reader.clone(), self.recorder.clone());
        let sources = Sources {
            service: Arc::clone(&self.api.service),
            metrics: options.metrics.clone(),
            queues: options.queues.clone(),
            recorder: recorder.clone(),
            history: Arc::clone(&reader.history),
        };
        let peers = Peers::new(options.peers.clone(), options.admin_token.clone());
        let overview = Overview::new(sources, peers);
        Ok(Admin { api: Arc::clone(&self.api), guard, reader, recorder, overview })
    }

    /// Starts the tasks that run beside the fronts.
    pub(crate) fn tasks(&self, options: &Options) -> JoinSet<()> {
        let Api { service, rls, metrics, .. } = &*self.api;
        let store = service.gate.store().clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(self.recorder.clone().follow());
        tasks.spawn(options.queues.clone().follow());
        tasks.spawn(give_back_leases(store.clone()));
        let servers = metrics.servers();
        tasks.spawn(async move { servers.follow(store).await });
        tasks.spawn(follow_notices(Arc::clone(service)));
        if let Some(certificate) = &self.certificate {
            tasks.spawn(Arc::clone(certificate).follow());
        }
        for registry in &self.registries {
            tasks.spawn(Arc::clone(registry).watch());
        }
        tasks.spawn(Arc::clone(rls).follow());
        if options.admin.is_some() {
            tasks.spawn(metrics.clone().follow_top());
        }
        if let Some(crossings) = metrics.crossings() {
            let counts = metrics.thresholds();
            let (gate, webhook) = (service.gate.clone(), options.webhook.clone());
            tasks.spawn(report(gate, crossings, counts, webhook, self.subjects.clone()));
        }
        tasks
    }
}

/// The part that answers the requests of proxies.
///
/// # Errors
/// A setting is not a valid header name.
fn auth(gate: &Gate<AnyStore>, options: &Options, keys: Hashing) -> Result<Auth, StartError> {
    // Loopback is trusted by default, not by configuration: a local client that sends no proxy
    // headers is not a proxy.
    let is_proxied = options.auth.trust != AuthOptions::default().trust;
    let told = move |mistake: &Misconfiguration| match mistake {
        Misconfiguration::Address(Remark::NoHeader) if !is_proxied => {}
        // No mistake where questions bring them.
        Misconfiguration::FieldNotSupplied(fields) => {
            let names: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
            tracing::info!(
                target: "tollgate",
                "policies look at {}: questions bring them in `fields`, and no request at \
                 `/v1/auth` has them",
                names.join(", ")
            );
        }
        _ => tracing::warn!(target: "tollgate", "{mistake}"),
    };
    let reading = (options.paths, keys);
    let headers = options.headers.unwrap_or_default();
    Ok(Auth::new(gate.clone(), options.auth.clone(), reading, headers, told)?)
}

/// Gives back what leases did not spend, now and then.
async fn give_back_leases(store: AnyStore) {
    loop {
        tokio::time::sleep(GIVE_BACK_PAUSE).await;
        store.give_back(false).await;
    }
}

/// Follows the rulings in the store, and the key that signs receipts beside them.
async fn follow_notices(service: Arc<Service>) {
    let service = &*service;
    // Before that the start was logged, and rulings are unknown.
    service.gate.store().connected().await;
    let wait = move |pause| async move {
        service.share_key().await;
        tokio::time::sleep(pause).await;
    };
    service.gate.admin().follow_rulings(wait).await;
}
