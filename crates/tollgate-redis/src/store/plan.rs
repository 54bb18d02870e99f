//! Which script a question takes, and which keys: worked out once for a set of limits.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, PoisonError, RwLock};

use sha1::Digest as _;
use smallvec::SmallVec;
use tollgate::engine::Mode;
use tollgate::{LimitSet, Question, StoreError};

use crate::client::{Counts, Many};
use crate::compose::{self, Answer, Check, Clock, Parts};
use crate::key::check_suffixes;
use crate::script::Script;

/// How many scripts a store keeps ready. One that is needed and not ready is composed again.
const MAX_PLANS: usize = 1_024;

type PlanKey = (SmallVec<[u64; 2]>, u8);

/// A composed script, and how the keys of its subjects are named.
pub(super) struct Plan {
    pub(super) script: Arc<Script>,
    /// Of several such questions; none where the numbers are given: those go alone.
    pub(super) many: Option<Arc<Many>>,
    /// The numbers, where the script takes them as arguments.
    pub(super) given: Vec<String>,
    /// For each subject, what its keys have after that of its state.
    pub(super) suffixes: SmallVec<[Vec<String>; 1]>,
    pub(super) limits: usize,
}

impl Plan {
    fn of(script: Arc<Script>, sets: &[&LimitSet]) -> Self {
        Self {
            script,
            many: None,
            given: Vec::new(),
            suffixes: sets.iter().map(|set| check_suffixes(set)).collect(),
            limits: sets.iter().map(|set| set.limits().len()).sum(),
        }
    }

    /// How many keys the states and logs of its subjects are.
    pub(super) fn keys(&self) -> usize {
        self.suffixes.iter().map(Vec::len).sum()
    }
}

/// The plans that were made, each when it was needed first.
pub(super) struct Plans {
    clock: Clock,
    parts: Arc<Parts>,
    /// Of how many sets of limits the numbers are written into scripts.
    most_written: usize,
    hasher: RandomState,
    /// Of scripts of several questions.
    pub(super) counts: Arc<Counts>,
    known: RwLock<Known>,
}

/// What is known of plans.
#[derive(Default)]
struct Known {
    plans: HashMap<PlanKey, Arc<Plan>>,
    /// The sets whose numbers were written into a script, ever, by their hashes: a server keeps
    /// each such script until it ends.
    written: HashSet<u64>,
    /// The scripts that take their numbers, by what they are composed for.
    shared: HashMap<(String, u8), Arc<Script>>,
}

impl Known {
    /// Whether the numbers of a set may be written into a script.
    fn may_write(&mut self, hash: u64, most: usize) -> bool {
        self.written.contains(&hash) || self.written.len() < most && self.written.insert(hash)
    }
}

impl Plans {
    pub(super) fn new(clock: Clock, parts: Parts, most_written: usize) -> Self {
        let (parts, counts, hasher) = (Arc::new(parts), Arc::default(), RandomState::new());
        Self { clock, parts, most_written, hasher, counts, known: RwLock::default() }
    }

    /// The script of a question, composed once.
    pub(super) fn of(&self, question: &Question<'_>) -> Result<Arc<Plan>, StoreError> {
        let serials = question.parts.iter().map(|part| part.limits.serial()).collect();
        let key = (serials, mode_number(question.mode, question.request.is_some()));
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = known.plans.get(&key) {
            return Ok(Arc::clone(plan));
        }
        drop(known);
        let sets: Vec<&LimitSet> = question.parts.iter().map(|part| part.limits).collect();
        let mut check = Check::new(question.mode);
        check.clock = self.clock;
        if question.request.is_some() {
            check.answer = Answer::Remembered;
        }
        let texts: Vec<_> = sets.iter().map(|set| (set.identity(), set.full_text())).collect();
        let hash = self.hasher.hash_one((texts, key.1));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let is_written = known.may_write(hash, self.most_written);
        drop(known);
        let plan =
            if is_written { self.written(check, &sets) } else { self.given(check, &sets, key.1) };
        let without_lua = || {
            StoreError::permanent(
                "a strategy of these limits has no step in Lua: connect with `swapping`",
            )
        };
        let plan = Arc::new(plan.ok_or_else(without_lua)?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.plans.len() >= MAX_PLANS {
            known.plans.clear();
        }
        // Whoever needed it at the same time shares it: only then are they asked together.
        Ok(Arc::clone(known.plans.entry(key).or_insert(plan)))
    }

    /// A plan of a script that has these numbers.
    fn written(&self, check: Check, sets: &[&LimitSet]) -> Option<Plan> {
        let script = Arc::new(check.compose(sets, &self.parts)?);
        let owned: Vec<LimitSet> = sets.iter().copied().cloned().collect();
        let parts = Arc::clone(&self.parts);
        let many = move || {
            let sets: Vec<&LimitSet> = owned.iter().collect();
            // The script of one is there, so this is, too.
            check.compose_many(&sets, &parts).unwrap_or_else(|| Script::new(String::new()))
        };
        let many = Many::new(many, Arc::clone(&self.counts));
        Some(Plan { many: Some(Arc::new(many)), ..Plan::of(script, sets) })
    }

    /// A plan of a script that takes numbers.
    fn given(&self, check: Check, sets: &[&LimitSet], mode: u8) -> Option<Plan> {
        let key = (compose::shape(sets), mode);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let shared = known.shared.get(&key).map(Arc::clone);
        drop(known);
        let script = match shared {
            Some(script) => script,
            None => {
                let script = Arc::new(check.compose_given(sets, &self.parts)?);
                let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
                if known.shared.len() >= MAX_PLANS {
                    known.shared.clear();
                }
                Arc::clone(known.shared.entry(key).or_insert(script))
            }
        };
        Some(Plan { given: compose::given(sets), ..Plan::of(script, sets) })
    }
}

fn mode_number(mode: Mode, remembered: bool) -> u8 {
    let number = match mode {
        Mode::Whole => 0,
        Mode::Partial => 1,
        Mode::Peek => 2,
        _ => 3,
    };
    number + if remembered { 4 } else { 0 }
}

/// What makes a question the same as another: who is asked, under which limits, and how much.
pub(super) fn fingerprint(question: &Question<'_>) -> String {
    let mut digest = sha1::Sha1::new();
    digest.update(format!("{} {}", question.cost, mode_number(question.mode, false)));
    for part in &question.parts {
        // The full form says how it counts, the identity whose count it is.
        let limits = part.limits;
        let (identity, full) = (limits.identity(), limits.full_text());
        digest.update(format!("\n{} {full}", part.subject));
        if identity.contains('>') {
            digest.update(format!(" {identity}"));
        }
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
