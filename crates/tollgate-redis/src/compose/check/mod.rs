//! The script of a check, a partial check or a peek.

use std::fmt::Write as _;

use tollgate::engine::Mode;
use tollgate::strategy::{LuaSpec, LuaStep};
use tollgate::{Limit, LimitSet};

use super::{Clock, Form, Parts, distinct, has_state, in_state_order, tag};
use crate::script::Script;

mod inline;
mod number_args;
mod read;
mod write;

use inline::InlinedFunction;
use number_args::Numbers;
pub use number_args::{number_args, shape};

/// What a script answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReplyFormat {
    /// The nonce, the units granted, the time, then `remaining`, `retry_after` (-1 for never) and
    /// `reset_after` of each limit; times in microseconds. Where a charge was recorded at another
    /// time than now, or a count was carried over from other numbers: two more for each limit,
    /// when it was recorded and 0 (same numbers), 1 (carried over) or 2 (started fresh).
    Verbose,
    /// 1 for allow, 0 for deny.
    Boolean,
    /// As `Verbose`, with the number of the charge after the nonce, and remembered under a request
    /// id: a repeat is answered as the first was, another question under the id with the nonce
    /// and -1.
    Remembered,
}

/// Describes the script of a check.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Check {
    /// All or nothing, partial, or a peek.
    pub mode: Mode,
    /// Whose clock counts.
    pub clock: Clock,
    /// What it answers.
    pub reply: ReplyFormat,
}

impl Check {
    /// A check by the server's clock, with the verbose answer.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, clock: Clock::Server, reply: ReplyFormat::Verbose }
    }

    /// How many arguments the script takes.
    #[must_use]
    pub fn arguments(&self) -> usize {
        let answer = match self.reply {
            ReplyFormat::Boolean => 1,
            ReplyFormat::Verbose => 2,
            ReplyFormat::Remembered => 4,
        };
        answer + usize::from(self.clock != Clock::Server)
    }

    /// The script for limits of one or several subjects, in the order of a question's parts.
    ///
    /// None when some limit's strategy has no step in Lua.
    #[must_use]
    pub fn compose(&self, subjects: &[&LimitSet], parts: &Parts) -> Option<Script> {
        let composer = Composer::new(self, subjects, parts)?;
        Some(Script::new(composer.write()))
    }

    /// The script for all limits of the [`shape`](super::shape) of these: it takes their numbers as
    /// arguments, which are [`number_args`](super::number_args). They stand after the others, and
    /// before a clock that is given.
    #[must_use]
    pub fn compose_with_number_args(
        &self,
        subjects: &[&LimitSet],
        parts: &Parts,
    ) -> Option<Script> {
        let composer = Composer::new(self, subjects, parts)?;
        Some(Script::new(composer.with_number_args().write()))
    }

    /// The script of several such questions in one call, about the same limits of other subjects
    /// or the same ones. It takes the keys of all questions, one after the other, then their
    /// arguments, and answers with a list of what [`Check::compose`]'s script would answer each,
    /// were they called in this order at one time. What fails for one is the error in its place.
    ///
    /// A verbose answer about up to eight limits is packed: [`unpack_reply`] has its numbers. So
    /// the nonce must be a number, below 2^53: another text is an error after the charge. A list
    /// takes longer to write, and several times as long to read.
    #[must_use]
    pub fn compose_batch(&self, subjects: &[&LimitSet], parts: &Parts) -> Option<Script> {
        let composer = Composer { is_batched: true, ..Composer::new(self, subjects, parts)? };
        Some(Script::new(composer.write_batch()))
    }
}

/// The numbers of a packed answer, which are those of [`ReplyFormat::Verbose`]: eight bytes each,
/// signed and big-endian. None for bytes that are no such answer.
#[must_use]
pub fn unpack_reply(answer: &[u8]) -> Option<impl ExactSizeIterator<Item = i64>> {
    let (numbers, rest) = answer.as_chunks();
    rest.is_empty().then(|| numbers.iter().map(|number| i64::from_be_bytes(*number)))
}

/// One limit in the script.
struct LimitSlot<'s> {
    limit: &'s Limit,
    spec: LuaSpec,
    step: &'static LuaStep,
    form: Form,
    /// Its number, from 1, in the order of the answer.
    number: usize,
    /// Its place among the limits of its subject, from 1.
    place: usize,
    /// Which key holds a log.
    key: usize,
    /// How many number arguments stand before its own.
    number_args_before: usize,
}

/// One subject in the script.
struct SubjectPart<'s> {
    /// In the order in which the states lie.
    slots: Vec<LimitSlot<'s>>,
    /// Which key holds the integers; none when there is no such state.
    key: Option<usize>,
    number: usize,
    tag: String,
    limits: &'s LimitSet,
    /// How many number arguments stand before its own.
    number_args_before: usize,
}

struct Composer<'s> {
    check: &'s Check,
    texts: &'s Parts,
    parts: Vec<SubjectPart<'s>>,
    keys: usize,
    /// Where values live: Lua has room for 200 local variables.
    local: &'static str,
    prefix: &'static str,
    /// One of several questions in one call.
    is_batched: bool,
    numbers: Numbers,
}

/// Up to so many limits are kept in local variables.
const LOCALS_FOR: usize = 8;

impl<'s> Composer<'s> {
    fn new(check: &'s Check, subjects: &[&'s LimitSet], texts: &'s Parts) -> Option<Self> {
        let (mut parts, mut keys, mut first, mut number_arg) = (Vec::new(), 0, 1, 0);
        for (index, set) in subjects.iter().enumerate() {
            let key = has_state(set).then(|| {
                keys += 1;
                keys
            });
            let mut slots = Vec::new();
            let number_args_before = number_arg;
            number_arg += number_args::OF_PART;
            for (place, (declared, limit)) in in_state_order(set).into_iter().enumerate() {
                let (spec, form) = (limit.lua_spec(), Form::from_limit(limit));
                let step = spec.step?;
                if form == Form::Log {
                    keys += 1;
                }
                let (number, place, number_args_before) = (first + declared, place + 1, number_arg);
                number_arg += number_args::OF_SLOT + spec.numbers.len() + spec.arguments.len();
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
            parts.push(SubjectPart {
                slots,
                key,
                number: index + 1,
                tag,
                limits: set,
                number_args_before,
            });
            first += set.limits().len();
        }
        let (local, prefix) = if first - 1 <= LOCALS_FOR { ("local ", "") } else { ("", "L.") };
        let keys = keys + usize::from(check.reply == ReplyFormat::Remembered);
        let (is_batched, numbers) = (false, Numbers::Inlined);
        Some(Self { check, texts, parts, keys, local, prefix, is_batched, numbers })
    }

    fn slots(&self) -> impl Iterator<Item = &LimitSlot<'s>> {
        self.parts.iter().flat_map(|part| &part.slots)
    }

    /// The slots in the order of the answer.
    fn answered(&self) -> Vec<&LimitSlot<'s>> {
        let mut slots: Vec<&LimitSlot<'s>> = self.slots().collect();
        slots.sort_by_key(|slot| slot.number);
        slots
    }

    fn peeks(&self) -> bool {
        self.check.mode.is_peek()
    }

    fn write(&self) -> String {
        let mut out = self.head();
        out.push_str(&self.numbered("ask.lua"));
        out.push_str(self.texts.clock(self.check.clock));
        self.one(&mut out);
        out
    }

    fn write_batch(&self) -> String {
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
            // A table for each question takes longer than all of its words.
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
        out.push_str(&self.numbered("many.lua").replace("$EACH", &given));
        out
    }

    /// True when values live in local variables, and calls have room for all of them.
    fn is_small(&self) -> bool {
        self.prefix.is_empty()
    }

    /// A text of the driver, with how many keys and arguments a question has.
    fn numbered(&self, name: &str) -> String {
        let text = self.texts.driver(name).replace("$KEYS", &self.keys.to_string());
        text.replace("$ARGS", &(self.check.arguments() + self.number_arg_count()).to_string())
    }

    /// What stands before all else: the functions of the steps.
    fn head(&self) -> String {
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
        out
    }

    /// One question, from its cost to its answer.
    fn one(&self, out: &mut String) {
        out.push_str(self.texts.driver("cost.lua"));
        self.read_number_args(out);
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
        if matches!(self.check.mode, Mode::Partial | Mode::PeekPartial) {
            self.partial(out);
        }
        for slot in self.slots().filter(|slot| slot.form == Form::Log && !self.peeks()) {
            let (how, sum) = (self.name("how", slot), self.name("sum", slot));
            let _ = writeln!(out, "{}{how}, {sum} = nil, nil", self.local);
        }
        for slot in self.slots() {
            self.judge(slot, self.local, "cost", out);
        }
        self.decide(out);
    }

    /// `a1` or `L.a1`.
    fn name(&self, what: &str, slot: &LimitSlot<'_>) -> String {
        format!("{}{what}{}", self.prefix, slot.number)
    }

    fn arguments(&self, slot: &LimitSlot<'_>) -> String {
        self.arguments_of(slot).collect::<Vec<_>>().join(", ")
    }

    fn numbers(&self, slot: &LimitSlot<'_>) -> String {
        self.numbers_of(slot).collect::<Vec<_>>().join(", ")
    }

    /// An answer that was given before under the same request id.
    fn remembered(&self, out: &mut String) {
        if self.check.reply != ReplyFormat::Remembered {
            return;
        }
        let key = self.keys;
        let _ = write!(
            out,
            "local known = redis.call('GET', KEYS[{key}])
if known then
  known = cmsgpack.unpack(known)
  if known[1] ~= ARGV[3] then
    return {{ARGV[2], -1}}
  end
  known[1] = ARGV[2]
  return known
end
"
        );
    }

    /// How a limit stands at now, before what is asked.
    fn view(&self, slot: &LimitSlot<'_>, out: &mut String) {
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

    /// What remains, how long to wait, and until when all is free.
    fn judge(&self, slot: &LimitSlot<'_>, local: &str, cost: &str, out: &mut String) {
        let mut arguments = match slot.form {
            Form::Pair => vec!["p", "q", "at"],
            Form::Row(_) => vec!["row", "x", "y", "z", "at", "back"],
            Form::Log => vec!["event", "first", "rest", "used", "at", "back", "newest"],
        };
        arguments.extend(["now", cost]);
        self.call(slot, "judge", local, &["left", "wait", "reset"], &arguments, out);
    }

    /// Calls a function of a limit's step, or writes it out. `results` and `arguments` are names
    /// of values of the limit; `now` and the cost are everybody's.
    fn call(
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
            "now" | "cost" | "1" => (*what).to_owned(),
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

    /// A function that is written out instead of called. Not with many limits: the script would
    /// grow by all of them.
    fn body(&self, step: &LuaStep, function: &str) -> Option<InlinedFunction<'_>> {
        let name = format!("{}_{function}", step.name);
        self.is_small().then(|| InlinedFunction::parse(self.texts.hot(step), &name)).flatten()
    }

    /// The functions of a step that are called.
    fn called(&self, step: &LuaStep) -> String {
        let functions = ["view", "judge", "charge"];
        let written = functions.iter().filter(|function| self.body(step, function).is_some());
        let written: Vec<_> = written.map(|function| format!("{}_{function}", step.name)).collect();
        inline::without(self.texts.hot(step), &written)
    }

    /// Lowers the cost to what remains; nothing left is a denial, as for cost 1.
    fn partial(&self, out: &mut String) {
        out.push_str("do\n");
        for slot in self.slots() {
            let mut text = String::new();
            let local = if self.local.is_empty() { "" } else { "local " };
            self.judge(slot, local, "1", &mut text);
            let left = self.name("left", slot);
            let _ = writeln!(out, "  {text}  cost = math.min(cost, {left})");
        }
        out.push_str("  cost = math.max(cost, 1)\nend\n");
    }

    fn decide(&self, out: &mut String) {
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
            for part in &self.parts {
                self.keep(part, out);
            }
            self.drop_stale("  ", out);
            self.answer("cost", "", &slots, out);
            out.push_str("end\n");
            self.keep_repairs(out);
        }
        self.answer("0", "wait", &slots, out);
    }

    /// Charges one limit. What is written is written by `keep`.
    fn charge(&self, slot: &LimitSlot<'_>, out: &mut String) {
        let n = |what| self.name(what, slot);
        let (results, mut arguments): (&[&str], Vec<&str>) = match slot.form {
            Form::Pair => (&["a", "b", "reset"], vec!["p", "q", "at"]),
            Form::Row(_) => (&["reset"], vec!["row", "x", "y", "z", "at", "back"]),
            Form::Log => {
                (&["reset", "how", "sum"], vec!["first", "used", "at", "back", "newest", "total"])
            }
        };
        arguments.extend(["now", "cost"]);
        let mut text = String::new();
        self.call(slot, "charge", "", results, &arguments, &mut text);
        for line in text.lines() {
            let _ = writeln!(out, "  {line}");
        }
        let _ = writeln!(out, "  {left} = {left} - cost", left = n("left"));
        let _ = writeln!(out, "  if {} ~= now then\n    unusual = true\n  end", n("at"));
    }

    /// The lines that answer. `wait` names the waits; none where all are 0.
    fn answer(&self, granted: &str, wait: &str, slots: &[&LimitSlot<'_>], out: &mut String) {
        let indent = if granted == "0" { "" } else { "  " };
        if self.check.reply == ReplyFormat::Boolean {
            let verdict = u8::from(granted != "0");
            let _ = writeln!(out, "{indent}return {verdict}");
            return;
        }
        let remembers =
            self.check.reply == ReplyFormat::Remembered && granted != "0" && !self.peeks();
        let first = match self.check.reply {
            // What is kept says which question it answers.
            ReplyFormat::Remembered if remembers => "ARGV[3], ARGV[2]",
            ReplyFormat::Remembered => "ARGV[2], ARGV[2]",
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
            // A denial and a peek record nothing.
            let at = if granted == "0" || self.peeks() {
                "now".to_owned()
            } else {
                self.name("at", slot)
            };
            let _ = write!(more, ", {at}, {}", self.name("carried", slot));
        }
        if !remembers {
            let packs =
                self.is_batched && self.is_small() && self.check.reply == ReplyFormat::Verbose;
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
            return;
        }
        let key = self.keys;
        let _ = write!(
            out,
            "{indent}local reply = {{{fields}}}
{indent}if unusual then
{indent}  reply = {{{fields}{more}}}
{indent}end
{indent}redis.call('SET', KEYS[{key}], cmsgpack.pack(reply), 'PX', ARGV[4])
{indent}reply[1] = ARGV[2]
{indent}return reply
"
        );
    }
}
