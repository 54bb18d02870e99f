//! The lifecycle of a service: it starts, serves requests, and finishes started requests when it
//! stops.

use core::fmt;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_policy::{Gate, Problems, Reload, Reread, Watcher};
use tollgate_stores::AnyStore;

use crate::assembly::{Assembly, Front, Kind};
use crate::grpc::Grpc;
use crate::listen::{Access, Address, Bound, sockets_left};
use crate::options::Options;
use crate::reload::ReloadError;
use crate::settings;
use crate::start_error::StartError;

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
    assembly: Assembly,
    ending: watch::Sender<bool>,
    tasks: JoinSet<()>,
    /// The accept loops, which end by themselves once the service does.
    listeners: JoinSet<()>,
    /// The addresses of each front, with the ports that the system chose.
    addresses: Vec<(Kind, Vec<Address>)>,
    grpc: Option<Grpc>,
    linger: Duration,
    grace: Duration,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses()).finish_non_exhaustive()
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
        if let Some(address) = settings::open_admin(&options) {
            tracing::warn!(
                target: "tollgate",
                "the token of administrators goes to {address} unencrypted: name `admin` in \
                 --tls-for, or listen on 127.0.0.1"
            );
        }
        let (ending, ended) = watch::channel(false);
        let assembly = Assembly::new(gate, &options, ended.clone())?;
        let (fronts, grpc) = assembly.fronts(&options, ended).await?;
        // Bind all addresses before any of them serves: a partly running service is worse than
        // none.
        let (mut addresses, mut sockets) = (Vec::new(), Vec::new());
        for Front { kind, asked, access, accept } in fronts {
            let bound = asked.iter().map(|address| bind(address, access));
            let bound = bound.collect::<Result<Vec<_>, _>>()?;
            let said = bound.iter().zip(asked);
            let said = said.map(|(bound, asked)| bound.address().unwrap_or(asked));
            addresses.push((kind, said.collect()));
            sockets.push((accept, bound));
        }
        for name in sockets_left() {
            tracing::warn!(
                target: "tollgate",
                "systemd passed the socket `{name}`, and no address names it (`systemd:{name}`): \
                 clients of it get no answer"
            );
        }
        // Rulings apply from the first request. The task that follows them logs a failure.
        let service = &assembly.api.service;
        if service.has_store() {
            let _ = service.gate.admin().read_rulings().await;
            service.share_key().await;
        }
        let mut tasks = assembly.tasks(&options);
        if let Some(grpc) = grpc.clone() {
            tasks.spawn(grpc.opens());
        }
        let mut listeners = JoinSet::new();
        for (accept, bound) in sockets {
            bound.into_iter().for_each(|bound| drop(listeners.spawn(accept(bound))));
        }
        let (linger, grace) = (options.linger, options.grace);
        Ok(Self { assembly, ending, tasks, listeners, addresses, grpc, linger, grace })
    }

    fn of(&self, kind: Kind) -> &[Address] {
        let found = self.addresses.iter().find(|(known, _)| *known == kind);
        found.map_or(&[], |(_, addresses)| addresses)
    }

    /// The client addresses, with the ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        self.of(Kind::Http)
    }

    /// The addresses of the Redis protocol, with the ports that the system chose.
    #[cfg(feature = "resp")]
    #[must_use]
    pub fn resp(&self) -> &[Address] {
        self.of(Kind::Resp)
    }

    /// The addresses of gRPC, with the ports that the system chose.
    #[must_use]
    pub fn grpc(&self) -> &[Address] {
        self.of(Kind::Grpc)
    }

    /// The first by name of the domains that have rules of Envoy's service.
    #[must_use]
    pub fn envoy_domain(&self) -> Option<String> {
        self.assembly.api.rls.domain()
    }

    /// The address of the admin API.
    #[must_use]
    pub fn admin(&self) -> Option<&Address> {
        self.of(Kind::Admin).first()
    }

    /// Reloads the policy file while the service continues to answer requests.
    ///
    /// # Errors
    /// There is no policy file, or the file is invalid. The current policies then stay in force.
    pub fn reload(&self) -> impl Future<Output = Result<Reread, ReloadError>> + Send + use<> {
        self.assembly.reader.clone().read()
    }

    /// Reloads the TLS certificate, if there is one; new connections use it. If the new certificate
    /// cannot be used, the error is logged and the old one stays in use. The files are read on a
    /// blocking thread, like the policy file.
    pub fn reread_certificate(&self) -> impl Future<Output = ()> + Send + use<> {
        let certificate = self.assembly.certificate.clone();
        async move {
            if let Some(certificate) = certificate {
                // The task fails only when the runtime shuts down.
                let _ = tokio::task::spawn_blocking(move || certificate.reread()).await;
            }
        }
    }

    /// Reads Envoy's rules again, and logs the outcome. Broken ones leave the old ones in force.
    pub fn reread_rules(&self) -> impl Future<Output = ()> + Send + use<> {
        Arc::clone(&self.assembly.api.rls).reread()
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
        self.assembly.reader.watch(told)
    }

    /// Shuts down: reports not ready, accepts the connections that still wait for it and no further
    /// ones, finishes started requests, and closes the remaining connections after the grace
    /// period. The last counts are written to the time series in what is left of the linger and
    /// grace periods, at most 2 s.
    pub async fn end(mut self) -> Stopping {
        let began = Instant::now();
        self.assembly.api.open.store(false, Ordering::Relaxed);
        if let Some(grpc) = &self.grpc {
            grpc.closes().await;
        }
        if !self.linger.is_zero() {
            tokio::time::sleep(self.linger).await;
        }
        self.ending.send_replace(true);
        let [clients, administrators] = &self.assembly.registries;
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
        // As long as one question may take: units that are not given back are only wasted.
        let all = self.assembly.reader.gate.store().give_back(true);
        let _ = tokio::time::timeout(GIVE_BACK_TIME, all).await;
        self.assembly.recorder.end();
        if let Some(writing) = self.assembly.writing {
            writing.end((self.linger + self.grace).saturating_sub(began.elapsed())).await;
        }
        Stopping { took: began.elapsed(), cut }
    }
}

/// How long the end of a service waits for units to be given back.
const GIVE_BACK_TIME: Duration = Duration::from_secs(1);

fn bind(address: &Address, access: Access) -> Result<Bound, StartError> {
    address.bind(access).map_err(|source| StartError::Bind { address: address.clone(), source })
}
