//! The contents of the packages: the program, its pages and completions, its bill of materials, and
//! a changelog in Debian's form, all under `target/packages/stage`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::sbom;
use crate::process;
use crate::tidy::deps::metadata;
use crate::tools::cargo;
use crate::tree::Tree;

/// Where everything about packages is, from the root.
const FOLDER: &str = "target/packages";

/// The crate of the program.
pub(crate) const CRATE: &str = "tollgate-cli";

/// A completion's shell, and its file's name, by which that shell finds it.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "tollgate"), ("zsh", "_tollgate"), ("fish", "tollgate.fish")];

/// The stage, once it is filled.
#[derive(Debug)]
pub(crate) struct Stage {
    /// `target/packages`.
    pub(crate) home: PathBuf,
    /// The files that packages are made from.
    pub(crate) folder: PathBuf,
    /// The files that are handed out.
    pub(crate) out: PathBuf,
    /// The version of the workspace.
    pub(crate) version: String,
    /// The time that every file gets: seconds since 1970.
    pub(crate) epoch: u64,
    /// How many manual pages there are.
    pub(crate) pages: usize,
}

impl Stage {
    /// The program, without symbols.
    pub(crate) fn program(&self) -> PathBuf {
        self.folder.join("tollgate")
    }

    /// The bill of materials.
    pub(crate) fn materials(&self) -> PathBuf {
        self.folder.join("tollgate.spdx.json")
    }

    /// A stage with a program that is built already, and nothing else.
    pub(crate) fn with(tree: &Tree, program: &Path) -> Result<Self> {
        let stage = Self::empty(tree)?;
        std::fs::copy(program, stage.program()).with_context(|| program.display().to_string())?;
        Ok(stage)
    }

    fn empty(tree: &Tree) -> Result<Self> {
        let home = tree.root.join(FOLDER);
        let stage = Self {
            folder: home.join("stage"),
            out: home.join("out"),
            version: version(tree)?,
            epoch: epoch(tree)?,
            pages: 0,
            home,
        };
        for folder in [&stage.folder, &stage.out] {
            fresh(folder)?;
        }
        Ok(stage)
    }

    /// Builds the missing parts, and copies all of them there again.
    pub(crate) fn fill(tree: &Tree, may_install: bool) -> Result<Self> {
        let built = build(tree, &tree.root.join(FOLDER).join("build"))?;
        let mut stage = Self::empty(tree)?;
        let program = stage.program();
        let mut strip = Command::new("strip");
        strip.args(["--strip-all", "-o"]).arg(&program).arg(&built);
        process::read(&mut strip).context("apt-get install binutils")?;
        stage.write_pages(&program)?;
        let changelog = stage.folder.join("changelog");
        std::fs::write(changelog, changelog_text(&stage.version, stage.epoch)?)?;
        let bill = sbom::bill(tree, CRATE, &time(stage.epoch)?, may_install)?;
        std::fs::write(stage.materials(), bill)?;
        date_all(&stage.folder, stage.epoch)?;
        Ok(stage)
    }

    /// The manual pages and the completions, which the program writes.
    fn write_pages(&mut self, program: &Path) -> Result<()> {
        let pages = self.folder.join("man");
        std::fs::create_dir(&pages)?;
        process::read(Command::new(program).arg("man").arg(&pages))?;
        self.pages = std::fs::read_dir(&pages)?.count();
        let completions = self.folder.join("completions");
        std::fs::create_dir(&completions)?;
        for (shell, name) in COMPLETIONS {
            let text = process::read(Command::new(program).args(["completions", shell]))?;
            std::fs::write(completions.join(name), text)?;
        }
        Ok(())
    }
}

/// The version of the workspace's crates.
pub(crate) fn version(tree: &Tree) -> Result<String> {
    let metadata = metadata(tree)?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages.find(|package| package["name"] == CRATE);
    let version = package.and_then(|package| package["version"].as_str());
    Ok(version.with_context(|| format!("{CRATE} has no version"))?.to_owned())
}

/// `SOURCE_DATE_EPOCH`, else the time of the last commit.
fn epoch(tree: &Tree) -> Result<u64> {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let text = match given {
        Some(text) => text,
        None => {
            let mut git = Command::new("git");
            git.current_dir(&tree.root).args(["log", "-1", "--format=%ct"]);
            process::read(&mut git).context("without git, set SOURCE_DATE_EPOCH")?
        }
    };
    text.trim().parse().with_context(|| format!("`{}` is not a time in seconds", text.trim()))
}

/// Builds the program for a release. Paths of this machine are left out, so that another one builds
/// the same bytes.
pub(crate) fn build(tree: &Tree, target: &Path) -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let user = std::env::var_os("HOME")?;
        Some(PathBuf::from(user).join(".cargo"))
    });
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    let maps = [
        format!("{}=/target", target.display()),
        format!("{}=/cargo", home.display()),
        format!("{}=/tollgate", tree.root.display()),
    ];
    // The last one that fits is taken, of rustc and of C compilers.
    let rust: Vec<String> =
        maps.iter().rev().map(|map| format!("--remap-path-prefix={map}")).collect();
    let c: Vec<String> = maps.iter().rev().map(|map| format!("-ffile-prefix-map={map}")).collect();
    let mut command = cargo(tree);
    command.args(["build", "--profile", "dist", "--locked", "--quiet", "--package", CRATE]);
    command.arg("--target-dir").arg(target).env("CFLAGS", c.join(" "));
    command.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}")).env_remove("RUSTFLAGS");
    if !process::show(&mut command)? {
        bail!("{CRATE} cannot be built");
    }
    Ok(target.join("dist/tollgate"))
}

/// An entry for this version, as Debian's tools want one.
fn changelog_text(version: &str, epoch: u64) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["--utc", "--rfc-email", "--date", &format!("@{epoch}")]);
    let date = process::read(&mut date)?;
    Ok(format!(
        "tollgate ({version}-1) unstable; urgency=medium\n\n  * Version {version}: CHANGELOG.md of \
         the project says what is new.\n\n -- The Tollgate authors \
         <tollgate@tollgate.example.org>  {date}"
    ))
}

/// A time as RFC 3339 has it.
pub(crate) fn time(epoch: u64) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["--utc", "--date", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"]);
    Ok(process::read(&mut date)?.trim().to_owned())
}

/// An empty folder.
pub(crate) fn fresh(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", folder.display()));
        }
        _ => {}
    }
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

/// Gives everything in a folder one time.
pub(crate) fn date_all(folder: &Path, epoch: u64) -> Result<()> {
    let mut find = Command::new("find");
    find.arg(folder).args(["-exec", "touch", "--no-dereference", "--date"]);
    process::read(find.arg(format!("@{epoch}")).args(["{}", "+"]))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changelog_is_in_the_form_of_debian() {
        let text = changelog_text("1.2.3", 0).unwrap();
        assert!(text.starts_with("tollgate (1.2.3-1) unstable; urgency=medium\n\n  * "), "{text}");
        assert!(text.ends_with(">  Thu, 01 Jan 1970 00:00:00 +0000\n"), "{text}");
    }

    #[test]
    fn the_changelog_and_the_package_name_one_maintainer() {
        let tree = Tree::find().unwrap();
        let manifest = tree.root.join("crates/tollgate-cli/Cargo.toml");
        let manifest: toml::Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
        let who = manifest["package"]["metadata"]["deb"]["maintainer"].as_str().unwrap();
        assert!(changelog_text("1.2.3", 0).unwrap().contains(&format!(" -- {who}  ")));
    }
}
