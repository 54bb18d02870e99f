//! Text that must fit: measured, and broken into lines.
//!
//! The measure is a conservative estimate, since a reader's system has its own font.

use tollgate_logs::text::printable;

/// The most characters of a name in a sentence.
const NAME: usize = 40;

/// The most characters of a name that has its own lines: longer ones are not read anyway.
pub(super) const LONGEST: usize = 200;

/// A font size, and whether it is bold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Font {
    pub(super) size: u32,
    pub(super) bold: bool,
}

impl Font {
    pub(super) const fn plain(size: u32) -> Self {
        Self { size, bold: false }
    }

    pub(super) const fn bold(size: u32) -> Self {
        Self { size, bold: true }
    }

    /// The width of a text, in pixels.
    pub(super) fn width(self, text: &str) -> f64 {
        text.chars().map(|c| self.advance(c)).sum()
    }

    fn advance(self, c: char) -> f64 {
        let em = match c {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ' ' | '|' | '\'' => 0.34,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.98,
            'A'..='Z' => 0.74,
            '\0'..='\u{7f}' => 0.63,
            '\u{80}'..='\u{10ff}' => 0.75,
            _ => 1.05,
        };
        em * f64::from(self.size) * if self.bold { 1.12 } else { 1.0 }
    }

    /// The text in lines that fit, broken at any character: for names, which have no words. A text
    /// of more than [`LONGEST`] characters ends with `…`.
    pub(super) fn break_up(self, text: &str, room: f64) -> Vec<String> {
        let mut lines = vec![String::new()];
        let mut left = room;
        let cut = (text.chars().count() > LONGEST).then_some('…');
        for c in text.chars().take(LONGEST).chain(cut) {
            let wide = self.advance(c);
            if wide > left && left < room {
                lines.push(String::new());
                left = room;
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
            }
            left -= wide;
        }
        lines
    }

    /// The text in lines that fit, broken between words where possible.
    pub(super) fn wrap(self, text: &str, room: f64) -> Vec<String> {
        let mut lines = vec![String::new()];
        for word in text.split_whitespace().flat_map(|word| self.break_up(word, room)) {
            match lines.last_mut() {
                Some(line) if line.is_empty() => *line = word,
                Some(line) if self.width(line) + self.width(" ") + self.width(&word) <= room => {
                    line.push(' ');
                    line.push_str(&word);
                }
                _ => lines.push(word),
            }
        }
        lines
    }
}

/// A name in a sentence: short and on one line.
pub(super) fn name(name: &str) -> String {
    printable(name.as_bytes(), NAME)
}

/// All names as `a`, `a and b`, `a, b and c`. None is omitted, since it may be the one that
/// matters.
pub(super) fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|it| name(it)).collect();
    match &names[..] {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FONT: Font = Font::plain(12);

    #[test]
    fn lines_break_between_words_and_fit() {
        let text = format!("some words and {} more", "w".repeat(99));
        let lines = FONT.wrap(&text, 120.0);
        assert!(lines.len() > 2 && lines.iter().all(|line| FONT.width(line) <= 120.0), "{lines:?}");
        assert_eq!(FONT.wrap("", 120.0), [""]);
    }

    #[test]
    fn a_name_is_broken_where_a_line_is_full_and_is_whole_up_to_a_bound() {
        let name = "2001:0db8:85a3:0000:0000:8a2e:0370:7334".repeat(5);
        let lines = FONT.break_up(&name, 120.0);
        assert!(lines.len() > 5 && lines.iter().all(|line| FONT.width(line) <= 120.0), "{lines:?}");
        assert_eq!(lines.concat(), name);
        let lines = FONT.break_up(&"é".repeat(LONGEST + 1), 120.0);
        assert_eq!(lines.concat(), "é".repeat(LONGEST) + "…");
        assert_eq!(FONT.break_up("", 120.0), [""]);
        assert_eq!(FONT.break_up("ab", 0.0), ["a", "b"], "no line without a letter");
    }

    #[test]
    fn names_are_listed_as_people_do() {
        assert_eq!(list(&[]), "");
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c", "d"]), "a, b, c and d");
        assert_eq!(name("a\u{0}"), "a\\x00");
    }
}
