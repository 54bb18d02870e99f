//! How a check is refused before it writes, where a later write might be.

use std::fmt::Write as _;

use super::composer::Composer;
use super::spec::ReplyFormat;
use crate::compose::form::Form;

impl Composer<'_> {
    /// The lines that return an error before a charge is written, where the user may not run a
    /// command that follows the first. A state alone needs none: its one SET changes all or
    /// nothing.
    pub(super) fn refuse_charge(&self, out: &mut String) {
        let logs = || self.slots().filter(|slot| slot.form == Form::Log);
        let mut rare = vec!["outlived".to_owned()];
        if self.has_several() {
            rare.push("stale".to_owned());
        }
        if self.writes() == 1 && self.check.reply != ReplyFormat::Remembered {
            // Its order does the rest: see `push`.
            for slot in logs().filter(|slot| self.amount(slot).is_some()) {
                let n = |what| self.name(what, slot);
                let (how, repaired, first) = (n("how"), n("repaired"), n("first"));
                let is_new = format!("{how} == 'anew' or {repaired}");
                Self::refuse(&is_new, &["RPUSH", "PEXPIRE"], out);
                let is_cut = format!("not ({is_new}) and ({first} > 1 or {} > 0)", n("carried"));
                Self::refuse(&is_cut, &["LSET", "RPUSH"], out);
            }
        } else if logs().next().is_some() {
            Self::refuse("true", &["SET", "RPUSH", "PEXPIRE"], out);
            for slot in logs() {
                let n = |what| self.name(what, slot);
                if self.amount(slot).is_none() {
                    rare.extend([n("back"), n("repaired"), format!("{} > 0", n("carried"))]);
                    continue;
                }
                rare.push(format!("{how} == 'anew' or {how} == 'amend'", how = n("how")));
                rare.push(n("repaired"));
                rare.push(format!("({} or 0) > 1", n("first")));
                rare.push(format!("{} > 0", n("carried")));
            }
        }
        Self::refuse(&rare.join(" or "), self.all(), out);
    }

    /// The same before the writes of a denial.
    pub(super) fn refuse_repairs(&self, out: &mut String) {
        if self.writes() > 1 || self.slots().any(|slot| slot.form == Form::Log) {
            Self::refuse("true", self.all(), out);
        } else {
            Self::refuse("outlived", self.all(), out);
        }
    }

    /// Whether a subject has several limits.
    fn has_several(&self) -> bool {
        self.parts.iter().any(|part| part.slots.len() > 1)
    }

    /// How many states and logs are written.
    fn writes(&self) -> usize {
        let states = self.parts.iter().filter(|part| part.key.is_some()).count();
        states + self.slots().filter(|slot| slot.form == Form::Log).count()
    }

    /// All commands that write.
    fn all(&self) -> &'static [&'static str] {
        match self.slots().any(|slot| slot.form == Form::Log) {
            true => &["SET", "DEL", "RPUSH", "LTRIM", "LSET", "PEXPIRE", "PTTL"],
            false => &["SET", "DEL", "PTTL"],
        }
    }

    fn refuse(condition: &str, commands: &[&str], out: &mut String) {
        let names = commands.join("', '");
        let _ = write!(
            out,
            "  if {condition} then
    local lacks = ''
    for _, name in ipairs({{'{names}'}}) do
      local is_there, is_allowed = pcall(redis.acl_check_cmd, name, KEYS[1])
      if not (is_there and is_allowed) then
        lacks = lacks .. ' ' .. string.lower(name)
      end
    end
    if lacks ~= '' then
      return redis.error_reply('NOPERM TOLLGATE' .. lacks)
    end
  end
"
        );
    }
}
