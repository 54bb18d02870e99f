//! The runtimes that serve connections. A connection stays on one of them until it ends.

use std::sync::Arc;

use tokio::runtime::Handle;

/// The runtimes that serve connections. Each connection holds a clone of its runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runtimes(Arc<[Arc<Handle>]>);

impl Runtimes {
    /// These runtimes; without any, the one that accepts a connection serves it.
    pub(crate) fn new(handles: Vec<Handle>) -> Self {
        Self(handles.into_iter().map(Arc::new).collect())
    }

    /// The runtime with the fewest connections.
    pub(super) fn least_busy(&self) -> Arc<Handle> {
        let Self(runtimes) = self;
        let least = runtimes.iter().min_by_key(|runtime| Arc::strong_count(runtime));
        least.map_or_else(|| Arc::new(Handle::current()), Arc::clone)
    }
}
