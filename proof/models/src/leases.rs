//! Nodes with leases in front of one store: `holding.rs` and `lot.rs` of `tollgate-lease`, and the
//! engine at the store.
//!
//! A check is sent and answered at once, or its messages are on their way for as long as they like:
//! then they are late, lost on the way there or back, doubled, or come when nobody waits any more.
//! Nodes crash and start empty. Their clocks are as wrong as they may be.

use stateright::{Model, Property};
use tollgate::engine::{Mode, Outcome, Part, VecStates, decide};
use tollgate::{Amounts, Lease, Limit, LimitSet, Period, Time};
use tollgate_lease::rules::{Asked, Denial, Lot, Renewal, Step, Turn, receipts_of};

use crate::exhaust::{Printed, Promise, World};
use crate::lease_state::{Message, Node, STORE_US, State, TICK_US};

/// The longest that a denial applies on a node, as by default.
const LONGEST_DENIAL_US: u64 = 1_000_000;

/// A world of nodes with leases.
#[derive(Clone, Debug)]
pub(crate) struct Leases {
    limits: LimitSet,
    lease: Lease,
    /// How many microseconds each node's clock counts in a tick.
    rates: Vec<u64>,
    ticks: u8,
    checks: u8,
    /// How many checks have messages on their way, and nodes crash, in all.
    faults: u8,
    /// Whether the units that nodes hold are what binds, and not the time of a lease.
    is_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// Time passes.
    Tick,
    /// Time passes, and what is admitted is counted from then on.
    TickAndWatch,
    /// A check of one unit, answered at once.
    Check { node: usize },
    /// Checks, one after the other, until one is not admitted.
    Burst { node: usize },
    /// A check whose question and answer are on their way.
    Send { node: usize },
    /// The store decides about a message.
    Decide { message: usize },
    /// The same, and the message comes once more.
    DecideAndDouble { message: usize },
    /// An answer comes.
    Answer { message: usize },
    /// The caller waits no longer.
    GiveUp { message: usize },
    /// A message that nobody waits for is lost.
    Lose { message: usize },
    /// A node ends and starts again.
    Crash { node: usize },
}

impl Leases {
    /// A world under these limits, with nodes whose clocks count so many microseconds in a tick.
    pub(crate) fn new(
        limits: &str,
        rates: &[u64],
        (ticks, checks, faults): (u8, u8, u8),
    ) -> anyhow::Result<Self> {
        let limits: LimitSet = limits.parse()?;
        let lease = *limits.lease().ok_or_else(|| anyhow::anyhow!("no lease"))?;
        let held = lease.units() * rates.len() as u64;
        let world =
            Self { limits, lease, rates: rates.to_vec(), ticks, checks, faults, is_full: false };
        let is_full = world.bound(0) == world.alone(0) + held;
        Ok(Self { is_full, ..world })
    }

    fn limit(&self) -> &Limit {
        &self.limits.limits()[0]
    }

    /// The most units that are admitted from one tick to another, both included.
    fn bound(&self, ticks: u8) -> u64 {
        let window = Period::from_micros(u64::from(ticks) * TICK_US + 1);
        let nodes = self.rates.len() as u64;
        window.map_or(0, |window| self.lease.most_in(self.limit(), window, nodes))
    }

    /// The most that the limit alone admits in that time.
    fn alone(&self, ticks: u8) -> u64 {
        let window = Period::from_micros(u64::from(ticks) * TICK_US + 1);
        window.map_or(0, |window| self.limit().most_in(window))
    }

    /// The time of a node's clock, each of which began at another time.
    fn node_us(&self, state: &State, node: usize) -> u64 {
        (node as u64 + 1) * 1_000_000_000 + u64::from(state.tick) * self.rates[node]
    }

    /// A check of one unit on a node, at first or once it has waited. Returns what was admitted.
    fn step(&self, state: &mut State, node: usize, turn: Turn, at_once: bool) -> u64 {
        let now_us = self.node_us(state, node);
        let holding = &mut state.nodes[node].holding.0;
        let renewal = match holding.step(&self.lease, 1, turn, now_us) {
            Step::Answer(outcome) => {
                state.spend(&outcome);
                return outcome.granted;
            }
            Step::Wait(_) => {
                state.nodes[node].waiting += 1;
                return 0;
            }
            Step::Renew(renewal) => Some(renewal),
            Step::Ask => None,
        };
        // What was spent counts when it was, however late the caller hears of it.
        let spent = renewal.as_ref().and_then(|renewal| renewal.spent.clone());
        spent.iter().for_each(|outcome| state.spend(outcome));
        let spent = spent.map_or(0, |outcome| outcome.granted);
        let mut message = Message {
            node,
            renewal: renewal.map(Printed),
            sent_us: now_us,
            answer: None,
            is_awaited: true,
        };
        if !at_once {
            state.wire.push(message);
            return spent;
        }
        let outcome = self.decide(state, &message);
        let granted = message.need().min(outcome.granted);
        message.answer = Some(Printed(outcome));
        self.take_in(state, message);
        spent + granted
    }

    /// Checks on a node, one after the other, until one is not admitted.
    fn burst(&self, state: &mut State, node: usize) {
        // No node admits more at once than the limit and all that is held.
        for _ in 0..self.bound(0) {
            if self.step(state, node, Turn::First, true) == 0 {
                break;
            }
        }
    }

    /// The store decides, and charges.
    fn decide(&self, state: &mut State, message: &Message) -> Outcome {
        let renewal = message.renewal.as_ref().map(|renewal| &renewal.0);
        let cost = renewal.map_or(1, Renewal::asked);
        let need = message.need();
        let mode = if need <= 1 && renewal.is_some() { Mode::Partial } else { Mode::Whole };
        let mut states = VecStates { words: state.store.clone(), logs: Vec::new() };
        let now = Time::from_micros(STORE_US + u64::from(state.tick) * TICK_US);
        let mut parts = [Part::new(&self.limits, &mut states)];
        let Ok(mut outcome) = decide(&mut parts, now, Amounts::from(cost), mode, None) else {
            unreachable!("it places no hold");
        };
        state.store = states.words;
        // Nothing is given back here, so one number will do for all receipts.
        outcome.receipt = u64::from(outcome.granted > 0);
        // What the check itself needs is admitted by the store, now.
        state.admit(need.min(outcome.granted));
        outcome
    }

    /// An answer reaches its caller: as `check.rs` of `tollgate-lease` does.
    fn take_in(&self, state: &mut State, message: Message) {
        let node = message.node;
        let answered_us = self.node_us(state, node);
        let asked = Asked { sent_us: message.sent_us, answered_us };
        let Some(Printed(outcome)) = message.answer else { return };
        let holding = &mut state.nodes[node].holding.0;
        let bounds = (&self.lease, LONGEST_DENIAL_US);
        let Some(Printed(renewal)) = message.renewal else {
            holding.answered(&outcome, asked);
            if let Some(denial) = Denial::new(&outcome, 1, asked, LONGEST_DENIAL_US) {
                holding.denied(denial, asked, bounds);
            }
            return;
        };
        if outcome.granted == 0 {
            let cost = if renewal.need <= 1 { 1 } else { renewal.asked() };
            if let Some(denial) = Denial::new(&outcome, cost, asked, LONGEST_DENIAL_US) {
                holding.denied(denial, asked, bounds);
            }
        } else {
            let numbers = (receipts_of(renewal.asked()), 1);
            let lot = Lot::new(&outcome, (&self.limits, &self.lease), asked, numbers);
            let _ = holding.renewed((&outcome, lot), &renewal, asked, bounds);
        }
        self.end_renewal(state, node, true);
    }

    /// Time passes. Units that nobody spent in time are gone: nothing is given back here.
    fn pass(&self, state: &mut State) {
        state.tick += 1;
        for node in 0..state.nodes.len() {
            let now_us = self.node_us(state, node);
            drop(state.nodes[node].holding.0.take_ended(now_us, false));
        }
    }

    /// A renewal has ended, and those that waited look again.
    fn end_renewal(&self, state: &mut State, node: usize, is_answered: bool) {
        state.nodes[node].holding.0.end_renewal(is_answered);
        let turn = if is_answered { Turn::AfterRenewal } else { Turn::AfterFailure };
        for _ in 0..core::mem::take(&mut state.nodes[node].waiting) {
            self.step(state, node, turn, true);
        }
    }
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let state = State {
            tick: 0,
            checks: self.checks,
            faults: self.faults,
            store: VecStates::fresh(&self.limits).words,
            nodes: vec![Node::default(); self.rates.len()],
            wire: Vec::new(),
            watched: None,
            oldest: 0,
        };
        // Also a world that has begun: each node was asked once.
        let mut begun = state.clone();
        for node in 0..self.rates.len() {
            self.step(&mut begun, node, Turn::First, true);
        }
        let each = [state, begun].into_iter();
        each.flat_map(|state| [State { watched: Some((0, 0)), ..state.clone() }, state]).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.tick < self.ticks {
            actions.push(Action::Tick);
            if state.watched.is_none() {
                actions.push(Action::TickAndWatch);
            }
        }
        for node in 0..state.nodes.len() {
            if state.checks > 0 {
                actions.extend([Action::Check { node }, Action::Burst { node }]);
            }
            if state.checks > 0 && state.faults > 0 {
                actions.push(Action::Send { node });
            }
            if state.faults > 0 {
                actions.push(Action::Crash { node });
            }
        }
        for (message, it) in state.wire.iter().enumerate() {
            match (&it.answer, it.is_awaited) {
                (None, _) => {
                    actions.push(Action::Decide { message });
                    if state.faults > 0 {
                        actions.push(Action::DecideAndDouble { message });
                    }
                }
                (Some(_), true) => actions.push(Action::Answer { message }),
                (Some(_), false) => {}
            }
            actions.push(match it.is_awaited {
                true => Action::GiveUp { message },
                false => Action::Lose { message },
            });
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => self.pass(&mut state),
            Action::TickAndWatch => {
                self.pass(&mut state);
                state.watched = Some((state.tick, 0));
            }
            Action::Check { node } => {
                state.checks -= 1;
                self.step(&mut state, node, Turn::First, true);
            }
            Action::Burst { node } => {
                state.checks -= 1;
                self.burst(&mut state, node);
            }
            Action::Send { node } => {
                state.checks -= 1;
                state.faults -= 1;
                self.step(&mut state, node, Turn::First, false);
                if state.wire.len() == last.wire.len() {
                    // It needed no question: as a check that is answered at once.
                    return None;
                }
            }
            Action::Decide { message } | Action::DecideAndDouble { message } => {
                let mut it = state.wire.remove(message);
                if let Action::DecideAndDouble { .. } = action {
                    state.faults -= 1;
                    state.wire.push(Message { is_awaited: false, ..it.clone() });
                }
                let outcome = self.decide(&mut state, &it);
                if it.is_awaited {
                    it.answer = Some(Printed(outcome));
                    state.wire.push(it);
                }
            }
            Action::Answer { message } => {
                let it = state.wire.remove(message);
                self.take_in(&mut state, it);
            }
            Action::GiveUp { message } => {
                let node = state.wire[message].node;
                let renews = state.wire[message].renewal.is_some();
                if state.wire[message].answer.is_some() {
                    state.wire.remove(message);
                } else {
                    state.wire[message].is_awaited = false;
                }
                if renews {
                    self.end_renewal(&mut state, node, false);
                }
            }
            Action::Lose { message } => {
                state.wire.remove(message);
            }
            Action::Crash { node } => {
                state.faults -= 1;
                state.nodes[node] = Node::default();
                state.wire.retain(|it| it.node != node || it.answer.is_none());
                for it in state.wire.iter_mut().filter(|it| it.node == node) {
                    it.is_awaited = false;
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn at_most(world: &Leases, state: &State) -> bool {
            let bound = |since: u8| world.bound(state.tick - since);
            state.watched.is_none_or(|(since, admitted)| admitted <= bound(since))
        }
        fn as_many(world: &Leases, state: &State) -> bool {
            let bound = |since: u8| world.bound(state.tick - since);
            state.watched.is_some_and(|(since, admitted)| admitted == bound(since))
        }
        fn more(world: &Leases, state: &State) -> bool {
            let alone = |since: u8| world.alone(state.tick - since);
            state.watched.is_some_and(|(since, admitted)| admitted > alone(since))
        }
        fn held(world: &Leases, state: &State) -> bool {
            let nodes = state.nodes.iter().enumerate();
            let mut each = nodes.map(|(at, node)| node.holding.0.held_at(world.node_us(state, at)));
            each.all(|held| held <= world.lease.units())
        }
        fn full(world: &Leases, state: &State) -> bool {
            let nodes = state.nodes.iter().enumerate();
            let mut each = nodes.map(|(at, node)| node.holding.0.held_at(world.node_us(state, at)));
            each.all(|held| held == world.lease.units())
        }
        vec![
            Property::always("admitted", at_most),
            Property::sometimes("as many are admitted", as_many),
            Property::sometimes("more than without leases", more),
            Property::always("spent", |world: &Self, state: &State| {
                u64::from(state.oldest) * TICK_US < world.lease.ttl().as_micros()
            }),
            Property::sometimes(
                "a unit is spent at the last tick",
                |world: &Self, state: &State| {
                    (u64::from(state.oldest) + 1) * TICK_US >= world.lease.ttl().as_micros()
                },
            ),
            Property::always("held", held),
            Property::sometimes("all nodes hold as many", full),
        ]
    }
}

impl World for Leases {
    fn size(&self) -> String {
        format!(
            "`{}`, {} nodes, {} ticks, {} checks or bursts, {} faults",
            self.limits,
            self.rates.len(),
            self.ticks,
            self.checks,
            self.faults
        )
    }

    fn promises(&self) -> Vec<Promise> {
        let (bound, reached) = match self.is_full {
            true => ("bound(t) + n l", "as many are admitted"),
            // Whoever charges ahead spends a unit at once, so the last unit is never reached.
            false => ("bound(t + ttl)", "more than without leases"),
        };
        let most = format!("{bound}: {} at once", self.bound(0));
        let held = format!("{} on a node", self.lease.units());
        let spent = format!("within {} of its charge", self.lease.ttl());
        vec![
            Promise::new("admitted", most, reached),
            Promise::new("spent", spent, "a unit is spent at the last tick"),
            Promise::new("held", held, "all nodes hold as many"),
        ]
    }
}
