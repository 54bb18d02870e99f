//! One Redis server for all tests of a binary, and stores that need no runtime.
#![allow(dead_code, clippy::unwrap_used)] // each test binary uses its part; tests may unwrap

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::engine::Outcome;
use tollgate::{
    Counted, Inspection, Notice, Notices, Question, Receipt, Refund, Store, StoreError,
};
use tollgate_proof::redis::RedisServer;
use tollgate_redis::RedisStore;

/// The runtime that drives all connections.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    })
}

/// A server that lives as long as the test run.
pub(crate) fn server() -> &'static RedisServer {
    static SERVER: OnceLock<RedisServer> = OnceLock::new();
    SERVER.get_or_init(RedisServer::start)
}

/// A cluster of one node that has all slots.
pub(crate) async fn cluster() -> RedisServer {
    let server = RedisServer::with(&["--cluster-enabled", "yes"]);
    server.command(&[b"CLUSTER", b"ADDSLOTSRANGE", b"0", b"16383"]);
    for _ in 0..1_000 {
        let info = server.command(&[b"CLUSTER", b"INFO"]);
        if info.text().is_some_and(|info| info.contains("cluster_state:ok")) {
            return server;
        }
        pause(10).await;
    }
    panic!("the cluster does not come up: {:?}", server.command(&[b"CLUSTER", b"INFO"]));
}

/// Lets some milliseconds go by: between two looks at a condition that has a limit, or two calls
/// of a caller that is patient.
pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await; // tidy: sleep-ok callers have limits
}

/// A store of a run whose futures are ready at once: the waiting is done in the runtime above. At
/// its end no key of its servers is without a TTL, and none of its own is left.
#[derive(Debug)]
pub(crate) struct Blocking(pub(crate) RedisStore, &'static [RedisServer]);

impl Blocking {
    /// A store on the server of this binary.
    pub(crate) fn new(store: RedisStore) -> Self {
        Self(store, std::slice::from_ref(server()))
    }

    /// A store on these servers, such as the nodes of a cluster.
    pub(crate) fn on(store: RedisStore, servers: &'static [RedisServer]) -> Self {
        Self(store, servers)
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for server in self.1 {
            assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
        }
        wait(self.0.clear_run()).unwrap();
        assert_eq!(wait(self.0.count_keys()).unwrap(), 0);
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
}

impl Store for Blocking {
    fn identity(&self) -> u64 {
        self.0.identity()
    }

    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        wait(self.0.check(question))
    }

    async fn refund(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
        wait(self.0.refund(receipt, units))
    }

    async fn adjust(&self, counted: Counted<'_>, delta: i64) -> Result<Vec<i64>, StoreError> {
        wait(self.0.adjust(counted, delta))
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        wait(self.0.reset(counted))
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        wait(self.0.inspect(counted))
    }

    async fn notices(&self, seen: Option<u64>) -> Result<Option<Notices>, StoreError> {
        wait(self.0.notices(seen))
    }

    async fn post(&self, notice: &Notice) -> Result<(), StoreError> {
        wait(self.0.post(notice))
    }

    async fn withdraw(&self, name: &str) -> Result<bool, StoreError> {
        wait(self.0.withdraw(name))
    }
}
