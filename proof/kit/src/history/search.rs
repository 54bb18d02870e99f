//! Calls without the store's time: a search over every order that real time allows, and over every
//! time that a call can have been decided at.

use std::collections::{BTreeMap, BTreeSet};

use crate::oracle::Oracle;

use super::plan::{Plan, Planned, Role};
use super::record::{Bounds, CallOutcome};
use super::track::Doubt;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Searched {
    /// There is an order that explains every answer.
    Legal,
    /// There is no legal order.
    Illegal,
    /// The search was given up, for a reason.
    Exhausted(String),
}

/// A charge that must not happen, made on purpose: would an answer have shown it?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    None,
    /// Each charge of this kind.
    Each(Doubt),
    /// One unit more for one limit of one call, by its number and the limit's position.
    One(u64, usize),
}

/// The most calls that may overlap.
const MOST_OVERLAPPING: usize = 24;

/// The most times that are tried for one decision.
const MOST_TIMES: u64 = 64;

/// The most states that are carried from one overlap to the next.
const MOST_STATES: usize = 4_096;

/// Searches for an order of calls that share counts.
pub(super) fn search(
    plan: &Plan<'_>,
    calls: &[&Planned<'_>],
    bounds: &Bounds,
    mistake: Mistake,
) -> Searched {
    let refused = |reason: &str| Searched::Exhausted(format!("without the store's time: {reason}"));
    if calls.iter().any(|planned| planned.role != Role::Own) {
        return refused("request ids that came again");
    }
    let stepped = calls.iter().any(|planned| planned.epoch != Some(0));
    if stepped || !plan.losses.is_empty() {
        return refused("a clock was set, or state was lost");
    }
    let Some(fresh) = State::fresh(calls) else {
        return refused("a limit whose numbers changed, or that the oracle does not know");
    };
    let mut search = Search {
        bounds,
        mistake,
        places: fresh.1,
        steps_left: bounds.search_steps,
        incomplete: None,
        seen: BTreeSet::new(),
        ends: BTreeMap::new(),
    };
    let mut states = vec![fresh.0];
    let clusters = clusters(calls, bounds);
    let mut clusters = clusters.iter().peekable();
    while let Some(cluster) = clusters.next() {
        if cluster.len() > MOST_OVERLAPPING {
            return refused(&format!("{} calls overlap", cluster.len()));
        }
        let next_us = clusters.peek().and_then(|next| next.first()).map(|p| p.call.invoked_us);
        states = search.through(cluster, states, next_us);
        if let Some(reason) = search.incomplete.take_if(|_| states.is_empty()) {
            return refused(&reason);
        }
        if states.is_empty() {
            return Searched::Illegal;
        }
        if states.len() > MOST_STATES {
            return refused("too many states are possible");
        }
    }
    Searched::Legal
}

/// Calls that overlap, one after the other.
fn clusters<'p, 'h>(calls: &[&'p Planned<'h>], bounds: &Bounds) -> Vec<Vec<&'p Planned<'h>>> {
    let mut clusters: Vec<Vec<&Planned<'_>>> = Vec::new();
    let mut until_us = None;
    for &planned in calls {
        let end_us = match planned.call.outcome {
            CallOutcome::Unknown => planned.returned_us().saturating_add(bounds.late_us),
            _ => planned.returned_us(),
        };
        match clusters.last_mut() {
            Some(cluster) if until_us.is_some_and(|until| planned.call.invoked_us <= until) => {
                cluster.push(planned);
            }
            _ => clusters.push(vec![planned]),
        }
        until_us = until_us.max(Some(end_us));
    }
    clusters
}

/// The state of all counts of the group after some of the calls.
#[derive(Clone)]
struct State {
    tracks: Vec<Oracle>,
    at_us: u64,
}

impl State {
    /// Fresh counts, and where each is. None when a rule is unknown or changes.
    fn fresh(calls: &[&Planned<'_>]) -> Option<(Self, BTreeMap<usize, usize>)> {
        let mut rules = BTreeMap::new();
        for asked in calls.iter().flat_map(|planned| &planned.asked) {
            let rule = asked.rule?;
            if *rules.entry(asked.track).or_insert(rule) != rule {
                return None;
            }
        }
        let places = rules.keys().copied().zip(0..).collect();
        let tracks = rules.into_values().map(Oracle::grouped).collect::<Result<_, _>>().ok()?;
        Some((Self { tracks, at_us: 0 }, places))
    }

    fn fingerprint(&self, now_us: u64) -> Vec<Vec<i128>> {
        self.tracks.iter().map(|oracle| oracle.fingerprint(now_us)).collect()
    }
}

/// The least number of a range for which something that stays true is true.
fn first(low: u64, high: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if low > high || !holds(high) {
        return None;
    }
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

struct Search<'s> {
    bounds: &'s Bounds,
    mistake: Mistake,
    places: BTreeMap<usize, usize>,
    steps_left: u64,
    /// Why not everything was tried, if it was not.
    incomplete: Option<String>,
    seen: BTreeSet<(u32, u64, Vec<Vec<i128>>)>,
    ends: BTreeMap<Vec<Vec<i128>>, State>,
}

impl Search<'_> {
    /// The states that are possible after a cluster; one is enough when it is the last.
    fn through(
        &mut self,
        cluster: &[&Planned<'_>],
        states: Vec<State>,
        next_us: Option<u64>,
    ) -> Vec<State> {
        self.seen.clear();
        self.ends.clear();
        for state in states {
            self.explore(cluster, 0, &state, next_us);
            if next_us.is_none() && !self.ends.is_empty() {
                break;
            }
        }
        std::mem::take(&mut self.ends).into_values().collect()
    }

    /// Tries each call that may come next.
    fn explore(
        &mut self,
        cluster: &[&Planned<'_>],
        done: u32,
        state: &State,
        next_us: Option<u64>,
    ) {
        if self.steps_left == 0 {
            self.incomplete = Some("too many orders are possible".to_owned());
            return;
        }
        self.steps_left -= 1;
        if !self.seen.insert((done, state.at_us, state.fingerprint(state.at_us))) {
            return;
        }
        let left = || {
            let all = cluster.iter().enumerate();
            all.filter(|(position, _)| done & (1 << position) == 0)
        };
        let must = || left().filter(|(_, planned)| planned.call.outcome.is_decision());
        if must().next().is_none() {
            let at_us = next_us.unwrap_or(state.at_us);
            self.ends.entry(state.fingerprint(at_us)).or_insert_with(|| state.clone());
            if next_us.is_none() {
                return;
            }
        }
        let horizon_us = must().map(|(_, planned)| planned.returned_us()).max();
        let horizon_us = horizon_us.or(next_us).unwrap_or(state.at_us);
        for (position, planned) in left() {
            let blocked = must().any(|(other, it)| other != position && it.is_before(planned));
            if blocked {
                continue;
            }
            for next in self.after(state, planned, horizon_us) {
                self.explore(cluster, done | (1 << position), &next, next_us);
                if next_us.is_none() && !self.ends.is_empty() {
                    return;
                }
            }
        }
    }

    fn oracle<'t>(&self, state: &'t State, track: usize) -> Option<&'t Oracle> {
        state.tracks.get(*self.places.get(&track)?)
    }

    /// The states after a call that is decided next.
    fn after(&mut self, state: &State, planned: &Planned<'_>, horizon_us: u64) -> Vec<State> {
        let Some((low, high)) = self.times(state, planned, horizon_us) else { return Vec::new() };
        let early = self.charged(state, planned, low);
        if low == high || early.1.is_none() {
            return vec![early.0];
        }
        // The charge at the last time is the same as the one at the first: so are all between.
        let late = self.charged(state, planned, high);
        if early.0.fingerprint(high) == late.0.fingerprint(high) {
            return vec![early.0];
        }
        if high - low >= MOST_TIMES {
            self.incomplete = Some("a decision may have been made at too many times".to_owned());
            return vec![early.0, late.0];
        }
        (low..=high).map(|now_us| self.charged(state, planned, now_us).0).collect()
    }

    /// The first and the last time at which the call can have been decided as it was.
    fn times(&self, state: &State, planned: &Planned<'_>, horizon_us: u64) -> Option<(u64, u64)> {
        let call = planned.call;
        let (low, high) = match call.decided_us {
            Some(now_us) => (now_us, now_us),
            None if call.outcome == CallOutcome::Unknown => {
                let late_us = planned.returned_us().saturating_add(self.bounds.late_us);
                (call.invoked_us.max(state.at_us), late_us.min(horizon_us))
            }
            None => (call.invoked_us.max(state.at_us), planned.returned_us()),
        };
        if low < state.at_us || low > high {
            return None;
        }
        let oracles: Option<Vec<&Oracle>> =
            planned.asked.iter().map(|asked| self.oracle(state, asked.track)).collect();
        let oracles = oracles?;
        let cost = call.cost;
        let admits = |now_us| oracles.iter().all(|oracle| oracle.admits_after(now_us, 0, cost));
        let left = |now_us| oracles.iter().map(|oracle| oracle.left(now_us)).min().unwrap_or(0);
        // The times at which exactly `told` remain.
        let telling = |low, high, told: Option<u64>| {
            let Some(told) = told else { return Some((low, high)) };
            let from = first(low, high, |now_us| left(now_us) >= told)?;
            let over = first(from, high, |now_us| left(now_us) > told);
            (left(from) == told).then(|| (from, over.map_or(high, |over| over - 1)))
        };
        let never = planned.asked.iter().any(|asked| asked.capacity < cost);
        match call.outcome {
            CallOutcome::Allowed { remaining } => {
                let from = first(low, high, admits)?;
                telling(from, high, remaining.map(|told| told.saturating_add(cost)))
            }
            CallOutcome::Unknown => first(low, high, admits).map(|from| (from, high)),
            CallOutcome::Denied { .. } if never => None,
            CallOutcome::Denied { retry_after_us, remaining } => {
                let to = match first(low, high, admits) {
                    Some(from) => from.checked_sub(1).filter(|&to| to >= low)?,
                    None => high,
                };
                let (from, to) = telling(low, to, remaining)?;
                let Some(wait_us) = retry_after_us else { return Some((from, to)) };
                let waits = oracles.iter().map(|oracle| oracle.wait_for(low, cost));
                let admitted_us = low.checked_add(waits.max().flatten()?)?;
                let now_us = admitted_us.checked_sub(wait_us)?;
                (from..=to).contains(&now_us).then_some((now_us, now_us))
            }
            CallOutcome::Never => never.then_some((low, low)),
            CallOutcome::NotCharged => None,
        }
    }

    /// The state after the call is decided at a time, and whether that charged something.
    fn charged(&self, state: &State, planned: &Planned<'_>, now_us: u64) -> (State, Option<()>) {
        let mut next = State { tracks: state.tracks.clone(), at_us: now_us };
        let cost = planned.call.cost;
        let several = planned.asked.len() > 1;
        let allowed = !planned.call.outcome.is_denial();
        let mut changed = None;
        for (position, asked) in planned.asked.iter().enumerate() {
            let own = self
                .oracle(state, asked.track)
                .is_some_and(|oracle| oracle.admits_after(now_us, 0, cost));
            let doubt = match (allowed, own && several) {
                (true, _) => Doubt::Twice,
                (false, true) => Doubt::Partial,
                (false, false) => Doubt::Denied,
            };
            let more = match self.mistake {
                Mistake::Each(kind) if kind == doubt => cost,
                Mistake::One(id, at) if id == planned.call.id && at == position => 1,
                _ => 0,
            };
            let place = self.places.get(&asked.track);
            let Some(oracle) = place.and_then(|&place| next.tracks.get_mut(place)) else {
                continue;
            };
            for units in [if allowed { cost } else { 0 }, more].into_iter().filter(|&c| c > 0) {
                oracle.charge_beyond(now_us, units);
                changed = Some(());
            }
        }
        (next, changed)
    }
}
