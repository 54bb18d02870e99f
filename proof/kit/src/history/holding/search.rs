//! The search for an order of calls about holds that real time allows and that explains them all.

use std::collections::{BTreeSet, HashSet};

use crate::oracle::{HoldOracle, Kind};

use super::super::record::{Bounds, CallOutcome};
use super::{Renewing, Settling};

/// The finding about calls that share counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Some order explains all answers.
    Explained,
    /// No order does, and why not at the call at which most others are explained.
    Impossible { reason: String, calls: BTreeSet<u64> },
    /// It is not decided, for a reason.
    Open(String),
}

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) id: u64,
    pub(super) invoked_us: u64,
    pub(super) returned_us: u64,
    pub(super) is_answered: bool,
    /// The time of the decision, if the answer has it.
    pub(super) decided_us: Option<u64>,
    /// The counts that it is about.
    pub(super) counts: Vec<usize>,
    pub(super) what: Asked,
}

/// The question of a call, and the answer.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Ask { hold: Option<(u64, Kind, u64)>, cost: u64, outcome: CallOutcome, fence: Option<u64> },
    Settle { name: u64, actual: u64, answer: Settling },
    Renew { name: u64, ttl_us: u64, answer: Renewing },
}

impl Operation {
    /// The last time at which it can have been carried out.
    fn latest_us(&self, bounds: &Bounds) -> u64 {
        match self.decided_us {
            Some(decided_us) => decided_us,
            None if self.is_answered => self.returned_us,
            None => self.returned_us.saturating_add(bounds.late_us),
        }
    }
}

/// The state of all counts after some of the calls.
#[derive(Clone)]
struct State {
    counts: Vec<HoldOracle>,
    at_us: u64,
    fence: u64,
}

type Fingerprint = (u64, u64, Vec<Vec<Vec<i128>>>);

impl State {
    fn fingerprint(&self, now_us: u64) -> Fingerprint {
        let each = self.counts.iter().map(|count| count.fingerprint(now_us));
        (now_us, self.fence, each.collect())
    }

    fn counts_of(&mut self, places: &[usize]) -> impl Iterator<Item = &mut HoldOracle> {
        let each = self.counts.iter_mut().enumerate();
        each.filter(|(place, _)| places.contains(place)).map(|(_, count)| count)
    }

    /// The ends of holds in a range of time, which is without its first instant.
    fn ends_in(&self, operation: &Operation, low: u64, high: u64) -> BTreeSet<u64> {
        let counts = operation.counts.iter().filter_map(|place| self.counts.get(*place));
        counts.flat_map(HoldOracle::ends).filter(|end| (low + 1..=high).contains(end)).collect()
    }
}

/// Which calls were carried out: all before a place in the order of invocation, some of the next,
/// and some of those without an answer.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Done {
    before: usize,
    next: BTreeSet<usize>,
    unanswered: BTreeSet<usize>,
}

impl Done {
    fn has(&self, place: usize) -> bool {
        place < self.before || self.next.contains(&place)
    }

    fn with(&self, place: usize) -> Self {
        let mut done = self.clone();
        done.next.insert(place);
        while done.next.remove(&done.before) {
            done.before += 1;
        }
        done
    }
}

/// The most calls that may be the next one.
const MOST_OVERLAPPING: usize = 32;

struct Search<'s> {
    bounds: &'s Bounds,
    answered: Vec<&'s Operation>,
    unanswered: Vec<&'s Operation>,
    seen: HashSet<(Done, Fingerprint)>,
    /// Why not everything was tried, if it was not.
    incomplete: Option<String>,
    /// How many calls were explained at most, and the problem of the next.
    deepest: (usize, String, BTreeSet<u64>),
}

/// Searches for an order of calls, which are sorted by invocation.
pub(super) fn search(counts: Vec<HoldOracle>, calls: &[Operation], bounds: &Bounds) -> Found {
    for call in calls.iter().filter(|call| call.is_answered) {
        let within = call.invoked_us..=call.returned_us;
        if call.decided_us.is_some_and(|decided_us| !within.contains(&decided_us)) {
            let id = call.id;
            return Found::Open(format!("the store's time of call {id} is not within the call"));
        }
    }
    let (answered, unanswered) = calls.iter().partition(|call| call.is_answered);
    let mut search = Search {
        bounds,
        answered,
        unanswered,
        seen: HashSet::new(),
        incomplete: None,
        deepest: (0, "no call can be the first".to_owned(), BTreeSet::new()),
    };
    let fresh = State { counts, at_us: 0, fence: 0 };
    let done = Done { before: 0, next: BTreeSet::new(), unanswered: BTreeSet::new() };
    if search.explains(done, fresh) {
        return Found::Explained;
    }
    match search.incomplete {
        Some(reason) => Found::Open(reason),
        None => {
            let (_, reason, calls) = search.deepest;
            Found::Impossible { reason, calls }
        }
    }
}

impl Search<'_> {
    /// Goes into the depth first.
    fn explains(&mut self, done: Done, fresh: State) -> bool {
        let mut stack = vec![(done, fresh)];
        let mut steps_left = self.bounds.search_steps;
        while let Some((done, state)) = stack.pop() {
            if done.before >= self.answered.len() {
                return true;
            }
            if !self.seen.insert((done.clone(), state.fingerprint(state.at_us))) {
                continue;
            }
            if steps_left == 0 {
                self.incomplete = Some("too many orders are possible".to_owned());
                return false;
            }
            steps_left -= 1;
            let next = self.expand(&done, &state);
            // The first of them is tried first.
            stack.extend(next.into_iter().rev());
        }
        false
    }

    /// Carries each call out that may come next.
    fn expand(&mut self, done: &Done, state: &State) -> Vec<(Done, State)> {
        let (mut may, mut latest_us) = (Vec::new(), u64::MAX);
        let mut first_return_us = u64::MAX;
        for (place, call) in self.answered.iter().enumerate().skip(done.before) {
            if call.invoked_us > first_return_us {
                break;
            }
            if !done.has(place) {
                if may.len() >= MOST_OVERLAPPING {
                    self.incomplete = Some(format!("more than {MOST_OVERLAPPING} calls overlap"));
                    return Vec::new();
                }
                may.push((place, *call));
                first_return_us = first_return_us.min(call.returned_us);
                latest_us = latest_us.min(call.latest_us(self.bounds));
            }
        }
        let mut next: Vec<(Done, State)> = Vec::new();
        let mut refused: Option<(u64, String)> = None;
        may.retain(|(_, call)| call.invoked_us <= first_return_us);
        may.sort_by_key(|(_, call)| (call.latest_us(self.bounds), call.id));
        for (place, call) in may {
            match self.after(state, call, latest_us) {
                Ok(states) => next.extend(states.into_iter().map(|it| (done.with(place), it))),
                Err(reason) => {
                    refused.get_or_insert((call.id, reason));
                }
            }
        }
        let late: Vec<(usize, &Operation)> = self.unanswered.iter().copied().enumerate().collect();
        for (place, call) in late {
            if call.invoked_us > latest_us || done.unanswered.contains(&place) {
                continue;
            }
            let until_us = call.latest_us(self.bounds).min(latest_us);
            if let Ok(states) = self.after(state, call, until_us) {
                let mut done = done.clone();
                done.unanswered.insert(place);
                next.extend(states.into_iter().map(|it| (done.clone(), it)));
            }
        }
        let explained = done.before + done.next.len();
        if let Some((id, reason)) = refused
            && explained >= self.deepest.0
        {
            let mut calls: BTreeSet<u64> =
                state.counts.iter().flat_map(HoldOracle::names).collect();
            calls.insert(id);
            self.deepest = (explained, format!("call {id}: {reason}"), calls);
        }
        next
    }

    /// The states after a call, at each time that makes a difference.
    fn after(
        &mut self,
        state: &State,
        call: &Operation,
        latest_us: u64,
    ) -> Result<Vec<State>, String> {
        let low = call.invoked_us.max(state.at_us);
        if let Some(decided_us) = call.decided_us {
            let after = || "the store's time contradicts the order of the calls".to_owned();
            let now_us = Some(decided_us).filter(|now_us| (low..=latest_us).contains(now_us));
            return carried_out(state, call, now_us.ok_or_else(after)?).map(|it| vec![it]);
        }
        if low > latest_us {
            return Err("it comes after a call that had to come later".to_owned());
        }
        let mut times: BTreeSet<u64> = state.ends_in(call, low, latest_us);
        times.extend([low, latest_us]);
        times.extend(told_at(state, call, low, latest_us));
        let (mut states, mut reason, mut tried): (Vec<State>, _, u64) = (Vec::new(), None, 0);
        let mut prints: Vec<Fingerprint> = Vec::new();
        for now_us in times {
            tried += 1;
            match carried_out(state, call, now_us) {
                Err(why) => reason = Some(why),
                Ok(next) => {
                    // States that are the same later on are the same for all calls to come.
                    let (_, fence, counts) = next.fingerprint(latest_us);
                    let print = (0, fence, counts);
                    if !prints.contains(&print) {
                        prints.push(print);
                        states.push(next);
                    }
                }
            }
        }
        let asks = matches!(call.what, Asked::Ask { .. });
        if tried > 1 && (states.len() > 1 || (asks && !states.is_empty())) {
            let id = call.id;
            self.incomplete.get_or_insert(format!("call {id} has too many possible times"));
        }
        if states.is_empty() { Err(reason.unwrap_or_default()) } else { Ok(states) }
    }
}

/// The first time at which as much remains as a settle told, where units come back meanwhile.
fn told_at(state: &State, call: &Operation, low: u64, high: u64) -> Option<u64> {
    let Asked::Settle { answer: Settling::Done { remaining: Some(told) }, .. } = call.what else {
        return None;
    };
    let enough = |now_us| match settled(state, call, now_us) {
        Some(left) => left >= told,
        None => true,
    };
    let (mut low, mut high) = (low, high);
    if enough(low) || !enough(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

/// The remainder after a settle; `None` when its hold is not open.
fn settled(state: &State, call: &Operation, now_us: u64) -> Option<u64> {
    let Asked::Settle { name, actual, .. } = call.what else { return None };
    let mut next = state.clone();
    let mut least = None;
    for count in next.counts_of(&call.counts) {
        count.end_due(now_us);
        if count.take_away(now_us, name, actual) {
            let left = count.look(now_us).into_iter().map(|left| left.remaining).min();
            least = [least, left].into_iter().flatten().min();
        }
    }
    least
}

/// The state after a call at a time, or why it cannot have been answered as it was then.
fn carried_out(state: &State, call: &Operation, now_us: u64) -> Result<State, String> {
    let mut next = State { at_us: now_us, ..state.clone() };
    match call.what {
        Asked::Ask { .. } => ask(&mut next, call)?,
        Asked::Settle { .. } => settle(&mut next, call)?,
        Asked::Renew { name, ttl_us, answer } => {
            let mut is_open = false;
            for count in next.counts_of(&call.counts) {
                is_open |= count.renew(now_us, name, ttl_us).is_some();
            }
            match answer {
                Renewing::Until(_) if !is_open => return Err("it was not open".to_owned()),
                Renewing::NotOpen if is_open => return Err("it was open".to_owned()),
                _ => {}
            }
        }
    }
    Ok(next)
}

/// A check or a hold.
fn ask(next: &mut State, call: &Operation) -> Result<(), String> {
    let Asked::Ask { hold, cost, outcome, fence } = call.what else { return Ok(()) };
    let now_us = next.at_us;
    let kind = hold.map(|(_, kind, _)| kind);
    let left: Vec<_> = next.counts_of(&call.counts).flat_map(|count| count.look(now_us)).collect();
    let wanted = || left.iter().map(|left| (left, left.wanted(kind, cost)));
    let never = wanted().any(|(left, wanted)| wanted > left.limit);
    let admitted = wanted().all(|(left, wanted)| wanted <= left.remaining);
    let least = left.iter().map(|left| left.remaining).min().unwrap_or(0);
    let told = |told: Option<u64>, right: u64| match told {
        Some(told) if told != right => Err(format!("{right} remain, not {told}")),
        _ => Ok(()),
    };
    match outcome {
        CallOutcome::Allowed { remaining } => {
            if !admitted {
                let needed = wanted().find(|(left, wanted)| *wanted > left.remaining);
                let (left, wanted) = needed.map_or((0, 0), |(l, w)| (l.remaining, w));
                return Err(format!("{wanted} were admitted where {left} remained"));
            }
            let after = wanted().map(|(left, wanted)| left.remaining - wanted).min();
            told(remaining, after.unwrap_or(0))?;
            if let Some(fence) = fence {
                if fence <= next.fence {
                    return Err(format!("the fence {fence} came after {}", next.fence));
                }
                next.fence = fence;
            }
        }
        CallOutcome::Denied { .. } if admitted => {
            return Err(format!("it was denied where {least} remained"));
        }
        CallOutcome::Denied { .. } if never => return Err("it is never admitted".to_owned()),
        CallOutcome::Denied { remaining, .. } => {
            // Of slots or of units, whichever the binding limit counts: one that denies.
            let of_kind = |is_slots| {
                let of = || wanted().filter(move |(left, _)| left.is_slots == is_slots);
                let denies = of().any(|(left, wanted)| wanted > left.remaining);
                of().map(|(left, _)| left.remaining).min().filter(|_| denies)
            };
            let may_be = [of_kind(true), of_kind(false)];
            if !may_be.contains(&remaining) {
                told(remaining, least)?;
            }
        }
        CallOutcome::Never if !never => return Err("it is not above a limit".to_owned()),
        CallOutcome::Never | CallOutcome::NotCharged | CallOutcome::Unknown => {}
    }
    if admitted && !outcome.is_denial() {
        for count in next.counts_of(&call.counts) {
            count.place(now_us, cost, hold);
        }
    }
    Ok(())
}

/// A commit, a cancel or a release.
fn settle(next: &mut State, call: &Operation) -> Result<(), String> {
    let Asked::Settle { name, actual, answer } = call.what else { return Ok(()) };
    let now_us = next.at_us;
    let mut before = None;
    for count in next.counts_of(&call.counts) {
        count.end_due(now_us);
        before = before.or(count.was_settled(name));
    }
    let least = settled(next, call, now_us);
    for count in next.counts_of(&call.counts) {
        count.take_away(now_us, name, actual);
    }
    let right = match (answer, least, before) {
        (Settling::Unknown, ..) => true,
        (Settling::Done { remaining }, Some(left), _) => remaining.is_none_or(|told| told == left),
        (Settling::Already(told), None, Some(before)) => told == before,
        (Settling::NotOpen, None, None) => true,
        _ => false,
    };
    if !right {
        let is = match (least, before) {
            (Some(left), _) => format!("it was open, and {left} remain"),
            (None, Some(before)) => format!("it was settled for {before} before"),
            (None, None) => "it was not open".to_owned(),
        };
        return Err(format!("{is}, and the answer is {answer:?}"));
    }
    Ok(())
}
