//! `cargo xtask check`: the checks that are quick enough for between two commits.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::docs;
use crate::report::Steps;
use crate::suite::{self, Counts};
use crate::test::looks;
use crate::tidy::deps::{Package, packages};
use crate::tree::Tree;

/// Which package tests files outside of every package's folder.
const TESTED_BY: [(&str, &str); 6] = [
    ("docs/", "tollgate-cli"),
    ("examples/", "tollgate-cli"),
    ("packages/", "tollgate-cli"),
    ("README.md", "tollgate-cli"),
    ("proof/fuzz/corpus/", "tollgate-fuzz"),
    ("vectors/", "tollgate-proof"),
];

/// Files that every package is built by.
const FOR_ALL: [&str; 3] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

/// Runs what looks at the whole tree, and the tests of the packages that differ from `since`.
pub(crate) fn run(tree: &Tree, since: &str) -> Result<bool> {
    let known = packages(tree)?;
    let changed = packages_of(&tree.changed(since)?, &known);
    let mut steps = Steps::default();
    let mut counts = Counts::default();
    looks(tree, &mut steps);
    // `cargo xtask test` has it among the tests of `xtask`.
    steps.step("generated", || docs::run(tree, true));
    if changed.is_empty() {
        eprintln!("no package differs from {since}: no test runs");
    } else {
        steps.step("tests", || {
            counts = suite::run(tree, &changed)?;
            Ok(counts.hold(false))
        });
    }
    counts.say(false);
    for name in steps.failed() {
        println!("step failed: {name}");
    }
    let left = users_of(&changed, &known);
    if !left.is_empty() {
        println!("left to `cargo xtask test`: {}, which use what changed", left.join(", "));
    }
    println!("{}", steps.times());
    println!("{}", counts.last_line(false));
    Ok(steps.failed().is_empty())
}

/// The packages that files belong to, sorted.
fn packages_of(paths: &[String], known: &[Package]) -> Vec<String> {
    let mut found = BTreeSet::new();
    for path in paths {
        if FOR_ALL.contains(&path.as_str()) {
            return known.iter().map(|package| package.name.clone()).collect();
        }
        let own = known.iter().find(|package| path.starts_with(&package.folder));
        let name = match own {
            Some(package) => Some(package.name.as_str()),
            None => TESTED_BY.iter().find(|(start, _)| path.starts_with(start)).map(|of| of.1),
        };
        found.extend(name.map(str::to_owned));
    }
    found.into_iter().collect()
}

/// The packages that use these, directly, and are not among them.
fn users_of(changed: &[String], known: &[Package]) -> Vec<String> {
    let uses = |package: &&Package| {
        let mut names = package.dependencies.iter().map(|(name, _)| name);
        !changed.contains(&package.name) && names.any(|name| changed.contains(name))
    };
    known.iter().filter(uses).map(|package| package.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, uses: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            folder: folder.to_owned(),
            dependencies: uses.iter().map(|&used| (used.to_owned(), false)).collect(),
        }
    }

    #[test]
    fn a_file_is_tested_with_its_package() {
        let known = [
            package("tollgate", "crates/tollgate/", &[]),
            package("tollgate-cli", "crates/tollgate-cli/", &["tollgate", "clap"]),
            package("tollgate-fuzz", "proof/fuzz/", &["tollgate"]),
        ];
        let of = |paths: &[&str]| {
            packages_of(&paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>(), &known)
        };
        assert_eq!(of(&[]), [""; 0]);
        assert_eq!(of(&["CHANGELOG.md"]), [""; 0]);
        assert_eq!(of(&["crates/tollgate/src/lib.rs"]), ["tollgate"]);
        assert_eq!(
            of(&["docs/server.md", "proof/fuzz/corpus/path/a"]),
            ["tollgate-cli", "tollgate-fuzz"]
        );
        assert_eq!(of(&["Cargo.lock"]).len(), 3);
        assert_eq!(users_of(&of(&["crates/tollgate/src/lib.rs"]), &known).len(), 2);
        assert_eq!(users_of(&of(&["docs/server.md"]), &known), [""; 0]);
    }

    #[test]
    fn the_names_are_those_of_packages() {
        let known = packages(&Tree::find().unwrap()).unwrap();
        for (_, name) in TESTED_BY {
            assert!(known.iter().any(|package| package.name == name), "{name}");
        }
    }
}
