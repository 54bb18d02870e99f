//! One Redis server for all tests of a binary, and stores that need no runtime.

use std::error::Error as _;
use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio::runtime::Runtime;
use tollgate::operation::Operation;
use tollgate::{Around, Ask, Error, Limiter, Store, StoreError};
use tollgate_redis::doctor::examine;
use tollgate_redis::{BreakerState, Builder, Fault, Options, RedisStore};
use tollgate_testbed::{RedisServer, Reply};

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

/// Makes the user that the doctor advises at a URL, on each of these servers, for the keys of a
/// run. A run is removed with the rights to `SCAN` and `UNLINK`. Answers the options with its
/// login.
pub(crate) fn with_least_rights(url: &str, servers: &[RedisServer]) -> Options {
    let findings = examine(url).unwrap().findings;
    let rights = findings.into_iter().find(|finding| finding.id == "rights").unwrap();
    let remedy = rights.remedy.unwrap();
    let (_, line) = remedy.split_once("ACL SETUSER ").unwrap();
    let line = line.replace("~tg1:*", "~tg1-*");
    for server in servers {
        let words = ["ACL", "SETUSER"].into_iter().chain(line.split(' '));
        let words = words.chain(["+scan", "+unlink"]).map(str::as_bytes);
        let made = server.command(&words.collect::<Vec<_>>());
        assert_eq!(made, Reply::Status("OK".into()), "{line}");
    }
    Options::from_url(url).unwrap().user("tollgate").password("PASSWORD")
}

/// Lets some milliseconds go by: between two looks at a condition that has a limit, or two calls
/// of a caller that is patient.
pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await; // tidy: sleep-ok callers have limits
}

/// A store of a run whose futures are ready immediately: it waits inside, in a separate runtime, on
/// the thread that asks. At its end no key of its servers is without a TTL, and none of its keys is
/// left.
#[derive(Debug)]
pub(crate) struct Blocking {
    store: RedisStore,
    servers: &'static [RedisServer],
    runtime: Runtime,
}

impl Blocking {
    /// A store on these servers, such as the nodes of a cluster.
    pub(crate) fn connect(builder: Builder, servers: &'static [RedisServer]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = runtime.block_on(builder.connect()).unwrap();
        Self { store, servers, runtime }
    }

    fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for server in self.servers {
            assert_eq!(server.without_ttl(), Vec::<Vec<u8>>::new());
        }
        self.wait(self.store.clear_run()).unwrap();
        assert_eq!(self.wait(self.store.count_keys()).unwrap(), 0);
    }
}

impl Around for Blocking {
    type Inner = RedisStore;

    fn inner(&self) -> &RedisStore {
        &self.store
    }

    async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        self.wait(self.store.perform(operation))
    }
}

/// Of so many random histories of the kit one is run where only the way to the server differs; all
/// of them where the environment asks for many cases.
pub(crate) fn one_of() -> u64 {
    if std::env::var_os("TOLLGATE_TEST_CASES").is_some() { 1 } else { 5 }
}

/// Asks servers that are frozen until the breaker opens, and once more: the first time that this is
/// polled, it has an answer.
pub(crate) async fn opens_and_answers_at_once(limiter: &Limiter<RedisStore>) {
    let begin = Instant::now();
    while limiter.store().breaker() != BreakerState::Open {
        assert!(begin.elapsed() < Duration::from_secs(30), "it never opens");
        let _ = limiter.check(Ask::new("bob").within(Duration::from_millis(50))).await;
    }
    let answer = limiter.check("bob").now_or_never();
    let Some(Err(Error::Store(error))) = answer else { panic!("{answer:?}") };
    let fault = error.source().and_then(|source| source.downcast_ref());
    assert!(matches!(fault, Some(Fault::Breaker { .. })), "{error}");
}
