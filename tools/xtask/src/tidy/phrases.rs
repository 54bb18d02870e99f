//! Phrases that stay away from comments, help, messages and pages, since each has a plain form.

use crate::tidy::Finding;
use crate::tree::File;

/// Kinds of file that people read or that have comments.
const KINDS: [&str; 14] = [
    ".rs", ".md", ".py", ".ts", ".mts", ".js", ".mjs", ".lua", ".toml", ".yaml", ".yml", ".html",
    ".go", ".java",
];

/// The list itself, and copies of scripts that earlier versions ran.
const EXEMPT: [&str; 2] = ["tools/xtask/src/tidy/phrases.rs", "crates/tollgate-queue/tests/older/"];

/// The page that may quote old texts in the rows of its tables.
const QUOTES: &str = "CHANGELOG.md";

/// The phrases, each with its plain form.
const PHRASES: [(&str, &str); 15] = [
    ("is told", "say who reports it, or what it gets"),
    ("are told", "say who reports it, or what they get"),
    ("was told", "say who reported it, or what it got"),
    ("were told", "say who reported it, or what they got"),
    ("nothing of it", "no part of it"),
    ("is none", "is not a ..., is invalid, is zero"),
    ("are none", "are not ..., are invalid"),
    ("by being there", "say what it does"),
    ("whose count it is", "the subject"),
    ("to be had", "available"),
    ("of its own accord", "by itself"),
    ("in vain", "without success, needlessly"),
    ("says so", "reports that"),
    ("saying so", "reporting that"),
    ("stands still", "does not move, is paused"),
];

/// Plain English that has one of the phrases in it.
const PLAIN: [&str; 4] = ["there is none", "there are none", "There is none", "There are none"];

/// The first characters of a line of a comment or a quote.
const MARKERS: [&str; 7] = ["///", "//!", "//", "--", "#", "*", ">"];

/// All rules of this file on one file.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = phrases(file);
    findings.extend(riddles(file));
    findings
}

/// A doc comment whose first word is "What": it should begin with the thing itself.
fn riddles(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !file.path.ends_with(".rs") {
        return findings;
    }
    let mut goes_on = false;
    for (line, number) in file.text.lines().zip(1..) {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if !goes_on && doc.is_some_and(|text| text.starts_with(" What ")) {
            let message = "a doc comment that begins with \"What\": name the thing itself";
            findings.push(Finding::at(&file.path, number, message));
        }
        goes_on = doc.is_some_and(|text| !text.trim().is_empty());
    }
    findings
}

fn phrases(file: &File) -> Vec<Finding> {
    let is_read = KINDS.iter().any(|kind| file.path.ends_with(kind));
    if !is_read || EXEMPT.iter().any(|path| file.path.starts_with(path)) {
        return Vec::new();
    }
    let text = Running::of(file);
    let mut findings = Vec::new();
    for (phrase, plain) in PHRASES {
        for line in text.lines_with(phrase) {
            findings.push(Finding::at(&file.path, line, format!("`{phrase}`: {plain}")));
        }
    }
    findings
}

/// The text of a file in one line: a phrase may be broken over two.
struct Running {
    text: String,
    /// Where each line of the file begins in the text.
    starts: Vec<usize>,
}

impl Running {
    fn of(file: &File) -> Self {
        let mut running = Self { text: String::new(), starts: Vec::new() };
        for line in file.text.lines() {
            running.starts.push(running.text.len());
            if file.path == QUOTES && line.starts_with('|') {
                continue;
            }
            let line = line.trim();
            let body = MARKERS.iter().find_map(|marker| line.strip_prefix(marker));
            running.text.push_str(body.unwrap_or(line).trim_start());
            running.text.push(' ');
        }
        for plain in PLAIN {
            running.text = running.text.replace(plain, &"-".repeat(plain.len()));
        }
        running
    }

    /// The lines, counted from 1, in which the phrase begins as whole words. Its first letter may
    /// be a capital; no other letter, since `is None` is code.
    fn lines_with(&self, phrase: &str) -> Vec<usize> {
        let joins = |c: char| c.is_alphanumeric() || c == '_';
        let capital = capitalized(phrase);
        let found = self.text.match_indices(phrase).chain(self.text.match_indices(&capital));
        let places = found.filter(|(at, _)| {
            let before = self.text.get(..*at).and_then(|text| text.chars().next_back());
            let after = self.text.get(at + phrase.len()..).and_then(|text| text.chars().next());
            !before.is_some_and(joins) && !after.is_some_and(joins)
        });
        places.map(|(at, _)| self.starts.partition_point(|start| *start <= at)).collect()
    }
}

fn capitalized(phrase: &str) -> String {
    let (first, rest) = phrase.split_at(1);
    first.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&file(path, text)).iter().map(Finding::to_string).collect()
    }

    fn breaks(path: &str, text: &str, expected: &str) {
        let found = found(path, text);
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?} lacks {expected:?}");
    }

    fn holds(path: &str, text: &str) {
        assert_eq!(found(path, text), [""; 0], "{text}");
    }

    #[test]
    fn phrases_are_found_in_every_kind_of_file() {
        for kind in KINDS {
            breaks(&format!("a{kind}"), "one\nthe caller is told two\n", ":2: `is told`: ");
        }
        holds("a.txt", "the caller is told\n");
    }

    #[test]
    fn phrases_are_found_over_the_end_of_a_line() {
        breaks("a.rs", "//! A file.\n    /// The caller is\n    /// told two.\n", "a.rs:2: ");
        breaks("a.lua", "-- Nothing\n-- of it.\n", "a.lua:1: `nothing of it`");
    }

    #[test]
    fn whole_words_count_and_plain_english_does_not() {
        holds("a.md", "this toldness is toldly; is_none is noned\n");
        holds("a.md", "`None` where there is none, and there\nare none.\n");
        breaks("a.md", "A limit that is none.\n", "`is none`");
        breaks("a.md", "Nothing of it.\n", "`nothing of it`");
        holds("a.py", "if limit is None:\n");
    }

    #[test]
    fn quotes_and_the_list_are_exempt() {
        holds("CHANGELOG.md", "| whose count it is | the subject |\n");
        breaks("CHANGELOG.md", "whose count it is\n", "`whose count it is`");
        holds(EXEMPT[0], "is told\n");
    }

    #[test]
    fn doc_comments_that_begin_with_what_are_found() {
        breaks("a/b.rs", "//! What it is.\n", "b.rs:1: a doc comment");
        breaks("a/b.rs", "//! A file.\n\n    /// What it is.\n", "b.rs:3: a doc comment");
        breaks("a/b.rs", "/// A.\n///\n/// What it is.\n", "b.rs:3: ");
        holds("a/b.rs", "/// A thing. See\n/// What it is.\n// What it is.\n");
        holds("a/b.md", "/// What it is.\n");
    }
}
