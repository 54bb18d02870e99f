//! Programs that some tests start: redis-server, the languages of the examples, `ab`, proxies.
//! Found, installed where that may be, else how to get them.

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::process;
use crate::tree::Tree;

/// The one line to run, as the tests that are skipped say it too.
const REMEDY: &str = "apt-get install redis-server";

/// A service that a package starts once it is installed, and where it listens.
#[derive(Debug, Clone, Copy)]
struct Service {
    name: &'static str,
    port: u16,
}

const REDIS: Service = Service { name: "redis-server", port: 6379 };

/// Other programs: the languages in which examples are run, the load generators, the firewall, the
/// proxies that have an example, Prometheus with promtool, and a browser for reports; with the
/// package that has each, and its service. On Debian 12 Python takes 21 MB where there is none,
/// Node 96 MB (23 MB to fetch), nginx 2 MB, HAProxy 5 MB, Caddy 36 MB (9 MB to fetch), Prometheus
/// 332 MB (23 MB to fetch), Chromium 300 MB (81 MB to fetch), Go 450 MB (81 MB to fetch), a JDK
/// 75 MB at least.
const PROGRAMS: [(&str, &str, Option<Service>); 11] = [
    ("python3", "python3", None),
    ("iptables", "iptables", None),
    ("node", "nodejs", None),
    ("ab", "apache2-utils", None),
    ("nginx", "nginx", Some(Service { name: "nginx", port: 80 })),
    ("caddy", "caddy", Some(Service { name: "caddy", port: 80 })),
    ("haproxy", "haproxy", Some(Service { name: "haproxy", port: 80 })),
    ("prometheus", "prometheus", Some(Service { name: "prometheus", port: 9090 })),
    ("chromium", "chromium", None),
    ("go", "golang-go", None),
    ("javac", "default-jdk-headless", None),
];

/// Sources of Go for examples and the APIs of servlets, with the package that has each. Sources
/// come as packages here, since a module would be fetched by every build.
const SOURCES: [(&str, &str); 4] = [
    ("/usr/share/gocode/src/github.com/gomodule/redigo", "golang-github-gomodule-redigo-dev"),
    ("/usr/share/gocode/src/google.golang.org/grpc", "golang-google-grpc-dev"),
    ("/usr/share/java/servlet-api.jar", "libservlet-api-java"),
    ("/usr/share/java/jakarta-servlet-api.jar", "libjakarta-servlet-api-java"),
];

/// Modules of Python, real backends behind the proxies, with the package that has each. On Debian
/// 12 Flask takes 2.4 MB and Django 25 MB.
const MODULES: [(&str, &str); 2] = [("flask", "python3-flask"), ("django", "python3-django")];

/// Where programs of administrators are: not on everybody's path, and the tests look there too.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The work to do.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// Nothing: the tests will find it.
    Found,
    Install,
    /// Only say how, and why it is not done.
    Say(&'static str),
}

/// Sees to it that the tests find a redis-server and the other programs, when they may be
/// installed. If one may not or cannot, this is reported, and the tests that need it skip
/// themselves.
pub(crate) fn provide(may_install: bool) {
    provide_server(may_install);
    let plan = |found| plan(found, may_install, is_there("apt-get"), is_root());
    for (program, package, service) in PROGRAMS {
        let missing = format!("{program} is not installed");
        provide_package(plan(is_there(program)), &missing, package, service);
    }
    for (module, package) in MODULES {
        let missing = format!("python3 has no {module}");
        provide_package(plan(has_module(module)), &missing, package, None);
    }
    for (folder, package) in SOURCES {
        let missing = format!("there is no {folder}");
        provide_package(plan(Path::new(folder).exists()), &missing, package, None);
    }
}

fn provide_package(plan: Plan, missing: &str, package: &str, service: Option<Service>) {
    match plan {
        Plan::Found => {}
        Plan::Say(why) => eprintln!("{missing} ({why}): apt-get install {package}"),
        Plan::Install => {
            eprintln!("installing {package} with apt-get (once); tests need it");
            if let Err(error) = install(package, service) {
                eprintln!("{package} could not be installed ({error:#})");
            }
        }
    }
}

/// Whether the Python of the path has it, or the system's, for which packages are.
fn has_module(module: &str) -> bool {
    ["python3", "/usr/bin/python3"].iter().any(|python| {
        let mut command = Command::new(python);
        command.args(["-c", &format!("import {module}")]);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    })
}

fn provide_server(may_install: bool) {
    match plan(is_found(), may_install, is_there("apt-get"), is_root()) {
        Plan::Found => {}
        Plan::Say(why) => eprintln!("redis-server is not installed ({why}): {REMEDY}"),
        Plan::Install => {
            eprintln!(
                "installing redis-server with apt-get (once); tests start servers of their own"
            );
            if let Err(error) = install("redis-server", Some(REDIS)) {
                eprintln!("redis-server could not be installed ({error:#}): {REMEDY}");
            }
        }
    }
}

fn plan(found: bool, may_install: bool, apt: bool, root: bool) -> Plan {
    match (found, may_install, apt, root) {
        (true, ..) => Plan::Found,
        (_, false, ..) => Plan::Say("--no-install was given"),
        (_, _, false, _) => Plan::Say("there is no apt-get here: use what your system has"),
        (_, _, _, false) => Plan::Say("only root may install it"),
        (false, true, true, true) => Plan::Install,
    }
}

/// Whether the tests will find one: they look for the same, in `tollgate-testbed`.
fn is_found() -> bool {
    std::env::var_os("TOLLGATE_REDIS_SERVER").is_some()
        || is_there("redis-server")
        || is_there("valkey-server")
}

fn is_there(program: &str) -> bool {
    find(program).is_some()
}

/// Where a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM.map(Into::into));
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

pub(crate) fn is_root() -> bool {
    // The program's word: the system call would need unsafe code or a dependency.
    let output = Command::new("id").arg("-u").stderr(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn install(package: &str, service: Option<Service>) -> Result<()> {
    let Some(service) = service else { return install_package(package) };
    let served = is_served(service);
    install_package(package)?;
    // The package starts a service, and has it start with the machine. Nobody asked for that.
    let Service { name, port } = service;
    if served {
        eprintln!("port {port} was in use before: what listens there is left as it is");
        return Ok(());
    }
    stop(service);
    if is_served(service) {
        eprintln!("the package's service listens on {port}: service {name} stop");
    }
    Ok(())
}

pub(crate) fn install_package(package: &str) -> Result<()> {
    let install = ["install", "-y", "--no-install-recommends", package];
    if !apt_get(&install)? {
        // A fresh container has no list of packages yet.
        eprintln!("apt-get does not have it: apt-get update, then once more");
        apt_get(&["update"])?;
        if !apt_get(&install)? {
            bail!("apt-get failed");
        }
    }
    Ok(())
}

/// A program of a package, at this path in it: from the path of this machine, else unpacked into
/// `target/tools`, where the package starts no service and brings no other packages.
pub(crate) fn unpacked(
    tree: &Tree,
    package: &str,
    path: &str,
    may_install: bool,
) -> Result<PathBuf> {
    let program = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
    if let Some(found) = find(&program) {
        return Ok(found);
    }
    let folder = tree.root.join("target/tools").join(package);
    let ours = folder.join(path);
    if ours.is_file() {
        return Ok(ours);
    }
    if !may_install || !is_there("apt-get") {
        bail!("{program} is not installed: apt-get install {package}");
    }
    eprintln!("unpacking {package} into target/tools (once): it has {program}");
    std::fs::create_dir_all(&folder)?;
    let mut download = Command::new("apt-get");
    process::read(download.current_dir(&folder).args(["download", "--quiet", package]))?;
    let lines = "dpkg-deb --extract ./*.deb . && rm ./*.deb";
    process::read(process::shell(lines).current_dir(&folder))?;
    Ok(ours)
}

pub(crate) fn apt_get(arguments: &[&str]) -> Result<bool> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    // To a package this is a machine in maintenance, in which services are not started. Where
    // systemd runs, nobody asks for it, and the service is stopped afterwards.
    command.env("RUNLEVEL", "1");
    // Standard output is for the results of the tests.
    command.stdout(io::stderr());
    process::show(&mut command)
}

fn stop(service: Service) {
    let mut command = if Path::new("/run/systemd/system").is_dir() {
        let mut command = Command::new("systemctl");
        command.args(["disable", "--now", service.name]);
        command
    } else {
        let mut command = Command::new("service");
        command.args([service.name, "stop"]);
        command
    };
    // Most often it does not run, and then there is nothing to stop. Whether it worked is seen
    // by looking at the port.
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

fn is_served(service: Service) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, service.port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_installed_only_where_that_may_be() {
        assert_eq!(plan(true, true, true, true), Plan::Found);
        assert_eq!(plan(true, false, false, false), Plan::Found);
        assert_eq!(plan(false, true, true, true), Plan::Install);
        assert_eq!(plan(false, false, true, true), Plan::Say("--no-install was given"));
        assert!(matches!(plan(false, true, false, true), Plan::Say(_)));
        assert!(matches!(plan(false, true, true, false), Plan::Say(_)));
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(is_there("sh") && !is_there("no-such-program-here"));
    }

    #[test]
    fn modules_of_python_are_found() {
        assert!(has_module("sys") || !is_there("python3"));
        assert!(!has_module("no_such_module_here"));
    }
}
