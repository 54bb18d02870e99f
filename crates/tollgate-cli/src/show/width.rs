//! The width of the output: that of the terminal, of `COLUMNS`, or 80; and lines that keep to it.

use std::borrow::Cow;

use anstream::adapter::strip_str;
use unicode_width::UnicodeWidthStr;

/// The columns without a terminal: output into a file or a pipe is the same on every machine.
const USUAL: usize = 80;

/// The fewest columns: a narrower terminal wraps the lines by itself.
const FEWEST: usize = 40;

/// The most columns of a sentence: longer lines are hard to read.
pub(super) const SENTENCE: usize = 97;

/// The columns of the output: `COLUMNS` if it is set, else those of the terminal that standard
/// output is, else 80.
pub(crate) fn columns() -> usize {
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    let set = set.filter(|columns| *columns > 0);
    let of_terminal = || {
        let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
        Some(usize::from(width.0)).filter(|columns| *columns > 0)
    };
    set.or_else(of_terminal).unwrap_or(USUAL).max(FEWEST)
}

/// The columns that a text takes, without its colours.
pub(crate) fn width(text: &str) -> usize {
    strip_str(text).map(UnicodeWidthStr::width).sum()
}

/// Wraps the lines that are wider than `columns`, between words. Words are never broken, so that an
/// address, a path or a key can be copied.
pub(super) fn fitted(text: &str, columns: usize) -> Cow<'_, str> {
    if text.split('\n').all(|line| width(line) <= columns) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<Cow<'_, str>> = text
        .split('\n')
        .map(|line| match width(line) <= columns {
            true => Cow::Borrowed(line),
            false => Cow::Owned(wrap(line, 0, hanging(line, columns), columns)),
        })
        .collect();
    Cow::Owned(lines.join("\n"))
}

/// Wraps a sentence into lines. Each but the first is indented; the first continues a line that is
/// already indented.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    wrap(text, indent, indent, columns().min(SENTENCE))
}

/// Wraps a line that begins in column `start`; further lines begin in column `hang`.
pub(super) fn wrap(line: &str, start: usize, hang: usize, columns: usize) -> String {
    let mut lines = String::new();
    let (mut column, mut blanks, mut is_begun) = (start, 0, false);
    for word in line.split(' ') {
        if word.is_empty() {
            blanks += 1;
            continue;
        }
        let wide = width(word);
        if is_begun && column + blanks + wide > columns {
            lines.push_str(&format!("\n{:hang$}{word}", ""));
            column = hang + wide;
        } else {
            lines.push_str(&format!("{:blanks$}{word}", ""));
            column += blanks + wide;
        }
        (blanks, is_begun) = (1, true);
    }
    lines
}

/// Where the further lines of a line begin: below the text of its last column, if two blanks or
/// more set one apart; below the text of a list's item; else two more to the right.
fn hanging(line: &str, columns: usize) -> usize {
    let plain = strip_str(line).to_string();
    let indent = plain.len() - plain.trim_start_matches(' ').len();
    let text = &plain[indent..];
    if let Some(rest) = text.strip_prefix("- ") {
        return indent + 2 + (rest.len() - rest.trim_start_matches(' ').len());
    }
    let gaps = text.match_indices("  ").map(|(at, _)| at);
    let starts = gaps.filter_map(|at| {
        let after = text[at..].trim_start_matches(' ');
        (!after.is_empty()).then(|| indent + width(&text[..text.len() - after.len()]))
    });
    starts.filter(|start| *start <= columns / 2).last().unwrap_or(indent + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_are_wrapped_between_words_below_their_last_column() {
        for (line, expected) in [
            ("as it was", "as it was"),
            (
                "  ok    version  a server of a good version",
                "  ok    version  a server of a good\n                 version",
            ),
            (
                "  - a list has items of words that are many",
                "  - a list has items of words that are\n    many",
            ),
            (
                "note: some words that do not fit in a line",
                "note: some words that do not fit in a\n  line",
            ),
            (
                "a/path/that/is/longer/than/any/line/can/be x",
                "a/path/that/is/longer/than/any/line/can/be\n  x",
            ),
        ] {
            assert_eq!(fitted(line, 40), expected);
        }
    }

    #[test]
    fn colours_take_no_columns_and_wide_characters_take_two() {
        let line = format!("\u{1b}[1m{}\u{1b}[0m", "word ".repeat(8).trim_end());
        assert_eq!((width(&line), &*fitted(&line, 40)), (39, &*line));
        assert_eq!(width("客户"), 4);
    }

    #[test]
    fn each_line_of_a_text_is_wrapped_by_itself() {
        let text = format!("short\n\n{}\n", "word ".repeat(20));
        let fitted = fitted(&text, 40);
        assert!(fitted.starts_with("short\n\nword") && fitted.ends_with("word\n"), "{fitted}");
        assert!(fitted.lines().all(|line| width(line) <= 40), "{fitted}");
        assert_eq!(fitted.split_whitespace().count(), 21);
    }
}
