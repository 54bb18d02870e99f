//! A Redis Cluster and servers under sentinels that all tests share, one test after the other: to
//! start them takes longer than most of the tests.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_testbed::{ClusterOptions, RedisCluster, RedisSentinels, SentinelOptions};

static CLUSTER: Mutex<Option<RedisCluster>> = Mutex::new(None);
static SENTINELS: Mutex<Option<RedisSentinels>> = Mutex::new(None);

/// Servers for one test. A test that changes more than keys and scripts starts separate servers.
pub(crate) struct Lent<T: 'static>(MutexGuard<'static, Option<T>>);

impl Lent<RedisCluster> {
    /// A cluster of three nodes without replicas, keys and scripts.
    pub(crate) fn cluster() -> Self {
        // A test that failed leaves it usable.
        let mut cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || ClusterOptions::new().replicas(0).start();
        for server in cluster.get_or_insert_with(start).servers() {
            server.command(&[b"SCRIPT", b"FLUSH"]);
            server.command(&[b"FLUSHALL"]);
        }
        Self(cluster)
    }
}

impl Lent<RedisSentinels> {
    /// A primary with two replicas under three sentinels. To lock a cluster too, take that first.
    pub(crate) fn sentinels() -> Self {
        let mut sentinels = SENTINELS.lock().unwrap_or_else(PoisonError::into_inner);
        let server = sentinels.get_or_insert_with(|| SentinelOptions::new().start()).server(0);
        assert_eq!(server.command(&[b"FLUSHALL"]).text().as_deref(), Some("OK"));
        Self(sentinels)
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap()
    }
}

/// The shared cluster, or the end of the test when no server is installed.
macro_rules! lent_cluster_or_skip {
    () => {
        tollgate_testbed::start_or_skip!($crate::lent::Lent::cluster())
    };
}

/// The shared servers under sentinels, or the end of the test when no server is installed.
macro_rules! lent_sentinels_or_skip {
    () => {
        tollgate_testbed::start_or_skip!($crate::lent::Lent::sentinels())
    };
}

pub(crate) use {lent_cluster_or_skip, lent_sentinels_or_skip};
