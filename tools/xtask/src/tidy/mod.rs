//! The project's own rules, those that no lint knows: each is a function from files to findings.

mod circles;
pub(crate) mod deps;
mod phrases;
mod strategy;
mod text;
mod words;

pub(crate) use strategy::FOLDER as STRATEGIES;

use anyhow::Result;

use crate::tree::{File, Tree};

/// A broken rule, at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    /// A finding in a line of a file, counted from 1.
    fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Checks the whole tree and prints what it finds.
pub(crate) fn run(tree: &Tree) -> Result<bool> {
    let files = tree.files()?;
    let findings = check(tree, &files)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    eprintln!("tidy: {} files, {} findings", files.len(), findings.len());
    Ok(findings.is_empty())
}

fn check(tree: &Tree, files: &[File]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(text::check(file));
        findings.extend(strategy::purity(file));
        findings.extend(words::check(file));
        findings.extend(phrases::check(file));
    }
    findings.extend(strategy::layout(files));
    findings.extend(circles::check(files));
    findings.extend(deps::check(&deps::packages(tree)?, files));
    Ok(findings)
}

/// Whether a line has a word as a whole: no letter, digit or `_` continues it on a side where it
/// has one itself.
fn has_word(line: &str, word: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || c == '_';
    let open_before = word.starts_with(continues);
    let open_after = word.ends_with(continues);
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        // A digit before is a literal's suffix: `1f64` says `f64` too.
        let joined_before =
            open_before && before.is_some_and(|c| continues(c) && !c.is_ascii_digit());
        let joined_after = open_after && after.is_some_and(continues);
        !joined_before && !joined_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let tree = Tree::find().unwrap();
        let files = tree.files().unwrap();
        let findings = check(&tree, &files).unwrap();
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("let a: f64 = 1f64", "f64"));
        assert!(has_word("for k in pairs(t)", "pairs("));
        assert!(!has_word("for k in ipairs(t)", "pairs("));
        assert!(!has_word("Instantly", "Instant"));
        assert!(has_word("redis.call", "redis."));
    }
}
