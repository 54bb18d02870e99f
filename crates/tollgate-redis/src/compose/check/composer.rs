//! The text of a check: one question, from its cost to its reply.

use std::fmt::Write as _;

use tollgate::strategy::{LuaSpec, LuaStep};
use tollgate::{Limit, LimitSet};

use super::inline;
use super::inline::InlinedFunction;
use super::spec::{Check, ReplyFormat};
use crate::compose::clock::Clock;
use crate::compose::form::{Form, has_state, in_state_order, tag};
use crate::compose::parts::{Parts, distinct};

/// One limit in the script.
pub(super) struct LimitSlot<'s> {
    pub(super) limit: &'s Limit,
    pub(super) spec: LuaSpec,
    pub(super) step: &'static LuaStep,
    pub(super) form: Form,
    /// Its number, from 1, in the order of the reply.
    pub(super) number: usize,
    /// Its position among the limits of its subject, from 1.
    pub(super) place: usize,
    /// The number of the key with its log.
    pub(super) key: usize,
    /// The number of number arguments before its own.
    pub(super) number_args_before: usize,
}

/// One subject in the script.
pub(super) struct SubjectPart<'s> {
    /// Its limits, in the order of their states.
    pub(super) slots: Vec<LimitSlot<'s>>,
    /// The number of the key with the integers; `None` when there is no such state.
    pub(super) key: Option<usize>,
    pub(super) number: usize,
    pub(super) tag: String,
    /// The number of number arguments before its own.
    pub(super) number_args_before: usize,
}

pub(super) struct Composer<'s> {
    pub(super) check: &'s Check,
    pub(super) texts: &'s Parts,
    pub(super) parts: Vec<SubjectPart<'s>>,
    pub(super) keys: usize,
    /// `local ` where values are local variables (Lua allows 200); else empty.
    pub(super) local: &'static str,
    pub(super) prefix: &'static str,
    /// Whether this is one of several questions in a batch.
    pub(super) is_batched: bool,
    pub(super) numbers: Numbers,
    /// The lines that make the arguments from others; usually none.
    pub(super) lines: String,
}

/// Where a script takes its numbers from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Numbers {
    /// They are written in.
    Inlined,
    /// They are arguments.
    Arguments,
}

/// The arguments of a subject: its tag.
pub(super) const OF_PART: usize = 1;

/// The arguments of a limit before its numbers: its own tag and its identity.
pub(super) const OF_SLOT: usize = 2;

/// The most limits whose values are kept in local variables.
const LOCALS_FOR: usize = 8;

impl<'s> Composer<'s> {
    pub(super) fn new(
        check: &'s Check,
        subjects: &[&'s LimitSet],
        texts: &'s Parts,
    ) -> Option<Self> {
        let (mut parts, mut keys, mut first, mut number_arg) = (Vec::new(), 0, 1, 0);
        for (index, set) in subjects.iter().enumerate() {
            let key = has_state(set).then(|| {
                keys += 1;
                keys
            });
            let mut slots = Vec::new();
            let number_args_before = number_arg;
            number_arg += OF_PART;
            for (place, (declared, limit)) in in_state_order(set).into_iter().enumerate() {
                let (spec, form) = (limit.lua_spec(), Form::from_limit(limit));
                let step = spec.step?;
                if form == Form::Row(0) {
                    return None;
                }
                if form == Form::Log {
                    keys += 1;
                }
                let (number, place, number_args_before) = (first + declared, place + 1, number_arg);
                number_arg += OF_SLOT + spec.numbers.len() + spec.arguments.len();
                let key = keys;
                slots.push(LimitSlot {
                    limit,
                    spec,
                    step,
                    form,
                    number,
                    place,
                    key,
                    number_args_before,
                });
            }
            let tag = tag(slots.iter().map(|slot| slot.limit));
            parts.push(SubjectPart { slots, key, number: index + 1, tag, number_args_before });
            first += set.limits().len();
        }
        let (local, prefix) = if first - 1 <= LOCALS_FOR { ("local ", "") } else { ("", "L.") };
        let keys = keys + usize::from(check.reply == ReplyFormat::Remembered);
        let (is_batched, numbers) = (false, Numbers::Inlined);
        let lines = String::new();
        Some(Self { check, texts, parts, keys, local, prefix, is_batched, numbers, lines })
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &LimitSlot<'s>> {
        self.parts.iter().flat_map(|part| &part.slots)
    }

    /// The limits in the order of the reply.
    pub(super) fn answered(&self) -> Vec<&LimitSlot<'s>> {
        let mut slots: Vec<&LimitSlot<'s>> = self.slots().collect();
        slots.sort_by_key(|slot| slot.number);
        slots
    }

    pub(super) fn peeks(&self) -> bool {
        self.check.mode.is_peek()
    }

    pub(super) fn write(&self) -> String {
        let mut out = self.head();
        out.push_str(&self.lines);
        out.push_str(&self.numbered("ask.lua"));
        out.push_str(self.texts.clock(self.check.clock));
        self.one(&mut out);
        out
    }

    pub(super) fn write_batch(&self) -> String {
        let mut out = self.head();
        let clock = self.texts.clock(self.check.clock);
        if self.check.clock == Clock::Server {
            out.push_str(clock);
        }
        let mut body = String::new();
        if self.check.clock != Clock::Server {
            body.push_str(clock);
        }
        self.one(&mut body);
        let each = |of: &str, count: usize| -> Vec<String> {
            (1..=count).map(|i| format!("{of}[{count} * i + {i}]")).collect()
        };
        let arguments = self.check.arguments();
        let (keys, args) = (each("KEYS", self.keys), each("ARGV", arguments));
        let (parameters, given) = if self.is_small() {
            // A table for each question would take longer than the work of all its arguments.
            body = body.replace("ARGV[#ARGV]", &format!("ARGV[{arguments}]"));
            let mut names = Vec::new();
            for (of, name, count) in [("KEYS", "key", self.keys), ("ARGV", "arg", arguments)] {
                for i in 1..=count {
                    names.push(format!("{name}{i}"));
                    body = body.replace(&format!("{of}[{i}]"), &format!("{name}{i}"));
                }
            }
            (names.join(", "), [keys, args].concat().join(", "))
        } else {
            ("KEYS, ARGV".to_owned(), format!("{{{}}}, {{{}}}", keys.join(", "), args.join(", ")))
        };
        let _ = writeln!(out, "local function check({parameters})\n{body}end");
        out.push_str(self.texts.driver("failure.lua"));
        out.push_str(&self.numbered("many.lua").replace("$EACH", &given));
        out
    }

    /// Whether values are local variables, and calls have room for all of them.
    pub(super) fn is_small(&self) -> bool {
        self.prefix.is_empty()
    }

    /// A text of the driver, with the numbers of a question's keys and arguments filled in.
    pub(super) fn numbered(&self, name: &str) -> String {
        let text = self.texts.driver(name).replace("$KEYS", &self.keys.to_string());
        text.replace("$ARGS", &(self.check.arguments() + self.number_arg_count()).to_string())
    }

    /// The first part of the script: the functions of the steps.
    pub(super) fn head(&self) -> String {
        let mut out = String::new();
        let flags = if self.peeks() { " flags=no-writes" } else { "" };
        let sets: Vec<String> = self
            .parts
            .iter()
            .map(|part| part.slots.iter().map(|slot| self.title(slot)).collect::<Vec<_>>())
            .map(|limits| limits.join(", "))
            .collect();
        let _ = write!(out, "#!lua{flags}\n-- Tollgate: {}\n", sets.join(" + "));
        let own = distinct(self.slots().map(|slot| slot.step));
        if own.iter().any(|step| self.texts.hot(step).contains("mul_div(")) {
            out.push_str(&self.texts.mul_div);
        }
        for step in &own {
            out.push_str(&self.called(step));
        }
        if self.check.reply == ReplyFormat::Remembered {
            out.push_str(&self.texts.requests());
        }
        out
    }

    /// One question, from its cost to its reply.
    pub(super) fn one(&self, out: &mut String) {
        self.read_amounts(out);
        self.read_number_args(out);
        self.other_windows(out);
        if self.prefix == "L." {
            out.push_str("local L = {}\n");
        }
        self.remembered(out);
        if !self.peeks() {
            out.push_str("local stale, outlived\n");
        }
        out.push_str("local unusual = false\n");
        for part in &self.parts {
            self.read_integers(part, out);
            for slot in part.slots.iter().filter(|slot| slot.form == Form::Log) {
                self.read_log(part, slot, out);
            }
        }
        for slot in self.slots() {
            self.view(slot, out);
        }
        if self.check.mode.is_partial() {
            self.partial(out);
        }
        let logs =
            self.slots().filter(|slot| slot.form == Form::Log && self.amount(slot).is_some());
        for slot in logs.filter(|_| !self.peeks()) {
            let (how, sum) = (self.name("how", slot), self.name("sum", slot));
            let _ = writeln!(out, "{}{how}, {sum} = nil, nil", self.local);
        }
        for slot in self.slots() {
            let amount = self.amount(slot);
            self.judge(slot, self.local, amount.as_deref().unwrap_or("0"), out);
        }
        self.decide(out);
    }

    /// The name of the amount that a limit is judged with; `None` for 0.
    pub(super) fn amount(&self, slot: &LimitSlot<'_>) -> Option<String> {
        let place = match slot.limit.has_capacity() {
            true => self.check.units.iter().position(|unit| unit == slot.limit.unit())?,
            // A ban is judged with any amount.
            false => 0,
        };
        Some(if place == 0 { "cost".to_owned() } else { format!("cost{}", place + 1) })
    }

    /// The lines that read the amounts of the cost.
    fn read_amounts(&self, out: &mut String) {
        let text = self.texts.driver("cost.lua");
        out.push_str(text);
        for (place, argument) in self.check.amount_arguments().enumerate() {
            let name = format!("cost{}", place + 2);
            let text = text.replace("ARGV[1]", &format!("ARGV[{argument}]"));
            let text = text.replace("local cost", &format!("local {name}"));
            let text = text.replace("  cost =", &format!("  {name} ="));
            let text = text.replace("not cost or cost >", &format!("not {name} or {name} >"));
            out.push_str(&text);
        }
    }

    /// A value's name: `a1` or `L.a1`.
    pub(super) fn name(&self, what: &str, slot: &LimitSlot<'_>) -> String {
        format!("{}{what}{}", self.prefix, slot.number)
    }

    pub(super) fn arguments(&self, slot: &LimitSlot<'_>) -> String {
        self.arguments_of(slot).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn numbers(&self, slot: &LimitSlot<'_>) -> String {
        self.numbers_of(slot).collect::<Vec<_>>().join(", ")
    }

    /// The state of a limit now, before the charge.
    pub(super) fn view(&self, slot: &LimitSlot<'_>, out: &mut String) {
        let (results, mut arguments): (&[&str], Vec<&str>) = match slot.form {
            Form::Pair => (&["p", "q", "at", "back"], vec!["a", "b"]),
            Form::Row(_) => (&["x", "y", "z", "at", "back"], vec!["row"]),
            Form::Log => (
                &["first", "rest", "used", "at", "back"],
                vec!["event", "base", "oldest", "newest", "total"],
            ),
        };
        arguments.push("now");
        self.call(slot, "view", self.local, results, &arguments, out);
    }

    /// The remaining units, the wait, and when the limit is fresh.
    pub(super) fn judge(&self, slot: &LimitSlot<'_>, local: &str, cost: &str, out: &mut String) {
        let mut arguments = match slot.form {
            Form::Pair => vec!["p", "q", "at"],
            Form::Row(_) => vec!["row", "x", "y", "z", "at", "back"],
            Form::Log => vec!["event", "first", "rest", "used", "at", "back", "newest"],
        };
        arguments.extend(["now", cost]);
        self.call(slot, "judge", local, &["left", "wait", "reset"], &arguments, out);
    }

    /// Calls a function of a limit's step, or inlines it. `results` and `arguments` are names of
    /// values of the limit, except `now` and the cost, which all limits share.
    pub(super) fn call(
        &self,
        slot: &LimitSlot<'_>,
        function: &str,
        local: &str,
        results: &[&str],
        arguments: &[&str],
        out: &mut String,
    ) {
        let results: Vec<String> = results.iter().map(|what| self.name(what, slot)).collect();
        let results = results.join(", ");
        let value = |what: &&str| match *what {
            "now" | "1" | "0" => (*what).to_owned(),
            amount if amount.starts_with("cost") => amount.to_owned(),
            _ => self.name(what, slot),
        };
        let numbers = self.arguments_of(slot);
        let arguments: Vec<String> = arguments.iter().map(value).chain(numbers).collect();
        if let Some(body) = self.body(slot.step, function) {
            if !local.is_empty() {
                let _ = writeln!(out, "{local}{results}");
            }
            body.write(&results, &arguments, out);
        } else {
            let (name, arguments) = (slot.step.name, arguments.join(", "));
            let _ = writeln!(out, "{local}{results} = {name}_{function}({arguments})");
        }
    }

    /// A function to inline instead of calling it. Scripts with many limits call it, since they
    /// would grow with each copy.
    pub(super) fn body(&self, step: &LuaStep, function: &str) -> Option<InlinedFunction<'_>> {
        let name = format!("{}_{function}", step.name);
        self.is_small().then(|| InlinedFunction::parse(self.texts.hot(step), &name)).flatten()
    }

    /// The functions of a step that are called.
    pub(super) fn called(&self, step: &LuaStep) -> String {
        let functions = ["view", "judge", "charge"];
        let written = functions.iter().filter(|function| self.body(step, function).is_some());
        let written: Vec<_> = written.map(|function| format!("{}_{function}", step.name)).collect();
        inline::without(self.texts.hot(step), &written)
    }

    /// Lowers the cost to the remaining units; if none remain, it is a denial, as for cost 1.
    pub(super) fn partial(&self, out: &mut String) {
        out.push_str("do\n");
        let ban = |slot: &&LimitSlot<'_>| !self.texts.has(slot.step, "charge");
        let is_first =
            |slot: &&LimitSlot<'_>| ban(slot) || self.amount(slot).as_deref() == Some("cost");
        for slot in self.slots().filter(is_first) {
            let mut text = String::new();
            let local = if self.local.is_empty() { "" } else { "local " };
            self.judge(slot, local, "1", &mut text);
            let left = self.name("left", slot);
            let _ = writeln!(out, "  {text}  cost = math.min(cost, {left})");
        }
        out.push_str("  cost = math.max(cost, 1)\nend\n");
    }

    pub(super) fn decide(&self, out: &mut String) {
        let slots = self.answered();
        let admits: Vec<String> =
            slots.iter().map(|slot| format!("{} == 0", self.name("wait", slot))).collect();
        let _ = writeln!(out, "if {} then", admits.join(" and "));
        if self.peeks() {
            self.answer("cost", "wait", &slots, out);
            out.push_str("end\n");
        } else {
            for slot in &slots {
                self.charge(slot, out);
            }
            self.refuse_charge(out);
            self.remember(out);
            for part in &self.parts {
                self.keep(part, out);
            }
            self.drop_stale("  ", out);
            self.answer("cost", "", &slots, out);
            out.push_str("end\n");
            self.note_denial(out);
            self.keep_repairs(out);
        }
        self.answer("0", "wait", &slots, out);
    }

    /// Charges one limit; `keep` writes the result.
    pub(super) fn charge(&self, slot: &LimitSlot<'_>, out: &mut String) {
        let n = |what| self.name(what, slot);
        let amount = self.amount(slot).filter(|_| self.texts.has(slot.step, "charge"));
        let Some(amount) = amount else {
            // A ban takes nothing from a cost, and forgets nothing before it counts again. Neither
            // does a limit of a unit that the cost does not name.
            self.repair(slot, out);
            return;
        };
        let (results, mut arguments): (&[&str], Vec<&str>) = match slot.form {
            Form::Pair => (&["a", "b", "reset"], vec!["p", "q", "at"]),
            Form::Row(_) => (&["reset"], vec!["row", "x", "y", "z", "at", "back"]),
            Form::Log => {
                (&["reset", "how", "sum"], vec!["first", "used", "at", "back", "newest", "total"])
            }
        };
        arguments.extend(["now", amount.as_str()]);
        let mut text = String::new();
        self.call(slot, "charge", "", results, &arguments, &mut text);
        for line in text.lines() {
            let _ = writeln!(out, "  {line}");
        }
        let _ = writeln!(out, "  {left} = {left} - {amount}", left = n("left"));
        let _ = writeln!(out, "  if {} ~= now then\n    unusual = true\n  end", n("at"));
    }

    /// The lines that reply. `wait` names the waits; `None` where all are 0.
    pub(super) fn answer(
        &self,
        granted: &str,
        wait: &str,
        slots: &[&LimitSlot<'_>],
        out: &mut String,
    ) {
        let indent = if granted == "0" { "" } else { "  " };
        if self.check.reply == ReplyFormat::Boolean {
            let verdict = u8::from(granted != "0");
            let _ = writeln!(out, "{indent}return {verdict}");
            return;
        }
        if self.check.reply == ReplyFormat::Words {
            return self.answer_in_words(granted, slots, out);
        }
        let first = match self.check.reply {
            ReplyFormat::Remembered => "ARGV[2], ARGV[2], forgotten",
            _ => "ARGV[2]",
        };
        let mut fields = format!("{first}, {granted}, now");
        for slot in slots {
            let wait = if wait.is_empty() { "0".to_owned() } else { self.name(wait, slot) };
            let _ = write!(
                fields,
                ", {}, {wait}, {}",
                self.name("left", slot),
                self.name("reset", slot)
            );
        }
        let mut more = String::new();
        for slot in slots {
            // A denial or a peek records nothing.
            let at = if granted == "0" || self.peeks() || self.amount(slot).is_none() {
                "now".to_owned()
            } else {
                self.name("at", slot)
            };
            let _ = write!(more, ", {at}, {}", self.name("carried", slot));
        }
        let packs = self.is_batched && self.is_small() && self.check.reply == ReplyFormat::Verbose;
        let reply = |fields: &str| match packs {
            true => {
                let count = fields.split(", ").count();
                format!("struct.pack('>{}', {fields})", "i8".repeat(count))
            }
            false => format!("{{{fields}}}"),
        };
        let (usual, unusual) = (reply(&fields), reply(&format!("{fields}{more}")));
        let _ = write!(
            out,
            "{indent}if unusual then
{indent}  return {unusual}
{indent}end
{indent}return {usual}
"
        );
    }
}
