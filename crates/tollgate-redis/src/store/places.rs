//! The places of the parts of a question in the slots of a cluster.

use smallvec::SmallVec;

/// The parts of each slot, by their places.
pub(super) type Slots = SmallVec<[SmallVec<[usize; 2]>; 2]>;

/// Puts what was answered by slots into the order of the parts. `limits` is the number of each
/// part's limits; each of `answers` has the values of a slot's limits.
pub(super) fn in_order<T>(
    slots: &Slots,
    limits: &[usize],
    answers: impl Iterator<Item = Vec<T>>,
) -> Vec<T> {
    let mut parts: Vec<Vec<T>> = limits.iter().map(|_| Vec::new()).collect();
    for (places, answer) in slots.iter().zip(answers) {
        let mut answer = answer.into_iter();
        for place in places {
            if let (Some(part), Some(limits)) = (parts.get_mut(*place), limits.get(*place)) {
                part.extend(answer.by_ref().take(*limits));
            }
        }
    }
    parts.into_iter().flatten().collect()
}
