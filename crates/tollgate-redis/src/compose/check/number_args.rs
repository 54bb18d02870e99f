//! Numbers passed to a script as arguments, so that one script serves all limits of a shape.
//!
//! A script with its numbers written in is faster, but a server caches each such script until it
//! stops. Limits created at run time would fill its memory.

use std::fmt::Write as _;

use tollgate::{LimitSet, Unit};

use super::composer::{Composer, LimitSlot, Numbers, OF_PART, OF_SLOT, SubjectPart};
use crate::compose::clock::Clock;
use crate::compose::form::{Form, has_state, in_state_order, part, set_tag, tag};

/// The arguments of [`super::Check::compose_with_number_args`]'s script for these limits.
#[must_use]
pub fn number_args(subjects: &[&LimitSet]) -> Vec<String> {
    let mut words = Vec::new();
    for set in subjects {
        words.push(set_tag(set));
        for (_, limit) in in_state_order(set) {
            let spec = limit.lua_spec();
            words.extend([tag([limit]), limit.identity().to_owned()]);
            words.extend(spec.numbers.iter().chain(&spec.arguments).map(ToString::to_string));
        }
    }
    words
}

/// The key of a script with number arguments: limits of one shape share it.
#[must_use]
pub fn shape(subjects: &[&LimitSet]) -> String {
    let mut shape = String::new();
    for set in subjects {
        shape.push(if has_state(set) { '+' } else { '-' });
        for (declared, limit) in in_state_order(set) {
            // The strategy, the step and the number of integers; the numbers follow the colon.
            let part = part(limit);
            let (form, _) = part.split_once(':').unwrap_or((&part, ""));
            // Writing to a string cannot fail.
            let _ = write!(shape, "{declared}{form};");
            if *limit.unit() != Unit::REQUESTS {
                let _ = write!(shape, "{};", limit.unit());
            }
        }
    }
    shape
}

/// A text of a script: written in, or passed as an argument.
pub(super) struct ScriptText<'t> {
    text: &'t str,
    argument: Option<usize>,
}

impl ScriptText<'_> {
    /// The text as a Lua expression.
    pub(super) fn value(&self) -> String {
        match self.argument {
            None => format!("'{}'", self.text),
            Some(at) => format!("ARGV[{at}]"),
        }
    }

    /// The text's length plus `more` bytes, as a Lua expression.
    pub(super) fn len_and(&self, more: usize) -> String {
        match self.argument {
            None => (self.text.len() + more).to_string(),
            Some(at) => format!("#ARGV[{at}] + {more}"),
        }
    }

    /// The pack format of the text and of `rest`, as a Lua expression.
    pub(super) fn format_and(&self, rest: &str) -> String {
        match self.argument {
            None => format!("'>c{}{rest}'", self.text.len()),
            Some(at) => format!("'>c' .. #ARGV[{at}] .. '{rest}'"),
        }
    }

    /// The text after another text, as a Lua expression.
    pub(super) fn after(&self, text: &str) -> String {
        match self.argument {
            None => format!("'{text}{}'", self.text),
            Some(at) => format!("'{text}' .. ARGV[{at}]"),
        }
    }
}

impl<'s> Composer<'s> {
    pub(super) fn with_number_args(self) -> Self {
        Self { numbers: Numbers::Arguments, ..self }
    }

    fn takes_number_args(&self) -> bool {
        self.numbers == Numbers::Arguments
    }

    /// The number of these arguments.
    pub(super) fn number_arg_count(&self) -> usize {
        match self.parts.last().filter(|_| self.takes_number_args()) {
            None => 0,
            Some(SubjectPart { slots, number_args_before, .. }) => match slots.last() {
                None => number_args_before + OF_PART,
                Some(LimitSlot { number_args_before, spec, .. }) => {
                    number_args_before + OF_SLOT + spec.numbers.len() + spec.arguments.len()
                }
            },
        }
    }

    /// The position of the first of these arguments, from 1: after those of every script.
    fn first_number_arg(&self) -> usize {
        let clock = usize::from(self.check.clock != Clock::Server);
        self.check.arguments() - clock + 1
    }

    /// The lines that read the numbers. Texts are read where they are used.
    pub(super) fn read_number_args(&self, out: &mut String) {
        if self.takes_number_args() {
            let first = self.first_number_arg();
            let last = first + self.number_arg_count() - 1;
            let _ = write!(
                out,
                "local N = {{}}\nfor i = {first}, {last} do\n  N[i] = tonumber(ARGV[i])\nend\n"
            );
        }
    }

    /// The name of a limit in the script's header.
    pub(super) fn title(&self, slot: &LimitSlot<'_>) -> String {
        match (self.numbers, slot.form) {
            (Numbers::Inlined, _) => slot.limit.to_string(),
            (Numbers::Arguments, Form::Row(count)) => {
                format!("any {} of {count}", slot.limit.strategy().name())
            }
            (Numbers::Arguments, _) => format!("any {}", slot.limit.strategy().name()),
        }
    }

    /// The numbers in the tag of a limit's state.
    pub(super) fn numbers_of<'c>(
        &'c self,
        slot: &'c LimitSlot<'_>,
    ) -> impl Iterator<Item = String> + 'c {
        self.each(&slot.spec.numbers, slot.number_args_before + OF_SLOT)
    }

    /// The numbers that the functions of its step take.
    pub(super) fn arguments_of<'c>(
        &'c self,
        slot: &'c LimitSlot<'_>,
    ) -> impl Iterator<Item = String> + 'c {
        self.each(&slot.spec.arguments, slot.number_args_before + OF_SLOT + slot.spec.numbers.len())
    }

    fn each<'c>(&'c self, numbers: &'c [u64], before: usize) -> impl Iterator<Item = String> + 'c {
        let first = self.first_number_arg() + before;
        numbers.iter().enumerate().map(move |(i, number)| match self.numbers {
            Numbers::Inlined => number.to_string(),
            Numbers::Arguments => format!("N[{}]", first + i),
        })
    }

    fn text<'t>(&self, text: &'t str, before: usize) -> ScriptText<'t> {
        ScriptText {
            text,
            argument: self.takes_number_args().then(|| self.first_number_arg() + before),
        }
    }

    /// The tag at the start of this subject's state.
    pub(super) fn tag_of<'p>(&self, part: &'p SubjectPart<'_>) -> ScriptText<'p> {
        self.text(&part.tag, part.number_args_before)
    }

    /// The first element of a limit's log.
    pub(super) fn head_of<'t>(&self, slot: &LimitSlot<'_>, head: &'t str) -> ScriptText<'t> {
        self.text(head, slot.number_args_before)
    }

    /// The identity of a limit.
    pub(super) fn identity_of(&self, slot: &LimitSlot<'s>) -> ScriptText<'s> {
        self.text(slot.limit.identity(), slot.number_args_before + 1)
    }
}
