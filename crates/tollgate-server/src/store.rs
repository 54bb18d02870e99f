//! The stores that a service can count in, as one.

use core::time::Duration;

use tollgate::engine::{Mode, Outcome};
use tollgate::{
    Counted, Inspection, MemoryStore, Notice, Notices, Question, Receipt, Refund, Store, StoreError,
};
use tollgate_redis::RedisStore;
use tollgate_sqlite::SqliteStore;

/// Where counts live.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// In this process.
    Memory(MemoryStore),
    /// In a file.
    Sqlite(SqliteStore),
    /// In Redis or Valkey.
    Redis(RedisStore),
}

/// The same for whichever it is.
macro_rules! each {
    ($store:expr, $inner:ident => $what:expr) => {
        match $store {
            AnyStore::Memory($inner) => $what,
            AnyStore::Sqlite($inner) => $what,
            AnyStore::Redis($inner) => $what,
        }
    };
}

impl AnyStore {
    /// `memory`, `sqlite` or `redis`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Sqlite(_) => "sqlite",
            Self::Redis(_) => "redis",
        }
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
