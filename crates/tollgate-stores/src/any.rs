//! The stores there are, as one.

use core::time::Duration;

use tollgate::operation::Operation;
use tollgate::{Facts, Keeps, LimitSet, MemoryStore, Receipt, Store, StoreError};
use tollgate_lease::{Leased, LeasedCounters};
#[cfg(feature = "redis")]
use tollgate_redis::Topology;

use crate::figures::Figures;
use crate::kind::Kind;

/// Where counts live: a store of one of the kinds there are.
///
/// It behaves as the store in it: it counts the same, answers immediately where that one does, and
/// takes its receipts. A store that a program opened by itself is put into it as it is, as in
/// `AnyStore::from(MemoryStore::builder().max_bytes(64 << 20).build())`.
///
/// A store in a file or on Redis is leased: limits that have a lease are charged ahead
/// ([`tollgate_lease`]), all others are asked about as always.
///
/// A clone is the same store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// In this process.
    Memory(MemoryStore),
    /// In a file.
    #[cfg(feature = "sqlite")]
    Sqlite(Leased<tollgate_sqlite::SqliteStore>),
    /// On Redis or Valkey.
    #[cfg(feature = "redis")]
    Redis(Leased<tollgate_redis::RedisStore>),
}

impl From<MemoryStore> for AnyStore {
    fn from(store: MemoryStore) -> Self {
        Self::Memory(store)
    }
}

#[cfg(feature = "sqlite")]
impl From<tollgate_sqlite::SqliteStore> for AnyStore {
    fn from(store: tollgate_sqlite::SqliteStore) -> Self {
        Self::Sqlite(Leased::new(store))
    }
}

#[cfg(feature = "redis")]
impl From<tollgate_redis::RedisStore> for AnyStore {
    fn from(store: tollgate_redis::RedisStore) -> Self {
        Self::Redis(Leased::new(store))
    }
}

/// The same for whichever it is.
macro_rules! each {
    ($store:expr, $inner:ident => $what:expr) => {
        match $store {
            AnyStore::Memory($inner) => $what,
            #[cfg(feature = "sqlite")]
            AnyStore::Sqlite($inner) => $what,
            #[cfg(feature = "redis")]
            AnyStore::Redis($inner) => $what,
        }
    };
}

impl AnyStore {
    /// `memory`, `sqlite` or `redis`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        let kind = match self {
            Self::Memory(_) => Kind::Memory,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Kind::Sqlite,
            #[cfg(feature = "redis")]
            Self::Redis(_) => Kind::Redis,
        };
        kind.name()
    }

    /// Connects a store of [`StoreUrl::unconnected`](crate::StoreUrl::unconnected), and does
    /// nothing once that has succeeded. A store in a file or in memory needs no connection.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses.
    pub async fn try_connect(&self) -> Result<(), StoreError> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.store().try_connect().await,
            _ => Ok(()),
        }
    }

    /// Whether it has connected since it was made. A store in a file or in memory always has.
    #[must_use]
    pub fn has_connected(&self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.store().has_connected(),
            _ => true,
        }
    }

    /// Waits until it has connected for the first time.
    pub async fn connected(&self) {
        #[cfg(feature = "redis")]
        if let Self::Redis(store) = self {
            store.store().connected().await;
        }
    }

    /// Where on its server the counts lie, as a part of signatures. On Redis it is the number of
    /// the database and the prefix of the keys, and nothing for database 0 without a prefix.
    /// Nothing for a file and for memory, too.
    #[must_use]
    pub fn environment(&self) -> &str {
        match self {
            Self::Memory(_) => "",
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => "",
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.store().environment(),
        }
    }

    /// The form of the script that the store makes for a question under these limits, one set for
    /// each subject. Limits that differ only in numbers share it, and its server keeps each script
    /// until it stops. `None` for a store without scripts.
    #[must_use]
    #[cfg_attr(not(feature = "redis"), expect(unused_variables, reason = "only Redis has scripts"))]
    pub fn script_shape(&self, limits: &[&LimitSet]) -> Option<String> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(_) => Some(tollgate_redis::compose::shape(limits)),
            _ => None,
        }
    }

    /// The same store, which remembers about this many denials, each for at most `longest`
    /// ([`tollgate_lease::LeasedBuilder::deny_cache`]). A store in memory needs none. The leases of
    /// this node begin again, so this is for the start of a program.
    #[must_use]
    pub fn caching_denials(self, entries: usize, longest: Duration) -> Self {
        match self {
            Self::Memory(store) => Self::Memory(store),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => {
                let builder = Leased::builder(store.store().clone());
                Self::Sqlite(builder.deny_cache(entries).longest_denial(longest).build())
            }
            #[cfg(feature = "redis")]
            Self::Redis(store) => {
                let builder = Leased::builder(store.store().clone());
                Self::Redis(builder.deny_cache(entries).longest_denial(longest).build())
            }
        }
    }

    /// The figures of the store itself. A store in memory locks each of its shards in turn.
    #[must_use]
    pub fn figures(&self) -> Figures {
        match self {
            Self::Memory(store) => Figures::Memory {
                subjects: store.subjects() as u64,
                limit_sets: store.limit_sets() as u64,
                bytes: store.bytes() as u64,
                max_bytes: store.max_bytes() as u64,
                shared: store.shared(),
                refused: store.refused(),
            },
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Figures::File,
            #[cfg(feature = "redis")]
            Self::Redis(store) => Figures::Servers {
                breaker: store.store().breaker(),
                script_loads: store.store().loads(),
            },
        }
    }

    /// Asks sentinels or a cluster where the counts are now
    /// ([`RedisStore::topology`](tollgate_redis::RedisStore::topology)). None for one server, for a
    /// file and for memory.
    ///
    /// # Errors
    /// No node of the cluster answers.
    #[cfg(feature = "redis")]
    pub async fn topology(&self) -> Result<Option<Topology>, StoreError> {
        match self {
            Self::Redis(store) => store.store().topology().await,
            _ => Ok(None),
        }
    }

    /// The answers that leases and remembered denials gave in place of the store; `None` for a
    /// store in memory.
    #[must_use]
    pub fn leases(&self) -> Option<LeasedCounters> {
        match self {
            Self::Memory(_) => None,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => Some(store.counters()),
            #[cfg(feature = "redis")]
            Self::Redis(store) => Some(store.counters()),
        }
    }

    /// Returns to the store what leases that have ended did not spend; with `all`, whatever this
    /// node holds, as at the end of a program. Returns the number of units that were given back.
    pub async fn give_back(&self, all: bool) -> u64 {
        match self {
            Self::Memory(_) => 0,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) if all => store.give_back().await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => store.give_back_ended().await,
            #[cfg(feature = "redis")]
            Self::Redis(store) if all => store.give_back().await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.give_back_ended().await,
        }
    }
}

impl Store for AnyStore {
    const KEEPS: Keeps = Keeps::ALL;

    #[inline]
    fn identity(&self) -> u64 {
        each!(self, store => store.identity())
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        each!(self, store => store.issued(receipt))
    }

    #[inline]
    fn facts(&self) -> Facts {
        each!(self, store => store.facts())
    }

    fn will_wait(&self, longest: Duration) {
        each!(self, store => store.will_wait(longest));
    }

    async fn perform<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
        each!(self, store => store.perform(operation).await)
    }

    #[inline]
    fn perform_now<O: Operation>(&self, operation: &O) -> Option<Result<O::Answer, StoreError>> {
        each!(self, store => store.perform_now(operation))
    }
}
