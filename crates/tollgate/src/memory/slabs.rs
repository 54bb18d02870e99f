//! What a shard needs of its slabs beside what they offer.

use std::collections::HashMap;

use slab::Slab;

/// Closes the gaps of a slab. Answers which places moved where.
pub(super) fn compact<T>(slab: &mut Slab<T>) -> HashMap<usize, usize> {
    let mut moved = HashMap::new();
    slab.compact(|_, from, to| {
        moved.insert(from, to);
        true
    });
    slab.shrink_to_fit();
    moved
}

/// The bytes by which a slab grows for one more entry.
pub(super) fn growth_of<T>(slab: &Slab<T>) -> usize {
    if slab.len() < slab.capacity() { 0 } else { slab.capacity().max(4) * size_of::<(u64, T)>() }
}

/// Indices of a shard's slabs: they stay far below 2^32, which would not fit into memory.
pub(super) fn to_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
