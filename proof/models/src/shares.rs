//! Nodes that go on with a share of a limit each while the store is away: `Limit::share`, and the
//! engine on each node.

use stateright::{Model, Property};
use tollgate::engine::{Mode, Part, VecStates, decide};
use tollgate::{Amounts, LimitSet, Period, Share, Time};

use crate::exhaust::{Promise, World};

/// The time between two ticks, in microseconds.
const TICK_US: u64 = 1_000_000;

/// The time of the first tick: a multiple of every window here.
const START_US: u64 = 3_600_000_000;

/// A world of nodes with equal shares.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    limits: LimitSet,
    share: LimitSet,
    nodes: usize,
    ticks: u8,
    checks: u8,
    crashes: u8,
}

#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State {
    tick: u8,
    checks: u8,
    crashes: u8,
    nodes: Vec<Vec<u64>>,
    /// Since which tick what is admitted is counted, how much, and how many crashes there were.
    watched: Option<(u8, u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    /// Time passes, and what is admitted is counted from then on.
    TickAndWatch,
    Check(usize),
    /// A node ends and starts again.
    Crash(usize),
}

impl Shares {
    pub(crate) fn new(
        limits: &str,
        nodes: u32,
        (ticks, checks, crashes): (u8, u8, u8),
    ) -> anyhow::Result<Self> {
        let limits: LimitSet = limits.parse()?;
        let each = Share::of_nodes(nodes).ok_or_else(|| anyhow::anyhow!("no share"))?;
        let share = limits.share(each)?;
        Ok(Self { limits, share, nodes: nodes as usize, ticks, checks, crashes })
    }

    /// The most that all nodes admit from one tick to another, both included: as much as the limit
    /// itself, and the share of each node that starts again.
    fn bound(&self, ticks: u8, crashes: u64) -> u64 {
        let window = Period::from_micros(u64::from(ticks) * TICK_US + 1);
        let alone = window.map_or(0, |window| self.limits.limits()[0].most_in(window));
        alone + crashes * self.share.limits()[0].capacity()
    }

    fn check(&self, state: &mut State, node: usize) {
        let now = Time::from_micros(START_US + u64::from(state.tick) * TICK_US);
        let mut states = VecStates { words: state.nodes[node].clone(), logs: Vec::new() };
        let mut parts = [Part::new(&self.share, &mut states)];
        let decided = decide(&mut parts, now, Amounts::from(1), Mode::Whole, None);
        let granted = decided.map_or(0, |outcome| outcome.granted);
        state.nodes[node] = states.words;
        if let Some((_, admitted, _)) = &mut state.watched {
            *admitted += granted;
        }
    }
}

impl Model for Shares {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let fresh = VecStates::fresh(&self.share).words;
        let state = State {
            tick: 0,
            checks: self.checks,
            crashes: self.crashes,
            nodes: vec![fresh; self.nodes],
            watched: None,
        };
        vec![State { watched: Some((0, 0, 0)), ..state.clone() }, state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.tick < self.ticks {
            actions.push(Action::Tick);
            if state.watched.is_none() {
                actions.push(Action::TickAndWatch);
            }
        }
        for node in 0..self.nodes {
            if state.checks > 0 {
                actions.push(Action::Check(node));
            }
            if state.crashes > 0 {
                actions.push(Action::Crash(node));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.tick += 1,
            Action::TickAndWatch => {
                state.tick += 1;
                state.watched = Some((state.tick, 0, 0));
            }
            Action::Check(node) => {
                state.checks -= 1;
                self.check(&mut state, node);
            }
            Action::Crash(node) => {
                state.crashes -= 1;
                state.nodes[node] = VecStates::fresh(&self.share).words;
                if let Some((_, _, crashes)) = &mut state.watched {
                    *crashes += 1;
                }
            }
        }
        // The nodes are alike: which of them is which says nothing.
        state.nodes.sort_unstable();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("admitted", |world: &Self, state: &State| {
                state.watched.is_none_or(|(since, admitted, crashes)| {
                    admitted <= world.bound(state.tick - since, crashes)
                })
            }),
            Property::sometimes(
                "as much as the limit is admitted",
                |world: &Self, state: &State| {
                    state.watched.is_some_and(|(since, admitted, crashes)| {
                        state.tick > since && admitted == world.bound(state.tick - since, crashes)
                    })
                },
            ),
        ]
    }
}

impl World for Shares {
    fn size(&self) -> String {
        let Self { limits, nodes, ticks, checks, crashes, .. } = self;
        format!("`{limits}`, {nodes} nodes, {ticks} ticks, {checks} checks, {crashes} crashes")
    }

    fn promises(&self) -> Vec<Promise> {
        let bound = "that of the limit, and a share for each node that starts again";
        vec![Promise::new("admitted", bound, "as much as the limit is admitted")]
    }
}
