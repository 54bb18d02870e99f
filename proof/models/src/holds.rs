//! Holds of one count that are acquired, settled and renewed, and end by themselves: the engine
//! with its table of holds.
//!
//! Each client has a name for its hold. Its questions may come late, twice, or after it has given
//! the hold back, and their answers may be lost. The store's clock may step back.

use stateright::{Model, Property};
use tollgate::engine::{
    HoldRefusal, HoldTable, Holds as _, Mode, Part, VecStates, decide, early_name, mark_early,
    renew, settle,
};
use tollgate::{
    Amounts, Hold, HoldId, HoldKind, HoldName, HoldTerms, LimitSet, Subject, Time, Unit,
};

use crate::exhaust::{Printed, Promise, World};

/// The time between two ticks: more than the skew that a clock may have.
const TICK_US: u64 = 10_000_000;

/// How many ticks a hold lasts.
const LASTS: i16 = 2;

/// The time of the first tick: a multiple of every window here.
const START_US: u64 = 36_000_000_000;

/// A world of clients, each with a hold of its own.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    limits: LimitSet,
    slots: u64,
    units: u64,
    subject: Subject,
    clients: Vec<(HoldKind, HoldName)>,
    ticks: i16,
    calls: u8,
    faults: u8,
}

/// A client, as far as it knows.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq)]
pub(crate) struct Client {
    /// Until which tick of true time it has its hold.
    until: Option<i16>,
    /// The tick of true time at which it gave the hold back.
    released: Option<i16>,
    /// How often its hold was placed, settled, and ended by itself.
    placed: u8,
    settled: u8,
    ended: u8,
}

#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State {
    /// The true time.
    tick: i16,
    /// How far the store's clock is from it, in ticks.
    offset: i16,
    calls: u8,
    faults: u8,
    states: Printed<VecStates>,
    table: Table,
    clients: Vec<Client>,
    /// The clients whose questions come late.
    late: Vec<u8>,
    /// The units that were charged.
    charged: u64,
    seen: Seen,
}

/// Events of which each happened at least once, or not.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq)]
pub(crate) struct Seen {
    is_settled_again: bool,
    is_refused_late: bool,
    is_answered_again: bool,
    /// Something that must not happen.
    fault: Option<&'static str>,
}

/// The table of holds. Two are the same that answer the same, since their maps have no order.
#[derive(Clone, Debug)]
pub(crate) struct Table(HoldTable, Vec<HoldName>);

impl Table {
    fn print(&self) -> String {
        let Self(table, names) = self;
        let named: Vec<_> = names.iter().map(|name| table.named(*name)).collect();
        let open: Vec<_> = table.open().map(|hold| (table.renewed(hold.id), hold)).collect();
        let remembered: Vec<_> = table.remembered().collect();
        // A name does not print itself, since it may be a secret.
        let of = |name| names.iter().position(|other| *other == name);
        let marks: Vec<_> = table.marks().map(|(name, mark)| (of(name), mark)).collect();
        format!("{:?} {open:?} {remembered:?} {named:?} {marks:?}", table.sums())
    }
}

impl core::hash::Hash for Table {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.print().hash(hasher);
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.print() == other.print()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    /// The store's clock steps back by two ticks.
    StepBack,
    /// A client asks for its hold, and gets the answer.
    Acquire(u8),
    /// A client asks, and the question is on its way.
    AcquireLate(u8),
    /// A late question comes; nobody waits for its answer.
    Arrive(usize),
    /// The same, and it comes once more.
    ArriveTwice(usize),
    /// A client settles its hold with so many units, or gives it back with none.
    Settle(u8, u64),
    /// A client renews its hold.
    Renew(u8),
}

impl Holding {
    pub(crate) fn new(
        (slots, units): (u64, u64),
        kinds: &[HoldKind],
        (ticks, calls, faults): (i16, u8, u8),
    ) -> anyhow::Result<Self> {
        // A name that was given back before its hold came is remembered as long as a hold lasts.
        let lasts = i64::from(LASTS) * 10;
        let limits: LimitSet =
            format!("{slots} at once hold {lasts}s, {units}/h via sliding_log").parse()?;
        let named = kinds.iter().zip(1..).map(|(kind, number)| {
            let name = format!("the hold of client {number}").replace(' ', "-");
            Ok((*kind, name.parse::<HoldName>()?))
        });
        let clients = named.collect::<anyhow::Result<_>>()?;
        let subject = Subject::parse("ann")?;
        Ok(Self { limits, slots, units, subject, clients, ticks, calls, faults })
    }

    fn now(state: &State) -> Time {
        let ticks = u64::try_from(state.tick + state.offset + 10).unwrap_or(0);
        Time::from_micros(START_US + ticks * TICK_US)
    }

    /// The question of a client; true where it has its hold then.
    fn acquire(&self, state: &mut State, client: u8) -> Option<i16> {
        let (kind, name) = self.clients[usize::from(client)];
        let mut terms = HoldTerms::new(kind, TICK_US * u64::from(LASTS.unsigned_abs()));
        terms.id = HoldId::named(kind, name);
        let now = Self::now(state);
        let part = Part::new(&self.limits, &mut state.states.0).holding(&mut state.table.0);
        let decided = decide(&mut [part], now, Amounts::from(1), Mode::Whole, Some(terms));
        let it = &mut state.clients[usize::from(client)];
        let is_over = it.released.is_some_and(|released| state.tick - released < LASTS);
        let answer = match decided {
            Ok(outcome) => outcome.hold,
            Err(HoldRefusal::Over) => {
                state.seen.is_refused_late = true;
                None
            }
            Err(_) => None,
        };
        let placed = answer?;
        if is_over {
            state.seen.fault = Some("a hold was placed after it was given back");
        }
        if placed.answer > 1 {
            state.seen.is_answered_again = true;
        } else {
            it.placed += 1;
            state.charged += u64::from(kind == HoldKind::Acquire);
        }
        let ends = (placed.end.as_micros() - START_US) / TICK_US;
        i16::try_from(ends).ok().map(|ends| ends - 10 - state.offset)
    }

    /// A client settles its hold, by its name.
    fn settle(&self, state: &mut State, client: u8, actual: u64) {
        let (_, name) = self.clients[usize::from(client)];
        let now = Self::now(state);
        let id = HoldId::of_any_kind(name);
        let hold = Hold::new(id, 0, 1, now, [(self.subject.clone(), self.limits.clone())]);
        let amounts = Amounts::from(actual);
        let mut part = Part::new(&self.limits, &mut state.states.0).holding(&mut state.table.0);
        let settled =
            settle(core::slice::from_mut(&mut part), &[&self.limits], now, &hold, amounts);
        let it = &mut state.clients[usize::from(client)];
        match settled {
            Ok(Some(settled)) if settled.already => {
                // The first settlement says how long the name is over.
                state.seen.is_settled_again = true;
                it.until = None;
                return;
            }
            Ok(Some(settled)) => {
                it.settled += 1;
                state.charged += settled.actual.amounts().of(&Unit::REQUESTS);
            }
            Ok(None) => {
                if let Some(name) = early_name(&hold, amounts) {
                    mark_early(&mut part, &self.limits, now, name);
                }
            }
            // Units for a slot.
            Err(_) => return,
        }
        it.until = None;
        if actual == 0 {
            it.released = Some(state.tick);
        }
    }

    fn renew(&self, state: &mut State, client: u8) {
        let (_, name) = self.clients[usize::from(client)];
        let now = Self::now(state);
        let part = Part::new(&self.limits, &mut state.states.0).holding(&mut state.table.0);
        let ttl_us = TICK_US * u64::from(LASTS.unsigned_abs());
        let renewed = renew(&mut [part], now, HoldId::of_any_kind(name), ttl_us);
        let it = &mut state.clients[usize::from(client)];
        match renewed {
            Some(_) if it.until.is_some() => it.until = Some(state.tick + LASTS),
            Some(_) => {}
            None => it.until = None,
        }
    }

    /// Notes which holds have ended by themselves, and compares the counts with the engine's.
    fn account(&self, state: &mut State) {
        for ((kind, name), client) in self.clients.iter().zip(&mut state.clients) {
            let is_open = state.table.0.find(HoldId::named(*kind, *name)).is_some();
            if client.placed > client.settled + client.ended + u8::from(is_open) {
                client.ended += 1;
                state.charged += u64::from(*kind == HoldKind::Charging);
            }
            if client.placed != client.settled + client.ended + u8::from(is_open) {
                state.seen.fault = Some("a hold was settled twice");
            }
        }
        let now = Self::now(state);
        let sums = state.table.0.sums();
        let mut copies = (state.states.0.clone(), state.table.0.clone());
        let part = Part::new(&self.limits, &mut copies.0).holding(&mut copies.1);
        let peeked = decide(&mut [part], now, Amounts::from(1), Mode::Peek, None);
        let left = peeked.map(|peeked| peeked.fields.last().map(|it| it.remaining));
        let counted = self.units.saturating_sub(state.charged + sums.units.requests);
        if left != Ok(Some(counted)) {
            state.seen.fault = Some("the engine counts other units than were charged and held");
        }
    }

    /// How many clients have their holds, as far as they know.
    fn holders(state: &State) -> u64 {
        let each = state.clients.iter();
        each.filter(|client| client.until.is_some_and(|until| state.tick < until)).count() as u64
    }
}

impl Model for Holding {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            tick: 0,
            offset: 0,
            calls: self.calls,
            faults: self.faults,
            states: Printed(VecStates::fresh(&self.limits)),
            table: Table(
                HoldTable::default(),
                self.clients.iter().map(|(_, name)| *name).collect(),
            ),
            clients: vec![Client::default(); self.clients.len()],
            late: Vec::new(),
            charged: 0,
            seen: Seen::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.tick < self.ticks {
            actions.push(Action::Tick);
        }
        if state.faults > 0 && state.offset == 0 {
            actions.push(Action::StepBack);
        }
        for place in 0..state.late.len() {
            actions.push(Action::Arrive(place));
            if state.faults > 0 {
                actions.push(Action::ArriveTwice(place));
            }
        }
        if state.calls == 0 {
            return;
        }
        for ((kind, _), client) in self.clients.iter().zip(0..) {
            actions.push(Action::Acquire(client));
            if state.faults > 0 {
                actions.push(Action::AcquireLate(client));
            }
            actions.extend([Action::Settle(client, 0), Action::Renew(client)]);
            if *kind != HoldKind::Acquire {
                actions.push(Action::Settle(client, 1));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.tick += 1,
            Action::StepBack => (state.faults, state.offset) = (state.faults - 1, -2),
            Action::Acquire(client) => {
                state.calls -= 1;
                let until = self.acquire(&mut state, client);
                state.clients[usize::from(client)].until = until;
            }
            Action::AcquireLate(client) => {
                (state.calls, state.faults) = (state.calls - 1, state.faults - 1);
                state.late.push(client);
                state.late.sort_unstable();
            }
            Action::Arrive(place) | Action::ArriveTwice(place) => {
                let client = match action {
                    Action::ArriveTwice(_) => {
                        state.faults -= 1;
                        state.late[place]
                    }
                    _ => state.late.remove(place),
                };
                self.acquire(&mut state, client);
            }
            Action::Settle(client, actual) => {
                state.calls -= 1;
                self.settle(&mut state, client, actual);
            }
            Action::Renew(client) => {
                state.calls -= 1;
                self.renew(&mut state, client);
            }
        }
        if !matches!(action, Action::Tick | Action::StepBack | Action::AcquireLate(_)) {
            self.account(&mut state);
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("slots", |world: &Self, state: &State| {
                Self::holders(state) <= world.slots && state.table.0.sums().slots <= world.slots
            }),
            Property::sometimes("all slots are taken", |world: &Self, state: &State| {
                Self::holders(state) == world.slots
            }),
            Property::always("settled once", |_, state: &State| state.seen.fault.is_none()),
            Property::sometimes("a hold was settled again", |_, state: &State| {
                state.seen.is_settled_again && state.seen.is_answered_again
            }),
            Property::always("late", |_, state: &State| {
                state.seen.fault != Some("a hold was placed after it was given back")
            }),
            Property::sometimes("a late question was refused", |_, state: &State| {
                state.seen.is_refused_late
            }),
            Property::always("units", |world: &Self, state: &State| state.charged <= world.units),
            Property::sometimes("all units are charged", |world: &Self, state: &State| {
                state.charged == world.units
            }),
        ]
    }
}

impl World for Holding {
    fn size(&self) -> String {
        let Self { limits, clients, ticks, calls, faults, .. } = self;
        let clients = clients.len();
        format!("`{limits}`, {clients} clients, {ticks} ticks, {calls} calls, {faults} faults")
    }

    fn promises(&self) -> Vec<Promise> {
        let (slots, units) = (format!("{} slots", self.slots), format!("{} units", self.units));
        vec![
            Promise::new("slots", slots, "all slots are taken"),
            Promise::new(
                "settled once",
                "once for each that was placed",
                "a hold was settled again",
            ),
            Promise::new("late", "none after it was given back", "a late question was refused"),
            Promise::new("units", units, "all units are charged"),
        ]
    }
}
