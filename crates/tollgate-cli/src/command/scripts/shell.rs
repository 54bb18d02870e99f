//! Text for a shell: comments, and words that it does not expand.

use std::fmt::Write as _;

/// The width of comments.
const COLUMNS: usize = 96;

/// Explanatory comment, in one or more lines.
pub(super) fn comment(text: &mut String, name: &str, what: &str) {
    const INDENT: usize = 11;
    let mut line = format!("# {name:<INDENT$}");
    let mut fresh = true;
    for word in what.split(' ') {
        if !fresh && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
            line = format!("# {:INDENT$}", "");
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(word);
        fresh = false;
    }
    let _ = writeln!(text, "{line}");
}

/// Quotes any text as one shell word.
pub(super) fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words() {
        assert_eq!(shell_word("tg1:{a}:b"), "'tg1:{a}:b'");
        assert_eq!(shell_word("a'; rm -rf ~; '"), r"'a'\''; rm -rf ~; '\'''");
    }

    #[test]
    fn comments_are_one_or_several_lines() {
        let mut text = String::new();
        comment(&mut text, "answer", &"word ".repeat(30));
        assert!(text.lines().all(|line| line.starts_with("# ") && line.len() <= COLUMNS), "{text}");
        assert_eq!(text.lines().count(), 2);
    }
}
