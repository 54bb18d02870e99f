//! A reply in words: which limit denied, and how much of it is used.

use std::fmt::Write as _;

use super::composer::{Composer, LimitSlot};

impl Composer<'_> {
    /// The lines that reply.
    pub(super) fn answer_in_words(
        &self,
        granted: &str,
        slots: &[&LimitSlot<'_>],
        out: &mut String,
    ) {
        match granted {
            "0" => self.denial_in_words(slots, out),
            _ if self.check.mode.is_partial() => {
                out.push_str("  return 'OK: ' .. string.format('%.0f', cost)\n");
            }
            _ => out.push_str("  return 'OK'\n"),
        }
    }

    /// The lines that name the limit which denies, as a decision does: the one with the longest
    /// wait, the first of several.
    fn denial_in_words(&self, slots: &[&LimitSlot<'_>], out: &mut String) {
        out.push_str("local longest, words = 0, nil\n");
        for slot in slots {
            let wait = self.name("wait", slot);
            let _ = write!(
                out,
                "if {wait} ~= 0 and longest >= 0 and ({wait} < 0 or {wait} > longest) then
  longest, words = {wait}, {}
end
",
                self.in_words(slot)
            );
        }
        out.push_str("return words\n");
    }

    /// The words about a limit that denies, as a Lua expression.
    fn in_words(&self, slot: &LimitSlot<'_>) -> String {
        let label = self.check.labels.get(slot.number - 1);
        let label = label.cloned().unwrap_or_else(|| slot.number.to_string());
        let label = quoted(&label);
        let capacity = self.numbers_of(slot).nth(slot.step.capacity - 1);
        let Some(capacity) = capacity.filter(|_| slot.limit.has_capacity()) else {
            return format!("{label} .. ' BANNED'");
        };
        let (wait, left) = (self.name("wait", slot), self.name("left", slot));
        format!(
            "{label} .. ({wait} < 0 and ' NEVER: ' or ' OVERLIMIT: ') ..
    string.format('%.0f', {wait} < 0 and {capacity} or {capacity} - {left})"
        )
    }
}

/// A text as a string of Lua.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for byte in text.bytes() {
        match byte {
            b'\'' | b'\\' | 0..=0x1f | 0x7f.. => {
                let _ = write!(quoted, "\\{byte:03}");
            }
            _ => quoted.push(char::from(byte)),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_label_stays_a_text() {
        assert_eq!(quoted("USER"), "'USER'");
        assert_eq!(quoted("a'\\\n\u{fc}"), "'a\\039\\092\\010\\195\\188'");
    }
}
