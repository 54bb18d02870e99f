//! Which script a question takes, and which keys: worked out once for a set of limits.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use sha1::Digest as _;
use smallvec::SmallVec;
use tollgate::engine::Mode;
use tollgate::{LimitSet, Question, StoreError};

use crate::client::{Counts, Many};
use crate::compose::{Answer, Check, Clock, Parts};
use crate::key::check_suffixes;
use crate::script::Script;

/// How many scripts a store keeps ready. One that is needed and not ready is composed again.
const MAX_PLANS: usize = 1_024;

type PlanKey = (SmallVec<[u64; 2]>, u8);

/// A composed script, and how the keys of its subjects are named.
pub(super) struct Plan {
    pub(super) script: Script,
    /// Of several such questions.
    pub(super) many: Arc<Many>,
    /// For each subject, what its keys have after that of its state.
    pub(super) suffixes: SmallVec<[Vec<String>; 1]>,
    pub(super) limits: usize,
}

impl Plan {
    /// How many keys the states and logs of its subjects are.
    pub(super) fn keys(&self) -> usize {
        self.suffixes.iter().map(Vec::len).sum()
    }
}

/// The plans that were made, each when it was needed first.
pub(super) struct Plans {
    clock: Clock,
    parts: Arc<Parts>,
    /// Of scripts of several questions.
    pub(super) counts: Arc<Counts>,
    known: RwLock<HashMap<PlanKey, Arc<Plan>>>,
}

impl Plans {
    pub(super) fn new(clock: Clock, parts: Parts) -> Self {
        let (parts, counts) = (Arc::new(parts), Arc::default());
        Self { clock, parts, counts, known: RwLock::default() }
    }

    /// The script of a question, composed once.
    pub(super) fn of(&self, question: &Question<'_>) -> Result<Arc<Plan>, StoreError> {
        let serials = question.parts.iter().map(|part| part.limits.serial()).collect();
        let key = (serials, mode_number(question.mode, question.request.is_some()));
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = known.get(&key) {
            return Ok(Arc::clone(plan));
        }
        drop(known);
        let sets: Vec<&LimitSet> = question.parts.iter().map(|part| part.limits).collect();
        let mut check = Check::new(question.mode);
        check.clock = self.clock;
        if question.request.is_some() {
            check.answer = Answer::Remembered;
        }
        let without_lua = || {
            StoreError::permanent(
                "a strategy of these limits has no step in Lua: connect with `swapping`",
            )
        };
        let script = check.compose(&sets, &self.parts).ok_or_else(without_lua)?;
        let owned: Vec<LimitSet> = sets.iter().copied().cloned().collect();
        let parts = Arc::clone(&self.parts);
        let many = move || {
            let sets: Vec<&LimitSet> = owned.iter().collect();
            // The script of one is there, so this is, too.
            check.compose_many(&sets, &parts).unwrap_or_else(|| Script::new(String::new()))
        };
        let plan = Arc::new(Plan {
            script,
            many: Arc::new(Many::new(many, Arc::clone(&self.counts))),
            suffixes: sets.iter().map(|set| check_suffixes(set)).collect(),
            limits: sets.iter().map(|set| set.limits().len()).sum(),
        });
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_PLANS {
            known.clear();
        }
        // Whoever needed it at the same time shares it: only then are they asked together.
        Ok(Arc::clone(known.entry(key).or_insert(plan)))
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
