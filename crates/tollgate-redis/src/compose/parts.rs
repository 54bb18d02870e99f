//! The texts from which scripts are made: the pieces of the driver, and the steps.

use std::fmt::Write as _;

use tollgate::Strategy;
use tollgate::engine::{MAX_REPEATS, MAX_REQUESTS};
use tollgate::strategy::{LUA_MUL_DIV, LuaStep, lua_steps};

use super::clock::Clock;
use crate::script::Script;

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
            ("failure.lua", Script::FAILURE),
            ("many.lua", include_str!("many.lua")),
            ("cost.lua", include_str!("cost.lua")),
            ("clock_server.lua", include_str!("clock_server.lua")),
            ("clock_given.lua", include_str!("clock_given.lua")),
            ("layout.lua", include_str!("layout.lua")),
            ("layout_steps.lua", include_str!("layout_steps.lua")),
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
    pub(super) fn driver(&self, name: &str) -> &str {
        self.driver.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
    }

    /// The Lua functions of request ids.
    pub(super) fn requests(&self) -> String {
        let text = self.driver("requests.lua").replace("$HALF", &(MAX_REQUESTS / 2).to_string());
        text.replace("$REPEATS", &MAX_REPEATS.to_string())
    }

    /// The Lua code that parses a state's description of itself.
    pub(super) fn state(&self) -> String {
        self.state_of(&distinct(lua_steps()))
    }

    /// The same for a script that knows these steps.
    pub(super) fn state_of(&self, steps: &[&LuaStep]) -> String {
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
    pub(super) fn hot(&self, step: &LuaStep) -> &str {
        self.split(step).0
    }

    /// The functions of a step that are rarely called.
    pub(super) fn cold(&self, step: &LuaStep) -> &str {
        self.split(step).1
    }

    /// The Lua table of the steps' functions, by the letter of the step. A step need not have all.
    pub(super) fn step_table(&self, name: &str, steps: &[&LuaStep], functions: &[&str]) -> String {
        let mut text = format!("local {name} = {{\n");
        for step in steps {
            let _ = writeln!(text, "  {} = {},", step.code, self.step_row(step, functions));
        }
        text.push_str("}\n");
        text
    }

    /// The Lua table of a step's functions.
    pub(super) fn step_row(&self, step: &LuaStep, functions: &[&str]) -> String {
        let mut text = format!("{{capacity = {}, ", step.capacity);
        for function in functions.iter().filter(|function| self.has(step, function)) {
            let _ = write!(text, "{function} = {}_{function}, ", step.name);
        }
        text.push('}');
        text
    }

    /// Whether a step has this function.
    pub(super) fn has(&self, step: &LuaStep, function: &str) -> bool {
        let declared = format!("local function {}_{function}(", step.name);
        let (hot, cold) = self.split(step);
        hot.contains(&declared) || cold.contains(&declared)
    }

    fn split(&self, step: &LuaStep) -> (&str, &str) {
        let text = self.steps.iter().find(|(known, _)| known.code == step.code);
        text.and_then(|(_, text)| text.split_once("-- cold\n")).unwrap_or_default()
    }

    pub(super) fn clock(&self, clock: Clock) -> &str {
        match clock {
            Clock::Server => self.driver("clock_server.lua"),
            Clock::Given | Clock::GivenWithExpiry => self.driver("clock_given.lua"),
        }
    }
}

/// The distinct steps of a list.
pub(super) fn distinct<'s>(steps: impl IntoIterator<Item = &'s LuaStep>) -> Vec<&'s LuaStep> {
    let mut each: Vec<&LuaStep> = Vec::new();
    for step in steps {
        if each.iter().all(|known| known.code != step.code) {
            each.push(step);
        }
    }
    each
}
