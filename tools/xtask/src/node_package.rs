//! `cargo xtask node-package`: the Node package, built, packed, installed into a fresh folder and
//! tested there.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::binding::{program, target, timed};
use crate::tools::cargo;
use crate::tree::Tree;
use crate::{process, programs};

/// The crate.
const CRATE: &str = "bindings/node";

/// The packages of its tests, at exact versions.
const REQUIREMENTS: &str = "bindings/node/tests/package.json";

/// The folder that is packed.
const STAGE: &str = "target/node-package/package";

/// Where it is installed and tested, fresh for each run.
const FOLDER: &str = "target/node-package/fresh";

/// Builds and tests it, and says how long each step took. Without a network or Node it says what is
/// skipped, which fails where `CI=true`.
pub(crate) fn run(tree: &Tree, may_install: bool) -> Result<bool> {
    let in_ci = std::env::var("CI").as_deref() == Ok("true");
    if let Err(why) = tools(may_install) {
        println!("SKIPPED: the Node package was not built and not tested: {why}");
        return Ok(!in_ci);
    }
    let package = timed("the package", || build(tree))?;
    let bytes = std::fs::metadata(&package)?.len();
    println!("{}: {bytes} bytes", package.file_name().unwrap_or_default().to_string_lossy());
    let program = program(tree)?;
    if !timed("the packages of its tests", || install(tree, &package))? {
        println!("SKIPPED: the Node package was not tested: npm failed, is there a network?");
        return Ok(!in_ci);
    }
    let counts = timed("its tests", || test(tree, &package, &program))?;
    println!("the Node package: {}", counts.line());
    Ok(counts.hold(in_ci))
}

/// Builds it, and nothing else.
pub(crate) fn only_build(tree: &Tree, may_install: bool) -> Result<bool> {
    if let Err(why) = tools(may_install) {
        bail!("the Node package cannot be built: {why}");
    }
    let package = timed("the package", || build(tree))?;
    println!("{}", package.display());
    Ok(true)
}

/// Sees to it that there are Node and npm, or says why there are none.
fn tools(may_install: bool) -> core::result::Result<(), String> {
    if programs::find("node").is_none() {
        return Err("node is not installed: apt-get install nodejs".to_owned());
    }
    if !may_install {
        return Err("--no-install was given, and npm installs what it needs".to_owned());
    }
    if programs::find("npm").is_none() {
        // Debian's Node comes without it.
        programs::install_package("npm").map_err(|error| format!("npm is missing: {error:#}"))?;
    }
    Ok(())
}

/// Builds the native module and packs it with the rest.
fn build(tree: &Tree) -> Result<PathBuf> {
    let mut command = cargo(tree);
    command.args([
        "build",
        "--quiet",
        "--profile",
        "dist",
        "--locked",
        "--package",
        "tollgate-node",
    ]);
    if !process::show(&mut command)? {
        bail!("tollgate-node cannot be built");
    }
    let stage = tree.root.join(STAGE);
    fresh(&stage)?;
    let module = target(tree).join(format!("dist/{DLL_PREFIX}tollgate_node{DLL_SUFFIX}"));
    copy(&module, &stage.join("tollgate.node"))?;
    let sources = tree.root.join(CRATE);
    for name in ["package.json", "README.md", "lib"] {
        copy(&sources.join(name), &stage.join(name))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--pack-destination", ".."]).current_dir(&stage);
    let output = npm.output().context("cannot start npm")?;
    if !output.status.success() {
        bail!("npm cannot pack: {}", String::from_utf8_lossy(&output.stderr));
    }
    let name = String::from_utf8_lossy(&output.stdout);
    let name = name.lines().last().unwrap_or_default();
    Ok(stage.with_file_name(name))
}

/// Installs it into a fresh folder, with the tests and their packages. Whether npm could.
fn install(tree: &Tree, package: &Path) -> Result<bool> {
    let folder = tree.root.join(FOLDER);
    fresh(&folder)?;
    copy(&tree.root.join(REQUIREMENTS), &folder.join("package.json"))?;
    for name in ["tests", "bench"] {
        copy(&tree.root.join(CRATE).join(name), &folder.join(name))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--no-package-lock"]);
    npm.args(["--ignore-scripts", "--no-save"]).arg(package).current_dir(&folder);
    process::show(&mut npm)
}

/// Runs its tests.
fn test(tree: &Tree, package: &Path, program: &Path) -> Result<Counts> {
    let folder = tree.root.join(FOLDER);
    let mut files: Vec<String> = std::fs::read_dir(folder.join("tests"))?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".test.mjs"))
        .map(|name| format!("tests/{name}"))
        .collect();
    files.sort();
    let mut node = Command::new("node");
    node.args(["--test", "--test-concurrency=2", "--test-timeout=120000"]);
    node.args(["--test-reporter=dot", "--test-reporter-destination=stderr"]);
    node.args(["--test-reporter=tap", "--test-reporter-destination=result.tap"]);
    node.args(&files).current_dir(&folder);
    node.env("TOLLGATE_ROOT", &tree.root).env("TOLLGATE_PACKAGE", package);
    node.env("TOLLGATE_BIN", program);
    let all_passed = process::show(&mut node)?;
    let result = std::fs::read_to_string(folder.join("result.tap")).context("result.tap")?;
    let counts = Counts::read(&result);
    if counts.failed > 0 || !all_passed {
        println!("{result}");
    }
    Ok(Counts { failed: counts.failed.max(u64::from(!all_passed)), ..counts })
}

/// The results of the tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// The counts at the end of what Node writes, in the Test Anything Protocol.
    fn read(result: &str) -> Self {
        let count = |words: &[&str]| {
            let of = |word| result.lines().rev().find_map(|line: &str| line.strip_prefix(word));
            words.iter().filter_map(|word| of(word)?.parse::<u64>().ok()).sum()
        };
        Self {
            passed: count(&["# pass "]),
            failed: count(&["# fail ", "# cancelled "]),
            skipped: count(&["# skipped ", "# todo "]),
        }
    }

    fn line(&self) -> String {
        let Self { passed, failed, skipped } = self;
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }

    /// Whether that is good: none failed, some ran, and in CI none was skipped.
    fn hold(&self, in_ci: bool) -> bool {
        self.failed == 0 && self.passed > 0 && !(in_ci && self.skipped > 0)
    }
}

/// An empty folder.
fn fresh(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).context("cannot remove the folder of the last run");
        }
        _ => {}
    }
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        std::fs::copy(from, to).with_context(|| from.display().to_string())?;
        return Ok(());
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_tested_with_has_exact_versions() {
        let tree = Tree::find().unwrap();
        let text = std::fs::read_to_string(tree.root.join(REQUIREMENTS)).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let named = read["dependencies"].as_object().unwrap();
        assert!(named.len() > 5, "{named:?}");
        for (name, version) in named {
            let numbers = version.as_str().unwrap();
            assert!(numbers.chars().all(|c| c.is_ascii_digit() || c == '.'), "{name} {numbers}");
        }
    }

    #[test]
    fn the_counts_are_those_at_the_end() {
        let result = "ok 1 - a\n# pass 99\n1..1\n# tests 7\n# pass 4\n# fail 1\n# cancelled 1\n\
                      # skipped 2\n# todo 0\n";
        let counts = Counts::read(result);
        assert_eq!(counts, Counts { passed: 4, failed: 2, skipped: 2 });
        assert_eq!(counts.line(), "4 passed, 2 failed, 2 skipped");
        assert!(!counts.hold(false));
        assert!(!Counts::read("").hold(false));
        let skips = Counts { passed: 4, failed: 0, skipped: 1 };
        assert!(skips.hold(false) && !skips.hold(true));
    }

    #[test]
    fn a_folder_is_copied_with_all_that_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/c"), "text").unwrap();
        copy(&dir.path().join("a"), &dir.path().join("d")).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("d/b/c")).unwrap(), "text");
        fresh(&dir.path().join("d")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("d")).unwrap().count(), 0);
    }
}
