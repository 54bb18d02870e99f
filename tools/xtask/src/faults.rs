//! `cargo xtask faults`: faults of real servers, made by `tollgate-faults` on Redis and on Valkey.

use anyhow::{Context as _, Result, bail};

use crate::part::with_part;
use crate::tools::cargo;
use crate::tree::Tree;
use crate::{process, programs, python};

/// The page that has the table, and the line that opens it there.
const PAGE: &str = "docs/faults.md";
const BEGIN: &str = "<!-- generated: cargo xtask faults --write -->";

/// The faults to run.
#[derive(Debug)]
pub(crate) struct Options {
    /// Whether the page gets the table.
    pub(crate) write: bool,
    /// For how long faults come at random, on each kind of server; once each in order without.
    pub(crate) seconds: Option<u32>,
    /// The seed for victims, subjects and times.
    pub(crate) seed: u64,
}

/// Makes every fault once, or faults at random. False: something was not as the page states it.
pub(crate) fn run(tree: &Tree, options: &Options) -> Result<bool> {
    if options.write && options.seconds.is_some() {
        bail!(
            "--write makes the table of the page, which has no random faults: leave --seconds out"
        );
    }
    let redis = programs::find("redis-server").context("apt-get install redis-server")?;
    let mut command = cargo(tree);
    command.args(["run", "--release", "--quiet", "-p", "tollgate-faults", "--"]);
    command.arg("--server").arg(redis).arg("--server").arg(python::valkey_server(tree)?);
    command.args(["--seed", &options.seed.to_string()]);
    if let Some(seconds) = options.seconds {
        command.args(["--random", &seconds.to_string()]);
    }
    if !options.write {
        return process::show(&mut command);
    }
    let table = process::output_of(command.arg("--markdown"))?;
    let path = tree.root.join(PAGE);
    let page = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    std::fs::write(&path, with_part(PAGE, &page, BEGIN, &table)?)?;
    eprintln!("{PAGE}: written");
    Ok(true)
}
