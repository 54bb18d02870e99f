//! Which calls share counts, and in which order they were decided.

use std::collections::BTreeMap;

use tollgate::engine::MAX_REPEATS;

use crate::conformance::rule_of;
use crate::oracle::Rule;

use super::record::{Bounds, Call, CallOutcome, Fault, FaultKind, History};

/// One limit of a call: which count it is, and its rule there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) track: usize,
    /// `None` for a strategy that the oracle does not know.
    pub(super) rule: Option<Rule>,
    pub(super) capacity: u64,
}

/// The relation of a call to the others of its request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is alone, or is the one that was charged.
    Own,
    /// It was charged once, by itself or by an earlier call without an answer.
    OnceWith,
    /// It repeats the answer of another call, and charges nothing.
    Repeat,
}

/// A call with its counts.
#[derive(Clone, Debug)]
pub(super) struct Planned<'h> {
    pub(super) call: &'h Call,
    pub(super) asked: Vec<Asked>,
    pub(super) role: Role,
    /// How many clock steps came before it; `None` when one happened during the call.
    pub(super) epoch: Option<usize>,
}

impl Planned<'_> {
    /// When it returned; the end of time if it never did.
    pub(super) fn returned_us(&self) -> u64 {
        self.call.returned_us.unwrap_or(u64::MAX)
    }

    /// Whether it returned before `other` began.
    pub(super) fn is_before(&self, other: &Planned<'_>) -> bool {
        self.returned_us() < other.call.invoked_us
    }
}

/// The calls of a history, in groups that share no count with each other.
pub(super) struct Plan<'h> {
    pub(super) calls: Vec<Planned<'h>>,
    /// Positions in `calls`, by invocation.
    pub(super) groups: Vec<Vec<usize>>,
    /// Faults that may lose state.
    pub(super) losses: Vec<&'h Fault>,
    /// Faults that may add a capacity where windows have fixed edges: a step of the clock moves
    /// these too. Steps lose no state.
    pub(super) shifts: Vec<Fault>,
}

/// A count: subject, identity of the set, identity of the limit.
type CountKey<'h> = (&'h str, &'h str, &'h str);

impl<'h> Plan<'h> {
    pub(super) fn new(history: &'h History, bounds: &Bounds) -> Self {
        let mut tracks: BTreeMap<CountKey<'h>, usize> = BTreeMap::new();
        let steps = history.faults.iter().filter(|fault| fault.kind == FaultKind::ClockStep);
        let steps: Vec<&Fault> = steps.collect();
        // An error that charged nothing shows nothing.
        let told = history.calls.iter().filter(|call| call.outcome != CallOutcome::NotCharged);
        let calls: Vec<Planned<'h>> = told
            .map(|call| Planned {
                call,
                asked: asked(call, &mut tracks),
                role: Role::Own,
                epoch: epoch(call, &steps),
            })
            .collect();
        let groups = groups(&calls, tracks.len());
        let losses = history.faults.iter().filter(|fault| fault.lost_states > 0).collect();
        let shifts = steps.iter().map(|&step| Fault { lost_states: 1, ..step.clone() }).collect();
        let mut plan = Self { calls, groups, losses, shifts };
        plan.assign_roles(bounds);
        plan
    }

    /// Finds the calls of each request id. Calls that come after the store may have forgotten the
    /// id are a separate set.
    fn assign_roles(&mut self, bounds: &Bounds) {
        let mut by_request: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (position, planned) in self.calls.iter().enumerate() {
            if let Some(request) = &planned.call.request {
                by_request.entry(request).or_default().push(position);
            }
        }
        for mut members in by_request.into_values().filter(|members| members.len() > 1) {
            let invoked =
                |position: usize| self.calls.get(position).map_or(0, |p| p.call.invoked_us);
            members.sort_by_key(|&position| invoked(position));
            let mut sets: Vec<Vec<usize>> = Vec::new();
            let (mut until_us, mut asked) = (0, 0);
            for position in members {
                let is_known = invoked(position) <= until_us;
                asked = if is_known { asked + 1 } else { 0 };
                match sets.last_mut().filter(|_| is_known && asked <= MAX_REPEATS) {
                    Some(set) => set.push(position),
                    // Beyond the repeats each is charged by itself, and the id stays known.
                    None => {
                        until_us = invoked(position).saturating_add(bounds.requests_us);
                        sets.push(vec![position]);
                    }
                }
            }
            for (number, set) in sets.iter().enumerate() {
                self.assign_set(set, number > 0);
            }
        }
    }

    /// The first that was allowed is charged; the others repeat its answer. `again` when it may
    /// itself repeat an answer of an earlier set.
    fn assign_set(&mut self, members: &[usize], again: bool) {
        let first = members
            .iter()
            .copied()
            .filter_map(|position| Some((self.calls.get(position)?.call, position)))
            .filter(|(call, _)| call.outcome.is_allowed())
            .min_by_key(|(call, _)| (call.decided_us, call.invoked_us, call.id))
            .map(|(_, position)| position);
        let charged_us = first.and_then(|first| self.calls.get(first)?.call.returned_us);
        let mut unanswered = again;
        for &position in members {
            let Some(planned) = self.calls.get_mut(position) else { continue };
            let after = charged_us.is_some_and(|charged| charged < planned.call.invoked_us);
            match planned.call.outcome {
                // All of them together charge once: the first represents them.
                CallOutcome::Unknown if unanswered && !again || after => {
                    planned.role = Role::Repeat;
                }
                CallOutcome::Unknown => unanswered = true,
                CallOutcome::Allowed { .. } if Some(position) != first => {
                    planned.role = Role::Repeat;
                }
                _ => {}
            }
        }
        if let Some(planned) = first.and_then(|position| self.calls.get_mut(position))
            && unanswered
        {
            planned.role = Role::OnceWith;
        }
    }
}

/// The counts of a call.
fn asked<'h>(call: &'h Call, tracks: &mut BTreeMap<CountKey<'h>, usize>) -> Vec<Asked> {
    let mut asked = Vec::new();
    for part in &call.parts {
        for limit in part.limits.limits() {
            let next = tracks.len();
            let key = (part.subject.as_str(), part.limits.identity(), limit.identity());
            let track = *tracks.entry(key).or_insert(next);
            asked.push(Asked { track, rule: rule_of(limit), capacity: limit.capacity() });
        }
    }
    asked
}

/// How many clock steps were over before the call; `None` when one overlaps it.
fn epoch(call: &Call, steps: &[&Fault]) -> Option<usize> {
    let returned_us = call.returned_us.unwrap_or(u64::MAX);
    let during = |step: &&&Fault| step.began_us <= returned_us && call.invoked_us <= step.ended_us;
    // Only the time of a decision depends on the clock.
    if call.outcome.is_decision() && steps.iter().any(|step| during(&step)) {
        return None;
    }
    Some(steps.iter().filter(|step| step.ended_us < call.invoked_us).count())
}

/// Joins calls that share a count.
fn groups(calls: &[Planned<'_>], tracks: usize) -> Vec<Vec<usize>> {
    let mut parents: Vec<usize> = (0..tracks).collect();
    for planned in calls {
        for pair in planned.asked.windows(2) {
            if let [one, two] = pair {
                let (one, two) = (root(&mut parents, one.track), root(&mut parents, two.track));
                if let Some(parent) = parents.get_mut(one) {
                    *parent = two;
                }
            }
        }
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (position, planned) in calls.iter().enumerate() {
        if let Some(asked) = planned.asked.first() {
            groups.entry(root(&mut parents, asked.track)).or_default().push(position);
        }
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    for group in &mut groups {
        let began = |position: &usize| calls.get(*position).map(|p| (p.call.invoked_us, p.call.id));
        group.sort_by_key(began);
    }
    groups
}

/// The root of a track, halving the path on the way.
fn root(parents: &mut [usize], mut track: usize) -> usize {
    loop {
        let parent = parents.get(track).copied().unwrap_or(track);
        if parent == track {
            return track;
        }
        let above = parents.get(parent).copied().unwrap_or(parent);
        if let Some(slot) = parents.get_mut(track) {
            *slot = above;
        }
        track = above;
    }
}

/// The decisions of a group in the order of the store's time. `Err` names two calls: one returned
/// before the other began, and yet has the later time.
pub(super) fn by_store_time<'p, 'h>(
    calls: Vec<&'p Planned<'h>>,
) -> Result<Vec<Vec<&'p Planned<'h>>>, [u64; 2]> {
    let mut sorted = calls;
    sorted.sort_by_key(|planned| (planned.epoch, planned.call.decided_us));
    contradiction(&sorted)?;
    let same = |one: &&Planned<'_>, two: &&Planned<'_>| {
        (one.epoch, one.call.decided_us) == (two.epoch, two.call.decided_us)
    };
    Ok(sorted.chunk_by(same).map(|tie| arrange(tie.to_vec())).collect())
}

/// Nothing that comes later, by time, may have returned before what comes earlier began.
fn contradiction(sorted: &[&Planned<'_>]) -> Result<(), [u64; 2]> {
    let mut later: Option<&Planned<'_>> = None;
    let mut last = None;
    let mut of_last: Option<&Planned<'_>> = None;
    for planned in sorted.iter().rev() {
        let time = (planned.epoch, planned.call.decided_us);
        if last != Some(time) {
            // Within one time the order is free.
            later = earlier_return(later, of_last.take());
            last = Some(time);
        }
        if let Some(later) = later
            && later.is_before(planned)
        {
            return Err([planned.call.id, later.call.id]);
        }
        of_last = earlier_return(of_last, Some(planned));
    }
    Ok(())
}

fn earlier_return<'a, 'h>(
    one: Option<&'a Planned<'h>>,
    two: Option<&'a Planned<'h>>,
) -> Option<&'a Planned<'h>> {
    match (one, two) {
        (Some(one), Some(two)) if two.returned_us() < one.returned_us() => Some(two),
        (None, two) => two,
        (one, _) => one,
    }
}

/// The most calls of one microsecond that are put in order by comparing each with each.
const MOST_COMPARED: usize = 256;

/// Calls of one microsecond: in the order of real time, and where that is free by the units that
/// remained before each. A denial comes before an allowed call that found the same.
fn arrange<'p, 'h>(mut tie: Vec<&'p Planned<'h>>) -> Vec<&'p Planned<'h>> {
    tie.sort_by_key(|planned| {
        let call = planned.call;
        match call.outcome {
            CallOutcome::Allowed { remaining } => {
                let before = remaining.map_or(u64::MAX, |left| left.saturating_add(call.cost));
                (std::cmp::Reverse(before), 1, call.id)
            }
            CallOutcome::Denied { remaining, .. } => {
                (std::cmp::Reverse(remaining.unwrap_or(0)), 0, call.id)
            }
            _ => (std::cmp::Reverse(u64::MAX), 2, call.id),
        }
    });
    if tie.len() > MOST_COMPARED {
        return tie;
    }
    let mut arranged: Vec<&'p Planned<'h>> = Vec::with_capacity(tie.len());
    while !tie.is_empty() {
        let free = |one: &&Planned<'_>| !tie.iter().any(|other| other.is_before(one));
        let next = tie.iter().position(free).unwrap_or(0);
        arranged.push(tie.remove(next));
    }
    arranged
}
