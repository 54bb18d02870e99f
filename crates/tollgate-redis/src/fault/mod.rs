//! The faults between a program and its Redis: their cause, their remedy, and whether they may have
//! charged.

use std::error::Error as _;
use std::time::Duration;

use tollgate::StoreError;

mod reply;

/// Whether a failed call was charged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ChargeState {
    /// Certainly not: it was never sent, or Redis refused it before it ran.
    NotCharged,
    /// Unknown: it was sent, and no answer arrived. The store never sends it again.
    Unknown,
}

/// Why Redis gave no answer. A fault is the source of the [`StoreError`] of a failed check:
///
/// ```
/// use std::error::Error;
/// use tollgate::StoreError;
/// use tollgate_redis::Fault;
///
/// let fault = Fault::from_reply("LOADING Redis is loading the dataset in memory");
/// let error = StoreError::from(fault);
/// assert!(error.is_transient() && !error.is_ambiguous());
/// let fault = error.source().and_then(|source| source.downcast_ref::<Fault>());
/// assert_eq!(fault, Some(&Fault::Loading));
/// ```
///
/// A message contains addresses, names of settings and words of Redis, never a key, a subject or a
/// password.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No connection could be made, or there is none now.
    #[error(
        "Redis at {address} cannot be reached ({why}): is it running, is the address right, is \
         the way open?"
    )]
    Unreachable {
        /// The host and port, or the path.
        address: String,
        /// The error of the operating system.
        why: String,
    },
    /// There has been no connection since the program started.
    #[error("this program has had no connection to Redis yet: {why}")]
    NotConnected {
        /// Why the last attempt failed.
        why: String,
    },
    /// The TLS handshake failed: the server's certificate has another name or an untrusted issuer,
    /// there is no common version of TLS, or the server wants another certificate of this client.
    #[error(
        "no TLS connection to Redis at {address} ({why}): the certificate must be for that name, \
         and signed by an authority that this machine trusts (SSL_CERT_FILE can name another)"
    )]
    Tls {
        /// The address.
        address: String,
        /// The error of the handshake.
        why: String,
    },
    /// The URL requests TLS, but the server on this port does not speak it.
    #[error(
        "Redis at {address} does not speak TLS on this port: write `redis` in place of `rediss` in \
         the URL, or the port after `tls-port` in its configuration"
    )]
    TlsToPlainPort {
        /// The address.
        address: String,
    },
    /// The URL requests plain text, but the server on this port expects TLS.
    #[error(
        "Redis at {address} wants TLS on this port: write `rediss` in place of `redis` in the URL, \
         or the port after `port` in its configuration"
    )]
    PlainToTlsPort {
        /// The address.
        address: String,
    },
    /// The deadline passed without an answer.
    #[error(
        "no answer from Redis within {after:?}: look for slow commands (`SLOWLOG GET`), a paused \
         or overloaded server, or a slow network; how long it may take is said by the policy or \
         the question with `deadline`, else by the store's URL, e.g. `?deadline=100ms`"
    )]
    Deadline {
        /// The deadline of the call.
        after: Duration,
        /// Unknown once the call was sent.
        charge: ChargeState,
    },
    /// The connection ended before the answer arrived.
    #[error(
        "Redis closed the connection before it answered: it was restarted, it killed the client, \
         or something between closed it; a new connection is made by itself"
    )]
    Closed {
        /// Unknown once the call was sent.
        charge: ChargeState,
    },
    /// The reply does not match the call. The connection is not used again.
    #[error(
        "what came back is not Redis's answer to this question: is it Redis at that address, and \
         is nothing between that mixes answers up? A new connection is made by itself"
    )]
    Garbled {
        /// Unknown once the call was sent.
        charge: ChargeState,
    },
    /// Redis has not answered for a while, so the circuit breaker blocks calls.
    #[error(
        "Redis has answered nothing for {silent:?} while it was asked, so it is not asked for now: \
         the next try is in {probe_in:?}"
    )]
    Breaker {
        /// How long it may answer nothing before the pause.
        silent: Duration,
        /// The time until the next probe; zero while one is in flight.
        probe_in: Duration,
    },
    /// The connection already has the most calls in flight.
    #[error(
        "{limit} questions are under way on this connection, which is the most: Redis is slower \
         than the questions come; more connections are `?connections=4`"
    )]
    TooMany {
        /// The most calls in flight.
        limit: usize,
    },
    /// The server has its maximum of clients.
    #[error("Redis has as many clients as it takes: raise `maxclients`, or use fewer connections")]
    TooManyClients,
    /// The user is unknown or disabled, or the password is wrong.
    #[error(
        "Redis knows no such user with this password: check `redis://USER:PASSWORD@HOST` (each \
         with `%XX` for `@`, `:`, `/`), and that the user is `on` (`ACL LIST`)"
    )]
    WrongPassword,
    /// The server requires a password.
    #[error(
        "Redis wants a password: write `redis://:PASSWORD@HOST` or `redis://USER:PASSWORD@HOST`"
    )]
    NoAuth,
    /// A password was sent, but the server has none.
    #[error(
        "Redis has no password set, and the URL has one: leave it out, or set `requirepass`; it \
         may also be the wrong server"
    )]
    NoPasswordSet,
    /// Protected mode: no password is set, and the client is on another machine.
    #[error(
        "Redis is in protected mode and talks to its own machine only: set a password, or \
         `bind` it to an address that is not public and set `protected-mode no`"
    )]
    Protected,
    /// The user lacks a permission.
    #[error(
        "the Redis user may not do this:{} `tollgate doctor` prints the line of `ACL SETUSER` with \
         all that is needed on the keys of this store",
        lacks(missing)
    )]
    NoPermission {
        /// Unknown when the refusal came from within a script that had begun to write.
        charge: ChargeState,
        /// The commands that it lacks the right to, or that the server does not have, as an ACL
        /// names them and separated by blanks: `zadd zrem`. Empty where they are not known.
        missing: String,
    },
    /// The number of the database is too large, or the server is a cluster, which has only 0.
    #[error(
        "Redis has no such database: the number after the host must be below `databases` (16 \
         unless set), and 0 on a cluster"
    )]
    NoSuchDatabase,
    /// The server does not run scripts.
    #[error(
        "this Redis runs no scripts (EVALSHA or SCRIPT is unknown or renamed): allow them, or use \
         a server or proxy that has them"
    )]
    NoScripting,
    /// A script vanished repeatedly right after it was loaded.
    #[error(
        "Redis forgets its scripts as fast as they are loaded: something runs SCRIPT FLUSH, or \
         the address leads to a different server each time"
    )]
    NoScript,
    /// The server cannot write its dump or log to disk.
    #[error(
        "Redis refuses writes because it cannot save to disk (MISCONF): look at its log and the \
         free space; for a store of counts alone, `stop-writes-on-bgsave-error no` will do"
    )]
    Misconf,
    /// Too few replicas are up to date.
    #[error(
        "Redis refuses writes because too few replicas are up to date (NOREPLICAS): bring them \
         back, or lower `min-replicas-to-write`"
    )]
    NoReplicas,
    /// The server is a replica.
    #[error(
        "this Redis is a read-only replica (READONLY): use the address of the master; after a \
         failover the name leads to it soon"
    )]
    ReadOnly,
    /// The server is a replica without its master, and answers nothing.
    #[error(
        "this Redis is a replica that has lost its master (MASTERDOWN): use the address of the \
         master, or bring it back"
    )]
    MasterDown,
    /// The server has just started and loads its data.
    #[error("Redis is starting and still loads its data (LOADING): it passes by itself")]
    Loading,
    /// Another script blocks the server.
    #[error(
        "a script that is not ours keeps Redis busy (BUSY): find it with `CLIENT LIST`; SCRIPT \
         KILL ends it if it has written nothing"
    )]
    Busy,
    /// The cluster is down, or the part that stores the key.
    #[error("the Redis Cluster is down for this key (CLUSTERDOWN): see `CLUSTER INFO`")]
    ClusterDown,
    /// The key is being moved between nodes of a cluster.
    #[error(
        "the key is being moved between nodes (TRYAGAIN): it passes when the move of its slot ends; \
         `redis-cli --cluster check HOST:PORT` names slots whose move was left open"
    )]
    TryAgain,
    /// The server is a node of a cluster, and another node stores the key.
    #[error(
        "this Redis is one node of a cluster, and the key is on another (MOVED or ASK): write \
         `redis+cluster://HOST` in place of `redis://HOST`"
    )]
    Cluster,
    /// The nodes of a cluster redirect a call from one to another.
    #[error(
        "the nodes of the cluster send this key from one to another: its slot is moving, or they \
         disagree on it (`redis-cli --cluster check HOST:PORT`)"
    )]
    Redirected,
    /// The address of a cluster leads to a server that is not one of its nodes.
    #[error(
        "Redis at {address} is not a node of a cluster: write `redis://` for one server, or start it \
         with `cluster-enabled yes`"
    )]
    NotACluster {
        /// The address.
        address: String,
    },
    /// The cluster does not cover all slots.
    #[error(
        "the cluster at {address} covers {covered} of 16384 slots, so some keys have no node: \
         assign the others (`redis-cli --cluster fix {address}`)"
    )]
    NotCovered {
        /// The node that said so.
        address: String,
        /// The number of slots that have a node.
        covered: usize,
    },
    /// The addresses lead to nodes of different clusters.
    #[error(
        "{one} and {other} are nodes of different clusters, so a count would be kept twice: name \
         nodes of one cluster"
    )]
    TwoClusters {
        /// A node of the one.
        one: String,
        /// A node of the other.
        other: String,
    },
    /// No node can be reached at the address that the cluster announces.
    #[error(
        "the cluster announces its node as {address}, where it cannot be reached ({why}): set \
         `cluster-announce-ip` on it, or say where it is with `?reach={address}>HOST:PORT`"
    )]
    Announced {
        /// The announced address.
        address: String,
        /// Why it could not be reached.
        why: String,
    },
    /// The sentinels name no primary that can be used.
    #[error("the sentinels {sentinels} give no primary for `{name}`: {why}")]
    NoPrimary {
        /// The name of the primary.
        name: String,
        /// The addresses of the sentinels.
        sentinels: String,
        /// Their answer.
        why: String,
        /// Whether none will be given without a change of settings.
        is_final: bool,
    },
    /// A server that should be the primary is a replica.
    #[error(
        "this Redis is a replica, though it was named as the primary: a failover is under way, and \
         the new primary is found by itself"
    )]
    NotPrimary,
    /// The request needs the address of one server.
    #[error(
        "this works with one server, and the URL is of a cluster or of sentinels: give the address \
         of one server, e.g. `redis://HOST:PORT`"
    )]
    NotOneServer,
    /// The keys of one call are on different nodes of a cluster.
    #[error(
        "the keys of this question are in different slots of a cluster (CROSSSLOT): keep them in \
         one slot with a `shard`, or ask about the subjects one by one"
    )]
    CrossSlot,
    /// The server is out of memory.
    #[error(
        "Redis is out of memory (OOM): raise `maxmemory`; with an eviction policy it would forget \
         counts instead, which is worse"
    )]
    OutOfMemory,
    /// A key of this store contains a value of another program.
    #[error(
        "a key of this store holds something else (WRONGTYPE): another program uses the same \
         names; use another database or another prefix"
    )]
    WrongType,
    /// The script was killed before it had written anything.
    #[error("the script was ended by SCRIPT KILL before it had written anything")]
    Killed,
    /// The script refused: the stored value is not one of ours, is damaged, or is of a newer
    /// version. Nothing was changed.
    #[error("Redis refused: {what}")]
    Refused {
        /// The script's finding, in its own words.
        what: String,
    },
    /// An error with any other code.
    #[error("Redis answered with the error {code}: its log may say more")]
    Other {
        /// The first word of the error; empty if it has no such word.
        code: String,
    },
}

tollgate::debug_as_display!(Fault);

impl Fault {
    /// The same fault of a step before the call of the script.
    pub(crate) fn before_the_script(self) -> Self {
        let charge = ChargeState::NotCharged;
        match self {
            Self::Deadline { after, .. } => Self::Deadline { after, charge },
            Self::Closed { .. } => Self::Closed { charge },
            Self::Garbled { .. } => Self::Garbled { charge },
            Self::NoPermission { missing, .. } => Self::NoPermission { charge, missing },
            other => other,
        }
    }

    /// Whether the call was charged.
    ///
    /// For `OOM`, `READONLY`, `NOREPLICAS` and `MISCONF` Redis refuses a script's first write or
    /// none. Our scripts read everything before they write, and `WRONGTYPE` occurs on reads. So
    /// these errors mean that nothing was charged.
    #[must_use]
    pub fn charge_state(&self) -> ChargeState {
        match self {
            Self::Deadline { charge, .. }
            | Self::Closed { charge }
            | Self::Garbled { charge }
            | Self::NoPermission { charge, .. } => *charge,
            // A script that failed halfway gives such an error.
            Self::Other { .. } => ChargeState::Unknown,
            _ => ChargeState::NotCharged,
        }
    }

    /// Whether a retry may succeed later without a change of settings.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        !matches!(
            self,
            Self::Tls { .. }
                | Self::TlsToPlainPort { .. }
                | Self::PlainToTlsPort { .. }
                | Self::WrongPassword
                | Self::NoAuth
                | Self::NoPasswordSet
                | Self::Protected
                | Self::NoPermission { .. }
                | Self::NoSuchDatabase
                | Self::NoScripting
                | Self::Cluster
                | Self::NotACluster { .. }
                | Self::TwoClusters { .. }
                | Self::NoPrimary { is_final: true, .. }
                | Self::NotOneServer
                | Self::CrossSlot
                | Self::WrongType
                | Self::Refused { .. }
        )
    }
}

/// Whether to wait for the first connection after this error of
/// [`RedisStore::try_connect`](crate::RedisStore::try_connect). A server that is away, that loads
/// its data, or that its sentinels do not know yet may come. A wrong password, another kind of
/// server or a wrong certificate stays.
#[must_use]
pub fn may_connect_later(error: &StoreError) -> bool {
    match error.source().and_then(|source| source.downcast_ref::<Fault>()) {
        // What answers a greeting in another language is not a Redis.
        Some(Fault::Garbled { .. }) => false,
        _ => error.is_transient(),
    }
}

impl From<Fault> for StoreError {
    /// An ambiguous charge takes precedence over all other kinds: the caller must know about it.
    fn from(fault: Fault) -> Self {
        let what = fault.to_string();
        let error = match fault.charge_state() {
            ChargeState::Unknown => Self::ambiguous(what),
            ChargeState::NotCharged if fault.is_transient() => Self::transient(what),
            ChargeState::NotCharged => Self::permanent(what),
        };
        // The fault concerns a single key; other calls succeed.
        let is_alone = matches!(fault, Fault::WrongType | Fault::Refused { .. });
        let error = error.because(fault);
        if is_alone { error.alone() } else { error }
    }
}

/// The permission that a user lacks, in a message.
fn lacks(missing: &str) -> String {
    match missing {
        "" => String::new(),
        missing => format!(" it lacks the right to {};", missing.replace(' ', ", ")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot go on has failed
mod tests;
