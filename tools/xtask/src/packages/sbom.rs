//! The bill of materials (SPDX 2.3): cargo-sbom's, held to the contents of the program, in an order
//! and with a time that are the same for each build.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::sheet::Shown;
use crate::tools::{SBOM, cargo};
use crate::tree::Tree;
use crate::{process, python};

/// A crate: its name and its version.
type Named = (String, String);

/// The bill of a crate's program, as JSON.
pub(crate) fn bill(tree: &Tree, name: &str, time: &str, may_install: bool) -> Result<String> {
    let mut command = SBOM.command(tree, may_install)?;
    command.args(["--cargo-package", name, "--output-format", "spdx_json_2_3"]);
    let said = process::read(&mut command)?;
    let mut bill: Value = serde_json::from_str(&said).context("cargo-sbom")?;
    let lock = std::fs::read_to_string(tree.root.join("Cargo.lock"))?;
    settle(&mut bill, &built(tree, name)?, &checksums(&lock)?, time)?;
    Ok(format!("{}\n", serde_json::to_string_pretty(&bill)?))
}

/// The crates in this system's program, and the macros that it is written with. cargo-sbom lists
/// those of all systems. Crates that only scripts of builds use are in neither list.
fn built(tree: &Tree, name: &str) -> Result<BTreeSet<Named>> {
    let mut command = cargo(tree);
    command.args(["tree", "--locked", "--package", name, "--edges", "normal"]);
    let said = process::read(command.args(["--prefix", "none", "--format", "{p}"]))?;
    Ok(said.lines().filter_map(tree_line).collect())
}

/// `serde v1.0.229`, or `tollgate v0.1.0 (/path)`.
fn tree_line(line: &str) -> Option<Named> {
    let mut words = line.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some((name.to_owned(), version.to_owned()))
}

/// The sums of the archives that the lock file names.
fn checksums(lock: &str) -> Result<BTreeMap<Named, String>> {
    let lock: toml::Table = lock.parse().context("cannot read Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let read = |package: &toml::Value| {
        let named = (text(package, "name")?, text(package, "version")?);
        Some((named, text(package, "checksum")?))
    };
    Ok(packages.filter_map(read).collect())
}

/// Leaves what is built, adds sums, and takes out what differs each time.
fn settle(
    bill: &mut Value,
    built: &BTreeSet<Named>,
    sums: &BTreeMap<Named, String>,
    time: &str,
) -> Result<()> {
    let named = |package: &Value| {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        (text("name"), text("versionInfo"))
    };
    let packages = bill["packages"].as_array_mut().context("a bill without packages")?;
    packages.retain(|package| built.contains(&named(package)));
    for package in &mut *packages {
        let sum = sums.get(&named(package));
        let package = package.as_object_mut().context("a package is an object")?;
        // It names a list of crates there, which is not a place to download one from.
        package.insert("downloadLocation".to_owned(), "NOASSERTION".into());
        if let Some(sum) = sum {
            let sums = json!([{"algorithm": "SHA256", "checksumValue": sum}]);
            package.insert("checksums".to_owned(), sums);
        }
    }
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    packages.sort_by_cached_key(|package| id(&package["SPDXID"]));
    let kept: BTreeSet<String> = packages.iter().map(|package| id(&package["SPDXID"])).collect();
    let relations = bill["relationships"].as_array_mut().context("a bill without relations")?;
    relations.retain(|relation| {
        [&relation["spdxElementId"], &relation["relatedSpdxElement"]].into_iter().all(|end| {
            let end = id(end);
            kept.contains(&end) || !end.starts_with("SPDXRef-Package-")
        })
    });
    relations.sort_by_cached_key(ToString::to_string);
    let whole = bill.as_object_mut().context("a bill is an object")?;
    let space = format!("https://tollgate.example.org/spdx/{time}");
    whole.insert("documentNamespace".to_owned(), space.into());
    if let Some(info) = whole.get_mut("creationInfo").and_then(Value::as_object_mut) {
        info.insert("created".to_owned(), time.into());
    }
    Ok(())
}

/// SPDX's own tools find it valid, and it has what cargo builds.
pub(crate) fn check(tree: &Tree, name: &str, file: &Path, may_install: bool) -> Result<Shown> {
    let text = std::fs::read_to_string(file)?;
    let bill: Value = serde_json::from_str(&text)?;
    let packages = bill["packages"].as_array().context("a bill without packages")?;
    let built = built(tree, name)?;
    if packages.len() != built.len() {
        bail!("it names {} crates, and {} are built", packages.len(), built.len());
    }
    let unsummed = packages.iter().filter(|package| package["checksums"].is_null());
    let unsummed: Vec<&str> = unsummed.flat_map(|package| package["name"].as_str()).collect();
    if let Some(stranger) = unsummed.iter().find(|name| !name.starts_with("tollgate")) {
        bail!("{stranger} has no sum");
    }
    if let Some(package) = packages.iter().find(|package| package["licenseDeclared"].is_null()) {
        bail!("{} has no licence", package["name"]);
    }
    if text.contains(&*tree.root.to_string_lossy()) {
        bail!("it has a path of this machine");
    }
    let counted = format!("{} crates, {} of them ours", packages.len(), unsummed.len());
    let tools = match python::spdx_tools(tree, may_install) {
        Ok(tools) => tools,
        Err(error) => {
            return Ok(Shown::Skipped(format!("{counted}, but not validated: {error:#}")));
        }
    };
    process::read(Command::new(tools).arg("--infile").arg(file))?;
    Ok(Shown::Held(format!("valid SPDX 2.3: {counted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_has_what_is_built_and_is_the_same_each_time() {
        let package = |name: &str| {
            json!({
                "SPDXID": format!("SPDXRef-Package-{name}-1.0.0"), "name": name,
                "versionInfo": "1.0.0", "downloadLocation": "registry+x",
            })
        };
        let relation =
            |from: &str, to: &str| json!({"spdxElementId": from, "relatedSpdxElement": to});
        let (a, b, c) =
            ("SPDXRef-Package-a-1.0.0", "SPDXRef-Package-b-1.0.0", "SPDXRef-Package-c-1.0.0");
        let mut bill = json!({
            "documentNamespace": "random", "creationInfo": {"created": "now"},
            "packages": [package("b"), package("c"), package("a")],
            "relationships": [relation(b, c), relation(a, b), relation("SPDXRef-DOCUMENT", a)],
        });
        let built = ["a v1.0.0 (/somewhere)", "b v1.0.0"];
        let built = built.iter().filter_map(|line| tree_line(line)).collect();
        let lock = "[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nchecksum = \"12\"\n";
        let sums = checksums(lock).unwrap();
        settle(&mut bill, &built, &sums, "2026-01-01T00:00:00Z").unwrap();
        let names: Vec<_> =
            bill["packages"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(bill["packages"][0]["checksums"].is_null());
        assert_eq!(bill["packages"][1]["checksums"][0]["checksumValue"], "12");
        assert_eq!(bill["packages"][1]["downloadLocation"], "NOASSERTION");
        let relations = json!([relation("SPDXRef-DOCUMENT", a), relation(a, b)]);
        let mut found = bill["relationships"].as_array().unwrap().clone();
        found.sort_by_cached_key(ToString::to_string);
        assert_eq!(bill["relationships"], json!(found), "they are in order");
        assert_eq!(found.len(), relations.as_array().unwrap().len());
        assert_eq!(bill["creationInfo"]["created"], "2026-01-01T00:00:00Z");
        assert!(!bill["documentNamespace"].as_str().unwrap().contains("random"));
    }
}
