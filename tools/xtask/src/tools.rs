//! Tools that cargo does not bring, as cargo-deny, installed under `target/tools`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::tree::Tree;

/// A program on crates.io, at one exact version, so that everybody gets the same answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
    /// How `cargo-NAME` wants to be called when cargo does not call it.
    subcommand: &'static str,
}

pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", subcommand: "deny" };
pub(crate) const MUTANTS: Tool =
    Tool { name: "cargo-mutants", version: "27.1.0", subcommand: "mutants" };

/// Puts together a package for Debian.
pub(crate) const DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0", subcommand: "deb" };
/// Writes a bill of materials.
pub(crate) const SBOM: Tool = Tool { name: "cargo-sbom", version: "0.10.0", subcommand: "sbom" };

impl Tool {
    /// The tool as a command, at the root of the project. It is taken from `target/tools`, else
    /// from the path if its version is right, else it is installed when `may_install`.
    pub(crate) fn command(self, tree: &Tree, may_install: bool) -> Result<Command> {
        let ours = tree.root.join("target/tools/bin").join(self.name);
        let theirs = PathBuf::from(self.name);
        let found = [&ours, &theirs].into_iter().find(|program| self.is_at(program));
        let program = match found {
            Some(program) => program.clone(),
            None if may_install => {
                self.install(tree)?;
                ours
            }
            None => bail!("{} {} is not installed; {}", self.name, self.version, self.remedy()),
        };
        let mut command = Command::new(program);
        command.arg(self.subcommand).current_dir(&tree.root);
        Ok(command)
    }

    fn is_at(self, program: &PathBuf) -> bool {
        let output = Command::new(program)
            .args([self.subcommand, "--version"])
            .stderr(Stdio::null())
            .output();
        output.is_ok_and(|output| {
            String::from_utf8_lossy(&output.stdout).split_whitespace().any(|w| w == self.version)
        })
    }

    fn install(self, tree: &Tree) -> Result<()> {
        eprintln!(
            "installing {} {} into target/tools (once, some minutes)",
            self.name, self.version
        );
        let build = tree.root.join("target/tools/build");
        let mut cargo = cargo(tree);
        cargo.args(self.install_arguments()).arg("--target-dir").arg(&build);
        // It runs for seconds, and would be optimised for minutes.
        cargo.arg("--debug").env("CARGO_PROFILE_DEV_DEBUG", "0");
        let installed = process::show(&mut cargo)?;
        // Some hundred megabytes that nobody needs again; leftovers do no harm.
        let _ = std::fs::remove_dir_all(&build);
        if !installed {
            bail!("{} could not be installed; {}", self.name, self.remedy());
        }
        Ok(())
    }

    fn install_arguments(self) -> [&'static str; 7] {
        ["install", "--locked", self.name, "--version", self.version, "--root", "target/tools"]
    }

    fn remedy(self) -> String {
        format!("run this at the root of the project: cargo {}", self.install_arguments().join(" "))
    }
}

/// Cargo, at the root of the project.
pub(crate) fn cargo(tree: &Tree) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&tree.root);
    command
}

/// Checks the dependencies against `deny.toml`: whether they may be in the tree at all, or, with
/// `advisories`, whether something is known to be broken (which asks the network).
pub(crate) fn deny(tree: &Tree, advisories: bool, may_install: bool) -> Result<bool> {
    let mut command = DENY.command(tree, may_install)?;
    command.arg("check");
    if advisories {
        command.arg("advisories");
    } else {
        command.args(["bans", "licenses", "sources"]);
    }
    process::show(&mut command).context("while checking the dependencies")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_says_the_one_line_to_run() {
        let nowhere = Tree { root: std::env::temp_dir().join("tollgate-xtask-no-such-folder") };
        let tool = Tool { name: "cargo-not-a-tool", version: "1.2.3", subcommand: "not-a-tool" };
        let message = tool.command(&nowhere, false).unwrap_err().to_string();
        assert_eq!(
            message,
            "cargo-not-a-tool 1.2.3 is not installed; run this at the root of the project: cargo \
             install --locked cargo-not-a-tool --version 1.2.3 --root target/tools"
        );
    }
}
