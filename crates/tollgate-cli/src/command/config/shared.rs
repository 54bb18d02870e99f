//! Parts of a check's output that policies and the rules of Envoy share.

use anyhow::Result;
use serde::Serialize;
use tollgate_policy::{Problem, Problems};

use crate::show::count;

/// The exit code for an invalid file.
pub(super) const BROKEN: u8 = 2;

/// The exit code for warnings, if they are denied.
pub(super) const WARNED: u8 = 1;

/// A problem, as JSON has it.
#[derive(Debug, Serialize)]
pub(super) struct ProblemJson {
    level: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    what: String,
    remedy: String,
}

impl ProblemJson {
    pub(super) fn new(problem: &Problem, problems: &Problems) -> Self {
        let (line, column) = problems.place(problem).unzip();
        let (what, remedy) = (problem.what().to_owned(), problem.remedy().to_owned());
        Self { level: problem.level().name(), line, column, what, remedy }
    }
}

/// Values of a file may contain anything, including control sequences for a terminal.
pub(super) fn printable(text: &str) -> String {
    let turns = |c: char| {
        matches!(c, '\u{200e}' | '\u{200f}')
            || ('\u{2028}'..='\u{202e}').contains(&c)
            || ('\u{2066}'..='\u{2069}').contains(&c)
    };
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns(c) {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

pub(super) fn counted(number: usize, one: &str) -> Result<String> {
    Ok(count(u64::try_from(number)?, one))
}
