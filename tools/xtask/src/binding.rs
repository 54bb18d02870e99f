//! The parts that the tasks of the packages for other languages share (`wheel`, `node-package`).

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::process;
use crate::tools::cargo;
use crate::tree::Tree;

/// Does something, and says how long it took.
pub(crate) fn timed<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let result = work();
    eprintln!("{name}: {} s", start.elapsed().as_secs());
    result
}

/// Where cargo puts what it builds.
pub(crate) fn target(tree: &Tree) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target.map_or_else(|| tree.root.join("target"), PathBuf::from)
}

/// Builds the program `tollgate`, which the package shares counts with, and says where it lies.
pub(crate) fn program(tree: &Tree) -> Result<PathBuf> {
    timed("the program tollgate", || {
        let mut command = cargo(tree);
        command.args(["build", "--quiet", "--locked", "--package", "tollgate-cli"]);
        match process::show(&mut command)? {
            true => Ok(target(tree).join("debug/tollgate")),
            false => bail!("tollgate-cli cannot be built"),
        }
    })
}
