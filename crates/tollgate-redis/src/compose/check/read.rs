//! How a check reads: the integers of a subject, the ends of a log, and states with other numbers.

use std::fmt::Write as _;

use super::composer::{Composer, LimitSlot, SubjectPart};
use super::spec::ReplyFormat;
use super::write::row_format;
use crate::compose::form::{Form, tag};
use crate::compose::parts::distinct;
use crate::state::MAX_EXACT;

impl Composer<'_> {
    /// Reads the integers of a subject.
    pub(super) fn read_integers(&self, part: &SubjectPart<'_>, out: &mut String) {
        let Some(key) = part.key else { return };
        let (local, p) = (self.local, part.number);
        let v = format!("{}v{p}", self.prefix);
        let pairs: Vec<&LimitSlot<'_>> =
            part.slots.iter().filter(|s| s.form == Form::Pair).collect();
        let rows: Vec<&LimitSlot<'_>> =
            part.slots.iter().filter(|s| matches!(s.form, Form::Row(_))).collect();
        let tag = self.tag_of(part);
        let (mut length, mut format) = (0, String::new());
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
            let from = tag.len_and(length + 1);
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
  if #{v} == {} then
    {names} = struct.unpack({}, {v})
{row_reads}  end
  if {}tag{p} ~= {} then
",
            tag.len_and(length),
            tag.format_and(&format),
            self.prefix,
            tag.value()
        );
        self.carry(part, key, &v, out);
        self.sound(&part.slots, out);
        out.push_str("  end\nend\n");
        for slot in &rows {
            let name = self.name("row", slot);
            let zeros = vec!["0"; slot.form.count()].join(", ");
            let _ = writeln!(out, "{name} = {name} or {{{zeros}}}");
        }
    }

    /// Rejects integers that are impossible under these numbers. A state with other numbers is
    /// checked as it is parsed.
    fn sound(&self, slots: &[LimitSlot<'_>], out: &mut String) {
        let mut each = Vec::new();
        for slot in slots {
            let (first, mut sound) = match slot.form {
                Form::Log => continue,
                Form::Pair => {
                    let (a, b) = (self.name("a", slot), self.name("b", slot));
                    let sound = slot.step.sound_words.replace("w[1]", &a).replace("w[2]", &b);
                    (a, sound)
                }
                Form::Row(_) => {
                    let row = self.name("row", slot);
                    let sound = slot.step.sound_words.replace("w[", &format!("{row}["));
                    (format!("{row}[1]"), sound.replace("(w,", &format!("({row},")))
                }
            };
            for (i, number) in self.numbers_of(slot).enumerate() {
                sound = sound.replace(&format!("n[{}]", i + 1), &number);
            }
            each.push(format!("{first} < {MAX_EXACT} and {sound}"));
        }
        if !each.is_empty() {
            let _ = write!(
                out,
                "  elseif not ({}) then
    return redis.error_reply('TOLLGATE the state is damaged: it holds numbers that no count has')
",
                each.join(" and ")
            );
        }
    }

    /// Handles a state that was written with other numbers.
    fn carry(&self, part: &SubjectPart<'_>, key: usize, v: &str, out: &mut String) {
        let own = distinct(self.slots().map(|slot| slot.step));
        let words = part.slots.iter().filter(|slot| slot.form != Form::Log);
        let steps = distinct(words.flat_map(|slot| slot.limit.strategy().lua_steps()).copied());
        let mut text = self.texts.mul_div.clone();
        for step in &steps {
            let hot = self.texts.hot(step);
            if own.iter().all(|known| known.code != step.code) || self.called(step) != hot {
                text.push_str(hot);
            }
            text.push_str(self.texts.cold(step));
        }
        text.push_str(&self.texts.state());
        let functions = ["view", "judge", "charge", "numbers", "migrate"];
        text.push_str(&self.texts.step_table("steps", &steps, &functions));
        self.read_old(part, key, v, &mut text);
        self.outlive(key, &mut text);
        let single = part.slots.len() == 1;
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
unusual = unusual or {before} ~= nil
",
                    self.numbers(slot),
                    before = self.name("before", slot)
                );
                continue;
            }
            let carried = self.name("carried", slot);
            let _ = writeln!(
                text,
                "{carried}, words = carry(old[{place}], {{strategy = '{}', code = '{}', \
                 count = {}, numbers = {{{}}}}}, steps, now)\nunusual = unusual or {carried} > 0",
                slot.limit.strategy().code(),
                slot.step.code,
                slot.form.count(),
                self.numbers(slot),
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
  stale[#stale + 1] = KEYS[{key}] .. {}
end
",
                    self.identity_of(slot).after("~")
                );
            }
        }
        for line in text.lines() {
            let _ = writeln!(out, "    {line}");
        }
    }

    /// Reads what was written with other numbers: `old`.
    fn read_old(&self, part: &SubjectPart<'_>, key: usize, v: &str, text: &mut String) {
        if part.slots.len() == 1 {
            // A log that was counted under this name is stored at the key itself.
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
        // The edges in a tag can be others where no number is.
        let dated = self.slots().any(|slot| slot.step.edges.is_some());
        let others = if dated { String::new() } else { format!(" or string.byte({v}) ~= 50") };
        let _ = write!(
            text,
            "if not old then
  return redis.error_reply('TOLLGATE ' .. wrong)
end
if old.held then
  return {}
end
if #old ~= {} then
  return redis.error_reply('TOLLGATE the state is damaged: it is of another number of limits')
end
unusual = unusual or type({v}) == 'table'{others}
local words
",
            self.held_reply(),
            part.slots.len()
        );
    }

    /// The lines that charge nothing where the edges that a calendar brings are not those around
    /// the server's time. The caller then brings others.
    pub(super) fn other_windows(&self, out: &mut String) {
        let outside = |slot: &LimitSlot<'_>| {
            let first = slot.step.edges? - 1;
            let numbers: Vec<String> = self.numbers_of(slot).collect();
            let (first, last) = (numbers.get(first)?, numbers.get(first + 3)?);
            Some(format!("now < {first} * 1000000 or now >= {last} * 1000000"))
        };
        let any: Vec<String> = self.slots().filter_map(outside).collect();
        if any.is_empty() {
            return;
        }
        let reply = match self.check.reply {
            ReplyFormat::Boolean | ReplyFormat::Words => {
                "redis.error_reply('TOLLGATE the windows of this script are over: compose it again')"
            }
            ReplyFormat::Verbose | ReplyFormat::Remembered => "{ARGV[2], 'windows', now}",
        };
        let _ = write!(out, "if {} then\n  return {reply}\nend\n", any.join(" or "));
    }

    /// The reply of a check of a count with open holds: another script decides about it.
    fn held_reply(&self) -> &'static str {
        match self.check.reply {
            ReplyFormat::Boolean | ReplyFormat::Words => {
                "redis.error_reply('TOLLGATE holds of this count are open, which this script does not \
                 know: ask for it by tollgate')"
            }
            ReplyFormat::Verbose | ReplyFormat::Remembered => "{ARGV[2], -2}",
        }
    }

    /// Reads the ends of a log.
    pub(super) fn read_log(&self, part: &SubjectPart<'_>, slot: &LimitSlot<'_>, out: &mut String) {
        let (local, key) = (self.local, slot.key);
        let n = |what| self.name(what, slot);
        let (ends, event, carried) = (n("ends"), n("event"), n("carried"));
        let (base, oldest, newest, total) = (n("base"), n("oldest"), n("newest"), n("total"));
        let (before, repaired) = (n("before"), n("repaired"));
        let head = tag([slot.limit]);
        let head = self.head_of(slot, &head);
        let (length, format) = (head.len_and(6), head.format_and("I6"));
        let head = head.value();
        let is_held = self.held_reply();
        let single = part.slots.len() == 1;
        let mut outlive = String::new();
        if single {
            self.outlive(key, &mut outlive);
        }
        // The state beside the log may show that another strategy counted under this name: what
        // still lies there is from before. It is read all the same, since it will be deleted.
        let left = match part.key {
            Some(_) => format!("if {before} == 2 and not {ends}.err then\n  {ends} = {{}}\nend\n"),
            None => String::new(),
        };
        let _ = write!(
            out,
            "{local}{carried}, {repaired} = 0, false
{local}{ends} = redis.pcall('LRANGE', KEYS[{key}], 0, 1)
{left}{local}{base}, {oldest}, {newest}, {total} = nil, nil, nil, nil
{local}{event} = function(i)
  local event = redis.call('LINDEX', KEYS[{key}], i)
  if event then
    return struct.unpack('>I7I6', event)
  end
end
if {ends}[1] then
  local tag
  if #{ends}[1] == {length} then
    tag, {base} = struct.unpack({format}, {ends}[1])
  end
  if #({ends}[2] or '') ~= 13 then
    if string.find({ends}[1], '^[123][^|]*;h[%d,]*|') then
      return {is_held}
    end
    return redis.error_reply('TOLLGATE the key holds something that is not a state of Tollgate')
  end
  {oldest} = struct.unpack('>I7', {ends}[2])
  {newest}, {total} = {event}(-1)
  if {oldest} > {newest} or {newest} >= {MAX_EXACT} then
    return redis.error_reply('TOLLGATE the state is damaged: it holds numbers that no count has')
  end
  if tag ~= {head} then
"
        );
        for line in self.foreign_log(slot, &outlive).lines() {
            let _ = writeln!(out, "    {line}");
        }
        out.push_str("  end\n");
        let _ = writeln!(out, "elseif {ends}.err then");
        match single {
            true => {
                for line in self.state_for_log(slot, &outlive).lines() {
                    let _ = writeln!(out, "  {line}");
                }
            }
            false => {
                let _ = writeln!(out, "  return {ends}");
            }
        }
        out.push_str("end\n");
        if part.key.is_some() {
            let _ = write!(out, "if {before} then\n  {carried} = {before}\nend\n");
        }
    }

    /// Reads a log that was written with other numbers.
    fn foreign_log(&self, slot: &LimitSlot<'_>, outlive: &str) -> String {
        let n = |what| self.name(what, slot);
        let (ends, event, carried) = (n("ends"), n("event"), n("carried"));
        let (base, oldest, newest, total) = (n("base"), n("oldest"), n("newest"), n("total"));
        let (repaired, is_held) = (n("repaired"), self.held_reply());
        let mut text = self.texts.state();
        let _ = write!(
            text,
            "local old, from = read_tag({ends}[1])
if not old then
  return redis.error_reply('TOLLGATE ' .. from)
end
if old.held then
  return {is_held}
end
if #old ~= 1 or old[1].strategy ~= 'l' or #{ends}[1] ~= from + 5 then
  return redis.error_reply('TOLLGATE the key holds something that is not a state of Tollgate')
end
{base} = struct.unpack('>I6', {ends}[1], from)
unusual = true
{carried} = 1
{outlive}-- A state from the future is repaired under the old numbers.
local _, _, used, at, back = log_view({event}, {base}, {oldest}, {newest}, {total}, now,
  unpack(old[1].numbers))
if back then
  {repaired} = true
  {base}, {oldest}, {newest}, {total} = 0, now, now, used
  {event} = function(i)
    if i == 1 then
      return now, used
    end
  end
end
"
        );
        text
    }

    /// Reads the state of another strategy where the log is stored at the key itself.
    fn state_for_log(&self, slot: &LimitSlot<'_>, outlive: &str) -> String {
        let (key, is_held) = (slot.key, self.held_reply());
        let (ends, carried) = (self.name("ends", slot), self.name("carried", slot));
        let mut text = self.texts.state();
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
if old.held then
  return {is_held}
end
unusual = true
{carried} = 2
{outlive}"
        );
        text
    }
}
