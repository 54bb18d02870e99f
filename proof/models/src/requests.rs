//! Checks under request ids that are sent again until an answer comes: the memory store, which
//! remembers the answers.

use stateright::{Model, Property};
use tollgate::LimitSet;
use tollgate::engine::MAX_REPEATS;

use crate::exhaust::{Promise, World};
use crate::past::{Answer, Operation, Past};

/// A world of clients, each with one request of its own, which it sends until it is answered.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    limits: LimitSet,
    /// The units of the limit.
    most: u64,
    clients: u8,
    /// How often a client sends its request.
    sends: u8,
    ticks: u8,
    /// For how many ticks an answer is remembered.
    remembered: u8,
    /// The requests that the store got before.
    before: Past,
}

/// A request on its way, or its answer.
#[derive(Clone, Copy, Debug, Hash, PartialEq, PartialOrd)]
pub(crate) struct Message {
    client: u8,
    /// The place of the answer among those of the store, once it has decided.
    answer: Option<usize>,
}

#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State {
    tick: u8,
    past: Past,
    answers: Vec<Answer>,
    wire: Vec<Message>,
    /// How often each client may send yet.
    sends: Vec<u8>,
    /// The answer that each client got.
    heard: Vec<Option<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    /// A client sends its request, for the first time or again.
    Send(u8),
    /// The store decides about a request.
    Decide(usize),
    /// The same, and the request comes once more.
    DecideAndDouble(usize),
    /// A client gets an answer.
    Hear(usize),
    /// A message is lost.
    Lose(usize),
}

impl Requests {
    pub(crate) fn new(
        (limits, most): (&str, u64),
        (clients, sends): (u8, u8),
        (ticks, remembered): (u8, u8),
    ) -> anyhow::Result<Self> {
        let (limits, before) = (limits.parse()?, Past::default());
        Ok(Self { limits, most, clients, sends, ticks, remembered, before })
    }

    /// The same world, in which the first client's request was sent so often before.
    pub(crate) fn after(self, repeats: usize) -> Self {
        Self { before: Past(vec![(0, Operation::Once(0)); repeats]), ..self }
    }
}

impl State {
    /// The ticks at which the request of a client was charged while its id was not overused.
    fn charged(&self, client: u8) -> impl Iterator<Item = u8> {
        let each = self.past.0.iter().zip(&self.answers);
        each.filter_map(move |((tick, operation), answer)| {
            let is_charged = *operation == Operation::Once(client)
                && answer.granted > 0
                && !answer.is_repeated
                && !answer.is_overused;
            is_charged.then_some(*tick)
        })
    }

    /// How often the first answer to a client was given again.
    fn repeats(&self, client: u8) -> u64 {
        let each = self.past.0.iter().zip(&self.answers);
        let is_repeat = |((_, operation), answer): &(&(u8, Operation), &Answer)| {
            *operation == Operation::Once(client) && answer.is_repeated
        };
        each.filter(is_repeat).count() as u64
    }

    /// The units that were charged.
    fn units(&self) -> u64 {
        let charged = self.answers.iter().filter(|answer| !answer.is_repeated);
        charged.map(|answer| answer.granted).sum()
    }
}

impl Model for Requests {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let clients = usize::from(self.clients);
        vec![State {
            tick: 0,
            past: self.before.clone(),
            answers: self.before.answers(&self.limits, self.remembered),
            wire: Vec::new(),
            sends: vec![self.sends; clients],
            heard: vec![None; clients],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.tick < self.ticks {
            actions.push(Action::Tick);
        }
        let clients = state.sends.iter().zip(&state.heard).zip(0..);
        for ((sends, heard), client) in clients {
            if *sends > 0 && heard.is_none() {
                actions.push(Action::Send(client));
            }
        }
        for (place, message) in state.wire.iter().enumerate() {
            // Messages that are alike do alike.
            if state.wire[..place].contains(message) {
                continue;
            }
            actions.push(Action::Lose(place));
            if message.answer.is_some() {
                actions.push(Action::Hear(place));
            } else {
                actions.push(Action::Decide(place));
                if state.sends[usize::from(message.client)] > 0 {
                    actions.push(Action::DecideAndDouble(place));
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.tick += 1,
            Action::Send(client) => {
                state.sends[usize::from(client)] -= 1;
                state.wire.push(Message { client, answer: None });
            }
            Action::Decide(place) | Action::DecideAndDouble(place) => {
                let client = state.wire.remove(place).client;
                if let Action::DecideAndDouble(_) = action {
                    // It counts as one of those that the client sends.
                    state.sends[usize::from(client)] -= 1;
                    state.wire.push(Message { client, answer: None });
                }
                let about = (&self.limits, self.remembered);
                let answer = state.past.then(state.tick, Operation::Once(client), about);
                state.answers.push(answer);
                // Nobody waits for it any more.
                if state.heard[usize::from(client)].is_none() {
                    let answer = Some(state.answers.len() - 1);
                    state.wire.push(Message { client, answer });
                }
            }
            Action::Hear(place) => {
                let Message { client, answer } = state.wire.remove(place);
                state.heard[usize::from(client)] = answer;
                state.wire.retain(|it| it.client != client || it.answer.is_none());
            }
            Action::Lose(place) => {
                state.wire.remove(place);
            }
        }
        // The order of messages on several connections says nothing.
        state
            .wire
            .sort_by(|one, other| one.partial_cmp(other).unwrap_or(core::cmp::Ordering::Equal));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn once(world: &Requests, state: &State) -> bool {
            (0..world.clients).all(|client| {
                let ticks: Vec<u8> = state.charged(client).collect();
                ticks.windows(2).all(|two| two[1] - two[0] >= world.remembered)
            })
        }
        fn asked_again(world: &Requests, state: &State) -> bool {
            (0..world.clients).all(|client| {
                let heard = state.heard[usize::from(client)].map(|place| state.answers[place]);
                heard.is_some_and(|answer| answer.is_repeated || answer.is_overused)
            })
        }
        fn same(_: &Requests, state: &State) -> bool {
            let repeated =
                state.answers.iter().enumerate().filter(|(_, answer)| answer.is_repeated);
            let mut each = repeated.map(|(place, answer)| {
                answer.charged_by.is_some_and(|first| {
                    let first_answer = Answer { is_repeated: true, ..state.answers[first] };
                    let is_own = state.past.0[first].1 == state.past.0[place].1;
                    first < place && is_own && first_answer == *answer
                })
            });
            each.all(|is_same| is_same)
        }
        fn heard_again(_: &Requests, state: &State) -> bool {
            let mut heard = state.heard.iter().flatten();
            heard.any(|place| state.answers[*place].is_repeated)
        }
        fn within(world: &Requests, state: &State) -> bool {
            state.units() <= world.most
        }
        fn full(world: &Requests, state: &State) -> bool {
            state.units() == world.most
        }
        vec![
            Property::always("charged", once),
            Property::sometimes("each client was answered again", asked_again),
            Property::always("repeated", same),
            Property::sometimes("a lost answer was given again", heard_again),
            Property::always("repeats", |world: &Self, state: &State| {
                (0..world.clients).all(|client| state.repeats(client) <= MAX_REPEATS)
            }),
            Property::sometimes("an id is taken for a constant", |_, state: &State| {
                let is_overused = state.answers.iter().any(|answer| answer.is_overused);
                is_overused && state.repeats(0) == MAX_REPEATS
            }),
            Property::always("admitted", within),
            Property::sometimes("the limit is used up", full),
        ]
    }
}

impl World for Requests {
    fn size(&self) -> String {
        let before = match self.before.0.len() {
            0 => String::new(),
            sent => format!(", one sent {sent} times before"),
        };
        format!(
            "`{}`, {} clients send {} times each, {} ticks, ids for {}{before}",
            self.limits, self.clients, self.sends, self.ticks, self.remembered
        )
    }

    fn promises(&self) -> Vec<Promise> {
        let (once, most) = ("once while its id is remembered", format!("{}", self.most));
        let mut promises = vec![
            Promise::new("charged", once, "each client was answered again"),
            Promise::new(
                "repeated",
                "the first answer and receipt",
                "a lost answer was given again",
            ),
            Promise::new("admitted", most, "the limit is used up"),
        ];
        let repeats = format!("{MAX_REPEATS} times");
        let repeats = Promise::new("repeats", repeats, "an id is taken for a constant");
        // Elsewhere no id is asked for so often.
        promises.extend((!self.before.0.is_empty()).then_some(repeats));
        promises
    }
}
