//! The contents of a release: its files, and the result of each check of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::process;
use crate::report::seconds;

/// The result of a check that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It holds, with the evidence.
    Held(String),
    /// It could not be made here: why.
    Skipped(String),
}

/// The artefacts, in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    rows: Vec<Row>,
}

/// An artefact.
#[derive(Debug)]
struct Row {
    name: String,
    /// `None` if it is not a file, or was not made.
    file: Option<PathBuf>,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Sheet {
    /// Notes a file under its artefact.
    pub(crate) fn file(&mut self, name: &str, file: &Path) {
        self.change(name, |row| row.file = Some(file.to_path_buf()));
    }

    /// Makes a check of an artefact and says what it came to. An error is a failed check.
    pub(crate) fn check(
        &mut self,
        artefact: &str,
        check: &str,
        run: impl FnOnce() -> Result<Shown>,
    ) {
        let started = Instant::now();
        let shown = run();
        self.note(artefact, check, shown, &format!(" ({})", seconds(started.elapsed())));
    }

    /// Notes a check that was made elsewhere, and says what it came to.
    pub(crate) fn note(&mut self, artefact: &str, check: &str, shown: Result<Shown>, took: &str) {
        match &shown {
            Ok(Shown::Held(what)) => println!("passed: {artefact}: {check}: {what}{took}"),
            Ok(Shown::Skipped(why)) => println!("SKIPPED: {artefact}: {check}: {why}"),
            Err(error) => println!("FAILED: {artefact}: {check}: {error:#}"),
        }
        self.count(artefact, &shown);
    }

    fn count(&mut self, artefact: &str, shown: &Result<Shown>) {
        self.change(artefact, |row| match shown {
            Ok(Shown::Held(_)) => row.passed += 1,
            Ok(Shown::Skipped(_)) => row.skipped += 1,
            Err(_) => row.failed += 1,
        });
    }

    /// Whether no check failed, and none was skipped where none may be.
    pub(crate) fn holds(&self, in_ci: bool) -> bool {
        self.rows.iter().all(|row| row.failed == 0 && (row.skipped == 0 || !in_ci))
    }

    /// The table: a line for each artefact, then the sum.
    pub(crate) fn table(&self) -> Result<String> {
        let mut text = String::from("| artefact | file | bytes | sha256 | checks |\n");
        text.push_str("| --- | --- | ---: | --- | --- |\n");
        for row in &self.rows {
            let (file, bytes, sum) = match &row.file {
                Some(file) => {
                    let bytes =
                        std::fs::metadata(file).with_context(|| file.display().to_string())?.len();
                    let name = file.file_name().unwrap_or_default().to_string_lossy();
                    (name.into_owned(), bytes.to_string(), sha256(file)?)
                }
                None => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
            };
            let checks = counted(row.passed, row.failed, row.skipped);
            text.push_str(&format!("| {} | {file} | {bytes} | {sum} | {checks} |\n", row.name));
        }
        let sum = |of: fn(&Row) -> usize| self.rows.iter().map(of).sum();
        let total = counted(sum(|row| row.passed), sum(|row| row.failed), sum(|row| row.skipped));
        text.push_str(&total);
        Ok(text)
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Row)) {
        match self.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => change(row),
            None => {
                let name = name.to_owned();
                let mut row = Row { name, file: None, passed: 0, failed: 0, skipped: 0 };
                change(&mut row);
                self.rows.push(row);
            }
        }
    }
}

fn counted(passed: usize, failed: usize, skipped: usize) -> String {
    let mut text = format!("{passed} passed, {failed} failed");
    if skipped > 0 {
        text.push_str(&format!(", {skipped} skipped"));
    }
    text
}

/// The sum of a file, as hexadecimal digits.
pub(crate) fn sha256(file: &Path) -> Result<String> {
    let said = process::read(Command::new("sha256sum").arg("--").arg(file))?;
    let sum = said.split_whitespace().next().unwrap_or_default();
    // A name with a backslash is marked by one.
    Ok(sum.trim_start_matches('\\').to_owned())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn each_check_is_counted_with_its_artefact() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.deb");
        std::fs::write(&file, "abc").unwrap();
        let mut sheet = Sheet::default();
        sheet.file("deb", &file);
        // Not said, since a test that says it was skipped counts as skipped.
        sheet.count("deb", &Ok(Shown::Held("1".to_owned())));
        assert!(sheet.holds(true));
        sheet.count("deb", &Ok(Shown::Skipped("no root".to_owned())));
        assert!(sheet.holds(false) && !sheet.holds(true), "a skip fails in CI alone");
        sheet.count("image", &Err(anyhow!("no")));
        assert!(!sheet.holds(false));
        let table = sheet.table().unwrap();
        let lines: Vec<&str> = table.lines().skip(2).collect();
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(
            lines,
            [
                &*format!("| deb | a.deb | 3 | {sum} | 1 passed, 0 failed, 1 skipped |"),
                "| image | - | - | - | 0 passed, 1 failed |",
                "1 passed, 1 failed, 1 skipped",
            ]
        );
    }
}
