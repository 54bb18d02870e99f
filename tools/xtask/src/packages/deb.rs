//! The package for Debian: put together by cargo-deb, looked at by lintian, and lived through in a
//! container with systemd.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::sheet::{Sheet, Shown, sha256};
use super::stage::Stage;
use crate::tools::DEB;
use crate::tree::Tree;
use crate::{process, programs};

/// Its name on the sheet.
const NAME: &str = "deb";

/// The system in which it is installed, from the root: unpacked once, copied for each run.
const SYSTEM: &str = "target/tools/bookworm";

/// The system's packages besides the minimum: systemd, and the programs that ask the service.
const SYSTEM_HAS: &str = "--include=systemd,systemd-sysv,curl,ca-certificates";

/// The script that the container runs, from the root.
const LIFE_CYCLE: &str = "packages/deb/life-cycle.sh";

/// The unit of the container that runs it.
const UNIT: &str = "\
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh /life/life-cycle.sh
ExecStopPost=/bin/systemctl poweroff --no-block
TimeoutStartSec=300
";

/// Files that people and programs look for.
const FILES: [&str; 12] = [
    "/etc/tollgate/policies.toml",
    "/usr/bin/tollgate",
    "/usr/lib/systemd/system/tollgate.service",
    "/usr/share/bash-completion/completions/tollgate",
    "/usr/share/doc/tollgate/changelog.Debian.gz",
    "/usr/share/doc/tollgate/copyright",
    "/usr/share/doc/tollgate/packages.md",
    "/usr/share/doc/tollgate/server.md",
    "/usr/share/doc/tollgate/tollgate.spdx.json",
    "/usr/share/fish/vendor_completions.d/tollgate.fish",
    "/usr/share/man/man1/tollgate-serve.1.gz",
    "/usr/share/zsh/vendor-completions/_tollgate",
];

/// Builds it and checks it.
pub(crate) fn make(
    tree: &Tree,
    stage: &Stage,
    sheet: &mut Sheet,
    may_install: bool,
) -> Result<PathBuf> {
    let deb = build(tree, stage, may_install, 1, &stage.out)?;
    sheet.file(NAME, &deb);
    sheet.check(NAME, "its files", || contents(stage, &deb));
    sheet.check(NAME, "its fields", || fields(stage, &deb));
    sheet.check(NAME, "built twice", || {
        let again = stage.home.join("again");
        super::stage::fresh(&again)?;
        let other = build(tree, stage, may_install, 1, &again)?;
        let (one, two) = (sha256(&deb)?, sha256(&other)?);
        match one == two {
            true => Ok(Shown::Held("the same bytes".to_owned())),
            false => bail!("{one} and {two}: diffoscope {} {}", deb.display(), other.display()),
        }
    });
    sheet.check(NAME, "lintian", || lintian(&deb, may_install));
    match system(tree, may_install)? {
        Err(why) => {
            let check = "installed, started, asked, upgraded, removed, purged";
            sheet.note(NAME, check, Ok(Shown::Skipped(why)), "");
        }
        Ok(system) => {
            let newer = stage.home.join("newer");
            super::stage::fresh(&newer)?;
            let second = build(tree, stage, may_install, 2, &newer)?;
            for (name, shown) in live(tree, stage, &system, [&deb, &second])? {
                sheet.note(NAME, &name, shown, "");
            }
        }
    }
    Ok(deb)
}

/// Puts the package together, as a revision of this version.
fn build(
    tree: &Tree,
    stage: &Stage,
    may_install: bool,
    revision: u32,
    folder: &Path,
) -> Result<PathBuf> {
    let mut command = DEB.command(tree, may_install)?;
    command.args(["--package", "tollgate-cli", "--no-build", "--no-strip", "--quiet"]);
    command.args(["--deb-revision", &revision.to_string(), "--locked", "--offline", "--output"]);
    command.arg(folder).env("SOURCE_DATE_EPOCH", stage.epoch.to_string());
    process::read(&mut command)?;
    let found = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut debs = found.filter(|path| path.extension().is_some_and(|end| end == "deb"));
    debs.next().with_context(|| format!("cargo-deb has left no package in {}", folder.display()))
}

/// Every file is there, everything belongs to root, and the pages are those of the program.
fn contents(stage: &Stage, deb: &Path) -> Result<Shown> {
    let listed = process::read(Command::new("dpkg-deb").arg("--contents").arg(deb))?;
    let mut paths = Vec::new();
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, owner, .., path] = words.as_slice() else { bail!("not understood: {line}") };
        let path = path.trim_start_matches('.');
        if !["root/root", "0/0"].contains(owner) {
            bail!("{path} belongs to {owner}");
        }
        let right = match mode.starts_with('d') || path == "/usr/bin/tollgate" {
            true => mode.ends_with("rwxr-xr-x"),
            false => *mode == "-rw-r--r--",
        };
        if !right {
            bail!("{path} has the mode {mode}");
        }
        paths.push(path);
    }
    if let Some(missing) = FILES.iter().find(|file| !paths.contains(file)) {
        bail!("{missing} is not in it");
    }
    let pages =
        paths.iter().filter(|path| path.contains("/man1/tollgate") && path.ends_with(".gz"));
    let pages = pages.count();
    if pages != stage.pages {
        bail!("{pages} manual pages are in it; the program wrote {}", stage.pages);
    }
    Ok(Shown::Held(format!("{} entries, {pages} of them manual pages", paths.len())))
}

/// The fields that dpkg uses.
fn fields(stage: &Stage, deb: &Path) -> Result<Shown> {
    let field = |name: &str| {
        let mut command = Command::new("dpkg-deb");
        process::read(command.arg("--field").arg(deb).arg(name)).map(|text| text.trim().to_owned())
    };
    let version = field("Version")?;
    if version != format!("{}-1", stage.version) {
        bail!("its version is {version}");
    }
    let depends = field("Depends")?;
    if !depends.contains("libc6 (>= ") {
        bail!("the C library that it needs is not named: `{depends}`");
    }
    let mut command = Command::new("dpkg-deb");
    let conffiles = process::read(command.arg("--info").arg(deb).arg("conffiles"))?;
    if conffiles.trim() != "/etc/tollgate/policies.toml" {
        bail!("its conffiles are `{conffiles}`");
    }
    Ok(Shown::Held(format!("{version}, depends on {depends}")))
}

/// Debian's own rules.
fn lintian(deb: &Path, may_install: bool) -> Result<Shown> {
    if let Err(why) = provide("lintian", "lintian", may_install) {
        return Ok(Shown::Skipped(why));
    }
    let mut command = Command::new("lintian");
    command.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]);
    process::read(command.arg(deb))?;
    let version = process::read(Command::new("lintian").arg("--print-version"))?;
    Ok(Shown::Held(format!("no error and no warning (lintian {})", version.trim())))
}

/// Sees to it that a program is there, or says why it is not.
pub(crate) fn provide(program: &str, package: &str, may_install: bool) -> Result<(), String> {
    if programs::find(program).is_some() {
        return Ok(());
    }
    let remedy = format!("{program} is not installed: apt-get install {package}");
    if !may_install || programs::find("apt-get").is_none() || !programs::is_root() {
        return Err(remedy);
    }
    eprintln!("installing {package} with apt-get (once)");
    programs::install_package(package).map_err(|error| format!("{remedy} ({error:#})"))
}

/// A separate Debian, or the reason why there is none.
pub(crate) fn system(tree: &Tree, may_install: bool) -> Result<Result<PathBuf, String>> {
    if !programs::is_root() {
        return Ok(Err("only root may start a container".to_owned()));
    }
    let tools =
        [("debootstrap", "debootstrap"), ("systemd-nspawn", "systemd-container")].into_iter();
    for (program, package) in tools {
        if let Err(why) = provide(program, package, may_install) {
            return Ok(Err(why));
        }
    }
    let system = tree.root.join(SYSTEM);
    if system.join("usr/bin/curl").is_file() {
        return Ok(Ok(system));
    }
    if !may_install {
        return Ok(Err("--no-install was given, and debootstrap fetches a system".to_owned()));
    }
    eprintln!("unpacking Debian 12 into {SYSTEM} (once, a minute, 250 MB)");
    // From where this machine has its packages.
    let mut sites = Command::new("apt-get");
    sites.args(["indextargets", "--format", "$(SITE)", "Created-By: Packages"]);
    let sites = process::read(sites.arg("Codename: bookworm"))?;
    super::stage::fresh(&system)?;
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", SYSTEM_HAS, "bookworm"]).arg(&system);
    command.args(sites.lines().next());
    if let Err(error) = process::read(&mut command) {
        super::stage::fresh(&system)?;
        return Ok(Err(format!("debootstrap failed: {error:#}")));
    }
    Ok(Ok(system))
}

/// The result of each step of the life cycle.
type Steps = Vec<(String, Result<Shown>)>;

/// Starts the system with systemd as its first process, which installs the first package, and goes
/// on from there. Its network is its own, so no port is in use.
fn live(tree: &Tree, stage: &Stage, system: &Path, debs: [&Path; 2]) -> Result<Steps> {
    let root = stage.home.join("system");
    super::stage::fresh(&root)?;
    process::read(Command::new("cp").arg("-a").arg(system.join(".")).arg(&root))?;
    let life = root.join("life");
    std::fs::create_dir(&life)?;
    for (deb, name) in debs.into_iter().zip(["first.deb", "second.deb"]) {
        std::fs::copy(deb, life.join(name))?;
    }
    std::fs::copy(tree.root.join(LIFE_CYCLE), life.join("life-cycle.sh"))?;
    let units = root.join("etc/systemd/system");
    std::fs::write(units.join("life-cycle.service"), UNIT)?;
    let wants = units.join("multi-user.target.wants");
    std::fs::create_dir_all(&wants)?;
    std::os::unix::fs::symlink("../life-cycle.service", wants.join("life-cycle.service"))?;
    let mut command = Command::new("systemd-nspawn");
    command.args(["--quiet", "--register=no", "--keep-unit", "--private-network", "--boot"]);
    command.args(["--console=pipe", "--directory"]).arg(&root);
    let ended = process::run_for(&mut command, std::time::Duration::from_secs(360))?;
    let results = std::fs::read_to_string(life.join("results")).unwrap_or_default();
    let steps = read_results(&results);
    // The life cycle has them all, or it ended early.
    let wanted = std::fs::read_to_string(tree.root.join(LIFE_CYCLE))?;
    let wanted = wanted.lines().filter(|line| line.starts_with("step ")).count();
    if steps.is_empty() {
        let why = format!("systemd did not start: {}", ended.output.trim());
        return Ok(vec![("its life cycle".to_owned(), Ok(Shown::Skipped(why)))]);
    }
    if steps.len() != wanted {
        bail!("{} of {wanted} steps came to an end: {results}{}", steps.len(), ended.output);
    }
    let _ = std::fs::remove_dir_all(&root);
    Ok(steps)
}

/// Lines `passed: NAME: WHAT` and `failed: NAME: WHY`.
fn read_results(text: &str) -> Steps {
    let mut steps = Steps::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ": ");
        let (Some(verdict), Some(name), Some(what)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let shown = match verdict {
            "passed" => Ok(Shown::Held(what.to_owned())),
            _ => Err(anyhow::anyhow!("{what}")),
        };
        steps.push((name.to_owned(), shown));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_an_error() {
        let steps = read_results("passed: one: 0.1.0-1\nfailed: two: left: /a|/b|\nchatter\n");
        assert_eq!(steps.len(), 2);
        let held = steps[0].1.as_ref().unwrap();
        assert_eq!((&*steps[0].0, held), ("one", &Shown::Held("0.1.0-1".to_owned())));
        assert_eq!(steps[1].1.as_ref().unwrap_err().to_string(), "left: /a|/b|");
    }

    #[test]
    fn each_step_has_a_function() {
        let tree = Tree::find().unwrap();
        let script = std::fs::read_to_string(tree.root.join(LIFE_CYCLE)).unwrap();
        let steps: Vec<&str> = script.lines().filter(|line| line.starts_with("step ")).collect();
        assert!(steps.len() > 10, "{steps:?}");
        for step in steps {
            let name = step.rsplit(' ').next().unwrap();
            assert!(script.contains(&format!("\n{name}() {{\n")), "{step}");
        }
    }
}
