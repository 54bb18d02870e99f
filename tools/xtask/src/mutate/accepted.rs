//! Survivors that somebody looked at: mutants that change nothing a caller can see, with reasons.

use anyhow::{Context, Result, anyhow, bail};
use toml::{Table, Value};

use crate::tree::{File, Tree};

/// Where they are listed.
pub(super) const PATH: &str = "tools/xtask/mutants-accepted.toml";

/// One entry: a line of a file whose mutants may survive, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Accepted {
    file: String,
    line: String,
    pub(super) reason: String,
}

/// Reads the list; no file is an empty list.
pub(super) fn read(tree: &Tree) -> Result<Vec<Accepted>> {
    let path = tree.root.join(PATH);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PATH}"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Accepted>> {
    let table: Table = text.parse().with_context(|| format!("{PATH} is not TOML"))?;
    if let Some(key) = table.keys().find(|key| *key != "accepted") {
        bail!("{PATH}: `{key}` is unknown; entries are written [[accepted]]");
    }
    let Some(entries) = table.get("accepted") else { return Ok(Vec::new()) };
    let entries =
        entries.as_array().with_context(|| format!("{PATH}: entries are written [[accepted]]"))?;
    entries.iter().zip(1..).map(|(entry, number)| entry_of(entry, number)).collect()
}

fn entry_of(entry: &Value, number: usize) -> Result<Accepted> {
    let field = |key: &str| {
        let text = entry.get(key).and_then(Value::as_str).map(str::trim).unwrap_or_default();
        if text.is_empty() {
            return Err(anyhow!(
                "{PATH}: entry {number} has no `{key}`; it needs file, line (its text), reason"
            ));
        }
        Ok(text.to_owned())
    };
    Ok(Accepted { file: field("file")?, line: field("line")?, reason: field("reason")? })
}

/// The reason for which survivors in this line are accepted.
pub(super) fn reason<'a>(accepted: &'a [Accepted], file: &str, line: &str) -> Option<&'a str> {
    let entry = accepted.iter().find(|entry| entry.file == file && entry.line == line.trim());
    entry.map(|entry| entry.reason.as_str())
}

/// Says which entries fit no line any more: the code has moved on, the entry must too.
pub(super) fn report_stale(accepted: &[Accepted], files: &[File]) {
    for entry in accepted {
        let file = files.iter().find(|file| file.path == entry.file);
        if file.is_some_and(|file| !file.text.lines().any(|line| line.trim() == entry.line)) {
            println!("stale: {PATH} accepts `{}`, which {} lacks", entry.line, entry.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_the_text_of_their_line() {
        let text = "[[accepted]]\nfile = \"a.rs\"\nline = \"let a = 1;\"\nreason = \"unused\"\n";
        let accepted = parse(text).unwrap();
        assert_eq!(reason(&accepted, "a.rs", "    let a = 1;"), Some("unused"));
        assert_eq!(reason(&accepted, "b.rs", "    let a = 1;"), None);
        assert_eq!(reason(&accepted, "a.rs", "    let a = 2;"), None);
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        let text = "[[accepted]]\nfile = \"a.rs\"\nline = \"let a = 1;\"\nreason = \" \"\n";
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains("entry 1 has no `reason`"), "{message}");
        assert!(parse("[[acepted]]\nfile = \"a.rs\"\n").is_err());
        assert_eq!(parse("").unwrap(), []);
    }
}
