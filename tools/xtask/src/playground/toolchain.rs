//! A Rust that builds for WebAssembly: the one that runs this, with a target that rustup adds, else
//! one of Debian's, unpacked under `target/tools`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::tools::cargo;
use crate::tree::Tree;
use crate::{process, programs};

/// The target of a page: no system, no glue.
pub(super) const TARGET: &str = "wasm32-unknown-unknown";

/// Where Debian's is unpacked. It takes 480 MB, and 138 MB are fetched.
const FOLDER: &str = "target/tools/wasm";

/// Debian's newest Rust, which also its older releases get for the sake of browsers. It has the
/// source of the standard library, but not the library for this target.
const COMPILER: &str = "rustc-web";
const SOURCE: &str = "rust-web-src";

/// The available targets.
pub(super) enum Wasm {
    Ready(Toolchain),
    /// Nothing: the reason, and the remedy.
    Absent(String),
}

/// How cargo is called.
pub(super) enum Toolchain {
    /// As always.
    Usual,
    /// With this compiler, which builds the standard library too.
    Debian { folder: PathBuf, linker: PathBuf },
}

/// Finds one, or installs it where somebody has asked for that: the toolchain is the user's.
pub(super) fn find(tree: &Tree, may_install: bool) -> Result<Wasm> {
    find_or_add(&tree.root.join(FOLDER), may_install, has_target, add)?
        .map_or_else(|| Ok(unpacked_from_debian(tree)), Ok)
}

/// Finds one in this Rust or this folder, or adds it to this Rust; `None` if that fails.
fn find_or_add(
    folder: &Path,
    may_install: bool,
    has_target: impl Fn() -> bool,
    add: impl FnOnce() -> Result<()>,
) -> Result<Option<Wasm>> {
    if has_target() {
        return Ok(Some(Wasm::Ready(Toolchain::Usual)));
    }
    if let Some(toolchain) = Toolchain::unpacked(folder) {
        return Ok(Some(Wasm::Ready(toolchain)));
    }
    if !may_install {
        return Ok(Some(Wasm::Absent(format!(
            "this Rust has no target {TARGET}\n  \
             add it with `rustup target add {TARGET}`, or let `cargo xtask playground --install` do \
             that: without rustup it unpacks Debian's compiler into {FOLDER} (138 MB to fetch)"
        ))));
    }
    add()?;
    // Without a network that fails, and Debian's may still be had from a mirror.
    Ok(has_target().then_some(Wasm::Ready(Toolchain::Usual)))
}

/// Adds the target by rustup, if there is one.
fn add() -> Result<()> {
    if programs::find("rustup").is_some() {
        eprintln!(
            "adding the target {TARGET} with rustup (`rustup target remove {TARGET}` takes it away)"
        );
        let mut rustup = Command::new("rustup");
        rustup.args(["target", "add", TARGET]).stdout(Stdio::null());
        process::show(&mut rustup)?;
    }
    Ok(())
}

/// The one of Debian, fetched now.
fn unpacked_from_debian(tree: &Tree) -> Wasm {
    let remedy = format!("run `rustup target add {TARGET}`");
    if programs::find("apt-get").is_none() || programs::find("dpkg-deb").is_none() {
        return Wasm::Absent(remedy);
    }
    eprintln!("fetching Debian's {COMPILER} into {FOLDER} with apt-get (once, 138 MB)");
    match unpack(tree) {
        Ok(toolchain) => Wasm::Ready(toolchain),
        Err(error) => Wasm::Absent(format!("no {COMPILER} ({error:#}); {remedy}")),
    }
}

/// Whether the compiler that cargo would call has a standard library for the target.
fn has_target() -> bool {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(compiler);
    rustc.args(["--print", "target-libdir", "--target", TARGET]).stderr(Stdio::null());
    let output = rustc.output().ok().filter(|output| output.status.success());
    output.is_some_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

impl Toolchain {
    /// The one that lies in a folder, whole.
    fn unpacked(folder: &Path) -> Option<Self> {
        let versions = std::fs::read_dir(folder.join("usr/lib")).ok()?;
        let linkers = versions.flatten().map(|entry| entry.path().join("bin/wasm-ld"));
        let linker = linkers.into_iter().find(|path| path.exists())?;
        let compiler = folder.join("usr/bin/rustc");
        compiler.is_file().then(|| Self::Debian { folder: folder.to_path_buf(), linker })
    }

    /// Cargo with it.
    pub(super) fn cargo(&self, tree: &Tree) -> Command {
        let mut command = cargo(tree);
        let Self::Debian { folder, linker } = self else { return command };
        command.env("RUSTC", folder.join("usr/bin/rustc"));
        command.env("LD_LIBRARY_PATH", libraries(folder));
        command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        // Building the standard library is not stable. The crates that it builds here are stable
        // Rust.
        command.env("RUSTC_BOOTSTRAP", "1").arg("-Zbuild-std=std,panic_abort");
        command
    }
}

/// The folder of the libraries that its programs load, which has the name of the machine's kind.
fn libraries(folder: &Path) -> PathBuf {
    let lib = folder.join("usr/lib");
    let folders = std::fs::read_dir(&lib).into_iter().flatten().flatten();
    let mut found = folders.map(|entry| entry.path()).filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-linux-gnu"))
    });
    found.next().unwrap_or(lib)
}

/// Fetches the packages and unpacks them; nothing is installed, and nobody need be root.
fn unpack(tree: &Tree) -> Result<Toolchain> {
    let folder = tree.root.join(FOLDER);
    let half = tree.root.join(format!("{FOLDER}.part"));
    for old in [&folder, &half] {
        if old.exists() {
            std::fs::remove_dir_all(old).context("cannot remove an unfinished toolchain")?;
        }
    }
    let fetched = half.join("fetched");
    std::fs::create_dir_all(&fetched).context("cannot make a folder for the toolchain")?;
    let mut packages = needed(COMPILER).or_else(|_| {
        // A fresh container has no list of packages yet. Only root may fetch it.
        programs::apt_get(&["update"]).and_then(|_| needed(COMPILER))
    })?;
    // The linker of the same LLVM as the compiler.
    let versions = packages.iter().filter_map(|name| name.strip_prefix("libllvm"));
    let version = versions.max().context("the compiler needs no LLVM")?;
    packages.extend([format!("lld-{version}"), SOURCE.to_owned()]);
    let mut fetch = Command::new("apt-get");
    fetch.arg("download").args(&packages).current_dir(&fetched).stdout(std::io::stderr());
    if !process::show(&mut fetch)? {
        bail!("apt-get download failed");
    }
    for entry in std::fs::read_dir(&fetched).context("cannot list what was fetched")? {
        let package = entry.context("cannot list what was fetched")?.path();
        let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut command = if name.starts_with(SOURCE) {
            // A tenth of it is the standard library.
            let tar = "dpkg-deb --fsys-tarfile \"$1\" | tar -x -C \"$2\" --wildcards \
                       './usr/src/*/library' './usr/lib/rustlib/src/*'";
            let mut shell = process::shell(tar);
            shell.arg("sh").arg(&package).arg(&half);
            shell
        } else {
            let mut dpkg = Command::new("dpkg-deb");
            dpkg.arg("--extract").arg(&package).arg(&half);
            dpkg
        };
        if !process::show(&mut command)? {
            bail!("{name} cannot be unpacked");
        }
    }
    std::fs::remove_dir_all(&fetched).context("cannot remove what was fetched")?;
    std::fs::rename(&half, &folder).context("cannot move the toolchain to its place")?;
    Toolchain::unpacked(&folder).context("its packages have no compiler or no linker")
}

/// A package, and the Rust and LLVM that it needs. The rest is on every Debian with a C compiler.
fn needed(package: &str) -> Result<Vec<String>> {
    let mut names = vec![package.to_owned()];
    let mut next = 0;
    while let Some(name) = names.get(next) {
        let mut apt = Command::new("apt-cache");
        apt.args(["depends", "--important", name]).stderr(Stdio::null());
        let output = apt.output().context("cannot start `apt-cache`")?;
        for found in dependencies(&String::from_utf8_lossy(&output.stdout)) {
            if !names.contains(&found) {
                names.push(found);
            }
        }
        next += 1;
    }
    if names.len() == 1 {
        bail!("apt does not know {package}");
    }
    Ok(names)
}

/// The packages of Rust and LLVM in what `apt-cache depends` prints.
fn dependencies(printed: &str) -> Vec<String> {
    let names = printed.lines().filter_map(|line| line.trim_start().strip_prefix("Depends: "));
    let ours = |name: &&str| name.starts_with("libstd-rust-") || name.starts_with("libllvm");
    names.map(str::trim).filter(ours).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn nothing_is_added_unless_somebody_asks_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let added = Cell::new(false);
        let find = |may_install: bool| {
            let add = || {
                added.set(true);
                Ok(())
            };
            find_or_add(dir.path(), may_install, || added.get(), add).unwrap()
        };
        let Some(Wasm::Absent(why)) = find(false) else { panic!("there is a toolchain") };
        assert!(why.contains("`rustup target add wasm32-unknown-unknown`"), "{why}");
        assert!(why.contains("`cargo xtask playground --install`"), "{why}");
        assert!(!added.get());
        assert!(matches!(find(true), Some(Wasm::Ready(Toolchain::Usual))));
        assert!(added.get());
        // From now on nobody need ask.
        assert!(matches!(find(false), Some(Wasm::Ready(Toolchain::Usual))));
    }

    #[test]
    fn packages_of_rust_and_llvm_are_followed() {
        let printed = "rustc-web\n  Depends: libc6\n  Depends: libstd-rust-web-dev\n\
                       \x20 Conflicts: <rustc>\n  Depends: libllvm22\n";
        assert_eq!(dependencies(printed), ["libstd-rust-web-dev", "libllvm22"]);
    }

    #[test]
    fn a_toolchain_is_found_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let file = dir.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        };
        assert!(Toolchain::unpacked(dir.path()).is_none());
        write("usr/bin/rustc");
        write("usr/lib/kind-linux-gnu/libLLVM.so");
        assert!(Toolchain::unpacked(dir.path()).is_none());
        write("usr/lib/llvm-22/bin/wasm-ld");
        let toolchain = Toolchain::unpacked(dir.path()).unwrap();
        let command = toolchain.cargo(&Tree::find().unwrap());
        let get = |name: &str| {
            let (_, value) = command.get_envs().find(|(key, _)| *key == name).unwrap();
            value.unwrap().to_string_lossy().into_owned()
        };
        assert!(get("LD_LIBRARY_PATH").ends_with("usr/lib/kind-linux-gnu"));
        assert!(get("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER").ends_with("bin/wasm-ld"));
    }
}
