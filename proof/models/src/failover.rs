//! A primary whose replica lags behind, and takes its place: Redis as `docs/redis-assumptions.md`
//! states it, and the memory store as what it counts.
//!
//! A write is atomic, and the replica gets the writes in their order. A failover keeps those that
//! it has. The old primary may go on with clients that have not heard of it.

use stateright::{Model, Property};
use tollgate::LimitSet;

use crate::exhaust::{Promise, World};
use crate::past::{Answer, Operation, Past};

/// How many ticks a request id is remembered: longer than any world.
const REMEMBERED: u8 = 100;

/// A world with a primary and a replica.
#[derive(Clone, Debug)]
pub(crate) struct Failover {
    limits: LimitSet,
    /// The units of the limit.
    most: u64,
    checks: u8,
    failovers: u8,
    /// Whether the old primary goes on for clients that have not heard of the new one.
    is_divided: bool,
}

#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State {
    primary: Past,
    /// How many of its writes the replica has.
    replicated: usize,
    /// The primary that was replaced, while it has clients.
    old: Option<Past>,
    checks: u8,
    failovers: u8,
    /// The units that callers were admitted.
    admitted: u64,
    /// The admitted units that the primary does not know, of each failover.
    unknown: Vec<u64>,
    /// Whether a request with an id met the record of its answer.
    is_again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// A check at the primary.
    Check(Operation),
    /// A check at the old primary.
    CheckOld(Operation),
    /// The replica gets one write more.
    Replicate,
    /// The replica takes the place of the primary.
    FailOver,
    /// The clients of the old primary hear of it.
    Unite,
}

impl Failover {
    pub(crate) fn new(
        (limits, most): (&str, u64),
        (checks, failovers): (u8, u8),
        is_divided: bool,
    ) -> anyhow::Result<Self> {
        Ok(Self { limits: limits.parse()?, most, checks, failovers, is_divided })
    }

    /// Asks a primary.
    fn ask(&self, past: &mut Past, operation: Operation) -> Answer {
        past.then(0, operation, (&self.limits, REMEMBERED))
    }

    /// The units that a primary counts.
    fn counted(&self, past: &Past) -> u64 {
        let answers = past.answers(&self.limits, REMEMBERED);
        answers.iter().filter(|answer| !answer.is_repeated).map(|answer| answer.granted).sum()
    }

    /// The units that all failovers have lost.
    fn lost(&self, state: &State) -> u64 {
        state.unknown.iter().sum()
    }
}

impl Model for Failover {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            primary: Past::default(),
            replicated: 0,
            old: None,
            checks: self.checks,
            failovers: self.failovers,
            admitted: 0,
            unknown: Vec::new(),
            is_again: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let asked = [Operation::Check(1), Operation::Check(2), Operation::Once(0)];
        if state.checks > 0 {
            actions.extend(asked.map(Action::Check));
            if state.old.is_some() {
                actions.extend([asked[0], asked[1]].map(Action::CheckOld));
            }
        }
        if state.replicated < state.primary.0.len() {
            actions.push(Action::Replicate);
        }
        if state.failovers > 0 {
            actions.push(Action::FailOver);
        }
        if state.old.is_some() {
            actions.push(Action::Unite);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Check(operation) => {
                state.checks -= 1;
                let answer = self.ask(&mut state.primary, operation);
                if !answer.is_repeated {
                    state.admitted += answer.granted;
                }
                state.is_again |= answer.is_repeated;
            }
            Action::CheckOld(operation) => {
                state.checks -= 1;
                let old = state.old.as_mut()?;
                let granted = self.ask(old, operation).granted;
                state.admitted += granted;
                *state.unknown.last_mut()? += granted;
            }
            Action::Replicate => state.replicated += 1,
            Action::FailOver => {
                state.failovers -= 1;
                let before = self.counted(&state.primary);
                let old = state.primary.clone();
                state.primary.0.truncate(state.replicated);
                state.unknown.push(before - self.counted(&state.primary));
                // The new primary has a replica, which has all that it has.
                state.old = self.is_divided.then_some(old);
            }
            Action::Unite => state.old = None,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn within(world: &Failover, state: &State) -> bool {
            state.admitted <= world.most + world.lost(state)
        }
        fn reached(world: &Failover, state: &State) -> bool {
            world.lost(state) > 0 && state.admitted == world.most + world.lost(state)
        }
        fn each(world: &Failover, state: &State) -> bool {
            state.unknown.iter().all(|lost| *lost <= world.most)
        }
        fn each_full(world: &Failover, state: &State) -> bool {
            let failovers = usize::from(world.failovers);
            let is_full = state.unknown.iter().all(|lost| *lost == world.most);
            state.unknown.len() == failovers
                && is_full
                && state.admitted == world.most * (failovers as u64 + 1)
        }
        fn once(world: &Failover, state: &State) -> bool {
            let answers = state.primary.answers(&world.limits, REMEMBERED);
            let asked = state.primary.0.iter().zip(&answers);
            let charged = asked.filter(|((_, operation), answer)| {
                *operation == Operation::Once(0) && answer.granted > 0 && !answer.is_repeated
            });
            charged.count() <= 1
        }
        fn again(_: &Failover, state: &State) -> bool {
            state.is_again && !state.unknown.is_empty()
        }
        vec![
            Property::always("admitted", within),
            Property::sometimes("all that was lost is admitted again", reached),
            Property::always("lost", each),
            Property::sometimes("each failover loses a whole limit", each_full),
            Property::always("charged", once),
            Property::sometimes("a retry meets the record behind a failover", again),
        ]
    }
}

impl World for Failover {
    fn size(&self) -> String {
        let divided = if self.is_divided { ", the old primary goes on" } else { "" };
        let Self { limits, checks, failovers, .. } = self;
        format!("`{limits}`, {checks} checks, {failovers} failovers{divided}")
    }

    fn promises(&self) -> Vec<Promise> {
        let admitted = "the limit and what was lost";
        let lost = format!("L for each failover: {}", self.most);
        vec![
            Promise::new("admitted", admitted, "all that was lost is admitted again"),
            Promise::new("lost", lost, "each failover loses a whole limit"),
            Promise::new("charged", "once", "a retry meets the record behind a failover"),
        ]
    }
}
