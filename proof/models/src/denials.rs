//! Nodes that keep denials: the deny cache of `tollgate-lease` in front of the engine.
//!
//! Questions and answers may be late, a count is reset on any node, and the clocks of the nodes are
//! as wrong as they may be.

use core::iter;

use stateright::{Model, Property};
use tollgate::engine::{Mode, Outcome, Part, VecStates, decide};
use tollgate::{Amounts, Counted, LimitSet, Subject, Time};
use tollgate_lease::rules::{Asked, DenyCache};

use crate::exhaust::{Printed, Promise, World};

/// The time between two ticks, in microseconds.
const TICK_US: u64 = 1_000_000;

/// The store's time at the first tick: a multiple of every window here.
const STORE_US: u64 = 3_600_000_000;

/// How many microseconds each node's clock counts in a tick: one is as slow as it may be.
const RATES: [u64; 2] = [999_000, 1_000_000];

/// The hash of the only subject.
const HASH: u64 = 1;

/// A world of two nodes with deny caches.
#[derive(Clone, Debug)]
pub(crate) struct Denials {
    limits: LimitSet,
    subject: Subject,
    /// How long a denial applies at most, in ticks.
    longest: u8,
    ticks: u8,
    checks: u8,
    resets: u8,
}

/// An event that a cache hears of.
#[derive(Clone, Debug, Hash, PartialEq)]
enum Heard {
    Answer { outcome: Printed<Outcome>, asked: (u64, u64), changes: u32 },
    Changed,
}

#[derive(Clone, Debug, Default, Hash, PartialEq)]
pub(crate) struct Node {
    heard: Vec<Heard>,
    /// When the newest answer came.
    answered: u8,
    /// When the count was last reset on the other node.
    reset_elsewhere: Option<u8>,
}

/// A question on its way, or its answer.
#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct Message {
    node: usize,
    sent_us: u64,
    changes: u32,
    answer: Option<Printed<Outcome>>,
}

#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State {
    tick: u8,
    checks: u8,
    resets: u8,
    store: Printed<VecStates>,
    nodes: Vec<Node>,
    wire: Vec<Message>,
    seen: Seen,
}

/// The denials of caches so far.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq)]
pub(crate) struct Seen {
    /// One that the store would deny, too.
    is_right: bool,
    /// One that the store would admit, though nothing was changed elsewhere.
    is_wrong: bool,
    /// For how many ticks after its answer a denial applied that a reset elsewhere had ended.
    stale: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    /// A check, answered at once.
    Check(usize),
    /// A check that asks the store, with messages that take their time.
    Send(usize),
    /// The store decides about a question.
    Decide(usize),
    /// An answer comes.
    Answer(usize),
    /// A node resets the count.
    Reset(usize),
}

impl Denials {
    pub(crate) fn new(
        limits: &str,
        longest: u8,
        (ticks, checks, resets): (u8, u8, u8),
    ) -> anyhow::Result<Self> {
        let (limits, subject) = (limits.parse()?, Subject::parse("ann")?);
        Ok(Self { limits, subject, longest, ticks, checks, resets })
    }

    /// The cache of a node, by what it has heard.
    fn cache(&self, node: &Node) -> DenyCache {
        let cache = DenyCache::new(64, u64::from(self.longest) * TICK_US);
        let parts = [Counted::new(&self.subject, &self.limits)];
        for heard in &node.heard {
            match heard {
                Heard::Changed => cache.changed(HASH),
                Heard::Answer { outcome, asked: (sent_us, answered_us), changes } => {
                    let asked = Asked { sent_us: *sent_us, answered_us: *answered_us };
                    let denied = (&outcome.0, Amounts::from(1));
                    cache.put(HASH, &parts, denied, asked, *changes);
                }
            }
        }
        cache
    }

    fn node_us(state: &State, node: usize) -> u64 {
        (node as u64 + 1) * 1_000_000_000 + u64::from(state.tick) * RATES[node]
    }

    fn decide(&self, state: &mut State, mode: Mode) -> Outcome {
        let now = Time::from_micros(STORE_US + u64::from(state.tick) * TICK_US);
        let mut parts = [Part::new(&self.limits, &mut state.store.0)];
        decide(&mut parts, now, Amounts::from(1), mode, None)
            .unwrap_or_else(|_| unreachable!("it places no hold"))
    }

    /// A check on a node. `None` where the cache has no answer, and it is not to be asked at once.
    fn check(&self, state: &mut State, node: usize, is_prompt: bool) -> Option<()> {
        let cache = self.cache(&state.nodes[node]);
        let now_us = Self::node_us(state, node);
        let parts = [Counted::new(&self.subject, &self.limits)];
        let denied = cache.get(HASH, &parts, Amounts::from(1), now_us, iter::once(HASH));
        if denied.is_some() {
            if !is_prompt {
                return None;
            }
            let truth = self.decide(&mut state.clone(), Mode::Peek);
            self.note_denial(
                state,
                node,
                truth.fields.iter().any(|it| it.retry_after_us != Some(0)),
            );
            return Some(());
        }
        let changes = cache.changes(iter::once(HASH));
        let mut message = Message { node, sent_us: now_us, changes, answer: None };
        if !is_prompt {
            state.wire.push(message);
            return Some(());
        }
        message.answer = Some(Printed(self.decide(state, Mode::Whole)));
        Self::take_in(state, message);
        Some(())
    }

    /// A cache has denied: was it right?
    fn note_denial(&self, state: &mut State, node: usize, is_right: bool) {
        let Node { answered, reset_elsewhere, .. } = &state.nodes[node];
        if is_right {
            state.seen.is_right = true;
        } else if reset_elsewhere.is_some() {
            let stale = state.tick - answered;
            state.seen.stale = Some(state.seen.stale.unwrap_or(0).max(stale));
        } else {
            state.seen.is_wrong = true;
        }
    }

    fn take_in(state: &mut State, message: Message) {
        let Message { node, sent_us, changes, answer } = message;
        let Some(outcome) = answer else { return };
        let answered_us = Self::node_us(state, node);
        let is_denied = outcome.0.granted == 0;
        let it = &mut state.nodes[node];
        if is_denied {
            // Of several answers the newest counts.
            it.heard.retain(|heard| *heard == Heard::Changed);
            it.heard.push(Heard::Answer { outcome, asked: (sent_us, answered_us), changes });
            it.answered = state.tick;
        }
    }
}

impl Model for Denials {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            tick: 0,
            checks: self.checks,
            resets: self.resets,
            store: Printed(VecStates::fresh(&self.limits)),
            nodes: vec![Node::default(); RATES.len()],
            wire: Vec::new(),
            seen: Seen::default(),
        };
        // The limit is used up.
        while self.decide(&mut state, Mode::Whole).granted > 0 {}
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.tick < self.ticks {
            actions.push(Action::Tick);
        }
        for node in 0..state.nodes.len() {
            if state.checks > 0 {
                actions.extend([Action::Check(node), Action::Send(node)]);
            }
            if state.resets > 0 {
                actions.push(Action::Reset(node));
            }
        }
        for (place, message) in state.wire.iter().enumerate() {
            actions.push(match message.answer {
                None => Action::Decide(place),
                Some(_) => Action::Answer(place),
            });
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.tick += 1,
            Action::Check(node) => {
                state.checks -= 1;
                self.check(&mut state, node, true)?;
            }
            Action::Send(node) => {
                state.checks -= 1;
                self.check(&mut state, node, false)?;
            }
            Action::Decide(place) => {
                let answer = self.decide(&mut state, Mode::Whole);
                state.wire[place].answer = Some(Printed(answer));
            }
            Action::Answer(place) => {
                let message = state.wire.remove(place);
                Self::take_in(&mut state, message);
            }
            Action::Reset(node) => {
                state.resets -= 1;
                state.store = Printed(VecStates::fresh(&self.limits));
                state.nodes[node].heard.push(Heard::Changed);
                let tick = state.tick;
                let others = state.nodes.iter_mut().enumerate().filter(|(place, _)| *place != node);
                others.for_each(|(_, other)| other.reset_elsewhere = Some(tick));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("denied", |_, state: &State| !state.seen.is_wrong),
            Property::sometimes("a kept denial is right", |_, state: &State| state.seen.is_right),
            Property::always("stale", |world: &Self, state: &State| {
                state.seen.stale.is_none_or(|stale| stale <= world.longest)
            }),
            Property::sometimes(
                "a reset elsewhere is known so late",
                |world: &Self, state: &State| state.seen.stale == Some(world.longest),
            ),
        ]
    }
}

impl World for Denials {
    fn size(&self) -> String {
        let Self { limits, longest, ticks, checks, resets, .. } = self;
        format!(
            "`{limits}`, denials for {longest} ticks, {} nodes, {ticks} ticks, {checks} checks, \
             {resets} resets",
            RATES.len()
        )
    }

    fn promises(&self) -> Vec<Promise> {
        let stale = format!("{} ticks behind a reset elsewhere", self.longest);
        let stale = Promise::new("stale", stale, "a reset elsewhere is known so late");
        let denied = "what the store would deny";
        let mut promises = vec![Promise::new("denied", denied, "a kept denial is right")];
        // Without a reset nothing is stale.
        promises.extend((self.resets > 0).then_some(stale));
        promises
    }
}
