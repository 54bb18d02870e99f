//! Checks over two subjects in two slots of a cluster, which give back what they charged where the
//! other slot denies: the engine in each slot. The steps between are those of `store/across.rs` of
//! `tollgate-redis`, which waits for servers and cannot run here.

use stateright::{Model, Property};
use tollgate::engine::{Mode, Part, Portion, VecStates, decide, refund};
use tollgate::{Amounts, LimitSet, Time};

use crate::exhaust::{Printed, Promise, World};

/// The time of all steps: every limit here counts for longer than a world lasts.
const NOW: Time = Time::from_micros(3_600_000_000);

/// A world of checks over two slots.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// The limits of each slot, and how many units they have.
    limits: [LimitSet; 2],
    units: [u64; 2],
    checks: usize,
    losses: u8,
    failovers: u8,
}

/// How far a check has come in one slot.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, PartialOrd)]
pub(crate) enum Step {
    /// The slot was not asked yet.
    #[default]
    Asked,
    /// It charged; when it recorded that, in microseconds.
    Charged(u64),
    Denied,
    /// It charged, or not, and no answer came.
    Unanswered {
        is_charged: bool,
    },
    /// The charge is on its way back.
    GivingBack(u64),
    GivenBack,
    /// The charge stays, because the caller died, or the message was lost.
    Kept,
}

#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, PartialOrd)]
pub(crate) struct Check {
    steps: [Step; 2],
    /// Whether the replica of each slot has the charge.
    is_replicated: [bool; 2],
    is_admitted: bool,
}

#[derive(Clone, Debug, Hash, PartialEq)]
pub(crate) struct State {
    slots: [Printed<VecStates>; 2],
    /// The state of the first slot as its replica has it.
    replica: Printed<VecStates>,
    checks: Vec<Check>,
    losses: u8,
    failovers: u8,
    /// How many charges of the first slot a failover has lost.
    lost: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// A slot decides about a check.
    Decide { check: usize, slot: usize },
    /// The same, and the answer is lost.
    DecideUnanswered { check: usize, slot: usize },
    /// The caller has all answers: it is admitted, or gives back.
    Conclude { check: usize },
    /// The caller dies before that.
    Die { check: usize },
    /// A slot takes a charge back.
    TakeBack { check: usize, slot: usize },
    /// The message that gives back is lost.
    LoseBack { check: usize, slot: usize },
    /// The replica of the first slot gets all that its primary has.
    Replicate,
    /// That replica takes the place of its primary.
    FailOver,
}

impl Slots {
    pub(crate) fn new(
        units: [u64; 2],
        checks: usize,
        (losses, failovers): (u8, u8),
    ) -> anyhow::Result<Self> {
        let [one, other] = units.map(|units| format!("{units}/h via sliding_log").parse());
        Ok(Self { limits: [one?, other?], units, checks, losses, failovers })
    }

    fn decide(&self, state: &mut State, slot: usize) -> Step {
        let mut parts = [Part::new(&self.limits[slot], &mut state.slots[slot].0)];
        match decide(&mut parts, NOW, Amounts::from(1), Mode::Whole, None) {
            Ok(outcome) if outcome.granted > 0 => Step::Charged(outcome.fields[0].charged_at_us),
            _ => Step::Denied,
        }
    }

    fn take_back(&self, state: &mut State, slot: usize, at_us: u64) {
        let limits = &self.limits[slot];
        let mut part = Part::new(limits, &mut state.slots[slot].0);
        let whole = Portion::whole(Amounts::from(1));
        refund(&mut part, limits, (&[at_us], NOW), &whole, NOW);
    }

    /// The units that a slot counts.
    fn used(&self, state: &State, slot: usize) -> u64 {
        let mut states = state.slots[slot].0.clone();
        let mut parts = [Part::new(&self.limits[slot], &mut states)];
        let peeked = decide(&mut parts, NOW, Amounts::from(1), Mode::Peek, None);
        self.units[slot] - peeked.map_or(0, |peeked| peeked.fields[0].remaining)
    }
}

impl State {
    fn admitted(&self) -> u64 {
        self.checks.iter().filter(|check| check.is_admitted).count() as u64
    }

    /// How many checks left a charge in a slot without being admitted.
    fn left(&self, slot: usize) -> u64 {
        let is_left = |check: &&Check| {
            matches!(check.steps[slot], Step::Kept | Step::Unanswered { is_charged: true })
        };
        self.checks.iter().filter(is_left).count() as u64
    }

    /// Whether no message is on its way.
    fn is_quiet(&self) -> bool {
        self.checks.iter().all(|check| {
            let is_open = |step: &Step| matches!(step, Step::Asked | Step::GivingBack(_));
            let is_concluded =
                check.is_admitted || !check.steps.iter().any(|it| matches!(it, Step::Charged(_)));
            is_concluded && !check.steps.iter().any(is_open)
        })
    }
}

impl Model for Slots {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let fresh = |slot: usize| Printed(VecStates::fresh(&self.limits[slot]));
        vec![State {
            slots: [fresh(0), fresh(1)],
            replica: fresh(0),
            checks: vec![Check::default(); self.checks],
            losses: self.losses,
            failovers: self.failovers,
            lost: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (check, it) in state.checks.iter().enumerate() {
            // Checks that are alike do alike.
            if state.checks[..check].contains(it) {
                continue;
            }
            for (slot, step) in it.steps.iter().enumerate() {
                match step {
                    Step::Asked => {
                        actions.push(Action::Decide { check, slot });
                        if state.losses > 0 {
                            actions.push(Action::DecideUnanswered { check, slot });
                        }
                    }
                    Step::GivingBack(_) => {
                        actions.push(Action::TakeBack { check, slot });
                        if state.losses > 0 {
                            actions.push(Action::LoseBack { check, slot });
                        }
                    }
                    _ => {}
                }
            }
            let is_charged = it.steps.iter().any(|step| matches!(step, Step::Charged(_)));
            if is_charged && !it.is_admitted && !it.steps.contains(&Step::Asked) {
                actions.push(Action::Conclude { check });
                if state.losses > 0 {
                    actions.push(Action::Die { check });
                }
            }
        }
        if state.failovers > 0 {
            if state.replica != state.slots[0] {
                actions.push(Action::Replicate);
            }
            actions.push(Action::FailOver);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Decide { check, slot } => {
                state.checks[check].steps[slot] = self.decide(&mut state, slot);
            }
            Action::DecideUnanswered { check, slot } => {
                state.losses -= 1;
                let is_charged = self.decide(&mut state, slot) != Step::Denied;
                state.checks[check].steps[slot] = Step::Unanswered { is_charged };
            }
            Action::Conclude { check } => {
                let it = &mut state.checks[check];
                it.is_admitted = it.steps.iter().all(|step| matches!(step, Step::Charged(_)));
                for step in it.steps.iter_mut().filter(|_| !it.is_admitted) {
                    if let Step::Charged(at_us) = *step {
                        *step = Step::GivingBack(at_us);
                    }
                }
            }
            Action::Die { check } => {
                state.losses -= 1;
                for step in &mut state.checks[check].steps {
                    if let Step::Charged(_) = *step {
                        *step = Step::Kept;
                    }
                }
            }
            Action::TakeBack { check, slot } => {
                let Step::GivingBack(at_us) = state.checks[check].steps[slot] else { return None };
                self.take_back(&mut state, slot, at_us);
                state.checks[check].steps[slot] = Step::GivenBack;
            }
            Action::LoseBack { check, slot } => {
                state.losses -= 1;
                state.checks[check].steps[slot] = Step::Kept;
            }
            Action::Replicate => {
                state.replica = state.slots[0].clone();
                state.checks.iter_mut().for_each(|check| {
                    check.is_replicated[0] = !matches!(check.steps[0], Step::Asked);
                });
            }
            Action::FailOver => {
                state.failovers -= 1;
                state.slots[0] = state.replica.clone();
                let is_lost = |check: &&Check| {
                    let is_charged = matches!(
                        check.steps[0],
                        Step::Charged(_)
                            | Step::GivingBack(_)
                            | Step::Kept
                            | Step::Unanswered { is_charged: true }
                    );
                    is_charged && !check.is_replicated[0]
                };
                state.lost += state.checks.iter().filter(is_lost).count() as u64;
            }
        }
        let order = |one: &Check, other: &Check| one.partial_cmp(other);
        state.checks.sort_by(|one, other| order(one, other).unwrap_or(core::cmp::Ordering::Equal));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn within(world: &Slots, state: &State) -> bool {
            let admitted = state.admitted();
            admitted <= world.units[1] && admitted <= world.units[0] + state.lost
        }
        fn reached(world: &Slots, state: &State) -> bool {
            state.admitted() == world.units[1].min(world.units[0] + u64::from(world.failovers))
        }
        fn counted(world: &Slots, state: &State) -> bool {
            let is_failed_over = state.failovers < world.failovers;
            !state.is_quiet()
                || (0..2)
                    .filter(|slot| *slot == 1 || !is_failed_over)
                    .all(|slot| world.used(state, slot) == state.admitted() + state.left(slot))
        }
        fn left(world: &Slots, state: &State) -> bool {
            state.is_quiet() && state.left(0) == u64::from(world.losses)
        }
        fn given_back(_: &Slots, state: &State) -> bool {
            let mut each = state.checks.iter();
            let is_back = each.any(|check| check.steps.contains(&Step::GivenBack));
            is_back && state.is_quiet() && state.admitted() > 0
        }
        fn changes_nothing(world: &Slots, state: &State) -> bool {
            let is_left = (0..2).any(|slot| state.left(slot) > 0);
            let is_whole = state.failovers == world.failovers && state.losses == world.losses;
            !(state.is_quiet() && is_whole) || !is_left && counted(world, state)
        }
        vec![
            Property::always("admitted", within),
            Property::sometimes("the limit is used up", reached),
            Property::always("left over", counted),
            Property::sometimes("each lost message leaves a unit", left),
            Property::always("denials", changes_nothing),
            Property::sometimes("a charge was given back", given_back),
        ]
    }
}

impl World for Slots {
    fn size(&self) -> String {
        let Self { units: [one, other], checks, losses, failovers, .. } = self;
        format!(
            "`{one}/h` and `{other}/h via sliding_log`, {checks} checks, {losses} losses, \
             {failovers} failovers"
        )
    }

    fn promises(&self) -> Vec<Promise> {
        let denials = "change nothing once given back";
        let mut promises = vec![
            Promise::new("admitted", "the limits, and lost charges", "the limit is used up"),
            Promise::new("denials", denials, "a charge was given back"),
        ];
        let left =
            Promise::new("left over", "a unit for each loss", "each lost message leaves a unit");
        // Without a loss nothing is left over.
        promises.extend((self.losses > 0).then_some(left));
        promises
    }
}
