//! One check over the states of one or several sets: the part that every store shares.
//!
//! A store finds the states, hands them to [`decide`], and keeps what it says has changed. It
//! never looks into a state, and the strategies never see a store.

use smallvec::SmallVec;

use crate::decision::{Charges, Receipt};
use crate::limit::{Limit, LimitSet, Place};
use crate::strategy::{Cell, Charge, Entry, Judgement, Log, NEVER_US, Step};
use crate::time::{SKEW_US, Time};

/// The state of a set for one subject, wherever it lives.
pub trait States {
    /// The state that lies at `place`.
    fn cell(&mut self, place: Place) -> Cell<'_>;
}

/// One (subject, set) of a check.
#[allow(missing_debug_implementations)] // borrows whatever the store has
pub struct Part<'a> {
    limits: &'a LimitSet,
    states: &'a mut dyn States,
    carried: Carries,
}

impl<'a> Part<'a> {
    /// The state of a subject under the limits it was written under.
    pub fn new(limits: &'a LimitSet, states: &'a mut dyn States) -> Self {
        Self { limits, states, carried: Carries::new() }
    }

    /// The same, after [`inherit`] said what it carried over.
    #[must_use]
    pub fn carrying(mut self, carried: Carries) -> Self {
        self.carried = carried;
        self
    }
}

/// What became of each limit's count, in declared order; empty when nothing changed.
pub type Carries = SmallVec<[Carried; 2]>;

/// What became of a limit's count when its numbers changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Carried {
    /// The numbers are those that the state was counted under.
    #[default]
    Same,
    /// The count was carried over to new numbers.
    Over,
    /// Another strategy, or a limit that was not there: it started fresh.
    Fresh,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mode {
    /// All of the cost or nothing.
    Whole,
    /// As much of the cost as remains.
    Partial,
    /// As `Whole`, changing nothing.
    Peek,
    /// As `Partial`, changing nothing.
    PeekPartial,
}

impl Mode {
    /// True when nothing may change.
    #[must_use]
    pub const fn is_peek(self) -> bool {
        matches!(self, Self::Peek | Self::PeekPartial)
    }
}

/// One limit's four fields, as `docs/definitions.md` defines them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fields {
    /// The largest cost that would be admitted now, after an Allow's charge.
    pub remaining: u64,
    /// The least wait until the cost is admitted; 0 where it would be now, `None` for never.
    pub retry_after_us: Option<u64>,
    /// The least wait until `remaining` is the limit.
    pub reset_after_us: u64,
    /// When the charge was recorded: the store's now, or the newest stored time under skew.
    pub charged_at_us: u64,
    /// What became of the count when the numbers changed.
    pub carried: Carried,
}

impl Fields {
    /// What a store answers that does not decide by [`decide`].
    #[must_use]
    pub const fn new(
        remaining: u64,
        retry_after_us: Option<u64>,
        reset_after_us: u64,
        charged_at_us: u64,
        carried: Carried,
    ) -> Self {
        Self { remaining, retry_after_us, reset_after_us, charged_at_us, carried }
    }

    #[inline]
    fn uncharged(judgement: &Judgement, now: Time) -> Self {
        let retry = judgement.retry_after_us;
        Self {
            remaining: judgement.remaining,
            retry_after_us: (retry != NEVER_US).then_some(retry),
            reset_after_us: judgement.reset_after_us,
            charged_at_us: now.as_micros(),
            carried: Carried::Same,
        }
    }
}

/// What a store answers: who was judged is the caller's to know.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The units admitted; 0 is a denial.
    pub granted: u64,
    /// The fields of each part's limits, in declared order.
    pub fields: SmallVec<[Fields; 1]>,
    /// True when the states must be written back, also after a denial (a repaired clock step).
    pub changed: bool,
    /// The charge's number in the store, 0 when nothing was charged. The store sets it.
    pub receipt: u64,
    /// The store's time of the decision.
    pub now: Time,
    /// True when the store is full and a subject has no count of its own: it was judged by one that
    /// it shares with others, or denied because there was no room even for that. The store sets it.
    pub shared: bool,
}

impl Outcome {
    /// What a store answers that does not decide by [`decide`].
    #[must_use]
    pub fn new(granted: u64, fields: SmallVec<[Fields; 1]>, receipt: u64, now: Time) -> Self {
        Self { granted, fields, changed: false, receipt, now, shared: false }
    }
}

/// What one limit answers: an [`Outcome`] without lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single {
    pub(crate) granted: u64,
    pub(crate) fields: Fields,
    pub(crate) changed: bool,
    pub(crate) receipt: u64,
    pub(crate) now: Time,
}

impl From<Single> for Outcome {
    #[inline]
    fn from(single: Single) -> Self {
        let Single { granted, fields, changed, receipt, now } = single;
        let fields = SmallVec::from_buf([fields]);
        Self { granted, fields, changed, receipt, now, shared: false }
    }
}

/// Judges one limit over two words: the shortest path, the same meaning as [`decide`].
#[inline(always)]
pub(crate) fn decide_pair(
    step: &impl Step,
    words: &mut [u64; 2],
    now: Time,
    cost: u64,
    peek: bool,
) -> Single {
    let mut cell = Cell::Words(words);
    let judgement = step.judge(&mut cell, now, cost);
    let admitted = judgement.retry_after_us == 0;
    let mut fields = Fields::uncharged(&judgement, now);
    let mut changed = false;
    if admitted && !peek {
        let charged = step.charge(&mut cell, now, cost);
        fields.remaining -= cost;
        fields.reset_after_us = charged.reset_after_us;
        fields.charged_at_us = charged.at_us;
        changed = true;
    } else if judgement.stepped_back && !peek {
        step.repair(&mut cell, now);
        changed = true;
    }
    let granted = if admitted { cost } else { 0 };
    Single { granted, fields, changed, receipt: 0, now }
}

/// Judges every limit of every part at one time, and charges all of them or none.
///
/// `cost` is 1 and up. After an Allow, or when [`Outcome::changed`] says so, the states have
/// changed and must be kept; otherwise they are as they were.
pub fn decide(parts: &mut [Part<'_>], now: Time, cost: u64, mode: Mode) -> Outcome {
    let limits = parts.iter().map(|part| part.limits.limits().len()).sum();
    let mut judged = Judged::new(limits);
    let cost = judged.cost(mode, cost, |judged, cost| {
        for part in parts.iter_mut() {
            judged.judge(part.limits, part.states, now, cost);
        }
    });
    let admitted = judged.admitted;
    // A count carried over to new numbers is kept by a denial too: carried over again later, from
    // the old numbers, it would not come back when the denial said.
    let carried_over = parts.iter().any(|part| part.carried.contains(&Carried::Over));
    let mut changed = carried_over && !mode.is_peek();
    let mut rest = &mut judged.fields[..];
    for part in parts.iter_mut() {
        let (fields, others) = rest.split_at_mut(part.limits.limits().len());
        rest = others;
        for (field, carried) in fields.iter_mut().zip(&part.carried) {
            field.carried = *carried;
        }
        if mode.is_peek() {
            continue;
        }
        if admitted {
            charge(part.limits, part.states, now, cost, fields);
            changed = true;
        } else if judged.stepped_back {
            mend(part.limits, part.states, now, cost);
            changed = true;
        }
    }
    Outcome { granted: if admitted { cost } else { 0 }, changed, ..judged.outcome(now) }
}

/// As [`decide`] over one part that carries nothing over: what nearly every check is. It sees the
/// states as what they are, and collects nothing but the answer. Not inlined: the usual limit goes
/// another way, which is to lie together.
#[inline(never)]
pub(crate) fn decide_set(
    limits: &LimitSet,
    states: &mut impl States,
    now: Time,
    cost: u64,
    mode: Mode,
) -> Outcome {
    let mut judged = Judged::new(limits.limits().len());
    let cost = judged.cost(mode, cost, |judged, cost| judged.judge(limits, states, now, cost));
    let admitted = judged.admitted;
    let mut changed = false;
    if !mode.is_peek() {
        if admitted {
            charge(limits, states, now, cost, &mut judged.fields);
            changed = true;
        } else if judged.stepped_back {
            mend(limits, states, now, cost);
            changed = true;
        }
    }
    Outcome { granted: if admitted { cost } else { 0 }, changed, ..judged.outcome(now) }
}

/// What the limits of a check say before anything is charged.
struct Judged {
    fields: SmallVec<[Fields; 1]>,
    admitted: bool,
    stepped_back: bool,
}

impl Judged {
    #[inline]
    fn new(limits: usize) -> Self {
        Self { fields: SmallVec::with_capacity(limits), admitted: true, stepped_back: false }
    }

    /// Judges `cost`, or for a partial ask as much of it as remains; answers what was judged.
    #[inline]
    fn cost(&mut self, mode: Mode, cost: u64, mut judge: impl FnMut(&mut Self, u64)) -> u64 {
        let cost = match mode {
            Mode::Whole | Mode::Peek => cost,
            Mode::Partial | Mode::PeekPartial => {
                judge(self, 1);
                let least = self.fields.iter().map(|field| field.remaining).min().unwrap_or(0);
                self.fields.clear();
                (self.admitted, self.stepped_back) = (true, false);
                // Nothing left is a denial, as for cost 1.
                cost.min(least).max(1)
            }
        };
        judge(self, cost);
        cost
    }

    #[inline]
    fn judge<S: States + ?Sized>(
        &mut self,
        limits: &LimitSet,
        states: &mut S,
        now: Time,
        cost: u64,
    ) {
        for (limit, place) in limits.limits().iter().zip(limits.places()) {
            let judgement = limit.step().judge(&mut states.cell(*place), now, cost);
            self.admitted &= judgement.retry_after_us == 0;
            self.stepped_back |= judgement.stepped_back;
            self.fields.push(Fields::uncharged(&judgement, now));
        }
    }

    #[inline]
    fn outcome(self, now: Time) -> Outcome {
        Outcome::new(0, self.fields, 0, now)
    }
}

/// Charges an admitted cost to every limit of a set, and says so in its fields.
#[inline]
fn charge<S: States + ?Sized>(
    limits: &LimitSet,
    states: &mut S,
    now: Time,
    cost: u64,
    fields: &mut [Fields],
) {
    for ((limit, place), field) in limits.limits().iter().zip(limits.places()).zip(fields) {
        let charged = limit.step().charge(&mut states.cell(*place), now, cost);
        field.remaining -= cost;
        field.reset_after_us = charged.reset_after_us;
        field.charged_at_us = charged.at_us;
    }
}

/// Mends the states of a set that lie in the future.
#[cold]
fn mend<S: States + ?Sized>(limits: &LimitSet, states: &mut S, now: Time, cost: u64) {
    for (limit, place) in limits.limits().iter().zip(limits.places()) {
        let mut cell = states.cell(*place);
        // Judged again rather than kept: clocks step back seldom, and checks are many.
        if limit.step().judge(&mut cell, now, cost).stepped_back {
            limit.step().repair(&mut cell, now);
        }
    }
}

/// True for words that a count of these limits can have. A store whose states may come from
/// elsewhere, or be damaged, asks before it works on them; of logs it must know itself that times
/// and totals rise.
#[must_use]
pub fn is_sound(limits: &LimitSet, words: &[u64]) -> bool {
    let mut each = limits.limits().iter().zip(limits.places());
    each.all(|(limit, place)| {
        words.get(place.words()).is_some_and(|words| limit.step().is_sound(words))
    })
}

/// When the state of a set means the same as a fresh one, in microseconds since the epoch. A
/// store may forget it then, and keeps it [`crate::SKEW_US`] longer.
pub fn fresh_at_us(limits: &LimitSet, states: &mut dyn States) -> u64 {
    let each = limits.limits().iter().zip(limits.places());
    each.map(|(limit, place)| limit.step().fresh_at_us(&mut states.cell(*place))).max().unwrap_or(0)
}

/// What a refund gives back of a charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portion {
    cost: u64,
    left: u64,
    units: u64,
}

impl Portion {
    /// All of a charge of `cost`.
    #[must_use]
    pub const fn whole(cost: u64) -> Self {
        Self { cost, left: cost, units: cost }
    }

    /// Of a charge of `cost`, of which `before` units were given back before, `units`, or what is
    /// left where that is less.
    #[must_use]
    pub fn part(cost: u64, before: u64, units: u64) -> Self {
        let left = cost.saturating_sub(before);
        Self { cost, left, units: units.min(left) }
    }

    /// How many units have been given back with it.
    #[must_use]
    pub const fn sum(self) -> u64 {
        self.cost - self.left + self.units
    }

    /// How many units can be given back after it.
    #[must_use]
    pub const fn left_after(self) -> u64 {
        self.left - self.units
    }

    /// True when nothing was left to give back.
    #[must_use]
    pub const fn is_nothing(self) -> bool {
        self.left == 0
    }
}

/// Gives back what still counts of a portion of a charge, recorded at `charged_at_us` (one time per
/// limit of `charged`, in declared order). The state may have been written under other numbers,
/// `limits`, since: limits are matched by identity, and one whose strategy changed gives nothing.
/// Nor does a charge that would no longer count under its own numbers ([`spent_until_us`]).
///
/// Answers by how many units `remaining` rose, per limit of `charged`.
pub fn give_back(
    limits: &LimitSet,
    states: &mut dyn States,
    charged: &LimitSet,
    charged_at_us: &[u64],
    portion: Portion,
    now: Time,
) -> SmallVec<[u64; 2]> {
    let Portion { cost, left, units } = portion;
    let mut given = SmallVec::new();
    for (limit, at_us) in charged.limits().iter().zip(charged_at_us) {
        let found = limits.limits().iter().zip(limits.places()).find(|(held, _)| {
            held.identity() == limit.identity() && held.strategy() == limit.strategy()
        });
        let Some((held, place)) = found else {
            given.push(0);
            continue;
        };
        let mut cell = states.cell(*place);
        held.step().repair(&mut cell, now);
        let Judgement { remaining: before, reset_after_us, .. } =
            held.step().judge(&mut cell, now, 1);
        // What is free by itself keeps its times: under a clock that is behind it counts again.
        if reset_after_us == 0 {
            given.push(0);
            continue;
        }
        // As long as its mark is kept, which nobody makes longer when the numbers change: so no
        // charge is given back twice, whatever they are later.
        if now.as_micros() < spent_until_us(limit, *at_us, cost) {
            held.step().give_back(&mut cell, now, Charge { at_us: *at_us, left, units });
        }
        let after = held.step().judge(&mut cell, now, 1).remaining;
        forget_if_free(held.step(), &mut cell, now);
        given.push(after.saturating_sub(before));
    }
    given
}

/// Until when a charge of `cost` under `limit` could still be given back, in microseconds since the
/// epoch: how long its mark must be kept once it was. Numbers that change later do not make it
/// longer.
#[must_use]
pub fn spent_until_us(limit: &Limit, charged_at_us: u64, cost: u64) -> u64 {
    limit.step().spent_until_us(charged_at_us, cost)
}

/// The same for a whole receipt: the last of its charges.
#[must_use]
pub fn receipt_until_us(receipt: &Receipt) -> u64 {
    let each = receipt.charges.iter().flat_map(|charges| {
        let Charges { limits, at_us, .. } = charges;
        let each = limits.limits().iter().zip(at_us);
        each.map(|(limit, at_us)| spent_until_us(limit, *at_us, receipt.cost))
    });
    each.max().unwrap_or(0)
}

/// Until when anything charged up to `now` could be given back, in microseconds since the epoch:
/// how long a store must remember that a subject was reset.
#[must_use]
pub fn refundable_until_us(limits: &LimitSet, now: Time) -> u64 {
    let at_us = now.as_micros() + SKEW_US;
    let each = limits.limits().iter();
    each.map(|limit| limit.step().spent_until_us(at_us, limit.capacity())).max().unwrap_or(0)
}

/// Gives `delta` units back to every limit, the oldest first, or takes them when it is negative,
/// at most what remains. An administrator's correction.
///
/// Answers the change of `remaining` per limit, in declared order.
pub fn adjust(
    limits: &LimitSet,
    states: &mut dyn States,
    delta: i64,
    now: Time,
) -> SmallVec<[i64; 2]> {
    let mut changes = SmallVec::new();
    for (limit, place) in limits.limits().iter().zip(limits.places()) {
        let mut cell = states.cell(*place);
        let step = limit.step();
        step.repair(&mut cell, now);
        let Judgement { remaining: before, reset_after_us, .. } = step.judge(&mut cell, now, 1);
        if delta > 0 && reset_after_us == 0 {
            changes.push(0);
            continue;
        }
        if delta > 0 {
            step.grant(&mut cell, now, delta.unsigned_abs());
        } else {
            let taken = delta.unsigned_abs().min(before);
            if taken > 0 {
                step.charge(&mut cell, now, taken);
            }
        }
        let after = step.judge(&mut cell, now, 1).remaining;
        forget_if_free(step, &mut cell, now);
        // Both are at most 2^40.
        changes.push(after.cast_signed() - before.cast_signed());
    }
    changes
}

/// When all of a state has been given back, it is fresh.
fn forget_if_free(step: &impl Step, cell: &mut Cell<'_>, now: Time) {
    if step.judge(cell, now, 1).reset_after_us == 0 {
        match cell {
            Cell::Words(words) => words.fill(0),
            Cell::Log(log) => log.replace(&[]),
        }
    }
}

/// Carries a state `old`, counted under `was`, into the fresh `states` of `limits`. Limits are
/// matched by identity.
pub fn inherit(
    limits: &LimitSet,
    states: &mut dyn States,
    was: &LimitSet,
    old: &mut dyn States,
    now: Time,
) -> Carries {
    let mut carries = Carries::new();
    for (limit, place) in limits.limits().iter().zip(limits.places()) {
        let before = was.limits().iter().zip(was.places());
        let found = before.into_iter().find(|(held, _)| held.identity() == limit.identity());
        carries.push(match found {
            Some((held, from)) if held.strategy() == limit.strategy() => {
                let (mut cell, mut from) = (states.cell(*place), old.cell(*from));
                if held.step() == limit.step() {
                    // Other words for the same numbers, as 60/1m for 1/1s under one name.
                    cell.copy(&mut from);
                    Carried::Same
                } else {
                    limit.step().inherit(&mut cell, held.step(), &mut from, now);
                    Carried::Over
                }
            }
            _ => Carried::Fresh,
        });
    }
    carries
}

/// A log in memory: what simple stores and tests use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VecLog {
    base: u64,
    entries: std::collections::VecDeque<Entry>,
}

impl VecLog {
    /// A log of these entries, after `base`.
    #[must_use]
    pub fn new(base: u64, entries: impl IntoIterator<Item = Entry>) -> Self {
        Self { base, entries: entries.into_iter().collect() }
    }
}

impl Log for VecLog {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn entry(&self, index: usize) -> Entry {
        self.entries.get(index).copied().unwrap_or(Entry { at_us: 0, total: self.base })
    }

    fn base(&self) -> u64 {
        self.base
    }

    fn drop_front(&mut self, count: usize) {
        if let Some(last) = count.checked_sub(1).and_then(|i| self.entries.get(i)) {
            self.base = last.total;
            self.entries.drain(..count);
        }
    }

    fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
    }

    fn amend(&mut self, entry: Entry) {
        if let Some(last) = self.entries.back_mut() {
            *last = entry;
        }
    }

    fn replace(&mut self, entries: &[Entry]) {
        self.base = 0;
        self.entries = entries.iter().copied().collect();
    }
}

/// The state of a set in memory: what simple stores and tests use. Fresh by default.
///
/// ```
/// use tollgate::engine::{Held, Mode, Part, decide};
/// use tollgate::{LimitSet, Time};
///
/// let limits: LimitSet = "2/10s, 3/1m via fixed_window".parse()?;
/// let mut held = Held::fresh(&limits);
/// let now = Time::from_micros(0);
/// for granted in [1, 1, 0] {
///     let mut parts = [Part::new(&limits, &mut held)];
///     assert_eq!(decide(&mut parts, now, 1, Mode::Whole).granted, granted);
/// }
/// # Ok::<(), tollgate::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs)] // a store builds it from what it has kept
pub struct Held {
    /// The words of all limits.
    pub words: Vec<u64>,
    /// The logs of all limits.
    pub logs: Vec<VecLog>,
}

impl Held {
    /// The state of a subject that nothing was charged to.
    #[must_use]
    pub fn fresh(limits: &LimitSet) -> Self {
        Self { words: vec![0; limits.words()], logs: vec![VecLog::default(); limits.logs()] }
    }
}

impl States for Held {
    fn cell(&mut self, place: Place) -> Cell<'_> {
        match place {
            Place::Words { start, end } => Cell::Words(&mut self.words[start..end]),
            Place::Log(index) => Cell::Log(&mut self.logs[index]),
        }
    }
}
