//! The scripts' treatment of each kind of limit.

use tollgate::strategy::LuaStep;
use tollgate::{LimitKind, Strategy};

/// The scripts' knowledge of a kind.
pub(super) struct Kind {
    /// The field of a hold, of several or of a line that belongs to it: they have both. `None`
    /// where they want nothing.
    pub(super) counts: Option<&'static str>,
    /// Whether the fast path of holds knows it.
    pub(super) is_simple: bool,
}

impl Kind {
    /// Of the limits of a step: the one place of the scripts of holds where the kinds differ.
    pub(super) fn of(step: &LuaStep) -> Self {
        let has =
            |strategy: &&Strategy| strategy.lua_steps().iter().any(|known| known.code == step.code);
        match Strategy::ALL.iter().find(has).map_or(LimitKind::Rate, |strategy| strategy.kind()) {
            LimitKind::Rate => Self { counts: Some("units"), is_simple: step.words == Some(2) },
            LimitKind::Slots => Self { counts: Some("slots"), is_simple: true },
            LimitKind::Ban => Self { counts: None, is_simple: false },
        }
    }
}
