//! The parts that a store needs for steps in Lua.

use smallvec::SmallVec;

/// A step in Lua: the source of its functions, distinguished by a name.
///
/// The source has a line `-- cold` after the functions that a check calls. These are `NAME_view`,
/// `NAME_judge` and `NAME_charge`; of a step that counts denials `NAME_deny` in place of the last.
/// After the line come `NAME_numbers`, `NAME_migrate`, `NAME_refund` and `NAME_grant`. The step's
/// arguments are always the last parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LuaStep {
    /// The prefix of its functions, before the underscore.
    pub name: &'static str,
    /// The letter for it in a stored state.
    pub code: char,
    /// The number of parameters stored with its states. The first two are at least 1.
    pub numbers: usize,
    /// The position of the capacity among the parameters, from 1. A larger one in its place, whose
    /// remaining units can be charged without a check.
    pub capacity: usize,
    /// The position of the first of four edges in seconds among the parameters, from 1: of the
    /// windows of a calendar. The step is exact from the first to the last of them.
    pub edges: Option<usize>,
    /// The number of integers in its states. `None` for a row of buckets, which has two more than
    /// its third parameter.
    pub words: Option<usize>,
    /// A Lua expression: whether a limit can have the parameters `n`. It bounds every product that
    /// the functions form.
    pub sound_numbers: &'static str,
    /// A Lua expression: whether a count under the parameters `n` can have the integers `w`. Every
    /// step also requires that the first integer is below 2^53.
    pub sound_words: &'static str,
    /// The source of its functions.
    pub text: &'static str,
}

impl LuaStep {
    /// Whether a state of this step can have this number of integers under these parameters. Any
    /// other state was not written by a step, and must not be used.
    #[must_use]
    pub fn is_sound(&self, words: usize, numbers: &[u64]) -> bool {
        let bounds = |(i, number): (usize, &u64)| {
            *number >= u64::from(i < 2) && *number <= crate::time::MAX_PERIOD_US
        };
        let row =
            || numbers.get(2).and_then(|buckets| usize::try_from(*buckets).ok())?.checked_add(2);
        numbers.len() == self.numbers
            && numbers.iter().enumerate().all(bounds)
            && self.words.or_else(row) == Some(words)
    }
}

/// A limit as a store needs it that runs its steps in Lua.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LuaSpec {
    /// The step; `None` if it has no Lua version yet.
    pub step: Option<&'static LuaStep>,
    /// The arguments of `NAME_numbers`: the parameters stored with a state, each at most 2^53.
    /// Equal parameters of the same step mean equal counting.
    pub numbers: SmallVec<[u64; 4]>,
    /// The last arguments of its other functions: the result of `NAME_numbers`.
    pub arguments: SmallVec<[u64; 10]>,
}

impl LuaSpec {
    /// A spec whose functions take the parameters unchanged.
    pub(crate) fn plain(step: &'static LuaStep, numbers: &[u64]) -> Self {
        Self {
            step: Some(step),
            numbers: SmallVec::from_slice(numbers),
            arguments: SmallVec::from_slice(numbers),
        }
    }
}

/// The Lua source of the exact product that several steps need.
pub const LUA_MUL_DIV: &str = include_str!("period.lua");
