//! How servers under sentinels are made, and how they come up.

use std::net::SocketAddr;
use std::time::Duration;

use super::{PATIENCE, PING_MS, RedisSentinels, is_replica_of};
use crate::launch::Setup;
use crate::wait::until;
use crate::{Launch, RedisServer, free_port, tls};

/// How servers under sentinels are made: a primary, 2 replicas and 3 sentinels at first.
///
/// ```
/// use tollgate_testbed::SentinelOptions;
///
/// fn a_test() {
///     let options = SentinelOptions::new().replicas(1).password("secret");
///     let sentinels = tollgate_testbed::sentinels_or_skip!(options);
///     assert_eq!(sentinels.primary(), sentinels.server(0).address());
/// }
/// # a_test();
/// ```
#[derive(Clone, Debug)]
pub struct SentinelOptions {
    name: String,
    replicas: usize,
    sentinels: usize,
    down_after: Duration,
    failover_timeout: Duration,
    password: Option<String>,
    sentinel_password: Option<String>,
    is_tls: bool,
    arguments: Vec<String>,
    launch: Launch,
}

impl Default for SentinelOptions {
    fn default() -> Self {
        Self {
            name: "main".to_owned(),
            replicas: 2,
            sentinels: 3,
            down_after: Duration::from_millis(500),
            failover_timeout: Duration::from_secs(2),
            password: None,
            sentinel_password: None,
            is_tls: false,
            arguments: Vec::new(),
            launch: Launch::default(),
        }
    }
}

impl SentinelOptions {
    /// A primary named `main`, 2 replicas and 3 sentinels, none with a password.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// By which name the sentinels know the primary: letters, digits and `.-_`.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// How many replicas.
    #[must_use]
    pub fn replicas(self, replicas: usize) -> Self {
        Self { replicas, ..self }
    }

    /// How many sentinels; most of them must agree that the primary is down.
    #[must_use]
    pub fn sentinels(self, sentinels: usize) -> Self {
        Self { sentinels, ..self }
    }

    /// How long a server may be silent until a sentinel takes it for down, in whole milliseconds
    /// (`down-after-milliseconds`).
    #[must_use]
    pub fn down_after(self, down_after: Duration) -> Self {
        Self { down_after, ..self }
    }

    /// When a failover has failed, and half of how long until the next, in whole milliseconds
    /// (`failover-timeout`).
    #[must_use]
    pub fn failover_timeout(self, failover_timeout: Duration) -> Self {
        Self { failover_timeout, ..self }
    }

    /// A password of all servers that hold data, which the sentinels know.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        Self { password: Some(password.to_owned()), ..self }
    }

    /// A password of all sentinels.
    #[must_use]
    pub fn sentinel_password(self, password: &str) -> Self {
        Self { sentinel_password: Some(password.to_owned()), ..self }
    }

    /// TLS and nothing else for the servers that hold data. Sentinels take it beside plain text, on
    /// another port, and speak it to servers and to one another. The certificate is for 127.0.0.1,
    /// signed by [`AUTHORITY`](crate::AUTHORITY). A test that asks for it begins with
    /// [`skip_without_tls!`](crate::skip_without_tls).
    #[must_use]
    pub fn tls(self) -> Self {
        Self { is_tls: true, ..self }
    }

    /// More arguments for the servers that hold data: `&["--min-replicas-to-write", "1"]`.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|&word| word.to_owned()));
        self
    }

    /// How servers and sentinels are launched.
    #[must_use]
    pub fn launch(self, launch: Launch) -> Self {
        Self { launch, ..self }
    }

    /// Starts all and waits until they are healthy.
    ///
    /// # Panics
    ///
    /// No server is installed, there is no sentinel, or they do not come up.
    #[must_use]
    pub fn start(&self) -> RedisSentinels {
        assert!(self.sentinels > 0, "somebody has to watch");
        let primary = self.server(None);
        let replicas: Vec<_> =
            (0..self.replicas).map(|_| self.server(Some(primary.address()))).collect();
        let servers: Vec<_> = std::iter::once(primary).chain(replicas).collect();
        // A sentinel that looked before they are there would look again 10 s later.
        for replica in &servers[1..] {
            until(PATIENCE, "a replica is up", || is_replica_of(replica, servers[0].address()));
        }
        let watch = servers[0].address();
        let sentinels = (0..self.sentinels).map(|_| self.sentinel(watch)).collect();
        // More often is worse: a replica is fit to be elected when its INFO is younger than five
        // pings, and they ask for it once a second then.
        let ping_ms = (self.down_after.as_millis() / 2).clamp(PING_MS / 4, PING_MS);
        let all = RedisSentinels { name: self.name.clone(), servers, sentinels, ping_ms };
        all.ping_often();
        all.wait_until_healthy(PATIENCE);
        all
    }

    fn server(&self, primary: Option<SocketAddr>) -> RedisServer {
        let mut words = vec!["--repl-diskless-sync-delay".to_owned(), "0".to_owned()];
        if let Some(password) = &self.password {
            // The primary may become a replica.
            for option in ["--requirepass", "--masterauth"] {
                words.extend([option.to_owned(), password.clone()]);
            }
        }
        if let Some(primary) = primary {
            let (ip, port) = (primary.ip().to_string(), primary.port().to_string());
            words.extend(["--replicaof".to_owned(), ip, port]);
        }
        if self.is_tls {
            words.extend(tls::arguments());
        }
        words.extend(self.arguments.iter().cloned());
        let launch = &self.launch;
        RedisServer::set_up(|| Setup {
            launch: launch.clone(),
            arguments: words.clone(),
            config: None,
        })
    }

    fn sentinel(&self, primary: SocketAddr) -> RedisServer {
        let Self { name, sentinels, down_after, failover_timeout, .. } = self;
        let (ip, port, quorum) = (primary.ip(), primary.port(), sentinels / 2 + 1);
        let mut config = format!(
            "sentinel monitor {name} {ip} {port} {quorum}\n\
             sentinel down-after-milliseconds {name} {}\n\
             sentinel failover-timeout {name} {}\n\
             sentinel parallel-syncs {name} 1\n",
            down_after.as_millis(),
            failover_timeout.as_millis(),
        );
        if let Some(password) = &self.password {
            config += &format!("sentinel auth-pass {name} {password}\n");
        }
        let mut arguments = vec!["--sentinel".to_owned()];
        if let Some(password) = &self.sentinel_password {
            // Sentinels use it towards one another too.
            arguments.extend(["--requirepass".to_owned(), password.clone()]);
        }
        RedisServer::set_up(|| {
            let mut arguments = arguments.clone();
            if self.is_tls {
                arguments.extend(tls::arguments());
                arguments.extend([tls::PORT.to_owned(), free_port().port().to_string()]);
            }
            Setup { launch: self.launch.clone(), arguments, config: Some(config.clone()) }
        })
    }
}
