//! The part of a check that remembers answers under request ids.

use std::fmt::Write as _;

use super::composer::Composer;
use super::spec::ReplyFormat;

impl Composer<'_> {
    /// Returns the stored reply for a request id that was seen before.
    pub(super) fn remembered(&self, out: &mut String) {
        if self.check.reply != ReplyFormat::Remembered {
            return;
        }
        let (key, answered) = (self.keys, self.answered());
        let places: Vec<usize> = answered
            .iter()
            .filter_map(|wanted| self.slots().position(|slot| slot.number == wanted.number))
            .map(|place| 4 + 4 * place)
            .collect();
        let fields = |first: usize, between: &str| -> String {
            let each = places.iter().map(|place| place + first);
            each.map(|place| format!(", known[{place}]{between}, known[{}]", place + 1)).collect()
        };
        let (fields, more) = (fields(0, ", 0"), fields(2, ""));
        let _ = write!(
            out,
            "local known, about, overused, lies = recall(KEYS[{key}], ARGV[3], now, now + ARGV[4])
local forgotten = overused and -1 or 0
if lies then
"
        );
        self.lengthen(out);
        let _ = write!(
            out,
            "end
if known == -1 then
  return {{ARGV[2], -1}}
elseif known and known.err then
  return known
elseif known then
  return {{ARGV[2], known[1], 0, known[2], known[3]{fields}{more}}}
end
"
        );
    }

    /// Lets the key of the ids lie for `lies` microseconds.
    fn lengthen(&self, out: &mut String) {
        let lifetime = self.lifetime("lies", "  ", out);
        let _ = writeln!(out, "  redis.call('PEXPIRE', KEYS[{}], {lifetime})", self.keys);
    }

    /// Remembers the answer that admits, before anything is charged: the number, the units, the
    /// time, and for each limit, in the order of the states, four fields.
    pub(super) fn remember(&self, out: &mut String) {
        if self.check.reply != ReplyFormat::Remembered {
            return;
        }
        let mut fields = String::new();
        for slot in self.slots() {
            for what in ["left", "reset", "at", "carried"] {
                let _ = write!(fields, ", {}", self.name(what, slot));
            }
        }
        let key = self.keys;
        let _ = write!(
            out,
            "  if not overused then
  local lacks
  forgotten, lies, lacks = remember(KEYS[{key}], ARGV[3], about, now, now + ARGV[4],
    {{ARGV[2], cost, now{fields}}}, 'SET')
  if lacks then
    return lacks
  end
  if lies then
"
        );
        self.lengthen(out);
        out.push_str("  end\n  end\n");
    }
}
