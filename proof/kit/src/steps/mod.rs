//! Every history of small limits, beside the oracle: no sample of them.
//!
//! A search goes breadth first over pairs: what the engine holds of a count, and what the oracle
//! still remembers of it. Both are written relative to the time, as far as a strategy cannot tell
//! times apart, and a pair that is equal to one before is not tried again. To each pair every
//! operation is done after every time, by the engine that all stores share and by the oracle, and
//! every field of the answer has to be equal. `docs/proof.md` has the table.
//!
//! ```
//! use tollgate_proof::steps::{Reach, rows};
//!
//! let reach = Reach { periods_us: 1..=1, window: [1, 1], depth: 2, ..Reach::sample() };
//! let all = rows(&reach, |_| {});
//! assert!(all.iter().all(|row| row.different.is_none() && row.size.steps > 100));
//! ```

mod alone;
mod edges;
mod held;
mod op;
mod pair;
mod place;
mod quotas;
mod search;
mod table;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::{ManualClock, MemoryStore};

use crate::conformance::every_history;
use alone::Alone;
pub use edges::edges;
use held::BesideHolds;
pub use quotas::Reach;
use quotas::{FAMILIES, HELD, STORED};
pub use search::Size;
pub use table::{as_json, markdown};

/// The way in which histories are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// Counts alone, merged where they are equal.
    Alone,
    /// Counts with open holds, merged where they are equal.
    BesideHolds,
    /// Each history by itself, in a memory store.
    Store,
}

/// All limits of one kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// How its histories were tried.
    pub way: Way,
    /// The kind of limits, by its strategy, or the limits.
    pub name: &'static str,
    /// The most units, and the longest duration in microseconds.
    pub most: [u64; 2],
    /// How many limits there were, each beside other numbers.
    pub limits: usize,
    /// The sum over them. Without merging, `steps` is the number of histories.
    pub size: Size,
    /// The least history that differs, if one does.
    pub different: Option<String>,
    /// The processor time that it took.
    pub took: Duration,
}

/// The limits of a row, each with the numbers that it is changed to.
struct Worlds {
    name: &'static str,
    most: [u64; 2],
    texts: Vec<[String; 2]>,
}

/// One search to do.
struct Task {
    row: usize,
    texts: [String; 2],
}

/// Searches all limits within reach without holds: a row for each kind of limit that has some.
/// `progress` gets a line for each limit.
pub fn rows(reach: &Reach, progress: impl Fn(&str) + Sync) -> Vec<Row> {
    let worlds = FAMILIES.iter().map(|family| {
        let Reach { units, periods_us, .. } = family.within(reach);
        let most = [*units.end(), *periods_us.end()];
        Worlds { name: family.name, most, texts: family.worlds(reach) }
    });
    let worlds = worlds.filter(|worlds| !worlds.texts.is_empty());
    run(Way::Alone, worlds.collect(), reach.depth, progress)
}

/// Searches counts on which holds are open: a row for each set of limits.
pub fn rows_with_holds(depth: u64, progress: impl Fn(&str) + Sync) -> Vec<Row> {
    let worlds = HELD.iter().map(|texts| one(texts, [2, 3]));
    run(Way::BesideHolds, worlds.collect(), depth, progress)
}

/// Tries each history of this length by itself in a memory store, with receipts, holds and resets:
/// a row for each set of limits.
pub fn rows_in_a_store(depth: u64, progress: impl Fn(&str) + Sync) -> Vec<Row> {
    let worlds = STORED.iter().map(|texts| one(texts, [2, 2]));
    run(Way::Store, worlds.collect(), depth, progress)
}

/// A row of one world.
fn one(texts: &[&'static str; 2], most: [u64; 2]) -> Worlds {
    Worlds { name: texts[0], most, texts: vec![texts.map(str::to_owned)] }
}

/// Tries the worlds of each row, on all processors.
fn run(way: Way, worlds: Vec<Worlds>, depth: u64, progress: impl Fn(&str) + Sync) -> Vec<Row> {
    let (mut rows, mut tasks) = (Vec::new(), Vec::new());
    for Worlds { name, most, texts } in worlds {
        let (size, row) = (Size { ended: true, ..Size::default() }, rows.len());
        let took = Duration::ZERO;
        rows.push(Row { way, name, most, limits: 0, size, different: None, took });
        tasks.extend(texts.into_iter().map(|texts| Task { row, texts }));
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(rows));
    let work = || {
        while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            let found = way.search(&task.texts, depth);
            let (took, [own, other]) = (began.elapsed(), &task.texts);
            progress(&format!("{own} beside {other}: {found:?} in {took:.1?}"));
            let mut rows = done.lock().unwrap_or_else(PoisonError::into_inner);
            rows[task.row].add(task, found, took);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Way {
    /// Tries all histories of these limits. One that is refused has none.
    fn search(self, texts: &[String; 2], depth: u64) -> Result<Size, String> {
        let each = texts.iter().map(String::as_str);
        let size = match self {
            Self::Alone => Alone::read(each).map(|world| search::search(&world, depth)),
            Self::BesideHolds => BesideHolds::read(each).map(|world| search::search(&world, depth)),
            Self::Store => {
                let make = |clock: ManualClock| MemoryStore::builder().clock(clock).build();
                let limits = [&*texts[0], &*texts[1]];
                let found = every_history(&make, &limits, u32::try_from(depth).unwrap_or(1));
                let size = |steps| Size { steps, states: 0, depth, ended: false };
                Some(found.map(size).map_err(|differs| differs.to_string()))
            }
        };
        size.unwrap_or_else(|| Ok(Size::default()))
    }
}

impl Row {
    fn add(&mut self, task: &Task, found: Result<Size, String>, took: Duration) {
        self.took += took;
        match found {
            // Its numbers are refused.
            Ok(size) if size.steps == 0 => {}
            Ok(Size { steps, states, depth, ended }) => {
                self.limits += 1;
                self.size.steps += steps;
                self.size.states += states;
                self.size.depth = self.size.depth.max(depth);
                self.size.ended &= ended;
            }
            Err(differs) => {
                self.limits += 1;
                self.size.ended = false;
                let [own, other] = &task.texts;
                let text = format!("{own}, and {other} by turns:\n{differs}");
                self.different.get_or_insert(text);
            }
        }
    }
}
