//! The published parts: every feature alone, the packages as users get them, the oldest compiler.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;
use crate::tidy::deps::metadata;
use crate::tools::cargo;
use crate::tree::Tree;

/// Libraries whose own tests run without their default features, too: their output is a promise
/// then. Other tests of the workspace cannot see it, since there somebody wants every feature.
const TESTED_BARE: [&str; 1] = ["tollgate-policy"];

/// The fields of a package that a registry shows, as cargo names them.
const SHOWN: [&str; 5] = ["description", "license", "readme", "keywords", "categories"];

/// Where packages are unpacked.
const UNPACKED: &str = "target/unpacked";

/// A crate that is to be published.
#[derive(Debug, PartialEq, Eq)]
struct Published {
    name: String,
    version: String,
    /// Without `default`.
    features: Vec<String>,
    has_default: bool,
    /// Of [`SHOWN`] what its manifest does not say.
    unsaid: Vec<&'static str>,
}

impl Published {
    /// The ways in which somebody may build it: without features, with each alone, as it is.
    fn choices(&self) -> Vec<Vec<String>> {
        let bare = vec!["--no-default-features".to_owned()];
        let alone = |feature: &String| {
            let mut choice = bare.clone();
            choice.extend(["--features".to_owned(), feature.clone()]);
            choice
        };
        let mut choices = vec![bare.clone()];
        choices.extend(self.features.iter().map(alone));
        if self.has_default {
            choices.push(Vec::new());
        }
        choices
    }

    /// The folder that its package unpacks into.
    fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// The crates of the workspace whose manifest does not say `publish = false`.
fn published(metadata: &Value) -> Vec<Published> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.filter(|package| package["publish"].is_null()).map(read).collect()
}

fn read(package: &Value) -> Published {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let features: Vec<String> = package["features"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect();
    let is_said = |key: &str| match &package[key] {
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => (1..=5).contains(&list.len()),
        _ => false,
    };
    Published {
        name: text("name"),
        version: text("version"),
        has_default: features.iter().any(|name| name == "default"),
        features: features.into_iter().filter(|name| name != "default").collect(),
        unsaid: SHOWN.into_iter().filter(|key| !is_said(key)).collect(),
    }
}

/// Every crate without features and with each feature alone. In the workspace's own builds a crate
/// has whatever features somebody beside it wants, so a feature that lacks another is not seen.
pub(crate) fn features(tree: &Tree) -> Result<bool> {
    let mut failed = Vec::new();
    for package in published(&metadata(tree)?) {
        for choice in package.choices() {
            let mut words = vec!["clippy", "--quiet", "--locked", "--package", &package.name];
            words.extend(choice.iter().map(String::as_str));
            words.extend(["--", "-D", "warnings"]);
            if !process::show(cargo(tree).args(&words))? {
                failed.push(words.join(" "));
            }
        }
    }
    for name in TESTED_BARE {
        let words = ["test", "--quiet", "--locked", "--package", name, "--no-default-features"];
        let mut command = cargo(tree);
        command.args(words).arg("--lib").stdout(Stdio::null());
        if !process::show(&mut command)? {
            failed.push(format!("{} --lib", words.join(" ")));
        }
    }
    for line in &failed {
        eprintln!("does not hold: cargo {line}");
    }
    Ok(failed.is_empty())
}

/// Packs what is to be published, and builds the packages instead of the folders: a file that lies
/// outside of its crate's folder, or that a manifest leaves out, is missing then.
pub(crate) fn packages(tree: &Tree) -> Result<bool> {
    let published = published(&metadata(tree)?);
    let mut holds = true;
    for package in &published {
        for key in &package.unsaid {
            eprintln!("{} says no `{key}` (lists: 1 to 5)", package.name);
            holds = false;
        }
    }
    // Not cargo's own verifying: it builds every dependency again for each package.
    let mut command = cargo(tree);
    command.args(["package", "--quiet", "--no-verify", "--allow-dirty", "--offline", "--locked"]);
    command.args(published.iter().flat_map(|package| ["--package", &package.name]));
    if !process::show(&mut command)? {
        return Ok(false);
    }
    let home = unpack(tree, &published)?;
    let mut command = cargo(tree);
    command.current_dir(&home).args(["check", "--quiet", "--workspace", "--offline"]);
    command.arg("--target-dir").arg(tree.root.join("target"));
    Ok(process::show(&mut command)? && holds)
}

/// The packages that [`packages`] left, by the names of their crates.
pub(crate) fn files(tree: &Tree) -> Result<Vec<(String, PathBuf)>> {
    let file = |package: Published| {
        let file = tree.root.join(format!("target/package/{}.crate", package.folder()));
        (package.name, file)
    };
    Ok(published(&metadata(tree)?).into_iter().map(file).collect())
}

/// The versions of the published crates, by their names.
pub(crate) fn versions(tree: &Tree) -> Result<Vec<(String, String)>> {
    let all = published(&metadata(tree)?).into_iter();
    Ok(all.map(|package| (package.name, package.version)).collect())
}

/// A workspace of the packages, each of which finds the others there and not in a registry.
fn unpack(tree: &Tree, published: &[Published]) -> Result<PathBuf> {
    let home = tree.root.join(UNPACKED);
    match std::fs::remove_dir_all(&home) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).context("cannot remove the packages of the last run");
        }
        _ => {}
    }
    std::fs::create_dir_all(&home).context("cannot make a folder for the packages")?;
    for package in published {
        let file = tree.root.join(format!("target/package/{}.crate", package.folder()));
        let mut command = Command::new("tar");
        // With the time of now: cargo gives all files one time, and would not see that they differ
        // from those of the last run.
        command.arg("-xzmf").arg(&file).arg("-C").arg(&home);
        if !process::show(&mut command)? {
            bail!("{} cannot be unpacked", file.display());
        }
    }
    std::fs::write(home.join("Cargo.toml"), manifest(tree, published)?)?;
    std::fs::copy(tree.root.join("Cargo.lock"), home.join("Cargo.lock"))?;
    Ok(home)
}

/// The manifest of the workspace of packages. Its profile is ours, so that it builds no dependency
/// that is built already.
fn manifest(tree: &Tree, published: &[Published]) -> Result<String> {
    let ours = std::fs::read_to_string(tree.root.join("Cargo.toml"))?;
    let ours: toml::Table = ours.parse().context("cannot read Cargo.toml")?;
    let mut table = toml::Table::new();
    table.extend(ours.into_iter().filter(|(name, _)| name == "profile"));
    let profiles = toml::to_string(&table).context("cannot write the profiles")?;
    let mut text = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"*-*\"]\n\n{profiles}\n[patch.crates-io]\n"
    );
    for package in published {
        text.push_str(&format!("{} = {{ path = \"{}\" }}\n", package.name, package.folder()));
    }
    Ok(text)
}

/// The result of the oldest compiler.
#[derive(Debug)]
pub(crate) enum Oldest {
    /// Whether it builds the packages.
    Asked(bool),
    /// It is not installed: how to install it.
    Absent(String),
}

/// Builds the packages that [`packages`] left with the compiler that their `rust-version` names.
pub(crate) fn oldest(tree: &Tree, may_install: bool) -> Result<Oldest> {
    let metadata = metadata(tree)?;
    let versions = metadata["packages"].as_array().into_iter().flatten();
    let version = versions.filter_map(|package| package["rust_version"].as_str()).next();
    let version = version.context("no manifest says `rust-version`")?;
    let install = ["toolchain", "install", version, "--profile", "minimal", "--no-self-update"];
    if !is_there(version) {
        if may_install {
            eprintln!("installing Rust {version} with rustup (once)");
        }
        let tried = may_install && rustup(&install).status().is_ok_and(|status| status.success());
        if !tried {
            let words = install.join(" ");
            return Ok(Oldest::Absent(format!("no Rust {version} installed: rustup {words}")));
        }
    }
    let home = tree.root.join(UNPACKED);
    if !home.is_dir() {
        bail!("there are no packages in {UNPACKED}");
    }
    let mut command = rustup(&["run", version, "cargo", "check", "--quiet", "--workspace"]);
    command.current_dir(home).arg("--offline");
    // Apart from the other builds, so that it can be removed alone to free space.
    command.arg("--target-dir").arg(tree.root.join("target/oldest"));
    Ok(Oldest::Asked(process::show(&mut command)?))
}

fn is_there(version: &str) -> bool {
    let mut command = rustup(&["run", version, "cargo", "--version"]);
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn rustup(words: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    // The compiler that runs this task is not the one that is wanted.
    command.args(words).env_remove("RUSTC").env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(text: &str) -> Published {
        read(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn each_feature_is_chosen_alone() {
        let plain = package(r#"{"name": "a", "version": "1.2.3", "features": {}}"#);
        assert_eq!(plain.choices(), [["--no-default-features"]]);
        assert_eq!(plain.folder(), "a-1.2.3");
        let rich = package(r#"{"name": "a", "features": {"default": ["x"], "x": [], "y": []}}"#);
        let words: Vec<String> = rich.choices().iter().map(|words| words.join(" ")).collect();
        let alone = "--no-default-features --features";
        assert_eq!(
            words,
            ["--no-default-features", &format!("{alone} x"), &format!("{alone} y"), ""]
        );
    }

    #[test]
    fn what_a_manifest_does_not_say_is_found() {
        let some = package(
            r#"{"name": "a", "description": "it", "license": "MIT", "readme": null,
                "keywords": ["1", "2", "3", "4", "5", "6"], "categories": ["x"]}"#,
        );
        assert_eq!(some.unsaid, ["readme", "keywords"]);
    }

    #[test]
    fn the_workspace_is_published_but_for_its_tools() {
        let tree = Tree::find().unwrap();
        let found = published(&metadata(&tree).unwrap());
        let names: Vec<&str> = found.iter().map(|package| package.name.as_str()).collect();
        assert!(names.contains(&"tollgate") && names.contains(&"tollgate-proof"), "{names:?}");
        assert!(!names.contains(&"xtask") && !names.contains(&"tollgate-fuzz"), "{names:?}");
        let text = manifest(&tree, &found).unwrap();
        assert!(text.contains("\ntollgate = { path = \"tollgate-"), "{text}");
        assert!(text.contains("[profile.dev]\ndebug = \"line-tables-only\""), "{text}");
    }
}
