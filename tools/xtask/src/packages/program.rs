//! The program of the packages: its version, its libraries, and whether another folder builds the
//! same bytes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::sheet::{Sheet, Shown, sha256};
use super::stage::{Stage, build, fresh};
use crate::process;
use crate::tree::Tree;

/// Its name on the sheet.
const NAME: &str = "program";

/// The libraries that it may need: the system's own.
const LIBRARIES: [&str; 4] = ["ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libm.so.6"];

/// Targets that people ask for besides the one of this machine.
const OTHER_TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-gnu"];

/// Checks it.
pub(crate) fn check(tree: &Tree, stage: &Stage, sheet: &mut Sheet, rebuild: bool) {
    let program = stage.program();
    sheet.file(NAME, &program);
    sheet.check(NAME, "its version", || {
        let said = process::read(Command::new(&program).arg("--version"))?;
        match said.trim() == format!("tollgate {}", stage.version) {
            true => Ok(Shown::Held(said.trim().to_owned())),
            false => bail!("`{}`, and the crates have {}", said.trim(), stage.version),
        }
    });
    sheet.check(NAME, "stripped, with the system's libraries alone", || {
        let read = |option: &str| process::read(Command::new("readelf").arg(option).arg(&program));
        if read("--sections")?.contains(".symtab") {
            bail!("it has symbols");
        }
        let needed = read("--dynamic")?;
        let needed = needed.lines().filter(|line| line.contains("(NEEDED)"));
        let needed: Vec<&str> = needed.flat_map(|line| line.split(['[', ']']).nth(1)).collect();
        match needed.iter().find(|name| !LIBRARIES.contains(name)) {
            None => Ok(Shown::Held(needed.join(", "))),
            Some(other) => bail!("it needs {other}"),
        }
    });
    sheet.check(NAME, "no path of this machine", || {
        let bytes = std::fs::read(&program)?;
        let mut paths = vec![tree.root.clone()];
        paths.extend(["HOME", "CARGO_HOME"].iter().flat_map(std::env::var_os).map(Into::into));
        for path in paths.iter().filter(|path| path.components().count() > 1) {
            if let Some(found) = find(&bytes, path) {
                bail!("it has `{found}`");
            }
        }
        Ok(Shown::Held(format!("{} bytes were looked through", bytes.len())))
    });
    for target in OTHER_TARGETS {
        sheet.check(NAME, &format!("for {target}"), || other_target(target));
    }
    sheet.check(NAME, "built again in another folder", || match rebuild {
        true => rebuilt(tree, stage),
        false => Ok(Shown::Skipped("only with --rebuild, which takes minutes".to_owned())),
    });
}

/// Whether there could be a program for another target. None is built for it.
fn other_target(target: &str) -> Result<Shown> {
    let mut rustc = Command::new("rustc");
    let folder = process::read(rustc.args(["--print", "target-libdir", "--target", target]))?;
    Ok(Shown::Skipped(match Path::new(folder.trim()).is_dir() {
        true => "no package is built for it, though its standard library is here".to_owned(),
        false => format!("its standard library is not here: rustup target add {target}"),
    }))
}

/// The text around a path, if it is there as the start of one.
fn find(bytes: &[u8], path: &Path) -> Option<String> {
    let wanted = format!("{}/", path.display());
    let at = bytes.windows(wanted.len()).position(|window| window == wanted.as_bytes())?;
    let found = bytes.get(at..)?;
    let end = found.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(found.len());
    Some(String::from_utf8_lossy(found.get(..end.min(120))?).into_owned())
}

/// Builds a copy of the sources, and compares.
fn rebuilt(tree: &Tree, stage: &Stage) -> Result<Shown> {
    let home = stage.home.join("elsewhere");
    fresh(&home)?;
    let other = Tree { root: home.join("sources") };
    let mut paths = tree.paths()?;
    paths.extend(tree.links()?);
    for path in paths {
        let to = other.root.join(&path);
        std::fs::create_dir_all(to.parent().context("a path without a folder")?)?;
        let mut copy = Command::new("cp");
        process::read(copy.args(["--no-dereference"]).arg(tree.root.join(&path)).arg(&to))?;
    }
    let built = build(&other, &home.join("build"))?;
    let program = home.join("tollgate");
    process::read(Command::new("strip").args(["--strip-all", "-o"]).arg(&program).arg(built))?;
    let (one, two) = (sha256(&stage.program())?, sha256(&program)?);
    match one == two {
        true => {
            fresh(&home)?;
            Ok(Shown::Held("the same bytes".to_owned()))
        }
        false => bail!("{one} here and {two} there: both are kept under target/packages"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_its_library_is_skipped_with_the_remedy() {
        let Shown::Skipped(why) = other_target("sparc64-unknown-linux-gnu").unwrap() else {
            panic!("it is built");
        };
        assert!(why.ends_with("rustup target add sparc64-unknown-linux-gnu"), "{why}");
    }

    #[test]
    fn a_path_is_found_as_a_whole() {
        let bytes = b"\0/a/b/c.rs\0/a/bc/d\0";
        assert_eq!(find(bytes, Path::new("/a/b")).unwrap(), "/a/b/c.rs");
        assert_eq!(find(bytes, Path::new("/a/bc")).unwrap(), "/a/bc/d");
        assert_eq!(find(bytes, Path::new("/a/x")), None);
    }
}
