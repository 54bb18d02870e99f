//! Tools that come as Python packages: schemathesis, which holds the service to its OpenAPI
//! document. It lies in an environment of its own under `target/tools`.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::tree::Tree;
use crate::{process, programs};

/// At one exact version, so that everybody gets the same answer.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Sees to it that the tests find it. When it cannot be installed that is said, and the test that
/// needs it skips itself.
pub(crate) fn provide(tree: &Tree, may_install: bool) {
    let folder = tree.root.join("target/tools/schemathesis");
    let program = folder.join("bin/schemathesis");
    let found = Command::new(&program).arg("--version").stdout(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return;
    }
    if !may_install {
        eprintln!("{SCHEMATHESIS} is not installed (--no-install was given): pip has it");
        return;
    }
    let install = || -> Result<()> {
        eprintln!("installing {SCHEMATHESIS} into target/tools (once)");
        let environment = || {
            let mut environment = Command::new("python3");
            process::show(environment.args(["-m", "venv"]).arg(&folder).stdout(Stdio::null()))
        };
        // Debian has this part of Python in a package of its own.
        if !environment()? {
            programs::install_package("python3-venv")?;
            if !environment()? {
                bail!("python3 -m venv failed: apt-get install python3-venv");
            }
        }
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", SCHEMATHESIS]);
        if !process::show(&mut pip)? {
            bail!("pip failed");
        }
        Ok(())
    };
    if let Err(error) = install() {
        eprintln!("{SCHEMATHESIS} could not be installed ({error:#})");
    }
}
