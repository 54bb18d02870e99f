//! `cargo xtask models`: models of the code, checked to the end by `tollgate-models`.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::mutate;
use crate::part::with_part;
use crate::process;
use crate::tools::cargo;
use crate::tree::Tree;

/// The page that has the tables, and the lines that open them there.
const PAGE: &str = "docs/proof.md";
const BEGIN: &str = "<!-- generated: cargo xtask models --write -->";
const BEGIN_STEPS: &str = "<!-- generated: cargo xtask models --write: steps -->";
const BEGIN_BROKEN: &str = "<!-- generated: cargo xtask models --broken --write -->";

/// The models to check, and how.
#[derive(Debug)]
pub(crate) struct Options<'o> {
    /// The models; all without any.
    pub(crate) models: &'o [&'o str],
    /// Whether only small worlds are checked.
    pub(crate) sample: bool,
    /// Whether it prints JSON.
    pub(crate) json: bool,
    /// Whether the page gets the table.
    pub(crate) write: bool,
    /// Whether changes are made on purpose, each of which must be caught.
    pub(crate) broken: bool,
}

/// Checks the models. False: something was not as the page states it.
pub(crate) fn run(tree: &Tree, options: &Options<'_>) -> Result<bool> {
    let Options { models, sample, json, write, broken } = options;
    if *write && (*sample || *json || !models.is_empty()) {
        bail!("--write makes the table of the page, which has all worlds: leave the rest out");
    }
    if *broken {
        if *sample || *json || !models.is_empty() {
            bail!("--broken tries the whole list of {}: leave the rest out", mutate::models::LIST);
        }
        let (all, table) = mutate::models::run(tree)?;
        if *write {
            put(tree, BEGIN_BROKEN, &table)?;
        } else {
            print!("{table}");
        }
        return Ok(all);
    }
    let mut command = cargo(tree);
    command.args(["run", "--release", "--quiet", "-p", "tollgate-models", "--"]).args(*models);
    for (name, is_set) in [("--sample", sample), ("--json", json)] {
        command.args(is_set.then_some(name));
    }
    // The strategies' steps are the other half.
    let halves = [(BEGIN, command), (BEGIN_STEPS, steps(tree))];
    if *write {
        for (begin, mut half) in halves {
            let markdown = if begin == BEGIN { &["--markdown"][..] } else { &[] };
            put(tree, begin, &process::output_of(half.args(markdown))?)?;
        }
        return Ok(true);
    }
    let all = if models.is_empty() && !*sample { 2 } else { 1 };
    let mut is_good = true;
    for (_, mut half) in halves.into_iter().take(all) {
        is_good &= process::show(&mut half)?;
    }
    Ok(is_good)
}

fn steps(tree: &Tree) -> Command {
    let mut command = cargo(tree);
    command.args(["run", "--release", "--quiet", "-p", "tollgate-proof", "--example", "steps"]);
    command
}

/// Writes a generated part of the page.
fn put(tree: &Tree, begin: &str, part: &str) -> Result<()> {
    let path = tree.root.join(PAGE);
    let page = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    std::fs::write(&path, with_part(PAGE, &page, begin, part)?)?;
    eprintln!("{PAGE}: written");
    Ok(())
}
