//! How a check writes: charges, repairs by a denial, and lifetimes.

use std::fmt::Write as _;

use super::composer::{Composer, LimitSlot, SubjectPart};
use crate::compose::clock::{Clock, GIVEN_LIFETIME_MS, encoded_expiry};
use crate::compose::form::{Form, tag};

impl Composer<'_> {
    /// Writes the charge of a subject.
    pub(super) fn keep(&self, part: &SubjectPart<'_>, out: &mut String) {
        let mut blocks = Vec::new();
        if let Some(key) = part.key {
            let mut text = String::new();
            self.set(part, key, "  ", "", &mut text);
            blocks.push(text);
        }
        for slot in part.slots.iter().filter(|slot| slot.form == Form::Log) {
            let mut text = String::new();
            match self.amount(slot) {
                Some(_) => self.push(slot, &mut text),
                None => self.mend_log(slot, &mut text),
            }
            blocks.push(text);
        }
        if self.parts.len() == 1 && blocks.len() == 1 {
            out.push_str(&blocks.concat());
            return;
        }
        for text in blocks {
            // In its own block: names are reused, and the number of local variables is limited.
            out.push_str("  do\n");
            for line in text.lines() {
                let _ = writeln!(out, "  {line}");
            }
            out.push_str("  end\n");
        }
    }

    /// The lines that write the integers of a subject. `owes` is a Lua expression for whether more
    /// is used than a burst, where that can be.
    fn set(&self, part: &SubjectPart<'_>, key: usize, indent: &str, owes: &str, out: &mut String) {
        let Some((first, others)) = part.slots.split_first() else { return };
        // As long as the longest log, since this state also describes the logs.
        let mut most = self.name("reset", first);
        if !others.is_empty() {
            for slot in others {
                let _ = write!(most, ", {}", self.name("reset", slot));
            }
            most = format!("math.max({most})");
        }
        let tag = self.tag_of(part);
        let mut format = String::new();
        let mut values = tag.value();
        for slot in part.slots.iter().filter(|slot| slot.form == Form::Pair) {
            format.push_str("I7I6");
            let _ = write!(values, ", {}, {}", self.name("a", slot), self.name("b", slot));
        }
        let mut state = format!("struct.pack({}, {values})", tag.format_and(&format));
        for slot in &part.slots {
            let Form::Row(count) = slot.form else { continue };
            let row = self.name("row", slot);
            let _ = write!(state, " .. struct.pack('{}', unpack({row}))", row_format(count));
        }
        if !owes.is_empty() {
            let _ = writeln!(
                out,
                "{indent}local state = {state}\n{indent}if {owes} then\n\
                 {indent}  state = '2' .. string.sub(state, 2)\n{indent}end"
            );
            state = "state".to_owned();
        }
        let lifetime = self.lifetime(&most, indent, out);
        let _ = writeln!(out, "{indent}redis.call('SET', KEYS[{key}], {state}, 'PX', {lifetime})");
    }

    /// The lifetime of a state: one second longer than it counts, in whole milliseconds.
    pub(super) fn lifetime(&self, reset: &str, indent: &str, out: &mut String) -> String {
        if self.check.clock == Clock::Given {
            return GIVEN_LIFETIME_MS.to_string();
        }
        let _ = writeln!(out, "{indent}local lifetime = {reset} + 1000999");
        let milliseconds = "(lifetime - lifetime % 1000) / 1000";
        match self.check.clock {
            Clock::GivenWithExpiry => {
                format!("string.format('%.0f', {})", encoded_expiry(milliseconds))
            }
            _ => milliseconds.to_owned(),
        }
    }

    /// Writes a charge into a log.
    fn push(&self, slot: &LimitSlot<'_>, out: &mut String) {
        let n = |what| self.name(what, slot);
        let key = slot.key;
        let tag = tag([slot.limit]);
        let tag = self.head_of(slot, &tag);
        let head = |total: &str| {
            format!("struct.pack({}, {}, {total})", tag.format_and("I6"), tag.value())
        };
        let (how, sum, first, at) = (n("how"), n("sum"), n("first"), n("at"));
        let (before, base, newest) = (n("rest"), n("base"), n("newest"));
        let (repaired, carried) = (n("repaired"), n("carried"));
        let lifetime = self.lifetime(&n("reset"), "  ", out);
        // A log that is there gets its time to live first: refused alone, the charge has changed
        // nothing.
        let _ = write!(
            out,
            "  local event = struct.pack('>I7I6', {at}, {sum})
  if {how} == 'anew' or {repaired} then
    if {newest} or {carried} > 0 then
      redis.call('DEL', KEYS[{key}])
    end
    redis.call('RPUSH', KEYS[{key}], {}, event)
    redis.call('PEXPIRE', KEYS[{key}], {lifetime})
  else
    redis.call('PEXPIRE', KEYS[{key}], {lifetime})
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
    }

    /// Records the remaining lifetime of a state with other numbers. A later reset must be
    /// remembered for as long. The last one is read here, where something else at its key is an
    /// error before anything is written.
    pub(super) fn outlive(&self, key: usize, out: &mut String) {
        if self.peeks() {
            return;
        }
        let _ = write!(
            out,
            "outlived = outlived or {{}}
outlived[KEYS[{key}]] = {{redis.call('PTTL', KEYS[{key}]),
  redis.call('GET', KEYS[{key}] .. '!reset') or '0:0'}}
"
        );
    }

    /// Writes the lifetimes that are longer than those of the states that were charged or repaired
    /// in the meantime.
    pub(super) fn keep_outlived(indent: &str, out: &mut String) {
        let lines = [
            "for key, was in pairs(outlived or {}) do",
            "  local mark, left = key .. '!reset', was[1]",
            "  if left > math.max(redis.call('PTTL', key), redis.call('PTTL', mark)) then",
            "    redis.call('SET', mark, was[2], 'PX', left)",
            "  end",
            "end",
        ];
        for line in lines {
            let _ = writeln!(out, "{indent}{line}");
        }
    }

    /// Deletes lists of logs whose names another strategy now counts under.
    pub(super) fn drop_stale(&self, indent: &str, out: &mut String) {
        Self::keep_outlived(indent, out);
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

    /// Whether a denial counts for bans.
    fn notes_denials(&self) -> bool {
        !self.check.mode.waits() && self.slots().any(|slot| self.counts_denials(slot))
    }

    /// Whether the step of a limit counts what the limits beside it deny.
    fn counts_denials(&self, slot: &LimitSlot<'_>) -> bool {
        self.texts.has(slot.step, "deny")
    }

    /// Tells the bans of each subject that other limits of it have denied. While a ban runs,
    /// nothing is counted.
    pub(super) fn note_denial(&self, out: &mut String) {
        if !self.notes_denials() {
            return;
        }
        out.push_str("local denied = false\n");
        for part in &self.parts {
            let all = || part.slots.iter();
            let waits = |bans: bool, how: &str| -> Vec<String> {
                let some = all().filter(|slot| self.counts_denials(slot) == bans);
                some.map(|slot| format!("{} {how} 0", self.name("wait", slot))).collect()
            };
            let (idle, denied) = (waits(true, "=="), waits(false, "~="));
            if idle.is_empty() || denied.is_empty() {
                continue;
            }
            let _ = writeln!(out, "if {} and ({}) then", idle.join(" and "), denied.join(" or "));
            out.push_str("  denied = true\n");
            for slot in all().filter(|slot| self.counts_denials(slot)) {
                let n = |what| self.name(what, slot);
                let _ = writeln!(
                    out,
                    "  {p}, {q} = {}_deny({p}, {q}, now, {})\n  {}, {} = {p}, {q}",
                    slot.step.name,
                    self.arguments(slot),
                    n("a"),
                    n("b"),
                    p = n("p"),
                    q = n("q"),
                );
                self.judge(slot, "", "1", out);
            }
            out.push_str("end\n");
        }
    }

    /// The writes of a denial: it counts for a ban, repairs a state that is in the future after the
    /// clock was set back, and stores what was carried over from other numbers. Then the stored
    /// state is as it was judged.
    pub(super) fn keep_repairs(&self, out: &mut String) {
        let mut any = Vec::new();
        for slot in self.slots() {
            any.push(self.name("back", slot));
            any.push(format!("{} == 1", self.name("carried", slot)));
        }
        if self.notes_denials() {
            any.push("denied".to_owned());
        }
        let _ = writeln!(out, "if {} then", any.join(" or "));
        for slot in self.slots() {
            self.repair(slot, out);
        }
        self.refuse_repairs(out);
        for part in &self.parts {
            if let Some(key) = part.key {
                out.push_str("  do\n");
                self.set(part, key, "    ", &self.owes(part), out);
                out.push_str("  end\n");
            }
            for slot in part.slots.iter().filter(|slot| slot.form == Form::Log) {
                self.mend_log(slot, out);
            }
        }
        self.drop_stale("  ", out);
        out.push_str("end\n");
    }

    /// Repairs the integers of a limit that are in the future.
    pub(super) fn repair(&self, slot: &LimitSlot<'_>, out: &mut String) {
        let n = |what| self.name(what, slot);
        // Writing to a string cannot fail.
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
                self.arguments(slot),
            ),
            Form::Log => Ok(()),
        };
    }

    /// A condition in Lua: more is used of a subject's limits than their bursts.
    fn owes(&self, part: &SubjectPart<'_>) -> String {
        let may =
            |slot: &&LimitSlot<'_>| slot.form == Form::Pair && self.texts.has(slot.step, "owes");
        let each = part.slots.iter().filter(may).map(|slot| {
            let (step, a, b) = (slot.step.name, self.name("a", slot), self.name("b", slot));
            format!("{step}_owes({a}, {b}, now, {})", self.arguments(slot))
        });
        each.collect::<Vec<_>>().join(" or ")
    }

    /// Writes a denial's repairs of a log.
    fn mend_log(&self, slot: &LimitSlot<'_>, out: &mut String) {
        let n = |what| self.name(what, slot);
        let key = slot.key;
        let tag = tag([slot.limit]);
        let tag = self.head_of(slot, &tag);
        let head =
            |base: &str| format!("struct.pack({}, {}, {base})", tag.format_and("I6"), tag.value());
        let _ = write!(
            out,
            "  if {carried} == 2 then
    redis.call('DEL', KEYS[{key}])
  elseif {back} or {repaired} then
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
            repaired = n("repaired"),
            carried = n("carried"),
        );
        let lifetime = self.lifetime(&n("reset"), "    ", out);
        let _ = writeln!(out, "    redis.call('PEXPIRE', KEYS[{key}], {lifetime})\n  end");
    }
}

/// The pack format of a row of integers.
pub(super) fn row_format(count: usize) -> String {
    format!(">I7{}", "I6".repeat(count - 1))
}
