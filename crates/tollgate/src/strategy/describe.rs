//! The description of a strategy, read from its descriptor.

use super::Traits;
use super::lua::LuaStep;
use super::registry::Strategy;
use crate::limit::{LimitKind, Quota};

impl Strategy {
    /// The strategies of a rate, N per D, which the registry has first.
    pub const RATES: &'static [Self] = {
        let mut rates = 0;
        while matches!(Self::ALL[rates].kind(), LimitKind::Rate) {
            rates += 1;
        }
        Self::ALL.split_at(rates).0
    };

    /// The name, as written after `via`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// The quantity that its limits bound.
    #[must_use]
    #[inline]
    pub const fn kind(self) -> LimitKind {
        self.descriptor().kind
    }

    /// The strategy of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|strategy| strategy.name() == name)
    }

    /// The letter for it in a stored state.
    #[must_use]
    pub const fn code(self) -> char {
        self.descriptor().code
    }

    /// Its steps in Lua: any of them may have written a state. Empty if there is none yet; such a
    /// strategy runs on Redis with compare-and-swap.
    #[must_use]
    pub const fn lua_steps(self) -> &'static [&'static LuaStep] {
        self.descriptor().steps
    }

    /// A summary in one line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        self.descriptor().summary
    }

    /// Its page in Markdown: its guarantee, its worst case and cost, when to choose it.
    #[must_use]
    pub const fn page(self) -> &'static str {
        self.descriptor().page
    }

    /// Its options in the notation, besides `N/D` and `via`.
    #[must_use]
    pub const fn options(self) -> &'static [&'static str] {
        self.descriptor().options
    }

    /// The most units admitted in any half-open window of `span_us`, which is at least 1.
    pub(crate) fn most_in(self, quota: &Quota, span_us: u64) -> u128 {
        (self.descriptor().most_in)(quota, span_us)
    }

    /// The properties of `quota` under this strategy: one row of the "which one?" table.
    #[must_use]
    pub fn traits(self, quota: &Quota) -> Traits {
        (self.descriptor().traits)(quota)
    }
}

impl core::fmt::Display for Strategy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// All steps that have a Lua version. A step that several strategies share occurs several times.
pub fn lua_steps() -> impl Iterator<Item = &'static LuaStep> {
    Strategy::ALL.iter().flat_map(|strategy| strategy.descriptor().steps).copied()
}
