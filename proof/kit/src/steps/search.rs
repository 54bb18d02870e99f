//! Breadth first over what a count can be, merged where two are equal.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate::SKEW_US;

use super::place::{later, signed};

/// A world: what a count can be, and what can be done with it. Time begins anywhere in a beat.
pub(super) trait World {
    /// A count at one time.
    type Node: Clone;
    /// An operation on it.
    type Op: Copy + core::fmt::Display;

    /// The counts to begin with.
    fn roots(&self) -> Vec<Self::Node>;
    /// All operations that a count may meet.
    fn ops(&self, node: &Self::Node) -> Vec<Self::Op>;
    /// Does one. The message of an error says how the engine and the oracle differ.
    fn apply(&self, node: &mut Self::Node, op: Self::Op) -> Result<(), String>;
    /// Moves a count to where it is the same as others.
    fn settle(&self, node: &mut Self::Node);
    /// All of a settled count, in numbers.
    fn key(&self, node: &Self::Node) -> Vec<i64>;
    /// Its time.
    fn now_us(node: &mut Self::Node) -> &mut u64;
    /// Until when anything of it counts.
    fn until_us(&self, node: &mut Self::Node) -> u64;
    /// How long anything can count that is charged now, in microseconds.
    fn reach_us(&self) -> u64;
    /// The length in which time is divided, in microseconds.
    fn beat_us(&self) -> u64;
}

/// The size of a search that found no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a table adds them up")]
pub struct Size {
    /// Operations that were done on both, and compared in every field.
    pub steps: u64,
    /// Counts at a time, each unlike all others, on which all operations were tried.
    pub states: u64,
    /// The operations after which nothing new was found, at most the depth asked for.
    pub depth: u64,
    /// Whether nothing new was left at that depth.
    pub ended: bool,
}

/// Where a count was found: the count before, the time that passed, and the operation.
struct Found<O> {
    before: usize,
    passed_us: i64,
    op: O,
}

/// Tries every operation after every time on all counts that `depth` operations can make.
///
/// # Errors
/// The shortest history after which the engine and the oracle differ.
pub(super) fn search<W: World>(world: &W, depth: u64) -> Result<Size, String> {
    const TRIED: u8 = 1;
    const FOUND: u8 = 2;
    let mut known: HashMap<Box<[i64]>, u8> = HashMap::new();
    let mut found: Vec<Option<Found<W::Op>>> = Vec::new();
    let mut size = Size::default();
    let mut level: Vec<(usize, W::Node)> = Vec::new();
    for mut root in world.roots() {
        world.settle(&mut root);
        level.push((found.len(), root));
        found.push(None);
    }
    while size.depth < depth && !level.is_empty() {
        let mut next = Vec::new();
        for (number, node) in level {
            for passed_us in spacings(world, &node) {
                let mut then = node.clone();
                let now_us = W::now_us(&mut then);
                *now_us = later(*now_us, passed_us);
                world.settle(&mut then);
                let key: Box<[i64]> = world.key(&then).into();
                if known.get(&key).is_some_and(|seen| *seen & TRIED > 0) {
                    continue;
                }
                *known.entry(key.clone()).or_insert(0) |= TRIED;
                size.states += 1;
                for op in world.ops(&then) {
                    let mut after = then.clone();
                    size.steps += 1;
                    if let Err(differs) = done(world, &mut after, op) {
                        let history = history(&found, number);
                        return Err(format!("{history}{passed_us:+} us: {differs}"));
                    }
                    world.settle(&mut after);
                    let changed = world.key(&after);
                    // Whatever follows an operation that changes nothing follows what was before.
                    if *changed == *key {
                        continue;
                    }
                    let seen = known.entry(changed.into()).or_insert(0);
                    if *seen & FOUND == 0 {
                        *seen |= FOUND;
                        next.push((found.len(), after));
                        found.push(Some(Found { before: number, passed_us, op }));
                    }
                }
            }
        }
        level = next;
        size.depth += 1;
    }
    size.ended = level.is_empty();
    Ok(size)
}

/// Does an operation. An engine that panics differs, too.
fn done<W: World>(world: &W, node: &mut W::Node, op: W::Op) -> Result<(), String> {
    let did = catch_unwind(AssertUnwindSafe(|| world.apply(node, op)));
    did.unwrap_or_else(|_| Err(format!("{op}: it panicked")))
}

/// The operations that led to a count, one in a line.
fn history<O: core::fmt::Display>(found: &[Option<Found<O>>], number: usize) -> String {
    match &found[number] {
        None => String::new(),
        Some(Found { before, passed_us, op }) => {
            format!("{}{passed_us:+} us: {op}\n", history(found, *before))
        }
    }
}

/// The longest of the small steps back, in microseconds.
const LONGEST_BACK_US: i64 = 13;

/// The times that pass before the next operation: all until nothing of the count is left and a beat
/// more, and steps back of the clock, small ones and those around the skew. Where the count is a
/// second ahead, the times between are left out, which are alike: those near now and those near its
/// end are there.
fn spacings<W: World>(world: &W, node: &W::Node) -> Vec<i64> {
    let mut copy = node.clone();
    let now_us = *W::now_us(&mut copy);
    let (reach, beat) = (signed(world.reach_us()) + 1, signed(world.beat_us()));
    let last = signed(world.until_us(&mut copy).saturating_sub(now_us)) + 1 + beat;
    let forward: Vec<i64> = if last <= 2 * (reach + beat) {
        (0..=last).collect()
    } else {
        (0..=reach).chain(last - reach - beat..=last).collect()
    };
    let skew = signed(SKEW_US);
    let back = (1..=reach.min(LONGEST_BACK_US)).chain(skew - 1..=skew + 1 + beat);
    forward.into_iter().chain(back.map(|us| -us)).collect()
}
