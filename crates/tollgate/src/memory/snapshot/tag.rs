//! The byte that each record of a snapshot begins with.

/// The store itself: first, and exactly once.
pub(in crate::memory) const STORE: u8 = b'T';
/// A store whose counts the saved store had restored.
pub(in crate::memory) const ANCESTOR: u8 = b'A';
/// A limit set; sets are numbered from 0.
pub(in crate::memory) const SET: u8 = b'L';
/// A shard: the records that follow belong to it.
pub(in crate::memory) const SHARD: u8 = b'S';
/// A charge that was refunded in full.
pub(in crate::memory) const SPENT: u8 = b'G';
/// A charge that was refunded in part.
pub(in crate::memory) const SPENT_PART: u8 = b'P';
/// A charge of several units, or of another than requests, that was refunded in part.
pub(in crate::memory) const SPENT_UNITS: u8 = b'Q';
/// A subject that was reset.
pub(in crate::memory) const RESET: u8 = b'R';
/// A state that new subjects share for lack of room.
pub(in crate::memory) const SHARED: u8 = b'C';
/// A subject and its state.
pub(in crate::memory) const ENTRY: u8 = b'E';
/// A subject, its state, and its holds.
pub(in crate::memory) const HELD: u8 = b'H';
/// The same, where an open hold was renewed, and since when each of those is open.
pub(in crate::memory) const RENEWED: u8 = b'W';
/// As that, where a hold or a settled one has a cost of several units.
pub(in crate::memory) const UNITS: u8 = b'U';
/// As that, where the count has a credit.
pub(in crate::memory) const CREDITS: u8 = b'K';
/// The version of the notices.
pub(in crate::memory) const NOTICES: u8 = b'V';
/// A notice.
pub(in crate::memory) const NOTICE: u8 = b'N';
/// The end, with the number of entries.
pub(in crate::memory) const END: u8 = b'Z';
