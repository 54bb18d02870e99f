//! `cargo xtask release --dry-run`: everything that a release hands out, built and checked, with
//! one table of it.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::packages::{self, Sheet, Shown};
use crate::publish::{self, Oldest};
use crate::tree::Tree;
use crate::{node_package, wheel};

/// The sheet's name for the whole release.
const WHOLE: &str = "release";

/// The engine for another language, with a separate task to build and test it.
struct Binding {
    name: &'static str,
    task: &'static str,
    /// The package is the only file there.
    folder: &'static str,
    run: fn(&Tree, bool) -> Result<bool>,
}

const BINDINGS: [Binding; 2] = [
    Binding { name: "wheel", task: "cargo xtask wheel", folder: "target/wheels", run: wheel::run },
    Binding {
        name: "Node package",
        task: "cargo xtask node-package",
        folder: "target/node-package",
        run: node_package::run,
    },
];

/// Builds and checks it all. It publishes nothing.
pub(crate) fn dry_run(tree: &Tree, may_install: bool, rebuild: bool) -> Result<bool> {
    let mut sheet = Sheet::default();
    let version = packages::version(tree)?;
    sheet.check(WHOLE, "one version everywhere", || versions(tree, &version));
    sheet.check(WHOLE, "changelog", || changelog(tree, &version));
    crates(tree, &mut sheet, may_install)?;
    for binding in BINDINGS {
        binding.make(tree, &mut sheet, may_install)?;
    }
    packages::make(tree, &mut sheet, may_install, rebuild)?;
    println!("\n{}", sheet.table()?);
    println!("nothing was published");
    Ok(sheet.holds(packages::in_ci()))
}

/// The crates, as a registry gets them.
fn crates(tree: &Tree, sheet: &mut Sheet, may_install: bool) -> Result<()> {
    const ALL: &str = "crates";
    let mut packed = false;
    sheet.check(ALL, "packed, unpacked, built", || {
        packed = publish::packages(tree)?;
        match packed {
            true => Ok(Shown::Held("cargo check of what was unpacked".to_owned())),
            false => bail!("they do not build"),
        }
    });
    if !packed {
        return Ok(());
    }
    sheet.check(ALL, "built by the oldest Rust", || match publish::oldest(tree, may_install)? {
        Oldest::Asked(true) => Ok(Shown::Held("cargo check".to_owned())),
        Oldest::Asked(false) => bail!("they do not build"),
        Oldest::Absent(why) => Ok(Shown::Skipped(why)),
    });
    for (name, file) in publish::files(tree)? {
        let name = format!("crate {name}");
        sheet.file(&name, &file);
        sheet.check(&name, "packed", || {
            let bytes = std::fs::metadata(&file).context("it is not there")?.len();
            // The maximum that a registry takes.
            match bytes < 10 * 1024 * 1024 {
                true => Ok(Shown::Held(format!("{bytes} bytes"))),
                false => bail!("{bytes} bytes are more than a registry takes"),
            }
        });
    }
    Ok(())
}

impl Binding {
    fn make(&self, tree: &Tree, sheet: &mut Sheet, may_install: bool) -> Result<()> {
        let Self { name, task, folder, run } = self;
        let folder = tree.root.join(folder);
        while let Some(old) = first_file(&folder) {
            std::fs::remove_file(&old).with_context(|| old.display().to_string())?;
        }
        sheet.check(name, "built, installed, tested", || {
            let holds = run(tree, may_install)?;
            match (first_file(&folder), holds) {
                (None, _) => Ok(Shown::Skipped("see above".to_owned())),
                (Some(_), true) => Ok(Shown::Held((*task).to_owned())),
                (Some(_), false) => bail!("{task} does not hold"),
            }
        });
        if let Some(package) = first_file(&folder) {
            sheet.file(name, &package);
        }
        Ok(())
    }
}

fn first_file(folder: &std::path::Path) -> Option<PathBuf> {
    std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).find(|path| path.is_file())
}

/// A place that names a version, from the root, and the text before each version.
const PLACES: [(&str, &str); 5] = [
    ("packages/helm/tollgate/Chart.yaml", "\nversion: "),
    ("packages/helm/tollgate/Chart.yaml", "\nappVersion: "),
    ("packages/kustomize/base/kustomization.yaml", "\n    newTag: "),
    ("examples/kubernetes/tollgate.yaml", "image: tollgate:"),
    ("examples/kubernetes/envoy-redis.yaml", "image: tollgate:"),
];

/// Every file that names the version names this one.
fn versions(tree: &Tree, version: &str) -> Result<Shown> {
    let read =
        |path: &str| std::fs::read_to_string(tree.root.join(path)).with_context(|| path.to_owned());
    let mut seen = 0;
    let mut agree = |place: &str, found: &str| {
        seen += 1;
        match found == version {
            true => Ok(()),
            false => bail!("{place} has {found}, and the crates have {version}"),
        }
    };
    for (name, found) in publish::versions(tree)? {
        agree(&format!("the crate {name}"), &found)?;
    }
    for (path, before) in PLACES {
        let text = read(path)?;
        let Some((_, rest)) = text.split_once(before) else { bail!("{path} has no `{before}`") };
        agree(path, rest.split_whitespace().next().unwrap_or_default())?;
    }
    for path in tree.paths()? {
        let text = if path.ends_with("/package.json") || path.ends_with("/pyproject.toml") {
            read(&path)?
        } else {
            continue;
        };
        for found in stated(&path, &text)? {
            agree(&path, &found)?;
        }
    }
    Ok(Shown::Held(format!("{version} in {seen} places")))
}

/// The versions of ourselves that a package of Node or of Python states. A package without one
/// takes that of its crate.
fn stated(path: &str, text: &str) -> Result<Vec<String>> {
    if path.ends_with(".toml") {
        let table: toml::Table = text.parse().with_context(|| path.to_owned())?;
        let project = table.get("project").and_then(|project| project.get("version"));
        return Ok(project.and_then(toml::Value::as_str).map(str::to_owned).into_iter().collect());
    }
    let manifest: serde_json::Value =
        serde_json::from_str(text).with_context(|| path.to_owned())?;
    let is_ours = |name: &str| name == "tollgate" || name.contains("/tollgate");
    let mut found = Vec::new();
    if manifest["name"].as_str().is_some_and(is_ours) {
        found.extend(manifest["version"].as_str().map(str::to_owned));
    }
    let others = manifest["optionalDependencies"].as_object().into_iter().flatten();
    let ours = others.filter(|(name, _)| name.contains("tollgate"));
    found.extend(ours.flat_map(|(_, version)| version.as_str()).map(str::to_owned));
    Ok(found)
}

/// The changelog has a part for this version, or one that is to become it.
fn changelog(tree: &Tree, version: &str) -> Result<Shown> {
    let text = std::fs::read_to_string(tree.root.join("CHANGELOG.md")).context("CHANGELOG.md")?;
    entry(&text, version)
}

fn entry(text: &str, version: &str) -> Result<Shown> {
    let lines_of = |heading: &str| {
        let part = text.split("\n## ").find(|part| part.starts_with(heading))?;
        Some(part.lines().skip(1).filter(|line| line.starts_with("- ")).count())
    };
    match (lines_of(&format!("[{version}]")), lines_of("[Unreleased]")) {
        (Some(0), _) => bail!("its part for {version} is empty"),
        (Some(lines), _) => Ok(Shown::Held(format!("{lines} entries for {version}"))),
        (None, Some(0) | None) => bail!("it has no part for {version}, and nothing Unreleased"),
        (None, Some(lines)) => {
            Ok(Shown::Held(format!("{lines} entries Unreleased, to be named {version}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_version_stands_everywhere() {
        let tree = Tree::find().unwrap();
        let version = packages::version(&tree).unwrap();
        let Shown::Held(said) = versions(&tree, &version).unwrap() else { panic!("skipped") };
        assert!(said.starts_with(&format!("{version} in ")), "{said}");
        let error = versions(&tree, "9.9.9").unwrap_err().to_string();
        assert!(error.ends_with(&format!("has {version}, and the crates have 9.9.9")), "{error}");
    }

    #[test]
    fn packages_of_other_languages_state_a_version() {
        let node = r#"{"name": "@x/tollgate", "version": "1.2.3",
            "optionalDependencies": {"@x/tollgate-linux": "1.2.2", "other": "7.0.0"}}"#;
        assert_eq!(stated("a/package.json", node).unwrap(), ["1.2.3", "1.2.2"]);
        assert_eq!(
            stated("a/package.json", r#"{"name": "other", "version": "1.0.0"}"#).unwrap(),
            [""; 0]
        );
        let python = "[project]\nname = \"tollgate\"\nversion = \"1.2.3\"\n";
        assert_eq!(stated("a/pyproject.toml", python).unwrap(), ["1.2.3"]);
        let dynamic = "[project]\nname = \"tollgate\"\ndynamic = [\"version\"]\n";
        assert_eq!(stated("a/pyproject.toml", dynamic).unwrap(), [""; 0]);
    }

    #[test]
    fn a_release_has_an_entry() {
        let said = |text: &str| entry(text, "1.2.3").map_err(|error| error.to_string());
        let held = |text: &str| Ok(Shown::Held(text.to_owned()));
        assert_eq!(said("# C\n\n## [1.2.3] - 2026\n\n- one\n- two\n"), held("2 entries for 1.2.3"));
        let soon = said("# C\n\n## [Unreleased]\n\n### Added\n\n- one\n\n## [1.2.2]\n- x\n");
        assert_eq!(soon, held("1 entries Unreleased, to be named 1.2.3"));
        assert!(said("# C\n\n## [1.2.3]\n\n## [1.2.2]\n- x\n").unwrap_err().contains("is empty"));
        assert!(said("# C\n\n## [1.2.2]\n- x\n").unwrap_err().contains("no part for 1.2.3"));
    }
}
