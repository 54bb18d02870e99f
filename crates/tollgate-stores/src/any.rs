//! The stores there are, as one.

use core::time::Duration;

use tollgate::engine::{Mode, Outcome};
use tollgate::{
    Charged, Counted, Inspection, MemoryStore, Notice, Notices, Question, Receipt, Refund, Store,
    StoreError,
};

use crate::kind::Kind;

/// Where counts live: a store of one of the kinds there are.
///
/// It does what the store in it does: it counts the same, answers at once where that one does, and
/// takes the receipts of that one. A store that a program opened by itself is put into it as it is,
/// as in `AnyStore::Memory(MemoryStore::builder().max_bytes(64 << 20).build())`.
///
/// A clone is the same store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// In this process.
    Memory(MemoryStore),
    /// In a file.
    #[cfg(feature = "sqlite")]
    Sqlite(tollgate_sqlite::SqliteStore),
    /// On Redis or Valkey.
    #[cfg(feature = "redis")]
    Redis(tollgate_redis::RedisStore),
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
}

impl Store for AnyStore {
    #[inline]
    fn identity(&self) -> u64 {
        each!(self, store => store.identity())
    }

    fn deadline(&self) -> Option<Duration> {
        each!(self, store => store.deadline())
    }

    fn will_wait(&self, longest: Duration) {
        each!(self, store => store.will_wait(longest));
    }

    fn issued(&self, receipt: &Receipt) -> bool {
        each!(self, store => store.issued(receipt))
    }

    fn receipt_step(&self) -> u64 {
        each!(self, store => store.receipt_step())
    }

    #[inline]
    fn answers_at_once(&self) -> bool {
        each!(self, store => store.answers_at_once())
    }

    async fn check(&self, question: &Question<'_>) -> Result<Outcome, StoreError> {
        each!(self, store => store.check(question).await)
    }

    #[inline]
    fn check_at_once(&self, counted: Counted<'_>, cost: u64, mode: Mode) -> Option<Outcome> {
        each!(self, store => store.check_at_once(counted, cost, mode))
    }

    async fn refund(&self, receipt: &Receipt, units: u64) -> Result<Refund, StoreError> {
        each!(self, store => store.refund(receipt, units).await)
    }

    async fn adjust(&self, counted: Counted<'_>, delta: i64) -> Result<Vec<i64>, StoreError> {
        each!(self, store => store.adjust(counted, delta).await)
    }

    async fn charge(&self, counted: Counted<'_>, cost: u64) -> Result<Vec<Charged>, StoreError> {
        each!(self, store => store.charge(counted, cost).await)
    }

    async fn reset(&self, counted: Counted<'_>) -> Result<bool, StoreError> {
        each!(self, store => store.reset(counted).await)
    }

    async fn inspect(&self, counted: Counted<'_>) -> Result<Option<Inspection>, StoreError> {
        each!(self, store => store.inspect(counted).await)
    }

    async fn notices(&self, seen: Option<u64>) -> Result<Option<Notices>, StoreError> {
        each!(self, store => store.notices(seen).await)
    }

    async fn post(&self, notice: &Notice) -> Result<(), StoreError> {
        each!(self, store => store.post(notice).await)
    }

    async fn withdraw(&self, name: &str) -> Result<bool, StoreError> {
        each!(self, store => store.withdraw(name).await)
    }
}
