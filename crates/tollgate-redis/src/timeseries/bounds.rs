//! The bounds of series and replies.

/// The most bytes of a key.
pub const MAX_KEY_BYTES: usize = 512;

/// The most labels of a series, and of one query.
pub const MAX_LABELS: usize = 16;

/// The most bytes of a label's name, and of its value.
pub const MAX_LABEL_BYTES: usize = 128;

/// The most series in the reply to a query.
pub const MAX_SERIES: usize = 10_000;

/// The most buckets in the reply to a query, over all series: some 100 MB on the network.
pub const MAX_BUCKETS: usize = 1_000_000;
