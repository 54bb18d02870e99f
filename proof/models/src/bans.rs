//! Bans that count the denials of several clients of one subject: the engine, beside the definition
//! of a ban in a few lines.

use stateright::{Model, Property};
use tollgate::engine::{Mode, Part, VecStates, decide};
use tollgate::{Amounts, LimitSet, Time};

use crate::exhaust::{Printed, Promise, World};

/// The time between two ticks, in microseconds.
const TICK_US: u64 = 1_000_000;

/// The time of the first tick: a multiple of every window here.
const START_US: u64 = 3_600_000_000;

/// The time in which denials are counted together, in ticks.
const WITHIN: u8 = 2;

/// A world of clients that are denied.
#[derive(Clone, Debug)]
pub(crate) struct Bans {
    limits: LimitSet,
    denials: u8,
    /// How many ticks the first ban lasts; the longest lasts twice as long.
    first: u8,
    ticks: u8,
    checks: u8,
}

/// The ban as the definitions count it.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq)]
pub(crate) struct Defined {
    /// When the counted time began, and how many denials fell into it.
    counted: Option<(u8, u8)>,
    until: u8,
    /// How many bans are remembered, and until when.
    bans: u32,
    remembered: u8,
}

#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State {
    tick: u8,
    checks: u8,
    store: Printed<VecStates>,
    defined: Defined,
    seen: Seen,
}

/// Events of which each happened at least once, or not.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq)]
pub(crate) struct Seen {
    is_admitted_in_ban: bool,
    is_denied_in_ban: bool,
    is_other_begin: bool,
    is_other_end: bool,
    is_begun: bool,
    is_longest: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Tick,
    /// A check, a check of somebody who waits, or a peek.
    Ask(Mode),
}

impl Bans {
    pub(crate) fn new(
        (denials, first): (u8, u8),
        (ticks, checks): (u8, u8),
    ) -> anyhow::Result<Self> {
        let longest = 2 * first;
        let limits = format!(
            "1/2s via sliding_log, ban {first}s after {denials} denials in {WITHIN}s up to \
             {longest}s"
        );
        Ok(Self { limits: limits.parse()?, denials, first, ticks, checks })
    }

    fn ask(&self, state: &mut State, mode: Mode) {
        let now = Time::from_micros(START_US + u64::from(state.tick) * TICK_US);
        let runs = state.tick < state.defined.until;
        let mut parts = [Part::new(&self.limits, &mut state.store.0)];
        let Ok(outcome) = decide(&mut parts, now, Amounts::from(1), mode, None) else { return };
        let [rate, ban] = &outcome.fields[..] else { return };
        let is_denied = rate.retry_after_us != Some(0);
        let seen = &mut state.seen;
        if runs {
            seen.is_admitted_in_ban |= outcome.granted > 0;
            seen.is_denied_in_ban |= outcome.granted == 0;
        } else if is_denied && mode == Mode::Whole {
            let begins = self.count(&mut state.defined, state.tick);
            seen.is_begun |= begins;
            seen.is_longest |= begins && state.defined.until - state.tick == 2 * self.first;
        }
        // The answer has the ban that it begins.
        let left = u64::from(state.defined.until.saturating_sub(state.tick)) * TICK_US;
        seen.is_other_begin |= (ban.remaining == 0) != (left > 0);
        seen.is_other_end |= ban.retry_after_us != Some(left);
    }

    /// Counts a denial, as section 12 of `docs/definitions.md` does. True where it begins a ban.
    fn count(&self, defined: &mut Defined, tick: u8) -> bool {
        if tick >= defined.remembered {
            defined.bans = 0;
        }
        let (began, denials) = match defined.counted {
            Some((began, denials)) if tick < began + WITHIN => (began, denials + 1),
            _ => (tick, 1),
        };
        let longest = 2 * self.first;
        let keeps = longest.max(WITHIN);
        if denials < self.denials {
            defined.counted = Some((began, denials));
            if defined.bans > 0 {
                defined.remembered = defined.remembered.max(began + keeps);
            }
            return false;
        }
        let length = if defined.bans == 0 { self.first } else { longest };
        (defined.counted, defined.until) = (None, tick + length);
        (defined.bans, defined.remembered) = (defined.bans + 1, defined.until + keeps);
        true
    }
}

impl Model for Bans {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            tick: 0,
            checks: self.checks,
            store: Printed(VecStates::fresh(&self.limits)),
            defined: Defined::default(),
            seen: Seen::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.tick < self.ticks {
            actions.push(Action::Tick);
        }
        if state.checks > 0 {
            actions.extend([Mode::Whole, Mode::Waiting, Mode::Peek].map(Action::Ask));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.tick += 1,
            Action::Ask(mode) => {
                state.checks -= 1;
                self.ask(&mut state, mode);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("in a ban", |_, state: &State| !state.seen.is_admitted_in_ban),
            Property::sometimes("a check meets a ban", |_, state: &State| {
                state.seen.is_denied_in_ban
            }),
            Property::always("begin", |_, state: &State| !state.seen.is_other_begin),
            Property::sometimes("denials begin a ban", |_, state: &State| state.seen.is_begun),
            Property::always("length", |_, state: &State| !state.seen.is_other_end),
            Property::sometimes("a ban is as long as the longest", |_, state: &State| {
                state.seen.is_longest
            }),
        ]
    }
}

impl World for Bans {
    fn size(&self) -> String {
        format!("`{}`, {} ticks, {} checks", self.limits, self.ticks, self.checks)
    }

    fn promises(&self) -> Vec<Promise> {
        let begin = format!("denial {} of {WITHIN} ticks", self.denials);
        let length = format!("{} ticks", 2 * self.first);
        vec![
            Promise::new("in a ban", "nothing admitted", "a check meets a ban"),
            Promise::new("begin", begin, "denials begin a ban"),
            Promise::new("length", length, "a ban is as long as the longest"),
        ]
    }
}
