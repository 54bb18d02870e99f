//! Rules for dependencies: which crate of ours may use which, and a reason for every other one.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tidy::Finding;
use crate::tools::cargo;
use crate::tree::{File, Tree};

/// Which crates of ours a crate of ours may build on. A new crate gets a line here.
const MAY_USE: [(&str, &[&str]); 24] = [
    ("tollgate", &[]),
    ("tollgate-sqlite", &["tollgate"]),
    ("tollgate-redis", &["tollgate"]),
    ("tollgate-lease", &["tollgate"]),
    ("tollgate-stores", &["tollgate", "tollgate-lease", "tollgate-redis", "tollgate-sqlite"]),
    ("tollgate-tower", &["tollgate", "tollgate-policy"]),
    ("tollgate-queue", &["tollgate", "tollgate-redis", "tollgate-sqlite"]),
    ("tollgate-logs", &["tollgate", "tollgate-policy", "tollgate-tower"]),
    (
        "tollgate-experiments",
        &["tollgate", "tollgate-lease", "tollgate-logs", "tollgate-policy", "tollgate-queue"],
    ),
    ("tollgate-policy", &["tollgate"]),
    // Envoy's messages, as types; and its rules, which know no protocol.
    ("tollgate-envoy", &["tollgate", "tollgate-policy"]),
    (
        "tollgate-service",
        &[
            "tollgate",
            "tollgate-envoy",
            "tollgate-lease",
            "tollgate-redis",
            "tollgate-stores",
            "tollgate-policy",
            "tollgate-queue",
            "tollgate-tower",
        ],
    ),
    (
        "tollgate-cli",
        &[
            "tollgate",
            "tollgate-envoy",
            "tollgate-experiments",
            "tollgate-lease",
            "tollgate-sqlite",
            "tollgate-redis",
            "tollgate-stores",
            "tollgate-logs",
            "tollgate-policy",
            // `tollgate judge` is the history checker, for limiters that are not ours.
            KIT,
            "tollgate-queue",
            "tollgate-service",
            "tollgate-tower",
        ],
    ),
    // It measures; shipped crates do not know its peers.
    (
        "tollgate-bench",
        &[
            "tollgate",
            "tollgate-envoy",
            "tollgate-lease",
            KIT,
            "tollgate-queue",
            "tollgate-redis",
            "tollgate-sqlite",
            "tollgate-stores",
            TESTBED,
        ],
    ),
    // It looks at whatever reads what others wrote; nobody builds on it.
    (
        "tollgate-fuzz",
        &[
            "tollgate",
            "tollgate-envoy",
            "tollgate-redis",
            "tollgate-logs",
            "tollgate-policy",
            "tollgate-service",
            "tollgate-tower",
        ],
    ),
    // The conformance kit is a library on top of the traits; the rest are dev-dependencies.
    (KIT, &["tollgate"]),
    // Real servers know nothing of the tests on them; the kit's numbers make them fail.
    (TESTBED, &[KIT]),
    // Faults on real servers, which the testbed starts; nobody builds on it.
    ("tollgate-faults", &["tollgate", "tollgate-lease", KIT, "tollgate-redis", TESTBED]),
    // Models over the code as it is; nobody builds on it.
    ("tollgate-models", &["tollgate", "tollgate-lease", "tollgate-queue"]),
    // The engine alone: anything more would not be small enough for a page.
    ("tollgate-playground", &["tollgate"]),
    // The common core of both bindings.
    (
        "tollgate-binding",
        &["tollgate", "tollgate-policy", "tollgate-redis", "tollgate-stores", "tollgate-tower"],
    ),
    // The Python package; no crate builds on it.
    ("tollgate-python", &["tollgate", "tollgate-binding", "tollgate-tower"]),
    // The Node package; no crate builds on it.
    ("tollgate-node", &["tollgate", "tollgate-binding", "tollgate-tower"]),
    // It is built before everything else: the part that needs the registry for the documents'
    // tables is an example.
    ("xtask", &[]),
];

/// The conformance kit, which tests use.
const KIT: &str = "tollgate-proof";

/// Real servers for tests and tools.
const TESTBED: &str = "tollgate-testbed";

/// The crates that are not shipped, and may use both outside of their tests.
const TOOLS: [&str; 3] = ["tollgate-bench", "tollgate-faults", TESTBED];

/// The one shipped crate that may use the kit outside of its tests, and not the testbed.
const JUDGE: &str = CLI;

/// Nobody uses it: it is a program.
const CLI: &str = "tollgate-cli";

/// Where every dependency has its reason.
const TABLE: &str = "DESIGN.md";

/// A crate of the workspace, as cargo sees it.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its folder from the root, with `/` at its end.
    pub(crate) folder: String,
    /// The dependencies in its manifest: the dependency's own name, and whether only tests use it.
    pub(crate) dependencies: Vec<(String, bool)>,
}

/// The output of `cargo metadata` about the workspace's crates. It needs neither a network nor a
/// build.
pub(crate) fn metadata(tree: &Tree) -> Result<Value> {
    let mut command = cargo(tree);
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = command.output().context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata")
}

/// The workspace's crates.
pub(crate) fn packages(tree: &Tree) -> Result<Vec<Package>> {
    let metadata = metadata(tree)?;
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let packages = list(&metadata, "packages");
    Ok(packages
        .iter()
        .map(|package| Package {
            name: text(package, "name"),
            folder: folder(&text(package, "manifest_path"), &text(&metadata, "workspace_root")),
            dependencies: list(package, "dependencies")
                .iter()
                .map(|found| (text(found, "name"), found["kind"] == "dev"))
                .collect(),
        })
        .collect())
}

/// Where a manifest is, from the root.
fn folder(manifest: &str, root: &str) -> String {
    let path = manifest.strip_prefix(root).unwrap_or(manifest).replace('\\', "/");
    path.trim_start_matches('/').trim_end_matches("Cargo.toml").to_owned()
}

/// All rules of this file.
pub(super) fn check(packages: &[Package], files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let mut find = |message| {
            let manifest = format!("{}Cargo.toml", package.folder);
            findings.push(Finding::at(&manifest, 1, message));
        };
        let allowed = MAY_USE.iter().find(|(name, _)| *name == package.name);
        if allowed.is_none() {
            find(format!(
                "`{}` has no line in MAY_USE (tools/xtask/src/tidy/deps.rs): which crates may it use?",
                package.name
            ));
        }
        for (name, dev) in &package.dependencies {
            let ours = packages.iter().any(|other| other.name == *name);
            if ours {
                let allowed = allowed.is_some_and(|(_, allowed)| allowed.contains(&name.as_str()));
                find_direction(package, name, *dev, allowed).map(&mut find);
            } else if lacks_reason(name, files) {
                find(format!(
                    "`{name}` has no row in the dependency table of {TABLE}: why is it used?"
                ));
            }
        }
    }
    findings
}

fn find_direction(package: &Package, name: &str, dev: bool, allowed: bool) -> Option<String> {
    let user = &package.name;
    if name == CLI {
        Some(format!("`{user}` uses `{CLI}`, a program; nobody depends on it"))
    } else if [KIT, TESTBED].contains(&name)
        && !dev
        && !TOOLS.contains(&user.as_str())
        && (user.as_str(), name) != (JUDGE, KIT)
    {
        Some(format!("`{user}` uses `{name}` outside of dev-dependencies"))
    } else if !dev && !allowed {
        Some(format!("`{user}` may not depend on `{name}` (tools/xtask/src/tidy/deps.rs, MAY_USE)"))
    } else {
        None
    }
}

/// Whether the table exists and has no row for a crate. A row's first cell names it, alone or in
/// a list.
fn lacks_reason(name: &str, files: &[File]) -> bool {
    let Some(table) = files.iter().find(|file| file.path == TABLE) else { return false };
    let names = |cell: &str| {
        let separator = |c: char| !(c.is_alphanumeric() || c == '-' || c == '_');
        cell.split(separator).any(|word| word == name)
    };
    let mut rows = table.text.lines().filter_map(|line| line.trim().strip_prefix('|'));
    !rows.any(|row| row.split('|').next().is_some_and(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of all our crates, one of which has one dependency.
    fn workspace(user: &str, name: &str, dev: bool) -> Vec<Package> {
        let mut packages: Vec<Package> = MAY_USE
            .iter()
            .map(|(name, _)| Package {
                name: (*name).into(),
                folder: String::new(),
                dependencies: Vec::new(),
            })
            .collect();
        let user = packages.iter_mut().find(|package| package.name == user).unwrap();
        user.dependencies.push((name.into(), dev));
        packages
    }

    fn design(text: &str) -> Vec<File> {
        vec![File { path: TABLE.into(), text: text.into() }]
    }

    #[test]
    fn wrong_directions_are_found() {
        for (user, name, dev) in [
            ("tollgate", "tollgate-sqlite", false),
            ("tollgate-sqlite", "tollgate-logs", false),
            ("tollgate-logs", "tollgate-experiments", false),
            ("tollgate-logs", "tollgate-proof", false),
            ("tollgate-service", "tollgate-proof", false),
            ("tollgate-cli", TESTBED, false),
            (KIT, TESTBED, false),
            ("tollgate-proof", "tollgate-cli", true),
            ("xtask", "tollgate-policy", false),
        ] {
            let found = check(&workspace(user, name, dev), &[]);
            assert_eq!(found.len(), 1, "{user} -> {name}");
            let said = found[0].to_string();
            assert!(said.contains(user) && said.contains(name), "{said}");
        }
    }

    #[test]
    fn right_directions_are_not() {
        for (user, name, dev) in [
            ("tollgate-cli", "tollgate-logs", false),
            ("tollgate-cli", KIT, false),
            ("tollgate-sqlite", "tollgate", false),
            ("tollgate", "tollgate-proof", true),
            ("tollgate-cli", TESTBED, true),
            ("tollgate-bench", TESTBED, false),
            ("tollgate-proof", "tollgate-sqlite", true),
        ] {
            assert_eq!(check(&workspace(user, name, dev), &[]), [], "{user} -> {name}");
        }
    }

    #[test]
    fn a_crate_without_a_line_is_found() {
        let stranger = Package {
            name: "tollgate-new".into(),
            folder: "crates/tollgate-new/".into(),
            dependencies: Vec::new(),
        };
        let said = check(&[stranger], &[])[0].to_string();
        assert!(said.starts_with("crates/tollgate-new/Cargo.toml:1: `tollgate-new` has no line"));
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let packages = workspace("tollgate", "left-pad", true);
        let said = check(&packages, &design("text: left-pad\n| `left-pad2` | no |\n"));
        assert_eq!(said.len(), 1);
        assert!(said[0].to_string().contains("`left-pad` has no row"), "{}", said[0]);
        assert_eq!(check(&packages, &design("| crate | why |\n| `left-pad` | pads |\n")), []);
        assert_eq!(check(&packages, &design("| a, left-pad | pads |\n")), []);
        // The table is written with the first dependency; without the file the rule does not apply.
        assert_eq!(check(&packages, &[]), []);
    }

    #[test]
    fn cargo_knows_our_crates() {
        let packages = packages(&Tree::find().unwrap()).unwrap();
        let xtask = packages.iter().find(|package| package.name == "xtask").unwrap();
        assert!(xtask.dependencies.contains(&("serde_json".into(), false)));
        assert_eq!(xtask.folder, "tools/xtask/");
        let cli = packages.iter().find(|package| package.name == "tollgate-cli").unwrap();
        assert_eq!(cli.folder, "crates/tollgate-cli/");
    }
}
