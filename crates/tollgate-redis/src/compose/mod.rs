//! Composes the Lua scripts for the limits of a question.
//!
//! A check is straight-line code: one read per subject, the functions of its steps with numbers
//! written in, one write, and the reply. Rare operations (carrying over a state with other numbers,
//! refunds, adjustments) interpret the state's own description of its limits.

mod check;
mod kind;
mod rare;

use std::fmt::Write as _;

use tollgate::engine::{MAX_REPEATS, MAX_REQUESTS};
use tollgate::strategy::{LUA_MUL_DIV, LuaStep, Shape, lua_steps};
use tollgate::{Limit, LimitSet, Strategy};

use crate::script::Script;

pub use check::{Check, ReplyFormat, number_args, shape, unpack_reply};
pub(crate) use rare::with_clock;
pub use rare::{HoldScripts, adjust, charge, count_args, inspect, open_holds, refund, reset, swap};
pub(crate) use rare::{all_codes, most_of};

/// The clock of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Clock {
    /// The server's, read once in each script.
    Server,
    /// The last argument, in microseconds since the epoch, for replaying past traffic. All keys
    /// expire one hour after their last write.
    Given,
    /// The same for tests: all keys live for years, and their TTL encodes when each would expire by
    /// the given clock ([`encoded_expiry_ms`]).
    GivenWithExpiry,
}

/// The divisor of TTLs under [`Clock::GivenWithExpiry`]. A test may run for half of it in
/// milliseconds.
const EXPIRY_SCALE: u64 = 1 << 20;

/// The millisecond of the given clock at which a key would expire, from its TTL in milliseconds.
#[must_use]
pub fn encoded_expiry_ms(pttl: u64) -> u64 {
    pttl / EXPIRY_SCALE
}

/// The TTL that encodes an expiry `lifetime` milliseconds from now.
pub(crate) fn encoded_expiry(lifetime: &str) -> String {
    format!("((now - now % 1000) / 1000 + {lifetime}) * {EXPIRY_SCALE} + {}", EXPIRY_SCALE / 2)
}

/// How long a key of [`Clock::Given`] lives, in milliseconds: longer than a replay takes between
/// two writes of one subject.
pub(crate) const GIVEN_LIFETIME_MS: u64 = 3_600_000;

/// The texts from which scripts are made. They are replaced only to see whether tests notice a
/// change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Parts {
    /// The pieces of the driver, by file name.
    pub driver: Vec<(&'static str, String)>,
    /// The steps, by name.
    pub steps: Vec<(LuaStep, String)>,
    /// The multiplication that steps share.
    pub mul_div: String,
}

impl Default for Parts {
    fn default() -> Self {
        let driver = [
            ("ask.lua", include_str!("ask.lua")),
            ("many.lua", include_str!("many.lua")),
            ("cost.lua", include_str!("cost.lua")),
            ("clock_server.lua", include_str!("clock_server.lua")),
            ("clock_given.lua", include_str!("clock_given.lua")),
            ("rights.lua", Script::RIGHTS),
            ("state.lua", include_str!("state.lua")),
            ("lifetime.lua", include_str!("lifetime.lua")),
            ("rare.lua", include_str!("rare.lua")),
            ("hold_age.lua", include_str!("hold_age.lua")),
            ("hold_form.lua", include_str!("hold_form.lua")),
            ("holds.lua", include_str!("holds.lua")),
            ("line.lua", include_str!("line.lua")),
            ("fast_holds.lua", include_str!("fast_holds.lua")),
            ("among_holds.lua", include_str!("among_holds.lua")),
            ("settle.lua", include_str!("settle.lua")),
            ("renew.lua", include_str!("renew.lua")),
            ("refund.lua", include_str!("refund.lua")),
            ("adjust.lua", include_str!("adjust.lua")),
            ("charge.lua", include_str!("charge.lua")),
            ("reset.lua", include_str!("reset.lua")),
            ("inspect.lua", include_str!("inspect.lua")),
            ("open_holds.lua", include_str!("open_holds.lua")),
            ("requests.lua", include_str!("requests.lua")),
            ("swap.lua", include_str!("swap.lua")),
        ];
        let steps = distinct(lua_steps()).into_iter().map(|step| (*step, step.text.to_owned()));
        Self {
            driver: driver.map(|(name, text)| (name, text.to_owned())).into(),
            steps: steps.collect(),
            mul_div: LUA_MUL_DIV.to_owned(),
        }
    }
}

impl Parts {
    fn driver(&self, name: &str) -> &str {
        self.driver.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
    }

    /// The Lua functions of request ids.
    fn requests(&self) -> String {
        let text = self.driver("requests.lua").replace("$HALF", &(MAX_REQUESTS / 2).to_string());
        text.replace("$REPEATS", &MAX_REPEATS.to_string())
    }

    /// The Lua code that parses a state's description of itself.
    fn state(&self) -> String {
        self.state_of(&distinct(lua_steps()))
    }

    /// The same for a script that knows these steps.
    fn state_of(&self, steps: &[&LuaStep]) -> String {
        let mut shapes = String::new();
        let is_known = |step: &&&LuaStep| steps.iter().any(|known| known.code == step.code);
        for strategy in Strategy::ALL {
            for step in strategy.lua_steps().iter().filter(is_known) {
                // Writing to a string cannot fail.
                let _ = write!(shapes, "{}{} = {{{}", strategy.code(), step.code, step.numbers);
                // `nil` for a row.
                let words = step.words.map_or_else(|| "nil".to_owned(), |words| words.to_string());
                let (numbers, sound) = (step.sound_numbers, step.sound_words);
                let _ = write!(
                    shapes,
                    ", {words},
    function(n)
      return {numbers}
    end,
    function(w, n)
      return {sound}
    end}},
    "
                );
            }
        }
        let text = self.driver("state.lua").replace("$SHAPES", shapes.trim_end_matches(",\n    "));
        let unknown = match steps.len() < distinct(lua_steps()).len() {
            true => "other steps",
            false => "the state was written by a newer version: it names a step that is not known",
        };
        text.replace("$UNKNOWN", unknown).replace("$MOST", &tollgate::MAX_PERIOD_US.to_string())
    }

    /// The functions of a step that a check calls.
    fn hot(&self, step: &LuaStep) -> &str {
        self.split(step).0
    }

    /// The functions of a step that are rarely called.
    fn cold(&self, step: &LuaStep) -> &str {
        self.split(step).1
    }

    /// The Lua table of the steps' functions, by the letter of the step. A step need not have all.
    fn step_table(&self, name: &str, steps: &[&LuaStep], functions: &[&str]) -> String {
        let mut text = format!("local {name} = {{\n");
        for step in steps {
            let _ = write!(text, "  {} = {{capacity = {}, ", step.code, step.capacity);
            let (hot, cold) = self.split(step);
            for function in functions {
                let name = format!("{}_{function}", step.name);
                let declared = format!("local function {name}(");
                if hot.contains(&declared) || cold.contains(&declared) {
                    let _ = write!(text, "{function} = {name}, ");
                }
            }
            text.push_str("},\n");
        }
        text.push_str("}\n");
        text
    }

    fn split(&self, step: &LuaStep) -> (&str, &str) {
        let text = self.steps.iter().find(|(known, _)| known.code == step.code);
        text.and_then(|(_, text)| text.split_once("-- cold\n")).unwrap_or_default()
    }

    fn clock(&self, clock: Clock) -> &str {
        match clock {
            Clock::Server => self.driver("clock_server.lua"),
            Clock::Given | Clock::GivenWithExpiry => self.driver("clock_given.lua"),
        }
    }
}

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

/// Whether there is a state beside the logs. There is one if a limit keeps integers in it. There is
/// also one if a limit counts slots: it says that holds are open. And there is one if a limit of
/// several has a name: another strategy may later count under that name, and
/// must see that it starts fresh.
#[must_use]
pub fn has_state(limits: &LimitSet) -> bool {
    let named = limits.limits().iter().any(|limit| limit.name().is_some());
    limits.words() > 0 || limits.needs_hold() || (limits.limits().len() > 1 && named)
}

/// The distinct steps of a list.
fn distinct<'s>(steps: impl IntoIterator<Item = &'s LuaStep>) -> Vec<&'s LuaStep> {
    let mut each: Vec<&LuaStep> = Vec::new();
    for step in steps {
        if each.iter().all(|known| known.code != step.code) {
            each.push(step);
        }
    }
    each
}
