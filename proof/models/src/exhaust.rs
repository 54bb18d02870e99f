//! A model that is checked to the end: its world, what it promises, and what was found.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::collections::HashMap;
use std::time::Instant;

use serde::Serialize;
use stateright::{Checker as _, Model};

/// A promise of a model: the name of an `always` property, its bound in words, and the name of the
/// `sometimes` property that reaches the bound.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    pub(crate) name: &'static str,
    pub(crate) bound: String,
    pub(crate) witness: &'static str,
}

impl Promise {
    pub(crate) fn new(name: &'static str, bound: impl Into<String>, witness: &'static str) -> Self {
        Self { name, bound: bound.into(), witness }
    }
}

/// A model with a name, whose states are finite.
pub(crate) trait World: Model + Send + Sync + 'static {
    /// How large the world is, in a few words.
    fn size(&self) -> String;

    /// The promises about every state.
    fn promises(&self) -> Vec<Promise>;
}

/// How a promise fared.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Kept {
    /// The promise.
    pub promise: &'static str,
    /// Its bound.
    pub bound: String,
    /// Whether it holds in every state.
    pub holds: bool,
    /// The name of the state that reaches the bound.
    pub witness: &'static str,
    /// Whether a state does.
    pub is_reached: bool,
    /// The shortest way to a state that breaks it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken_by: Vec<String>,
    /// The shortest way to the witness.
    pub reached_by: Vec<String>,
}

/// The result of a check of one world.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Found {
    /// The model.
    pub model: &'static str,
    /// The size of its world.
    pub world: String,
    /// The number of different states.
    pub states: usize,
    /// The number of steps from the first state to the farthest.
    pub depth: usize,
    /// Whether every state was looked at that can be reached.
    pub is_exhausted: bool,
    /// Whether a search in another order found as many states.
    pub is_one_count: bool,
    /// The promises, and how each fared.
    pub promises: Vec<Kept>,
    /// How long it took.
    pub seconds: f64,
}

impl Found {
    /// True when every promise holds in every state, and every bound is reached.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let kept = self.promises.iter().all(|kept| kept.holds && kept.is_reached);
        self.is_exhausted && self.is_one_count && kept
    }
}

/// Checks a model to the end, by this many threads.
///
/// It is done once more, depth first. Of equal states another one is met first then, so that states
/// which are taken for equal and are not lead to another number of states.
pub(crate) fn exhaust<W>(name: &'static str, world: W, threads: usize) -> Found
where
    W: World + Clone,
    W::State: fmt::Debug + Hash + PartialEq + Send + Sync,
    W::Action: Clone + fmt::Debug + PartialEq + Send + Sync,
{
    let (size, promises) = (world.size(), world.promises());
    let again = world.clone();
    let started = Instant::now();
    let checker = world.checker().threads(threads).spawn_bfs().join();
    let seconds = started.elapsed().as_secs_f64();
    let found: HashMap<&str, Vec<String>> = checker
        .discoveries()
        .into_iter()
        .map(|(name, path)| {
            let steps = path.into_actions();
            (name, steps.iter().map(|action| format!("{action:?}")).collect())
        })
        .collect();
    let steps = |name: &str| found.get(name).cloned().unwrap_or_default();
    let kept = promises.into_iter().map(|Promise { name, bound, witness }| Kept {
        promise: name,
        bound,
        holds: !found.contains_key(name),
        witness,
        is_reached: found.contains_key(witness),
        broken_by: steps(name),
        reached_by: steps(witness),
    });
    let promises: Vec<Kept> = kept.collect();
    let deep = again.checker().threads(threads).spawn_dfs().join();
    Found {
        model: name,
        world: size,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        // The checker stops early only when nothing is left to be found.
        is_exhausted: checker.is_done() && promises.iter().any(|kept| kept.holds),
        is_one_count: deep.unique_state_count() == checker.unique_state_count(),
        promises,
        seconds,
    }
}

/// A value of the real code, told apart by all that it prints for debugging: every field counts.
#[derive(Clone)]
pub(crate) struct Printed<T>(pub(crate) T);

impl<T: fmt::Debug> fmt::Debug for Printed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes into a hasher what is printed.
struct Hashed<'h, H>(&'h mut H);

impl<H: Hasher> fmt::Write for Hashed<'_, H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl<T: fmt::Debug> Hash for Printed<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        // Writing into a hasher cannot fail.
        let _ = fmt::Write::write_fmt(&mut Hashed(hasher), format_args!("{:?}", self.0));
    }
}

impl<T: fmt::Debug> PartialEq for Printed<T> {
    fn eq(&self, other: &Self) -> bool {
        format!("{:?}", self.0) == format!("{:?}", other.0)
    }
}
