//! The authority that made a decision.

/// The authority that made the decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Authority {
    /// The store that keeps the counts.
    #[default]
    Store,
    /// Units that this process had charged at the store before, under a [lease](crate::Lease).
    Lease,
    /// A denial of the store, which holds until its `retry_after`.
    DenyCache,
}

impl Authority {
    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Lease => "lease",
            Self::DenyCache => "deny_cache",
        }
    }
}
