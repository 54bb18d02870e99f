//! `cargo xtask docs`: runs the program that writes the generated parts of the documents.

use anyhow::Result;

use crate::process;
use crate::tools::cargo;
use crate::tree::Tree;

/// Writes every generated part, or, with `check`, names those that are stale and changes nothing.
pub(crate) fn run(tree: &Tree, check: bool) -> Result<bool> {
    let mut command = cargo(tree);
    command.args(["run", "--quiet", "--package", "xtask", "--example", "docs", "--"]);
    command.args(check.then_some("--check"));
    process::show(&mut command)
}
