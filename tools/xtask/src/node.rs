//! Packages of Node with which examples are run and a page is checked, under `target/tools/node`.

use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::tree::Tree;
use crate::{process, programs};

/// Each at one exact version, which the pages name as the one that was tested. The last one looks
/// for obstacles that keep people from using a page.
const PACKAGES: [(&str, &str); 4] =
    [("redis", "6.3.1"), ("ioredis", "6.0.0"), ("express", "5.3.0"), ("axe-core", "4.14.1")];

/// Sees to it that the tests find them. If they cannot be installed, this is reported, and the
/// tests that need them skip themselves.
pub(crate) fn provide(tree: &Tree, may_install: bool) {
    let folder = tree.root.join("target/tools/node");
    if PACKAGES.iter().all(|(name, version)| is_there(&folder, name, version)) {
        return;
    }
    let names: Vec<String> = PACKAGES.iter().map(|(name, v)| format!("{name}@{v}")).collect();
    let shown = names.join(", ");
    if !may_install {
        eprintln!("{shown} are not installed (--no-install was given): npm has them");
        return;
    }
    eprintln!("installing {shown} into target/tools (once)");
    if let Err(error) = install(&folder, &names) {
        eprintln!("{shown} could not be installed ({error:#})");
    }
}

fn is_there(folder: &Path, name: &str, version: &str) -> bool {
    let manifest = folder.join("node_modules").join(name).join("package.json");
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    let read: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    read.is_some_and(|manifest| manifest["version"] == version)
}

/// Installs packages at these versions where they are absent.
pub(crate) fn install_all(folder: &Path, packages: &[(&str, &str)]) -> Result<()> {
    let absent = packages.iter().filter(|(name, version)| !is_there(folder, name, version));
    let names: Vec<String> = absent.map(|(name, version)| format!("{name}@{version}")).collect();
    if names.is_empty() {
        return std::fs::create_dir_all(folder).map_err(Into::into);
    }
    eprintln!("installing {} into target/tools (once)", names.join(", "));
    install(folder, &names)
}

fn install(folder: &Path, names: &[String]) -> Result<()> {
    // Debian's Node comes without it.
    if Command::new("npm").arg("--version").output().is_err() {
        programs::install_package("npm")?;
    }
    std::fs::create_dir_all(folder)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts"]);
    npm.arg("--prefix").arg(folder).args(names).stdout(io::stderr());
    if !process::show(&mut npm)? {
        bail!("npm failed");
    }
    Ok(())
}
