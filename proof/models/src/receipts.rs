//! Receipts that are given back in parts, in any order and too often: the memory store, which marks
//! what was given back.

use stateright::{Model, Property};
use tollgate::{LimitSet, Period};

use crate::exhaust::{Promise, World};
use crate::past::{Answer, Operation, Past, TICK_US};

/// The most ticks of a world.
const TICKS: u8 = 3;

/// A world of charges that are given back.
#[derive(Clone, Debug)]
pub(crate) struct Receipts {
    limits: LimitSet,
    /// The capacity of the limit.
    most: u64,
    operations: usize,
}

#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State {
    tick: u8,
    past: Past,
    answers: Vec<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    Do(Operation),
}

impl Receipts {
    pub(crate) fn new((limits, most): (&str, u64), operations: usize) -> anyhow::Result<Self> {
        Ok(Self { limits: limits.parse()?, most, operations })
    }

    /// The most units that may be used up to a tick, from the first.
    fn bound(&self, tick: u8) -> u64 {
        let window = Period::from_micros(u64::from(tick) * TICK_US + 1);
        window.map_or(0, |window| self.limits.limits()[0].most_in(window))
    }
}

impl State {
    /// The operations that charged, with their units and what was given back of them.
    fn charges(&self) -> impl Iterator<Item = (u64, u64)> {
        let charged = self.answers.iter().enumerate().filter(|(_, answer)| answer.granted > 0);
        charged.map(|(place, answer)| {
            let each = self.past.0.iter().zip(&self.answers);
            let given = each.filter_map(|((_, operation), answer)| match operation {
                Operation::Refund { of, .. } if *of == place => Some(answer.given),
                _ => None,
            });
            (answer.granted, given.sum())
        })
    }

    /// The units that were charged and not given back.
    fn used(&self) -> u64 {
        self.charges().map(|(charged, given)| charged.saturating_sub(given)).sum()
    }

    /// How many refunds gave something.
    fn refunds(&self) -> usize {
        self.answers.iter().filter(|answer| answer.given > 0).count()
    }
}

impl Model for Receipts {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State { tick: 0, past: Past::default(), answers: Vec::new() }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.tick < TICKS {
            actions.push(Action::Tick);
        }
        if state.past.0.len() >= self.operations {
            return;
        }
        actions.extend([1, 2].map(|cost| Action::Do(Operation::Check(cost))));
        for (of, answer) in state.answers.iter().enumerate() {
            let most = answer.granted.min(2);
            let refund = |units| Action::Do(Operation::Refund { of, units });
            actions.extend((1..=most).map(refund));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.tick += 1,
            Action::Do(operation) => {
                let answer = state.past.then(state.tick, operation, (&self.limits, 1));
                state.answers.push(answer);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("given back", |_, state: &State| {
                state.charges().all(|(charged, given)| given <= charged)
            }),
            Property::sometimes("all is given back in parts", |_, state: &State| {
                let is_in_parts = |(charged, given)| charged > 1 && charged == given;
                state.refunds() > 1 && state.charges().any(is_in_parts)
            }),
            Property::always("used", |world: &Self, state: &State| {
                state.used() <= world.bound(state.tick)
            }),
            Property::sometimes("all is used beside a refund", |world: &Self, state: &State| {
                state.refunds() > 0 && state.tick > 0 && state.used() == world.bound(state.tick)
            }),
            Property::always("remaining", |world: &Self, state: &State| {
                state.answers.iter().all(|answer| answer.remaining <= world.most)
            }),
            Property::sometimes(
                "nearly all remains behind a refund",
                |world: &Self, state: &State| {
                    let last = state.answers.last();
                    state.refunds() > 0 && last.is_some_and(|it| it.remaining + 1 == world.most)
                },
            ),
        ]
    }
}

impl World for Receipts {
    fn size(&self) -> String {
        format!("`{}`, {} operations, {TICKS} ticks", self.limits, self.operations)
    }

    fn promises(&self) -> Vec<Promise> {
        let used = format!("bound(t): {} at once", self.bound(0));
        let most = format!("{} units", self.most);
        vec![
            Promise::new("given back", "the units of the charge", "all is given back in parts"),
            Promise::new("used", used, "all is used beside a refund"),
            Promise::new("remaining", most, "nearly all remains behind a refund"),
        ]
    }
}
