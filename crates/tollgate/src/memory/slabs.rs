//! Helpers for a shard's slabs and tables: sizes, growth and compaction.

use std::collections::HashMap;

use slab::Slab;

/// The layout of a slab's entry, whose own type is private.
#[allow(dead_code, reason = "only its size is asked for")]
enum Cell<T> {
    Vacant(usize),
    Occupied(T),
}

/// Closes the gaps of a slab. Returns the old and new index of each moved entry.
pub(super) fn compact<T>(slab: &mut Slab<T>) -> HashMap<usize, usize> {
    let mut moved = HashMap::new();
    slab.compact(|_, from, to| {
        moved.insert(from, to);
        true
    });
    slab.shrink_to_fit();
    moved
}

/// The bytes that a slab has allocated.
pub(super) fn bytes<T>(slab: &Slab<T>) -> usize {
    slab.capacity() * size_of::<Cell<T>>()
}

/// The bytes of a slab's unused entries.
pub(super) fn spare<T>(slab: &Slab<T>) -> usize {
    (slab.capacity() - slab.len()) * size_of::<Cell<T>>()
}

/// The bytes by which a slab grows for one more entry.
pub(super) fn growth_of<T>(slab: &Slab<T>) -> usize {
    if slab.len() < slab.capacity() { 0 } else { slab.capacity().max(4) * size_of::<Cell<T>>() }
}

/// The most bytes of a hash table with room for this number of entries.
pub(super) fn table_bytes<T>(capacity: usize) -> usize {
    let buckets = match capacity {
        0 => return 0,
        1..4 => 4,
        4..8 => 8,
        8..15 => 16,
        _ => (capacity * 8 / 7).next_power_of_two(),
    };
    // One control byte per entry, and a group of them at the end.
    buckets * (size_of::<T>() + 1) + 32
}

/// Converts an index of a shard's slab: it stays far below 2^32, which would not fit into memory.
pub(super) fn to_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
