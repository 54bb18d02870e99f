//! `cargo xtask wheel`: the Python package, built, installed into a fresh environment and tested.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::binding::{program, timed};
use crate::process;
use crate::tools::cargo;
use crate::tree::Tree;

/// The crate.
const CRATE: &str = "bindings/python";

/// The packages of its build and its tests, at exact versions.
const REQUIREMENTS: &str = "bindings/python/requirements-test.txt";

/// The folder that pip installs into for each run.
const ENVIRONMENT: &str = "target/tools/wheel";

/// How many random histories are replayed, ten of each kind.
const HISTORIES: &str = "220";

/// Where wheels are put.
const WHEELS: &str = "target/wheels";

/// Builds and tests it, and says how long each step took. Without a network or Python it says what
/// is skipped, which fails where `CI=true`.
pub(crate) fn run(tree: &Tree, may_install: bool) -> Result<bool> {
    let all = tree.root.join(REQUIREMENTS).display().to_string();
    let python = match environment(tree, may_install, &["--requirement", &all])? {
        Ok(python) => python,
        Err(why) => {
            println!("SKIPPED: the Python package was not built and not tested: {why}");
            return Ok(std::env::var("CI").as_deref() != Ok("true"));
        }
    };
    let wheel = timed("the wheel", || build(tree, &python))?;
    let bytes = std::fs::metadata(&wheel)?.len();
    println!("{}: {bytes} bytes", wheel.file_name().unwrap_or_default().to_string_lossy());
    let program = program(tree)?;
    let histories = timed("random histories", || histories(tree))?;
    let mut failed = Vec::new();
    for (name, words) in CHECKS {
        let mut command = Command::new(&python);
        command.current_dir(tree.root.join(CRATE)).arg("-m").args(words);
        command.env("TOLLGATE_WHEEL", &wheel).env("TOLLGATE_BIN", &program);
        command.env("TOLLGATE_HISTORIES", &histories);
        // Else a folder of the sources would be imported, without its native part.
        command.env("PYTHONSAFEPATH", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        if !timed(name, || process::show(&mut command))? {
            failed.push(name);
        }
    }
    match failed.is_empty() {
        true => println!("the Python package holds: {} checks passed", CHECKS.len()),
        false => println!("the Python package does not hold: {}", failed.join(", ")),
    }
    Ok(failed.is_empty())
}

/// Builds a wheel, and nothing else.
pub(crate) fn only_build(tree: &Tree, may_install: bool) -> Result<bool> {
    let python = match environment(tree, may_install, &[&maturin(tree)?])? {
        Ok(python) => python,
        Err(why) => bail!("the wheel cannot be built: {why}"),
    };
    let wheel = timed("the wheel", || build(tree, &python))?;
    println!("{}", wheel.display());
    Ok(true)
}

/// The line of the requirements that builds wheels.
fn maturin(tree: &Tree) -> Result<String> {
    let text = std::fs::read_to_string(tree.root.join(REQUIREMENTS)).context(REQUIREMENTS)?;
    let line = text.lines().find(|line| line.starts_with("maturin=="));
    line.map(str::to_owned).with_context(|| format!("{REQUIREMENTS} has no maturin"))
}

/// The names in the types that are missing at run time, in the crate's folder.
const ALLOWED: &str = "stubtest-allowed.txt";

/// The modules of Python that run in the crate's folder.
const CHECKS: [(&str, &[&str]); 5] = [
    ("its tests", &["pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests"]),
    ("its types", &["mypy", "--cache-dir", "/dev/null", "python/tollgate_limiter"]),
    (
        "its stub beside the module",
        &["mypy.stubtest", "tollgate_limiter", "--ignore-disjoint-bases", "--allowlist", ALLOWED],
    ),
    ("its lints", &["ruff", "check", "--quiet", "--no-cache", "."]),
    ("its format", &["ruff", "format", "--quiet", "--no-cache", "--check", "."]),
];

/// A fresh environment with these packages, or the reason why there is none.
fn environment(
    tree: &Tree,
    may_install: bool,
    packages: &[&str],
) -> Result<Result<PathBuf, String>> {
    if !may_install {
        return Ok(Err("--no-install was given, and pip installs what it needs".to_owned()));
    }
    let folder = tree.root.join(ENVIRONMENT);
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).context("cannot remove the environment of the last run");
        }
        _ => {}
    }
    let mut venv = Command::new("python3");
    let venv = venv.args(["-m", "venv"]).arg(&folder).stdout(Stdio::null()).status();
    if !venv.is_ok_and(|status| status.success()) {
        return Ok(Err("python3 -m venv failed: apt-get install python3-venv".to_owned()));
    }
    let python = folder.join("bin/python");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    Ok(match timed("the packages that it needs", || process::show(&mut pip))? {
        true => Ok(python),
        false => Err("pip could not install what it needs: is there a network?".to_owned()),
    })
}

/// Builds the wheel and installs it.
fn build(tree: &Tree, python: &Path) -> Result<PathBuf> {
    let folder = tree.root.join(WHEELS);
    let _ = std::fs::remove_dir_all(&folder);
    let mut maturin = Command::new(python);
    maturin.current_dir(tree.root.join(CRATE));
    maturin.args(["-m", "maturin", "build", "--quiet", "--profile", "dist", "--locked", "--out"]);
    maturin.arg(&folder).arg("--interpreter").arg(python);
    if !process::show(&mut maturin)? {
        bail!("maturin cannot build the wheel");
    }
    let wheels = std::fs::read_dir(&folder).context(WHEELS)?;
    let wheels: Vec<PathBuf> = wheels.flatten().map(|entry| entry.path()).collect();
    let [wheel] = wheels.as_slice() else { bail!("{WHEELS} has {} files, not 1", wheels.len()) };
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    if !process::show(pip.arg(wheel))? {
        bail!("pip cannot install {}", wheel.display());
    }
    Ok(wheel.clone())
}

/// Writes random histories with the answers of the oracle, which its tests replay.
fn histories(tree: &Tree) -> Result<PathBuf> {
    let mut example = cargo(tree);
    example.args(["run", "--quiet", "--locked", "--package", "tollgate-python"]);
    let output = example.args(["--example", "histories", "--", HISTORIES]).output()?;
    if !output.status.success() {
        bail!("no histories were written: {}", String::from_utf8_lossy(&output.stderr));
    }
    let file = tree.root.join("target/histories.jsonl");
    std::fs::write(&file, output.stdout).with_context(|| file.display().to_string())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_tested_with_has_exact_versions() {
        let tree = Tree::find().unwrap();
        let text = std::fs::read_to_string(tree.root.join(REQUIREMENTS)).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() > 5 && lines.iter().all(|line| line.contains("==")), "{lines:?}");
        for (_, words) in CHECKS {
            let tool = words[0].split('.').next().unwrap();
            assert!(lines.iter().any(|line| line.starts_with(&format!("{tool}=="))), "{tool}");
        }
    }
}
