//! A store's input to the engine: the state of a count, under its limits.

use super::holds::Holds;
use super::outcome::Carries;
use crate::limit::{LimitSet, Place};
use crate::strategy::{Cell, Step};

/// The state of a limit set for one subject, wherever the store keeps it.
pub trait States {
    /// The state at `place`.
    fn cell(&mut self, place: Place) -> Cell<'_>;
}

/// One (subject, limit set) of a check.
#[allow(missing_debug_implementations)] // borrows whatever the store has
pub struct Part<'a> {
    pub(super) limits: &'a LimitSet,
    pub(super) states: &'a mut dyn States,
    pub(super) carried: Carries,
    /// `None` where no hold is open or asked for.
    pub(super) holds: Option<&'a mut dyn Holds>,
    /// Whether the state is of several subjects.
    pub(super) is_shared: bool,
}

impl<'a> Part<'a> {
    /// The state of a subject under the limits that it was written under.
    pub fn new(limits: &'a LimitSet, states: &'a mut dyn States) -> Self {
        Self { limits, states, carried: Carries::new(), holds: None, is_shared: false }
    }

    /// The same part, with the open holds of its count.
    #[must_use]
    pub fn holding(mut self, holds: &'a mut dyn Holds) -> Self {
        self.holds = Some(holds);
        self
    }

    /// The same part, of a state that several subjects share: no ban counts its denials.
    #[must_use]
    pub fn shared(mut self, is_shared: bool) -> Self {
        self.is_shared = is_shared;
        self
    }

    /// The same part, with what [`super::migrate`] carried over.
    #[must_use]
    pub fn carrying(mut self, carried: Carries) -> Self {
        self.carried = carried;
        self
    }

    /// Whether open holds matter to a decision over it, even if it places none: some are open, the
    /// count has a credit, or only holds take from one of its limits.
    pub(super) fn is_about_holds(&self) -> bool {
        let has_open = |holds: &dyn Holds| holds.sums().is_open();
        self.limits.needs_hold() || self.holds.as_deref().is_some_and(has_open)
    }
}

/// True if a count under these limits can have these words. A store whose states may come from
/// elsewhere or be damaged checks them first. For logs the store must ensure itself that times and
/// totals rise.
#[must_use]
pub fn is_sound(limits: &LimitSet, words: &[u64]) -> bool {
    let mut each = limits.limits().iter().zip(limits.places());
    each.all(|(limit, place)| {
        words.get(place.words()).is_some_and(|words| limit.step().is_sound(words))
    })
}

/// When the state of a limit set equals a fresh one, in microseconds since the Unix epoch. A store
/// may drop the state then, and keeps it [`crate::SKEW_US`] longer.
pub fn fresh_at_us(limits: &LimitSet, states: &mut dyn States) -> u64 {
    let each = limits.limits().iter().zip(limits.places());
    each.map(|(limit, place)| limit.step().fresh_at_us(&mut states.cell(*place))).max().unwrap_or(0)
}
