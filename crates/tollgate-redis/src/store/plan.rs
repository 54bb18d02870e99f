//! Which script and which keys a question needs, computed once for a set of limits.

use core::ops::Range;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use smallvec::SmallVec;
use tollgate::engine::Mode;
use tollgate::{LimitSet, Question, RequestId, StoreError, Time, Unit};

use crate::compose::{self, Check, Clock, HoldScripts, Parts, ReplyFormat};
use crate::key::check_suffixes;
use crate::node::{BatchScript, Counts};
use crate::script::Script;

/// The most scripts that a store caches. A script that is not cached is composed again.
const MAX_PLANS: usize = 1_024;

/// The most sets of one shape whose numbers are written into scripts. So many plans are common;
/// more of one shape are the limits of tenants, each with numbers of its own.
const MAX_OF_A_SHAPE: usize = 32;

/// The serials of the sets, the mode, and the units of a cost that is not plain.
type PlanKey = (SmallVec<[u64; 2]>, u8, Vec<Unit>);

/// The shape of the sets, the mode, and the units.
type SharedKey = (String, (u8, Vec<Unit>));

/// A composed script, and the suffixes of its subjects' keys.
pub(super) struct Plan {
    pub(super) script: Arc<Script>,
    /// The script of a batch; `None` where the script takes number arguments, whose calls are not
    /// batched.
    pub(super) batch: Option<Arc<BatchScript>>,
    /// The numbers, where the script takes them as arguments.
    pub(super) number_args: Vec<String>,
    /// The suffixes of each subject's keys after that of its state.
    pub(super) suffixes: SmallVec<[Vec<String>; 1]>,
    pub(super) limits: usize,
    /// When a count under these limits was last seen to have open holds.
    pub(super) held: LastHeld,
    /// When it is made again, with other edges of its calendars.
    times: Range<Time>,
}

/// When a count was last seen to have open holds. Where that was a moment ago, a check is sent
/// directly to the script that knows holds, and not first to one that does not.
#[derive(Default)]
pub(super) struct LastHeld(AtomicU64);

/// How long a count with open holds is remembered, in milliseconds.
const HELD_FOR_MS: u64 = 1_000;

impl LastHeld {
    pub(super) fn note(&self) {
        self.0.store(elapsed_ms(), Ordering::Relaxed);
    }

    pub(super) fn is_recent(&self) -> bool {
        match self.0.load(Ordering::Relaxed) {
            0 => false,
            seen_ms => elapsed_ms() < seen_ms + HELD_FOR_MS,
        }
    }
}

/// Every time: no calendar is in a plan.
const ALWAYS: Range<Time> = Time::from_micros(0)..Time::MAX;

/// Whether these are the times of now. Where they are all, no clock is read.
fn are_now(times: &Range<Time>, now: &impl Fn() -> Time) -> bool {
    *times == ALWAYS || times.contains(&now())
}

/// The sets with the edges around a time, and while these are the best to bring.
fn around(sets: &mut [LimitSet], now: Time) -> Range<Time> {
    let mut times = ALWAYS;
    for set in sets {
        if let Some((with_edges, while_in)) = set.around(now) {
            *set = with_edges;
            times = times.start.max(while_in.start)..times.end.min(while_in.end);
        }
    }
    times
}

/// Milliseconds since the first call, at least 1.
fn elapsed_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX - HELD_FOR_MS).saturating_add(1)
}

impl Plan {
    fn new(script: Arc<Script>, sets: &[&LimitSet]) -> Self {
        Self {
            script,
            batch: None,
            number_args: Vec::new(),
            suffixes: sets.iter().map(|set| check_suffixes(set)).collect(),
            limits: sets.iter().map(|set| set.limits().len()).sum(),
            held: LastHeld::default(),
            times: ALWAYS,
        }
    }

    /// The number of keys for the states and logs of its subjects.
    pub(super) fn keys(&self) -> usize {
        self.suffixes.iter().map(Vec::len).sum()
    }
}

/// The plans, each made on first use.
pub(super) struct Plans {
    clock: Clock,
    parts: Arc<Parts>,
    /// The most sets of limits whose numbers are written into scripts.
    max_inlined: usize,
    hasher: RandomState,
    /// The counters of batch scripts.
    pub(super) counts: Arc<Counts>,
    cache: RwLock<PlanCache>,
    /// The scripts of holds, by the letters of their steps: at most one for each set of steps.
    holds: RwLock<HashMap<String, Arc<HoldCalls>>>,
    /// The arguments of scripts over any limits about these, by the serials of sets.
    count_args: RwLock<HashMap<u64, Arc<CountArgs>>>,
}

/// The scripts of holds for counts of some steps.
pub(super) struct HoldCalls {
    /// Those of one question.
    one: HoldScripts,
    /// Where the fast path knows these steps, those of several questions at the same time.
    place: Option<SimpleBatch>,
    settle: Option<SimpleBatch>,
}

/// The task of a script of holds. The fast path knows a question that `is_simple`; it would leave
/// each other one to the script of one, which is asked directly then.
#[derive(Clone, Copy)]
pub(super) enum HoldTask {
    /// Decides about counts on which holds may be open, or places one.
    Among { is_simple: bool },
    /// Takes a hold away, and charges what was used.
    Settle { is_simple: bool },
    /// Renews a hold.
    Renew,
}

impl HoldCalls {
    /// The script of one such question, and of several.
    pub(super) fn of(&self, task: HoldTask) -> (&Script, Option<&SimpleBatch>) {
        match task {
            HoldTask::Among { is_simple } => {
                (&self.one.among, self.place.as_ref().filter(|_| is_simple))
            }
            HoldTask::Settle { is_simple } => {
                (&self.one.settle, self.settle.as_ref().filter(|_| is_simple))
            }
            HoldTask::Renew => (&self.one.renew, None),
        }
    }
}

/// A script of several simple questions. Any other is left to the script of one.
pub(super) struct SimpleBatch {
    batch: Arc<BatchScript>,
    /// The share of the newest questions that were not simple, of `ALL`: each new one counts for
    /// one in 64.
    not_simple: AtomicU32,
}

/// None of the newest questions was simple.
const ALL: u32 = 1 << 16;

impl SimpleBatch {
    /// The script of several, if it pays. Where more than half of the questions must be asked
    /// again, as when most are denied, only every eighth (`turn`) finds out whether that is so
    /// still.
    pub(super) fn if_it_pays(&self, turn: u64) -> Option<&Arc<BatchScript>> {
        let pays = self.not_simple.load(Ordering::Relaxed) < ALL / 2 || turn.is_multiple_of(8);
        pays.then_some(&self.batch)
    }

    /// Notes whether a question was simple.
    pub(super) fn note(&self, is_simple: bool) {
        let old = self.not_simple.load(Ordering::Relaxed);
        let new = old - old / 64 + if is_simple { 0 } else { ALL / 64 };
        // Two at the same time may count as one.
        if new != old {
            self.not_simple.store(new, Ordering::Relaxed);
        }
    }
}

/// The arguments about a set for scripts over any limits.
pub(super) struct CountArgs {
    /// The arguments.
    pub(super) args: Vec<Vec<u8>>,
    /// The letters of the steps of its limits, in order.
    pub(super) codes: String,
    /// For each limit of a reply its place in declared order.
    pub(super) places: Vec<usize>,
    times: Range<Time>,
}

impl CountArgs {
    fn new(limits: &LimitSet, now: Time) -> Self {
        let mut limits = [limits.clone()];
        let times = around(&mut limits, now);
        let [limits] = &limits;
        let each = limits.limits().iter().filter_map(|limit| limit.lua_spec().step);
        let codes: BTreeSet<char> = each.map(|step| step.code).collect();
        Self {
            args: compose::count_args(limits),
            codes: codes.into_iter().collect(),
            places: compose::in_state_order(limits).iter().map(|(place, _)| *place).collect(),
            times,
        }
    }
}

/// The cached plans.
#[derive(Default)]
struct PlanCache {
    plans: HashMap<PlanKey, Arc<Plan>>,
    /// The hashes of all sets whose numbers were ever written into a script. A server keeps each
    /// such script until it stops.
    written: HashSet<u64>,
    /// How many of them there are of each shape.
    of_shape: HashMap<String, usize>,
    /// The scripts that take number arguments, by shape.
    shared: HashMap<SharedKey, Arc<Script>>,
}

impl PlanCache {
    /// Whether the numbers of a set of a shape may be written into a script.
    fn may_write(&mut self, hash: u64, shape: impl FnOnce() -> String, most: usize) -> bool {
        if self.written.contains(&hash) {
            return true;
        }
        if self.written.len() >= most {
            return false;
        }
        let of_shape = self.of_shape.entry(shape()).or_default();
        if *of_shape >= MAX_OF_A_SHAPE {
            return false;
        }
        *of_shape += 1;
        self.written.insert(hash)
    }
}

impl Plans {
    pub(super) fn new(clock: Clock, parts: Parts, max_inlined: usize) -> Self {
        let (parts, counts, hasher) = (Arc::new(parts), Arc::default(), RandomState::new());
        let (cache, holds, count_args) = <_>::default();
        Self { clock, parts, max_inlined, hasher, counts, cache, holds, count_args }
    }

    /// The arguments about these for scripts over any limits.
    pub(super) fn count_args(&self, limits: &LimitSet, now: impl Fn() -> Time) -> Arc<CountArgs> {
        let known = self.count_args.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&limits.serial());
        if let Some(args) = found.filter(|args| are_now(&args.times, &now)) {
            return Arc::clone(args);
        }
        drop(known);
        let now = now();
        let args = Arc::new(CountArgs::new(limits, now));
        let mut known = self.count_args.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_PLANS {
            known.clear();
        }
        known.insert(limits.serial(), Arc::clone(&args));
        args
    }

    /// The scripts of holds for counts of these steps.
    pub(super) fn hold_scripts(&self, codes: &str) -> Arc<HoldCalls> {
        let known = self.holds.read().unwrap_or_else(PoisonError::into_inner).get(codes).cloned();
        known.unwrap_or_else(|| {
            let scripts = Arc::new(self.hold_calls(codes));
            let mut all = self.holds.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(codes.to_owned()).or_insert(scripts))
        })
    }

    fn hold_calls(&self, codes: &str) -> HoldCalls {
        let shared = |script: Option<Script>| {
            let script = script?;
            let batch = BatchScript::new(move || script.clone(), Arc::clone(&self.counts));
            Some(SimpleBatch { batch: Arc::new(batch), not_simple: AtomicU32::new(0) })
        };
        HoldCalls {
            one: HoldScripts::of(codes, self.clock, &self.parts),
            place: shared(HoldScripts::place_many(codes, self.clock, &self.parts)),
            settle: shared(HoldScripts::settle_many(codes, self.clock, &self.parts)),
        }
    }

    /// The plan of a question, composed once.
    pub(super) fn get(
        &self,
        question: &Question<'_>,
        now: impl Fn() -> Time,
    ) -> Result<Arc<Plan>, StoreError> {
        let serials = question.parts.iter().map(|part| part.limits.serial()).collect();
        let units: Vec<Unit> = match question.cost.plain() {
            Some(_) => Vec::new(),
            None => question.cost.iter().map(|(unit, _)| *unit).collect(),
        };
        let key = (serials, mode_number(question.mode, question.request.is_some()), units);
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let found = cache.plans.get(&key);
        if let Some(plan) = found.filter(|plan| are_now(&plan.times, &now)) {
            return Ok(Arc::clone(plan));
        }
        drop(cache);
        let now = now();
        let mut sets: Vec<LimitSet> =
            question.parts.iter().map(|part| part.limits.clone()).collect();
        let times = around(&mut sets, now);
        let sets: Vec<&LimitSet> = sets.iter().collect();
        let mut check = Check::new(question.mode);
        check.clock = self.clock;
        if !key.2.is_empty() {
            check.units.clone_from(&key.2);
        }
        if question.request.is_some() {
            check.reply = ReplyFormat::Remembered;
        }
        let texts: Vec<_> = sets.iter().map(|set| (set.identity(), set.full_text())).collect();
        let hash = self.hasher.hash_one((texts, key.1, &key.2));
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        let is_written = cache.may_write(hash, || compose::shape(&sets), self.max_inlined);
        drop(cache);
        let plan = if is_written {
            self.inlined(check, &sets)
        } else {
            self.with_number_args(check, &sets, (key.1, key.2.clone()))
        };
        let without_lua = || {
            StoreError::permanent(
                "a strategy of these limits has no step in Lua: connect with `swapping`",
            )
        };
        let plan = Arc::new(Plan { times, ..plan.ok_or_else(without_lua)? });
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        if cache.plans.len() >= MAX_PLANS {
            cache.plans.clear();
        }
        // Concurrent callers share one plan, since only calls of the same plan are batched.
        let shared = cache.plans.entry(key).or_insert_with(|| Arc::clone(&plan));
        if !shared.times.contains(&now) {
            *shared = plan;
        }
        Ok(Arc::clone(shared))
    }

    /// A plan whose script has these numbers written in.
    fn inlined(&self, check: Check, sets: &[&LimitSet]) -> Option<Plan> {
        let script = Arc::new(check.compose(sets, &self.parts)?);
        let owned: Vec<LimitSet> = sets.iter().copied().cloned().collect();
        let parts = Arc::clone(&self.parts);
        let batch = move || {
            let sets: Vec<&LimitSet> = owned.iter().collect();
            // The script of one question composes, so this one does, too.
            check.compose_batch(&sets, &parts).unwrap_or_else(|| Script::new(String::new()))
        };
        let batch = BatchScript::new(batch, Arc::clone(&self.counts));
        Some(Plan { batch: Some(Arc::new(batch)), ..Plan::new(script, sets) })
    }

    /// A plan whose script takes number arguments.
    fn with_number_args(
        &self,
        check: Check,
        sets: &[&LimitSet],
        asked: (u8, Vec<Unit>),
    ) -> Option<Plan> {
        let key = (compose::shape(sets), asked);
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let shared = cache.shared.get(&key).map(Arc::clone);
        drop(cache);
        let script = match shared {
            Some(script) => script,
            None => {
                let script = Arc::new(check.compose_with_number_args(sets, &self.parts)?);
                let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
                if cache.shared.len() >= MAX_PLANS {
                    cache.shared.clear();
                }
                Arc::clone(cache.shared.entry(key).or_insert(script))
            }
        };
        Some(Plan { number_args: compose::number_args(sets), ..Plan::new(script, sets) })
    }
}

fn mode_number(mode: Mode, remembered: bool) -> u8 {
    let number = match mode {
        Mode::Whole => 0,
        Mode::Partial => 1,
        Mode::Peek => 2,
        Mode::PeekPartial => 3,
        Mode::Waiting => 4,
        _ => 5,
    };
    number + if remembered { 8 } else { 0 }
}

/// The scripts' form of a request: 16 bytes of its id, and 8 of its question.
pub(super) fn asked(request: RequestId<'_>, question: &Question<'_>) -> Vec<u8> {
    let (id, question) = question.fingerprints(request);
    [&id[..], &question[..8]].concat()
}
