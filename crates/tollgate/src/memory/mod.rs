//! The memory store: sharded, bounded in bytes, without a background thread.

mod builder;
mod check;
mod hash;
mod holding;
mod locked;
mod marks;
mod once;
mod operations;
mod requests;
mod sets;
mod shard;
mod slabs;
mod slot;
mod snapshot;
mod state;
mod store;

pub use builder::MemoryStoreBuilder;
pub use snapshot::{Restored, Saved, SnapshotError, SnapshotFault};

pub use store::{DEFAULT_BYTES, MemoryStore};
