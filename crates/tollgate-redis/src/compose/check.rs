//! The script of a check, a partial check or a peek.

use std::fmt::Write as _;

use tollgate::engine::Mode;
use tollgate::strategy::{LuaStep, Twin};
use tollgate::{Limit, LimitSet};

use super::{Clock, Form, Parts, by_place, distinct, has_state, step_table, tag};
use crate::script::Script;

/// What a script answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Answer {
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
    pub answer: Answer,
}

impl Check {
    /// A check by the server's clock, with the verbose answer.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, clock: Clock::Server, answer: Answer::Verbose }
    }

    /// How many arguments the script takes.
    #[must_use]
    pub fn arguments(&self) -> usize {
        let answer = match self.answer {
            Answer::Boolean => 1,
            Answer::Verbose => 2,
            Answer::Remembered => 4,
        };
        answer + usize::from(self.clock == Clock::Given)
    }

    /// The script for limits of one or several subjects, in the order of a question's parts.
    ///
    /// None when some limit's strategy has no step in Lua.
    #[must_use]
    pub fn compose(&self, subjects: &[&LimitSet], parts: &Parts) -> Option<Script> {
        let composer = Composer::new(self, subjects, parts)?;
        Some(Script::new(composer.write()))
    }
}

/// One limit in the script.
struct Slot<'s> {
    limit: &'s Limit,
    twin: Twin,
    step: &'static LuaStep,
    form: Form,
    /// Its number, from 1, in the order of the answer.
    number: usize,
    /// Its place among the limits of its subject, from 1.
    place: usize,
    /// Which key holds a log.
    key: usize,
}

/// One subject in the script.
struct Part<'s> {
    /// In the order in which the states lie.
    slots: Vec<Slot<'s>>,
    /// Which key holds the integers; none when there is no such state.
    key: Option<usize>,
    number: usize,
    tag: String,
}

struct Composer<'s> {
    check: &'s Check,
    texts: &'s Parts,
    parts: Vec<Part<'s>>,
    keys: usize,
    /// Where values live: Lua has room for 200 local variables.
    local: &'static str,
    prefix: &'static str,
}

/// Up to so many limits are kept in local variables.
const LOCALS_FOR: usize = 8;

impl<'s> Composer<'s> {
    fn new(check: &'s Check, subjects: &[&'s LimitSet], texts: &'s Parts) -> Option<Self> {
        let (mut parts, mut keys, mut first) = (Vec::new(), 0, 1);
        for (index, set) in subjects.iter().enumerate() {
            let key = has_state(set).then(|| {
                keys += 1;
                keys
            });
            let mut slots = Vec::new();
            for (place, (declared, limit)) in by_place(set).into_iter().enumerate() {
                let (twin, form) = (limit.twin(), Form::of(limit));
                let step = twin.step?;
                if form == Form::Log {
                    keys += 1;
                }
                let number = first + declared;
                slots.push(Slot { limit, twin, step, form, number, place: place + 1, key: keys });
            }
            let tag = tag(slots.iter().map(|slot| slot.limit));
            parts.push(Part { slots, key, number: index + 1, tag });
            first += set.limits().len();
        }
        let (local, prefix) = if first - 1 <= LOCALS_FOR { ("local ", "") } else { ("", "L.") };
        let keys = keys + usize::from(check.answer == Answer::Remembered);
        Some(Self { check, texts, parts, keys, local, prefix })
    }

    fn slots(&self) -> impl Iterator<Item = &Slot<'s>> {
        self.parts.iter().flat_map(|part| &part.slots)
    }

    /// The slots in the order of the answer.
    fn answered(&self) -> Vec<&Slot<'s>> {
        let mut slots: Vec<&Slot<'s>> = self.slots().collect();
        slots.sort_by_key(|slot| slot.number);
        slots
    }

    fn peeks(&self) -> bool {
        self.check.mode.is_peek()
    }

    fn write(&self) -> String {
        let mut out = String::new();
        let flags = if self.peeks() { " flags=no-writes" } else { "" };
        let sets: Vec<String> = self
            .parts
            .iter()
            .map(|part| part.slots.iter().map(|slot| slot.limit.to_string()).collect::<Vec<_>>())
            .map(|limits| limits.join(", "))
            .collect();
        let _ = write!(out, "#!lua{flags}\n-- Tollgate: {}\n", sets.join(" + "));
        let own = distinct(self.slots().map(|slot| slot.step));
        let hot: String = own.iter().map(|step| self.texts.hot(step)).collect();
        if hot.contains("mul_div(") {
            out.push_str(&self.texts.mul_div);
        }
        out.push_str(&hot);
        let ask = self.texts.driver("ask.lua").replace("$KEYS", &self.keys.to_string());
        out.push_str(&ask.replace("$ARGS", &self.check.arguments().to_string()));
        if self.prefix == "L." {
            out.push_str("local L = {}\n");
        }
        out.push_str(self.texts.clock(self.check.clock));
        self.remembered(&mut out);
        if !self.peeks() {
            out.push_str("local stale\n");
        }
        out.push_str("local unusual = false\n");
        for part in &self.parts {
            self.read_integers(part, &mut out);
            for slot in part.slots.iter().filter(|slot| slot.form == Form::Log) {
                self.read_log(part, slot, &mut out);
            }
        }
        for slot in self.slots() {
            self.view(slot, &mut out);
        }
        if matches!(self.check.mode, Mode::Partial | Mode::PeekPartial) {
            self.partial(&mut out);
        }
        for slot in self.slots().filter(|slot| slot.form == Form::Log && !self.peeks()) {
            let (how, sum) = (self.name("how", slot), self.name("sum", slot));
            let _ = writeln!(out, "{}{how}, {sum} = nil, nil", self.local);
        }
        for slot in self.slots() {
            self.judge(slot, self.local, "cost", &mut out);
        }
        self.decide(&mut out);
        out
    }

    /// `a1` or `L.a1`.
    fn name(&self, what: &str, slot: &Slot<'_>) -> String {
        format!("{}{what}{}", self.prefix, slot.number)
    }

    fn arguments(slot: &Slot<'_>) -> String {
        slot.twin.arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    fn numbers(slot: &Slot<'_>) -> String {
        slot.twin.numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// An answer that was given before under the same request id.
    fn remembered(&self, out: &mut String) {
        if self.check.answer != Answer::Remembered {
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

    /// Reads the integers of a subject.
    fn read_integers(&self, part: &Part<'_>, out: &mut String) {
        let Some(key) = part.key else { return };
        let (local, p) = (self.local, part.number);
        let v = format!("{}v{p}", self.prefix);
        let pairs: Vec<&Slot<'_>> = part.slots.iter().filter(|s| s.form == Form::Pair).collect();
        let rows: Vec<&Slot<'_>> =
            part.slots.iter().filter(|s| matches!(s.form, Form::Row(_))).collect();
        let mut length = part.tag.len();
        let mut format = format!(">c{length}");
        let mut names = vec![format!("{}tag{p}", self.prefix)];
        let mut fresh = vec!["nil".to_owned()];
        for slot in &pairs {
            format.push_str("I7I6");
            names.extend([self.name("a", slot), self.name("b", slot)]);
            fresh.extend(["0".to_owned(), "0".to_owned()]);
            length += slot.form.bytes();
        }
        let mut row_reads = String::new();
        for slot in &rows {
            let name = self.name("row", slot);
            let from = length + 1;
            let layout = row_format(slot.form.count());
            let _ = writeln!(row_reads, "    {name} = {{struct.unpack('{layout}', {v}, {from})}}");
            length += slot.form.bytes();
        }
        for slot in &part.slots {
            if slot.form != Form::Log {
                let _ = writeln!(out, "{local}{} = 0", self.name("carried", slot));
            }
        }
        for slot in &rows {
            let _ = writeln!(out, "{local}{} = nil", self.name("row", slot));
        }
        for slot in part.slots.iter().filter(|slot| slot.form == Form::Log) {
            let _ = writeln!(out, "{local}{} = nil", self.name("before", slot));
        }
        let (names, fresh) = (names.join(", "), fresh.join(", "));
        let _ = write!(
            out,
            "{local}{names} = {fresh}
{local}{v} = redis.pcall('GET', KEYS[{key}])
if {v} then
  if #{v} == {length} then
    {names} = struct.unpack('{format}', {v})
{row_reads}  end
  if {}tag{p} ~= '{}' then
",
            self.prefix, part.tag
        );
        self.carry(part, key, &v, out);
        out.push_str("  end\nend\n");
        for slot in &rows {
            let name = self.name("row", slot);
            let zeros = vec!["0"; slot.form.count()].join(", ");
            let _ = writeln!(out, "{name} = {name} or {{{zeros}}}");
        }
    }

    /// What to do with a state that was written under other numbers.
    fn carry(&self, part: &Part<'_>, key: usize, v: &str, out: &mut String) {
        let own = distinct(self.slots().map(|slot| slot.step));
        let words = part.slots.iter().filter(|slot| slot.form != Form::Log);
        let steps = distinct(words.flat_map(|slot| slot.limit.strategy().lua_steps()).copied());
        let mut text = self.texts.mul_div.clone();
        for step in &steps {
            if own.iter().all(|known| known.code != step.code) {
                text.push_str(self.texts.hot(step));
            }
            text.push_str(self.texts.cold(step));
        }
        text.push_str(self.texts.driver("state.lua"));
        text.push_str(&step_table(
            &steps,
            &["view", "judge", "charge", "numbers", "inherit"],
            |_| true,
        ));
        let single = part.slots.len() == 1;
        if single {
            // The list of a log that was counted under this name lies at the key itself.
            let _ = write!(
                text,
                "local old, wrong
if type({v}) == 'table' then
  local head = redis.pcall('LINDEX', KEYS[{key}], 0)
  if type(head) ~= 'string' then
    return {v}
  end
  old, wrong = read_tag(head)
else
  old, wrong = read_state({v})
end
"
            );
        } else {
            let _ = write!(
                text,
                "if type({v}) == 'table' then
  return {v}
end
local old, wrong = read_state({v})
"
            );
        }
        let _ = write!(
            text,
            "if not old then
  return redis.error_reply('TOLLGATE ' .. wrong)
end
if #old ~= {} then
  return redis.error_reply('TOLLGATE the state is damaged: it is of another number of limits')
end
unusual = true
local words
",
            part.slots.len()
        );
        for slot in &part.slots {
            let place = slot.place;
            if slot.form == Form::Log {
                let _ = write!(
                    text,
                    "if old[{place}].strategy ~= 'l' then
  {before} = 2
elseif not same_numbers(old[{place}].numbers, {{{}}}) then
  {before} = 1
end
",
                    Self::numbers(slot),
                    before = self.name("before", slot)
                );
                continue;
            }
            let carried = self.name("carried", slot);
            let _ = writeln!(
                text,
                "{carried}, words = carry(old[{place}], {{strategy = '{}', code = '{}', \
                 count = {}, numbers = {{{}}}}}, steps, now)",
                slot.limit.strategy().code(),
                slot.step.code,
                slot.form.count(),
                Self::numbers(slot),
            );
            if slot.form == Form::Pair {
                let (a, b) = (self.name("a", slot), self.name("b", slot));
                let _ = writeln!(text, "{a}, {b} = words[1], words[2]");
            } else {
                let _ = writeln!(text, "{} = words", self.name("row", slot));
            }
            if !single && !self.peeks() {
                let _ = write!(
                    text,
                    "if old[{place}].strategy == 'l' then
  stale = stale or {{}}
  stale[#stale + 1] = KEYS[{key}] .. '~{}'
end
",
                    slot.limit.identity()
                );
            }
        }
        for line in text.lines() {
            let _ = writeln!(out, "    {line}");
        }
    }

    /// Reads the ends of a log.
    fn read_log(&self, part: &Part<'_>, slot: &Slot<'_>, out: &mut String) {
        let (local, key) = (self.local, slot.key);
        let n = |what| self.name(what, slot);
        let (ends, event, carried) = (n("ends"), n("event"), n("carried"));
        let (base, oldest, newest, total) = (n("base"), n("oldest"), n("newest"), n("total"));
        let (before, mended) = (n("before"), n("mended"));
        let head = tag([slot.limit]);
        let (length, width) = (head.len() + 6, head.len());
        let single = part.slots.len() == 1;
        let _ = write!(
            out,
            "{local}{carried}, {mended} = 0, false
{local}{ends} = redis.pcall('LRANGE', KEYS[{key}], 0, 1)
{local}{base}, {oldest}, {newest}, {total} = 0, nil, nil, nil
{local}{event} = function(i)
  local event = redis.call('LINDEX', KEYS[{key}], i)
  if event then
    return struct.unpack('>I7I6', event)
  end
end
if {ends}[1] then
  local tag
  if #{ends}[1] == {length} then
    tag, {base} = struct.unpack('>c{width}I6', {ends}[1])
  end
  if #({ends}[2] or '') ~= 13 then
    return redis.error_reply('TOLLGATE the key holds something that is no state of Tollgate')
  end
  {oldest} = struct.unpack('>I7', {ends}[2])
  {newest}, {total} = {event}(-1)
  if tag ~= '{head}' then
"
        );
        let mut text = self.texts.driver("state.lua").to_owned();
        let _ = write!(
            text,
            "local old, from = read_tag({ends}[1])
if not old then
  return redis.error_reply('TOLLGATE ' .. from)
end
{base} = struct.unpack('>I6', {ends}[1], from)
unusual = true
{carried} = 1
-- A state from the future is mended under the old numbers.
local _, _, used, at, back = log_view({event}, {base}, {oldest}, {newest}, {total}, now,
  unpack(old[1].numbers))
if back then
  {mended} = true
  {base}, {oldest}, {newest}, {total} = 0, now, now, used
  {event} = function(i)
    if i == 1 then
      return now, used
    end
  end
end
"
        );
        for line in text.lines() {
            let _ = writeln!(out, "    {line}");
        }
        out.push_str("  end\n");
        let _ = writeln!(out, "elseif {ends}.err then");
        if single {
            let mut text = self.texts.driver("state.lua").to_owned();
            let _ = write!(
                text,
                "local v = redis.pcall('GET', KEYS[{key}])
if type(v) ~= 'string' then
  return {ends}
end
local old, wrong = read_state(v)
if not old then
  return redis.error_reply('TOLLGATE ' .. wrong)
end
unusual = true
{carried} = 2
"
            );
            for line in text.lines() {
                let _ = writeln!(out, "  {line}");
            }
        } else {
            let _ = writeln!(out, "  return {ends}");
        }
        out.push_str("end\n");
        if part.key.is_some() {
            // The state beside it may say that another strategy counted under this name.
            let _ = write!(out, "if {before} then\n  {carried} = {before}\nend\n");
        }
    }

    /// Brings a state up to now.
    fn view(&self, slot: &Slot<'_>, out: &mut String) {
        let (local, name) = (self.local, slot.step.name);
        let n = |what| self.name(what, slot);
        let arguments = Self::arguments(slot);
        let _ = match slot.form {
            Form::Pair => writeln!(
                out,
                "{local}{}, {}, {}, {} = {name}_view({}, {}, now, {arguments})",
                n("p"),
                n("q"),
                n("at"),
                n("back"),
                n("a"),
                n("b"),
            ),
            Form::Row(_) => writeln!(
                out,
                "{local}{}, {}, {}, {}, {} = {name}_view({}, now, {arguments})",
                n("x"),
                n("y"),
                n("z"),
                n("at"),
                n("back"),
                n("row"),
            ),
            Form::Log => writeln!(
                out,
                "{local}{}, {}, {}, {}, {} = {name}_view({}, {}, {}, {}, {}, now, {arguments})",
                n("first"),
                n("rest"),
                n("used"),
                n("at"),
                n("back"),
                n("event"),
                n("base"),
                n("oldest"),
                n("newest"),
                n("total"),
            ),
        };
    }

    /// What remains, how long to wait, and until when all is free.
    fn judge(&self, slot: &Slot<'_>, local: &str, cost: &str, out: &mut String) {
        let name = slot.step.name;
        let n = |what| self.name(what, slot);
        let arguments = Self::arguments(slot);
        let _ = write!(out, "{local}{}, {}, {} = {name}_judge(", n("left"), n("wait"), n("reset"));
        let _ = match slot.form {
            Form::Pair => write!(out, "{}, {}, {}", n("p"), n("q"), n("at")),
            Form::Row(_) => write!(
                out,
                "{}, {}, {}, {}, {}, {}",
                n("row"),
                n("x"),
                n("y"),
                n("z"),
                n("at"),
                n("back")
            ),
            Form::Log => write!(
                out,
                "{}, {}, {}, {}, {}, {}, {}",
                n("event"),
                n("first"),
                n("rest"),
                n("used"),
                n("at"),
                n("back"),
                n("newest")
            ),
        };
        let _ = writeln!(out, ", now, {cost}, {arguments})");
    }

    /// Lowers the cost to what remains; nothing left is a denial, as for cost 1.
    fn partial(&self, out: &mut String) {
        out.push_str("do\n");
        for slot in self.slots() {
            let mut text = String::new();
            let local = if self.local.is_empty() { "" } else { "local " };
            self.judge(slot, local, "1", &mut text);
            let left = self.name("left", slot);
            let _ = write!(out, "  {text}  if {left} < cost then\n    cost = {left}\n  end\n");
        }
        out.push_str("  if cost < 1 then\n    cost = 1\n  end\nend\n");
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
    fn charge(&self, slot: &Slot<'_>, out: &mut String) {
        let name = slot.step.name;
        let n = |what| self.name(what, slot);
        let arguments = Self::arguments(slot);
        let _ = match slot.form {
            Form::Pair => writeln!(
                out,
                "  {}, {}, {} = {name}_charge({}, {}, {}, now, cost, {arguments})",
                n("a"),
                n("b"),
                n("reset"),
                n("p"),
                n("q"),
                n("at"),
            ),
            Form::Row(_) => writeln!(
                out,
                "  {} = {name}_charge({}, {}, {}, {}, {}, {}, now, cost, {arguments})",
                n("reset"),
                n("row"),
                n("x"),
                n("y"),
                n("z"),
                n("at"),
                n("back"),
            ),
            Form::Log => writeln!(
                out,
                "  {}, {}, {} = {name}_charge({}, {}, {}, {}, {}, {}, now, cost, {arguments})",
                n("reset"),
                n("how"),
                n("sum"),
                n("first"),
                n("used"),
                n("at"),
                n("back"),
                n("newest"),
                n("total"),
            ),
        };
        let _ = writeln!(out, "  {left} = {left} - cost", left = n("left"));
        let _ = writeln!(out, "  if {} ~= now then\n    unusual = true\n  end", n("at"));
    }

    /// Writes what was charged to a subject.
    fn keep(&self, part: &Part<'_>, out: &mut String) {
        let mut blocks = Vec::new();
        if let Some(key) = part.key {
            let mut text = String::new();
            self.set(part, key, "  ", &mut text);
            blocks.push(text);
        }
        for slot in part.slots.iter().filter(|slot| slot.form == Form::Log) {
            let mut text = String::new();
            self.push(slot, &mut text);
            blocks.push(text);
        }
        if self.parts.len() == 1 && blocks.len() == 1 {
            out.push_str(&blocks.concat());
            return;
        }
        for text in blocks {
            // Of its own block: names are used again, and their number is limited.
            out.push_str("  do\n");
            for line in text.lines() {
                let _ = writeln!(out, "  {line}");
            }
            out.push_str("  end\n");
        }
    }

    /// The lines that write the integers of a subject.
    fn set(&self, part: &Part<'_>, key: usize, indent: &str, out: &mut String) {
        let Some((first, others)) = part.slots.split_first() else { return };
        // As long as a log: what it is counted under stands here too.
        let mut most = self.name("reset", first);
        if !others.is_empty() {
            let _ = writeln!(out, "{indent}local most = {most}");
            for slot in others {
                let reset = self.name("reset", slot);
                let _ = writeln!(
                    out,
                    "{indent}if {reset} > most then\n{indent}  most = {reset}\n{indent}end"
                );
            }
            "most".clone_into(&mut most);
        }
        let tag = &part.tag;
        let mut format = format!(">c{}", tag.len());
        let mut values = format!("'{tag}'");
        for slot in part.slots.iter().filter(|slot| slot.form == Form::Pair) {
            format.push_str("I7I6");
            let _ = write!(values, ", {}, {}", self.name("a", slot), self.name("b", slot));
        }
        let mut state = format!("struct.pack('{format}', {values})");
        for slot in &part.slots {
            let Form::Row(count) = slot.form else { continue };
            let row = self.name("row", slot);
            let _ = write!(
                state,
                " .. struct.pack('{}', unpack({row}, 1, {count}))",
                row_format(count)
            );
        }
        let lifetime = self.lifetime(&most, indent, out);
        let _ = writeln!(out, "{indent}redis.call('SET', KEYS[{key}], {state}, 'PX', {lifetime})");
    }

    /// How long a state lives: one second longer than it counts, in whole milliseconds.
    fn lifetime(&self, reset: &str, indent: &str, out: &mut String) -> String {
        if self.check.clock == Clock::Given {
            return super::GIVEN_LIFETIME_MS.to_string();
        }
        let _ = writeln!(out, "{indent}local lifetime = {reset} + 1000999");
        "(lifetime - lifetime % 1000) / 1000".to_owned()
    }

    /// Writes a charge into a log.
    fn push(&self, slot: &Slot<'_>, out: &mut String) {
        let n = |what| self.name(what, slot);
        let key = slot.key;
        let tag = tag([slot.limit]);
        let head = |total: &str| format!("struct.pack('>c{}I6', '{tag}', {total})", tag.len());
        let (how, sum, first, at) = (n("how"), n("sum"), n("first"), n("at"));
        let (before, base, newest) = (n("rest"), n("base"), n("newest"));
        let (mended, carried) = (n("mended"), n("carried"));
        let _ = write!(
            out,
            "  local event = struct.pack('>I7I6', {at}, {sum})
  if {how} == 'anew' or {mended} then
    if {newest} or {carried} > 0 then
      redis.call('DEL', KEYS[{key}])
    end
    redis.call('RPUSH', KEYS[{key}], {}, event)
  else
    if {first} > 1 then
      redis.call('LTRIM', KEYS[{key}], {first} - 1, -1)
      redis.call('LSET', KEYS[{key}], 0, {})
    elseif {carried} > 0 then
      redis.call('LSET', KEYS[{key}], 0, {})
    end
    if {how} == 'amend' then
      redis.call('LSET', KEYS[{key}], -1, event)
    else
      redis.call('RPUSH', KEYS[{key}], event)
    end
  end
",
            head("0"),
            head(&before),
            head(&base),
        );
        let lifetime = self.lifetime(&n("reset"), "  ", out);
        let _ = writeln!(out, "  redis.call('PEXPIRE', KEYS[{key}], {lifetime})");
    }

    /// Lists of logs whose names another strategy counts under now.
    fn drop_stale(&self, indent: &str, out: &mut String) {
        if self.parts.iter().all(|part| part.slots.len() == 1) {
            return;
        }
        let _ = write!(
            out,
            "{indent}for _, key in ipairs(stale or {{}}) do
{indent}  redis.call('DEL', key)
{indent}end
"
        );
    }

    /// What a denial writes: a state that a clock's step back left in the future is mended, and
    /// what was carried over from other numbers is kept; then everything is as it was judged.
    fn keep_repairs(&self, out: &mut String) {
        let mut any = Vec::new();
        for slot in self.slots() {
            any.push(self.name("back", slot));
            any.push(format!("{} == 1", self.name("carried", slot)));
            if slot.form == Form::Log {
                any.push(self.name("mended", slot));
            }
        }
        let _ = writeln!(out, "if {} then", any.join(" or "));
        for slot in self.slots() {
            let n = |what| self.name(what, slot);
            let _ = match slot.form {
                Form::Pair => write!(
                    out,
                    "  if {} then\n    {}, {} = {}, {}\n  end\n",
                    n("back"),
                    n("a"),
                    n("b"),
                    n("p"),
                    n("q"),
                ),
                Form::Row(_) => write!(
                    out,
                    "  if {} then\n    {}_repair({}, {}, {}, {})\n  end\n",
                    n("back"),
                    slot.step.name,
                    n("row"),
                    n("x"),
                    n("y"),
                    Self::arguments(slot),
                ),
                Form::Log => Ok(()),
            };
        }
        for part in &self.parts {
            if let Some(key) = part.key {
                out.push_str("  do\n");
                self.set(part, key, "    ", out);
                out.push_str("  end\n");
            }
            for slot in part.slots.iter().filter(|slot| slot.form == Form::Log) {
                self.mend_log(slot, out);
            }
        }
        self.drop_stale("  ", out);
        out.push_str("end\n");
    }

    /// Writes down what a denial found of a log.
    fn mend_log(&self, slot: &Slot<'_>, out: &mut String) {
        let n = |what| self.name(what, slot);
        let key = slot.key;
        let tag = tag([slot.limit]);
        let head = |base: &str| format!("struct.pack('>c{}I6', '{tag}', {base})", tag.len());
        let _ = write!(
            out,
            "  if {carried} == 2 then
    redis.call('DEL', KEYS[{key}])
  elseif {back} or {mended} then
    redis.call('DEL', KEYS[{key}])
    redis.call('RPUSH', KEYS[{key}], {}, struct.pack('>I7I6', now, {}))
  elseif {carried} == 1 and {newest} then
    redis.call('LSET', KEYS[{key}], 0, {})
  end
  if {newest} and ({back} or {carried} == 1) then
",
            head("0"),
            n("used"),
            head(&n("base")),
            newest = n("newest"),
            back = n("back"),
            mended = n("mended"),
            carried = n("carried"),
        );
        let lifetime = self.lifetime(&n("reset"), "    ", out);
        let _ = writeln!(out, "    redis.call('PEXPIRE', KEYS[{key}], {lifetime})\n  end");
    }

    /// The lines that answer. `wait` names the waits; none where all are 0.
    fn answer(&self, granted: &str, wait: &str, slots: &[&Slot<'_>], out: &mut String) {
        let indent = if granted == "0" { "" } else { "  " };
        if self.check.answer == Answer::Boolean {
            let verdict = u8::from(granted != "0");
            let _ = writeln!(out, "{indent}return {verdict}");
            return;
        }
        let remembers = self.check.answer == Answer::Remembered && granted != "0" && !self.peeks();
        let first = match self.check.answer {
            Answer::Remembered => "ARGV[2], ARGV[2]",
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
            let _ = write!(
                out,
                "{indent}if unusual then
{indent}  return {{{fields}{more}}}
{indent}end
{indent}return {{{fields}}}
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
{indent}reply[1] = ARGV[3]
{indent}redis.call('SET', KEYS[{key}], cmsgpack.pack(reply), 'PX', ARGV[4])
{indent}reply[1] = ARGV[2]
{indent}return reply
"
        );
    }
}

/// How a row of integers is packed.
fn row_format(count: usize) -> String {
    format!(">I7{}", "I6".repeat(count - 1))
}
