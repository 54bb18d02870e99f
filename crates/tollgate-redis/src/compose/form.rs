//! The form of a count's state: its integers, their order, and its tag.

use std::fmt::Write as _;

use tollgate::strategy::Shape;
use tollgate::{Limit, LimitSet};

/// The form of a limit's state in a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Two integers, in local variables.
    Pair,
    /// More integers, in a table.
    Row(usize),
    /// A separate list.
    Log,
}

impl Form {
    pub(crate) fn from_limit(limit: &Limit) -> Self {
        match limit.shape() {
            Shape::Words(2) => Self::Pair,
            Shape::Words(count) => Self::Row(count),
            Shape::Log => Self::Log,
        }
    }

    /// The number of integers in the state.
    pub(crate) const fn count(self) -> usize {
        match self {
            Self::Pair => 2,
            Self::Row(count) => count,
            Self::Log => 0,
        }
    }

    /// The bytes of these integers: seven for the first, six for each of the others.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Log => 0,
            Self::Pair | Self::Row(_) => 1 + 6 * self.count(),
        }
    }
}

/// The limits of a set in the order of their states.
pub(crate) fn in_state_order(limits: &LimitSet) -> Vec<(usize, &Limit)> {
    let mut each: Vec<(usize, &Limit)> = limits.limits().iter().enumerate().collect();
    each.sort_by(|a, b| a.1.identity().cmp(b.1.identity()));
    each
}

/// A state's description of one limit: two letters (strategy and step), the number of integers, the
/// limit's numbers.
pub(crate) fn part(limit: &Limit) -> String {
    let spec = limit.lua_spec();
    let mut text = format!(
        "{}{}{}:",
        limit.strategy().code(),
        spec.step.map_or('x', |step| step.code),
        Form::from_limit(limit).count()
    );
    for (i, number) in spec.numbers.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{number}");
    }
    text.push(';');
    text
}

/// A state's description of itself before its integers: the version, and a part for each limit.
pub(crate) fn tag<'l>(limits: impl IntoIterator<Item = &'l Limit>) -> String {
    let parts: String = limits.into_iter().map(part).collect();
    format!("1{parts}|")
}

/// The tag of all limits of a set.
#[must_use]
pub fn set_tag(limits: &LimitSet) -> String {
    tag(in_state_order(limits).into_iter().map(|(_, limit)| limit))
}

/// Whether there is a state beside the logs. There is one if a limit keeps no log: that of slots
/// has no integers, but says that holds are open. There is also one if a limit of several has a
/// name: another strategy may later count under that name, and must see that it starts fresh.
#[must_use]
pub fn has_state(limits: &LimitSet) -> bool {
    let limits = limits.limits();
    let named = limits.iter().any(|limit| limit.name().is_some());
    limits.iter().any(|limit| limit.shape() != Shape::Log) || (limits.len() > 1 && named)
}
