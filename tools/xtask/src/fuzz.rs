//! `cargo xtask fuzz`: libFuzzer on the targets of `tollgate-fuzz`, with the stable compiler.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::tools::cargo;
use crate::tree::Tree;

/// The flags of cargo-fuzz for the compiler, except for the sanitizer, which only a nightly one
/// has: our code is safe code, and it would find nothing there. The stable compiler takes these.
const FLAGS: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg",
    "fuzzing",
    "-Ccodegen-units=1",
];

/// The manifest of the fuzz program, which is a separate workspace.
const MANIFEST: &str = "proof/libfuzzer/Cargo.toml";

/// Where the targets' corpora are, a folder for each.
const CORPUS: &str = "proof/fuzz/corpus";

/// The longest input that is tried, in bytes.
const MAX_BYTES: usize = 4_096;

/// How long each target runs when nobody says.
pub(crate) const SECONDS: u32 = 60;

/// Runs every target, or one, for `seconds` each; `Ok(false)` is a finding.
pub(crate) fn run(tree: &Tree, seconds: u32, target: Option<&str>, list: bool) -> Result<bool> {
    let names = chosen(targets(&tree.root.join(CORPUS))?, target)?;
    if list {
        names.iter().for_each(|name| println!("{name}"));
        return Ok(true);
    }
    let program = build(tree)?;
    let mut found = Vec::new();
    for name in &names {
        eprintln!("fuzz {name}: {seconds} s");
        let grown = tree.root.join("target/fuzz/corpus").join(name);
        let findings = tree.root.join("target/fuzz/findings").join(name);
        for folder in [&grown, &findings] {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let mut command = Command::new(&program);
        command.current_dir(&tree.root).env("TOLLGATE_FUZZ_TARGET", name);
        // New inputs go into the first folder; the second one is only read.
        command.arg(&grown).arg(Path::new(CORPUS).join(name));
        command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={MAX_BYTES}"));
        command.arg(format!("-artifact_prefix={}/", findings.display()));
        command.args(["-timeout=10", "-print_final_stats=1", "-verbosity=0"]);
        if !process::show(&mut command)? {
            found.push(name.as_str());
        }
    }
    eprintln!("fuzz: {} targets, {} with findings", names.len(), found.len());
    for name in &found {
        eprintln!(
            "  {name}: target/fuzz/findings/{name}; copy the file into {CORPUS}/{name}, which \
             every test run reads, and write a test of its own"
        );
    }
    Ok(found.is_empty())
}

/// Whether the lock file of the fuzz program, which is not a member of the workspace, fits the
/// manifests: only a turn of the fuzzer would notice otherwise.
pub(crate) fn is_locked(tree: &Tree) -> Result<bool> {
    let mut command = cargo(tree);
    command.args(["metadata", "--locked", "--format-version", "1"]);
    command.args(["--manifest-path", MANIFEST]).stdout(Stdio::null());
    let is_locked = process::show(&mut command)?;
    if !is_locked {
        eprintln!(
            "bring proof/libfuzzer/Cargo.lock up to date: cargo metadata --manifest-path {MANIFEST}"
        );
    }
    Ok(is_locked)
}

/// The targets are what has a corpus: a test of `tollgate-fuzz` holds them to its list.
fn targets(corpus: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(corpus)
        .with_context(|| format!("cannot list the folder {}", corpus.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn chosen(names: Vec<String>, target: Option<&str>) -> Result<Vec<String>> {
    match target {
        None => Ok(names),
        Some(target) if names.iter().any(|name| name == target) => Ok(vec![target.to_owned()]),
        Some(target) => bail!("no target `{target}`; there are: {}", names.join(", ")),
    }
}

/// Builds libFuzzer with the targets. The platform is named, so that programs which only the build
/// runs get none of the flags.
fn build(tree: &Tree) -> Result<std::path::PathBuf> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let there = Command::new(&compiler).arg("--version").stdout(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        bail!(
            "nothing was fuzzed: libFuzzer is C++, and there is no `{compiler}`. Install one \
             (apt-get install g++), or name another one with CXX"
        );
    }
    let platform = platform()?;
    let mut command = cargo(tree);
    command.args(["build", "--release", "--locked", "--manifest-path", MANIFEST]);
    command.args(["--target", &platform, "--target-dir", "target/fuzz"]);
    command.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f")).env_remove("RUSTFLAGS");
    if !process::show(&mut command)? {
        bail!("the fuzz targets were not built");
    }
    Ok(tree.root.join("target/fuzz").join(platform).join("release/tollgate-libfuzzer"))
}

/// This machine, as the compiler names it.
fn platform() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().context("cannot start rustc")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say for which machine it builds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_one_of_those_with_a_corpus() {
        let names = targets(&Tree::find().unwrap().root.join(CORPUS)).unwrap();
        assert!(names.iter().any(|name| name == "question"));
        assert_eq!(chosen(names.clone(), None).unwrap(), names);
        assert_eq!(chosen(names.clone(), Some("path")).unwrap(), ["path"]);
        let message = chosen(names, Some("pth")).unwrap_err().to_string();
        assert!(message.starts_with("no target `pth`; there are: cost, "), "{message}");
    }
}
